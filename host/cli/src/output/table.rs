//! Tables as kubectl prints them: a heading in capitals, columns three blanks apart, no lines.
//!
//! On a terminal no row is wider than the terminal: columns are cut and left out as [`super::layout`] says, and a last
//! line names those that are left out. Anywhere else nothing is cut, and a cell of more than [`PADDED`] columns makes
//! only its own row longer.
//!
//! [`Table::drain`] removes rows and keeps the widths, for a watch: docs/decisions/0030-tables-are-printed-here.md.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::{
    layout::fit,
    ui::{Style, Ui, changes_direction},
};

/// Blanks between columns.
pub(crate) const GAP: usize = 3;

/// Widest cell whose width other rows are padded to, off a terminal.
const PADDED: usize = 60;

/// Heading of the column that is cut last.
const NAME: &str = "NAME";

/// A table that is printed when it is whole.
#[derive(Debug, Clone, Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Widths of the columns of removed rows.
    seen: Vec<usize>,
    headless: bool,
    /// Positions of columns that are hidden while all of their cells are empty.
    optional: Vec<usize>,
}

/// Field of a table.
#[derive(Debug, Clone)]
pub struct Cell {
    text: String,
    style: Style,
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self { text: one_line(&text.into()), style: Style::Plain }
    }
}

impl Cell {
    /// A text with a colour.
    pub fn styled(style: Style, text: impl Into<String>) -> Self {
        Self { style, ..Self::from(text.into()) }
    }

    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    pub(crate) fn style(&self) -> Style {
        self.style
    }

    /// Returns the text, coloured if output is.
    #[must_use]
    pub fn paint(&self, ui: &Ui) -> String {
        ui.paint(self.style, &self.text)
    }
}

/// Replaces control characters, line ends among them: they would break the table, or the terminal. Characters that
/// change the direction of the text around them are replaced, too: they would show another text than the real one.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || changes_direction(c) { ' ' } else { c }).collect()
}

impl Table {
    /// An empty table with these headings, which are shown in capitals.
    pub fn new<T: AsRef<str>>(headings: impl IntoIterator<Item = T>) -> Self {
        let headings = headings.into_iter().map(|h| one_line(&h.as_ref().to_uppercase())).collect();
        Self { headings, ..Self::default() }
    }

    /// The same table, with or without its headings.
    #[must_use]
    pub fn headless(self, headless: bool) -> Self {
        Self { headless, ..self }
    }

    /// The same table, with columns that are hidden while all of their cells are empty. Not for a table whose rows come
    /// one by one.
    #[must_use]
    pub(crate) fn with_optional(self, optional: Vec<usize>) -> Self {
        Self { optional, ..self }
    }

    pub(crate) fn optional(&self) -> &[usize] {
        &self.optional
    }

    pub(crate) fn headings(&self) -> &[String] {
        &self.headings
    }

    /// Adds a row; missing cells at its end are empty.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// Whether the table is without rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Renders the whole table, headings first.
    #[must_use]
    pub fn render(&self, ui: &Ui) -> String {
        let needed = self.needed(ui.width);
        let widths = self.fitted(&needed, ui.width);
        let headings = self.headings.iter().map(|h| Cell::styled(Style::Bold, h.as_str())).collect::<Vec<_>>();
        let mut out = String::new();
        if !self.headless {
            line(&headings, &widths, ui, &mut out);
        }
        self.lines(&widths, ui, &mut out);
        if let (Some(width), Some(note)) = (ui.width, left_out(&self.headings, &needed, &widths)) {
            out.push_str(&ui.paint(Style::Dim, &cut(&note, width)));
            out.push('\n');
        }
        out
    }

    /// Renders and removes the rows, without the headings: for rows that come one by one. Columns are as wide as those
    /// before them were, or wider.
    pub fn drain(&mut self, ui: &Ui) -> String {
        let needed = self.needed(ui.width);
        let widths = self.fitted(&needed, ui.width);
        let mut out = String::new();
        self.lines(&widths, ui, &mut out);
        self.rows.clear();
        self.seen = needed.into_iter().map(Option::unwrap_or_default).collect();
        out
    }

    fn lines(&self, widths: &[Option<usize>], ui: &Ui, out: &mut String) {
        for row in &self.rows {
            line(row, widths, ui, out);
        }
    }

