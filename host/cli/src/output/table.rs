//! Tables as kubectl prints them: a heading in capitals, columns three blanks apart, no lines.
//!
//! On a terminal no row is wider than the terminal: the widest columns are cut first. Anywhere else nothing is cut.
//!
//! [`Table::drain`] removes rows and keeps the widths, for a watch: docs/decisions/0030-tables-are-printed-here.md.

use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

use super::ui::{Style, Ui};

/// Blanks between columns.
const GAP: usize = 3;

/// Least width to which a column is cut.
const NARROWEST: usize = 8;

/// A table that is printed when it is whole.
#[derive(Debug, Clone, Default)]
pub struct Table {
    headings: Vec<String>,
    rows: Vec<Vec<Cell>>,
    /// Widths of the columns of removed rows.
    seen: Vec<usize>,
    headless: bool,
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

    /// Returns the text, coloured if output is.
    #[must_use]
    pub fn paint(&self, ui: &Ui) -> String {
        ui.paint(self.style, &self.text)
    }
}

/// Replaces control characters, line ends among them: they would break the table, or the terminal. Characters that
/// change the direction of the text around them are replaced, too: they would show another text than the real one.
pub(crate) fn one_line(text: &str) -> String {
    text.chars().map(|c| if c.is_control() || changes_lines(c) { ' ' } else { c }).collect()
}

/// Whether a character ends a line or changes the direction of letters.
fn changes_lines(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
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
        let widths = self.widths(ui.width);
        let headings = self.headings.iter().map(|h| Cell::styled(Style::Bold, h.as_str())).collect::<Vec<_>>();
        let mut out = String::new();
        if !self.headless {
            line(&headings, &widths, ui, &mut out);
        }
        self.lines(&widths, ui, &mut out);
        out
    }

    /// Renders and removes the rows, without the headings: for rows that come one by one. Columns are as wide as those
    /// before them were, or wider.
    pub fn drain(&mut self, ui: &Ui) -> String {
        let widths = self.widths(ui.width);
        let mut out = String::new();
        self.lines(&widths, ui, &mut out);
        self.rows.clear();
        self.seen = widths;
        out
    }

    fn lines(&self, widths: &[usize], ui: &Ui, out: &mut String) {
        for row in &self.rows {
            line(row, widths, ui, out);
        }
    }

    fn widths(&self, available: Option<usize>) -> Vec<usize> {
        let mut widths: Vec<usize> = self.headings.iter().map(|h| if self.headless { 0 } else { h.width() }).collect();
        for (width, seen) in widths.iter_mut().zip(&self.seen) {
            *width = (*width).max(*seen);
        }
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.text.width());
            }
        }
        let Some(available) = available else { return widths };
        let mut over = (widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)).saturating_sub(available);
        while over > 0 {
            let Some(widest) = widths.iter_mut().max().filter(|widest| **widest > NARROWEST) else { break };
            *widest -= 1;
            over -= 1;
        }
        widths
    }
}

fn line(row: &[Cell], widths: &[usize], ui: &Ui, out: &mut String) {
    // No blanks follow the last text of a line.
    let last = row.iter().rposition(|cell| !cell.text.is_empty());
    for (position, (cell, width)) in row.iter().zip(widths).enumerate() {
        let text = cut(&cell.text, *width);
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
    fn colours_do_not_count_as_width() {
        let ui = Ui { color: true, ..PLAIN };
        let mut table = Table::new(["A", "B"]);
        table.row(vec![Cell::styled(Style::Good, "True"), "x".into()]);
        assert_eq!(table.render(&ui), "\x1b[1mA\x1b[0m      \x1b[1mB\x1b[0m\n\x1b[32mTrue\x1b[0m   x\n");
    }
}
