//! The state of the page: the tab, the order and the filter of each, the pause, and the figures.

use super::{
    sample::{History, Sample, Span},
    sheet::{Order, Sheet},
    tabs::Tab,
};

/// The use of the keyboard.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Mode {
    /// Keys are commands.
    #[default]
    Commands,
    /// Keys are letters of the filter.
    Filter,
    /// The help covers the page.
    Help,
}

/// The figures at the top of the page.
#[derive(Debug, Clone, Default)]
pub(super) struct Figures {
    pub(super) requests: f64,
    pub(super) changes: f64,
    pub(super) cpu: f64,
    pub(super) memory: u64,
}

/// The state of the page.
#[derive(Debug)]
pub(super) struct App {
    /// Address of the server.
    pub(super) url: String,
    /// True on a terminal with colours.
    pub(super) color: bool,
    pub(super) tab: Tab,
    pub(super) mode: Mode,
    pub(super) is_paused: bool,
    /// The reason for the lack of figures; empty while the server answers.
    pub(super) fault: String,
    pub(super) history: History,
    pub(super) figures: Figures,
    /// The sheet of the tab, and the positions of its shown rows in order.
    pub(super) sheet: Sheet,
    pub(super) positions: Vec<usize>,
    /// The first shown row.
    pub(super) offset: usize,
    /// Rows that the last frame had room for.
    pub(super) room: usize,
    orders: [Order; Tab::ALL.len()],
    filters: [String; Tab::ALL.len()],
    /// The last two samples; the first two are the same.
    newest: (Sample, Sample),
    /// The samples that the page shows: those at the beginning of a pause while it lasts.
    shown: (Sample, Sample),
}

impl App {
    pub(super) fn new(url: &str, color: bool, first: Sample) -> Self {
        let mut app = Self {
            url: crate::output::table::one_line(url),
            color,
            tab: Tab::Requests,
            mode: Mode::default(),
            is_paused: false,
            fault: String::new(),
            history: History::default(),
            figures: Figures::default(),
            sheet: Sheet::default(),
            positions: Vec::new(),
            offset: 0,
            room: 1,
            orders: Tab::ALL.map(Tab::order),
            filters: Default::default(),
            newest: (first.clone(), first.clone()),
            shown: (first.clone(), first),
        };
        app.refresh();
        app
    }

    /// The newest shown sample.
    pub(super) fn sample(&self) -> &Sample {
        &self.shown.1
    }

    /// Takes the figures of another moment. During a pause they are only part of the history.
    pub(super) fn take(&mut self, sample: Sample) {
        self.fault.clear();
        let before = std::mem::replace(&mut self.newest.1, sample);
        self.newest.0 = before;
        self.history.add(&Span::between(&self.newest.0, &self.newest.1));
        if !self.is_paused {
            self.shown = self.newest.clone();
            self.refresh();
        }
    }

    /// Notes that the server gave no figures.
    pub(super) fn miss(&mut self, fault: &str) {
        self.fault = crate::output::table::one_line(fault);
    }

    /// Stops or continues the page.
    pub(super) fn pause(&mut self) {
        self.is_paused = !self.is_paused;
        if !self.is_paused {
            self.shown = self.newest.clone();
            self.refresh();
        }
    }

    /// Shows a tab from its first row.
    pub(super) fn open(&mut self, tab: Tab) {
        self.tab = tab;
        self.offset = 0;
        self.refresh();
    }

    /// Shows the tab so many places further, or before with a negative number.
    pub(super) fn turn(&mut self, by: isize) {
        let count = Tab::ALL.len() as isize;
        let position = (self.tab.position() as isize + by).rem_euclid(count);
        let tab = usize::try_from(position).ok().and_then(|position| Tab::ALL.get(position).copied());
        self.open(tab.unwrap_or(self.tab));
    }

    pub(super) fn order(&self) -> Order {
        self.orders.get(self.tab.position()).copied().unwrap_or_else(|| self.tab.order())
    }

    /// Sorts by the next column.
    pub(super) fn sort_next(&mut self) {
        let columns = self.tab.columns().len().max(1);
        self.set_order(|order| order.column = (order.column + 1) % columns);
    }

    /// Reverses the order.
    pub(super) fn reverse(&mut self) {
        self.set_order(|order| order.descending = !order.descending);
    }

    fn set_order(&mut self, change: impl FnOnce(&mut Order)) {
        if let Some(order) = self.orders.get_mut(self.tab.position()) {
            change(order);
        }
        self.sort();
    }

    pub(super) fn filter(&self) -> &str {
        self.filters.get(self.tab.position()).map(String::as_str).unwrap_or_default()
    }

    /// Changes the filter of the tab.
    pub(super) fn set_filter(&mut self, change: impl FnOnce(&mut String)) {
        if let Some(filter) = self.filters.get_mut(self.tab.position()) {
            change(filter);
        }
        self.offset = 0;
        self.sort();
    }

    /// Moves the shown rows, at most to the last ones.
    pub(super) fn scroll(&mut self, by: isize) {
        self.offset = self.offset.saturating_add_signed(by);
        self.clamp();
    }

    /// Keeps the first shown row within the rows.
    pub(super) fn clamp(&mut self) {
        self.offset = self.offset.min(self.positions.len().saturating_sub(self.room.max(1)));
    }

    /// Makes the rows and figures of the shown samples.
    fn refresh(&mut self) {
        let span = Span::between(&self.shown.0, &self.shown.1);
        self.figures =
            Figures { requests: span.requests(), changes: span.changes(), cpu: span.cpu(), memory: span.memory() };
        self.sheet = self.tab.sheet(&span);
        self.sort();
    }

    fn sort(&mut self) {
        self.positions = self.sheet.positions(self.filter(), self.order());
        self.clamp();
    }
}
