//! A page of tables, from the first frame to its end.
//!
//! Changes are drawn together, [`FRAME`] apart at least, so that a burst of them costs some frames only. Without changes
//! there is a frame each [`AGING`], since ages grow.

use std::{pin::pin, time::Duration};

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    grid::{Section, Update},
    keys::{Typing, edit, steps},
    screen::{Input, Screen},
    view::draw,
};
use crate::{CliError, Exit, output::table::one_line};

/// Least time between two frames that show changes.
const FRAME: Duration = Duration::from_millis(100);

/// Time between two frames without a change.
const AGING: Duration = Duration::from_secs(1);

/// Changes that may wait for the page; then their sources wait.
const MAX_WAITING: usize = 256;

/// Changes of tables, each with the position of its table on the page.
pub(crate) type Updates = mpsc::Sender<(usize, Update)>;

/// The state of a page.
#[derive(Debug)]
pub(crate) struct Page {
    pub(super) title: String,
    pub(super) sections: Vec<Section>,
    /// True on a terminal with colours.
    pub(super) color: bool,
    pub(super) filter: String,
    /// True while keys are letters of the filter.
    pub(super) is_typing: bool,
    /// The first shown line.
    pub(super) offset: usize,
    /// Lines that the last frame had room for.
    pub(super) room: usize,
}

impl Page {
    pub(crate) fn new(title: &str, sections: Vec<Section>, color: bool) -> Self {
        let title = one_line(title);
        Self { title, sections, color, filter: String::new(), is_typing: false, offset: 0, room: 1 }
    }

    pub(super) fn apply(&mut self, (section, update): (usize, Update)) {
        if let Some(section) = self.sections.get_mut(section) {
            section.apply(update);
        }
    }

    /// Applies a key. Returns the end of the page, if the key ends it.
    pub(super) fn press(&mut self, key: KeyEvent) -> Option<Exit> {
        if key.kind == KeyEventKind::Release {
            return None;
        }
        let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
        match key.code {
            KeyCode::Char('c' | 'C') if is_control => return Some(Exit::Interrupted),
            code if self.is_typing => match edit(&mut self.filter, code, is_control) {
                Typing::GoesOn => self.offset = 0,
                Typing::Ended => self.is_typing = false,
                Typing::Other => self.scroll(code),
            },
            KeyCode::Char('q') => return Some(Exit::Done),
            KeyCode::Esc if self.filter.is_empty() => return Some(Exit::Done),
            KeyCode::Esc => self.filter.clear(),
            KeyCode::Char('/') => self.is_typing = true,
            code => self.scroll(code),
        }
        None
    }

    fn scroll(&mut self, code: KeyCode) {
        if let Some(lines) = steps(code, self.room) {
            self.offset = self.offset.saturating_add_signed(lines);
        }
    }
}

/// Shows a page until the user or the source of its changes ends it.
pub(crate) async fn run<S>(mut page: Page, source: impl FnOnce(Updates) -> S) -> Result<Exit, CliError>
where
    S: Future<Output = Result<Exit, CliError>>,
{
    let (sender, mut updates) = mpsc::channel(MAX_WAITING);
    let mut source = pin!(source(sender));
    let mut screen = Screen::take(page.color)?;
    let mut due = Instant::now();
    let mut drawn = due;
    loop {
        let now = Instant::now();
        if now >= due {
            screen.draw(|frame| draw(frame, &mut page))?;
            (drawn, due) = (now, now + AGING);
        }
        tokio::select! {
            input = screen.input() => match input? {
                Input::Key(key) => match page.press(key) {
                    Some(exit) => return Ok(exit),
                    None => due = now,
                },
                Input::Redraw => due = now,
                Input::End(exit) => return Ok(exit),
            },
            Some(update) = updates.recv() => {
                page.apply(update);
                while let Ok(update) = updates.try_recv() {
                    page.apply(update);
                }
                due = due.min(drawn + FRAME);
            }
            ended = &mut source => return ended,
            () = sleep_until(due) => {}
        }
    }
}