    /// Returns the width that each column needs; `None` for one that is hidden.
    fn needed(&self, available: Option<usize>) -> Vec<Option<usize>> {
        let mut widths: Vec<usize> = self.headings.iter().map(|h| if self.headless { 0 } else { h.width() }).collect();
        for (width, seen) in widths.iter_mut().zip(&self.seen) {
            *width = (*width).max(*seen);
        }
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                let needed = cell.text.width();
                if available.is_some() || needed <= PADDED {
                    *width = (*width).max(needed);
                }
            }
        }
        let is_empty = |at: usize| self.rows.iter().all(|row| row.get(at).is_none_or(|cell| cell.text.is_empty()));
        let is_hidden = |at: usize| self.optional.contains(&at) && is_empty(at);
        widths.into_iter().enumerate().map(|(at, width)| (!is_hidden(at)).then_some(width)).collect()
    }

    fn fitted(&self, needed: &[Option<usize>], available: Option<usize>) -> Vec<Option<usize>> {
        match available {
            Some(available) => fit(needed, name_position(&self.headings), GAP, available),
            None => needed.to_vec(),
        }
    }
}

/// Position of the column that is cut last.
pub(crate) fn name_position(headings: &[String]) -> usize {
    headings.iter().position(|heading| heading == NAME).unwrap_or(0)
}

/// Sentence about the columns that have no room; `None` if all have.
pub(crate) fn left_out(headings: &[String], needed: &[Option<usize>], widths: &[Option<usize>]) -> Option<String> {
    let columns = headings.iter().zip(needed.iter().zip(widths));
    let missing: Vec<&str> = columns
        .filter(|(_, (needed, width))| needed.is_some() && width.is_none())
        .map(|(heading, _)| heading.as_str())
        .collect();
    (!missing.is_empty()).then(|| format!("… no room for {}", missing.join(", ")))
}

fn line(row: &[Cell], widths: &[Option<usize>], ui: &Ui, out: &mut String) {
    let shown: Vec<(&Cell, usize)> =
        row.iter().zip(widths).filter_map(|(cell, width)| Some((cell, (*width)?))).collect();
    // No blanks follow the last text of a line.
    let last = shown.iter().rposition(|(cell, _)| !cell.text.is_empty());
    for (position, (cell, width)) in shown.into_iter().enumerate() {
        let text = if ui.width.is_some() { cut(&cell.text, width) } else { cell.text.clone() };
        out.push_str(&ui.paint(cell.style, &text));
        if last.is_none_or(|last| position >= last) {
            break;
        }
        let blanks = width.saturating_sub(text.width()) + GAP;
        out.extend(std::iter::repeat_n(' ', blanks));
    }
    out.push('\n');
}

/// Cuts a text to a width in columns; a cut text ends in an ellipsis.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    let mut used = 1;
    for c in text.chars() {
        used += c.width().unwrap_or(0);
        if used > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Ui = Ui { color: false, color_err: false, width: None };

    fn sample() -> Table {
        let mut table = Table::new(["Name", "Description"]);
        table.row(vec!["korn".into(), "a band\nfrom Bakersfield".into()]);
        table.row(vec!["日本".into()]);
        table
    }

    #[test]
    fn columns_line_up_by_width_and_have_no_trailing_blanks() {
        assert_eq!(sample().render(&PLAIN), "NAME   DESCRIPTION\nkorn   a band from Bakersfield\n日本\n");
    }

    #[test]
    fn characters_that_change_the_terminal_or_the_direction_become_blanks() {
        assert_eq!(one_line("a\u{202e}b\u{2066}c\x1b[2Jd\u{9b}e\u{2028}f\n"), "a b c [2Jd e f ");
    }

    #[test]
    fn the_widest_column_is_cut_to_the_terminal() {
        let ui = Ui { width: Some(20), ..PLAIN };
        assert_eq!(sample().render(&ui), "NAME   DESCRIPTION\nkorn   a band from …\n日本\n");
        assert!(sample().render(&ui).lines().all(|line| line.width() <= 20));
    }

    #[test]
    fn a_long_cell_makes_only_its_own_row_longer() {
        let mut table = sample();
        table.row(vec!["x".repeat(PADDED + 1).into(), "y".into()]);
        let text = table.render(&PLAIN);
        assert!(text.starts_with("NAME   DESCRIPTION\nkorn   a band from Bakersfield\n"), "{text}");
        assert!(text.ends_with(&format!("{}   y\n", "x".repeat(PADDED + 1))), "{text}");
    }

    #[test]
    fn columns_without_room_are_left_out_and_named() {
        let ui = Ui { width: Some(20), ..PLAIN };
        let mut table = Table::new(["Partition", "Name", "Genre", "Age"]);
        table.row(vec!["default".into(), "a-name-of-18-letters".into(), "METAL".into(), "1m".into()]);
        let text = table.render(&ui);
        assert_eq!(text, "NAME\na-name-of-18-letters\n… no room for PARTI…\n");
    }

    #[test]
    fn colours_do_not_count_as_width() {
        let ui = Ui { color: true, ..PLAIN };
        let mut table = Table::new(["A", "B"]);
        table.row(vec![Cell::styled(Style::Good, "True"), "x".into()]);
        assert_eq!(table.render(&ui), "\x1b[1mA\x1b[0m      \x1b[1mB\x1b[0m\n\x1b[32mTrue\x1b[0m   x\n");
    }
}
