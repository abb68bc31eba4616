//! A table of a tab: columns, rows, their order, and a filter.

use std::cmp::Ordering;

use crate::output::{table::one_line, ui::Style as Tone};

/// Most rows of a sheet.
pub(super) const MAX_ROWS: usize = 10_000;

/// A column.
#[derive(Debug, Clone, Copy)]
pub(super) struct Column {
    pub(super) heading: &'static str,
    pub(super) align: Align,
}

/// The side of a column at which its texts begin or end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    /// Texts; a long one loses its end.
    Left,
    /// Names whose last part counts; a long one loses its beginning.
    Tail,
    /// Numbers.
    Right,
}

/// A field: its text, and its value for the order.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) tone: Tone,
    number: Option<f64>,
}

impl Field {
    /// A text. Characters that would change the terminal become blanks.
    pub(super) fn text(text: impl AsRef<str>) -> Self {
        Self { text: one_line(text.as_ref()), tone: Tone::Plain, number: None }
    }

    /// A number, as `text` shows it.
    pub(super) fn number(value: f64, text: String) -> Self {
        Self { text, tone: Tone::Plain, number: Some(value) }
    }

    /// A count.
    pub(super) fn count(count: u64) -> Self {
        Self::number(count as f64, count.to_string())
    }

    /// A rate.
    pub(super) fn rate(rate: f64) -> Self {
        Self::number(rate, format!("{rate:.1}"))
    }

    pub(super) fn toned(self, tone: Tone) -> Self {
        Self { tone, ..self }
    }

    /// The order by value: numbers before texts, an absent number before all others.
    fn order(&self, other: &Self) -> Ordering {
        match (self.number, other.number) {
            (Some(a), Some(b)) => a.total_cmp(&b),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (None, None) => self.text.cmp(&other.text),
        }
    }
}

/// The rows of a tab.
#[derive(Debug, Clone, Default)]
pub(super) struct Sheet {
    pub(super) columns: &'static [Column],
    pub(super) rows: Vec<Vec<Field>>,
    /// A sentence in place of the rows, or about missing ones.
    pub(super) note: String,
}

/// The order of a tab's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Order {
    pub(super) column: usize,
    pub(super) descending: bool,
}

impl Sheet {
    pub(super) fn new(columns: &'static [Column]) -> Self {
        Self { columns, rows: Vec::new(), note: String::new() }
    }

    /// Adds rows, at most [`MAX_ROWS`] in all. A note names the number of the others.
    pub(super) fn extend(&mut self, rows: impl Iterator<Item = Vec<Field>>) {
        let mut rows = rows;
        let room = MAX_ROWS.saturating_sub(self.rows.len());
        self.rows.extend(rows.by_ref().take(room));
        let more = rows.count();
        if more > 0 {
            self.note = format!("{more} more rows are left out");
        }
    }

    /// Returns the positions of the rows that contain a text, in an order. Rows with equal values keep the order of
    /// their texts.
    pub(super) fn positions(&self, filter: &str, order: Order) -> Vec<usize> {
        let wanted = filter.to_lowercase();
        let matches =
            |row: &[Field]| wanted.is_empty() || row.iter().any(|field| field.text.to_lowercase().contains(&wanted));
        let mut found: Vec<(usize, &Vec<Field>)> =
            self.rows.iter().enumerate().filter(|(_, row)| matches(row)).collect();
        found.sort_by(|(_, a), (_, b)| {
            let by_value = match (a.get(order.column), b.get(order.column)) {
                (Some(a), Some(b)) => a.order(b),
                _ => Ordering::Equal,
            };
            let by_value = if order.descending { by_value.reverse() } else { by_value };
            by_value.then_with(|| a.iter().map(|field| &field.text).cmp(b.iter().map(|field| &field.text)))
        });
        found.into_iter().map(|(position, _)| position).collect()
    }
}
