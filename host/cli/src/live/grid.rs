//! The rows of a table that changes row by row.
//!
//! # Limits
//! A table keeps [`MAX_ROWS`] rows, the first in the order of their keys, with [`MAX_CELL`] letters of each cell. Of
//! further rows it keeps a hash, so that they are counted, up to [`MAX_COUNTED`].

use std::{
    collections::{BTreeMap, HashSet},
    hash::{BuildHasher as _, RandomState},
    time::{Duration, Instant},
};

use unicode_width::UnicodeWidthStr as _;

use crate::{
    Cell, Table,
    output::table::{cut, name_position, one_line},
};

/// Most rows of a table.
pub(super) const MAX_ROWS: usize = 10_000;

/// Most letters of a cell; more than the widest terminal shows.
pub(super) const MAX_CELL: usize = 300;

/// Most further rows that are counted.
const MAX_COUNTED: usize = 1_000_000;

/// Time for which a changed row stands out.
const STANDING_OUT: Duration = Duration::from_secs(3);

/// Width that an age may come to need.
const AGE_WIDTH: usize = 6;

/// A row.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    pub(crate) cells: Vec<Cell>,
    /// Position of the age among the cells, and the time from which it counts, milliseconds since 1970.
    pub(crate) age: Option<(usize, u64)>,
}

/// A change of a table.
#[derive(Debug, Clone)]
pub(crate) enum Update {
    /// All rows follow, up to [`Update::Complete`], which removes the others.
    Begin,
    /// The row of a key, new or changed. Keys are the order of the rows.
    Put(String, Row),
    Remove(String),
    Complete,
    /// All rows at once.
    Whole(Vec<(String, Row)>),
    /// The reason for which there are no changes; the next other update ends it.
    Fault(String),
}

/// A table on a page.
#[derive(Debug)]
pub(crate) struct Section {
    pub(super) headings: Vec<String>,
    /// Name of the rows, for a table without any.
    pub(super) things: String,
    /// Position of the column that is cut last.
    pub(super) name: usize,
    pub(super) fault: String,
    pub(super) is_complete: bool,
    rows: BTreeMap<String, Kept>,
    /// Widths that the columns ever needed, so that they never become narrower; `None` for one that is hidden while all
    /// of its cells are empty.
    widths: Vec<Option<usize>>,
    further: HashSet<u64>,
    hashes: RandomState,
    /// Number of the state that rows belong to.
    round: u64,
}

#[derive(Debug)]
struct Kept {
    row: Row,
    round: u64,
    changed_at: Option<Instant>,
}

impl Section {
    /// Makes an empty table with the columns of another one. `age` is the position of a column whose texts grow by
    /// themselves.
    pub(crate) fn new(columns: &Table, age: Option<usize>, things: &str) -> Self {
        let headings: Vec<String> = columns.headings().iter().map(|heading| one_line(heading)).collect();
        let width = |(at, heading): (usize, &String)| match at {
            at if columns.optional().contains(&at) => None,
            at if age == Some(at) => Some(heading.width().max(AGE_WIDTH)),
            _ => Some(heading.width()),
        };
        Self {
            name: name_position(&headings),
            widths: headings.iter().enumerate().map(width).collect(),
            headings,
            things: one_line(things),
            fault: String::new(),
            is_complete: false,
            rows: BTreeMap::new(),
            further: HashSet::new(),
            hashes: RandomState::new(),
            round: 0,
        }
    }

    /// Applies a change.
    pub(crate) fn apply(&mut self, update: Update) {
        if !matches!(update, Update::Fault(_)) {
            self.fault.clear();
        }
        match update {
            Update::Begin => self.begin(),
            Update::Put(key, row) => self.put(key, row),
            Update::Remove(key) => {
                let hash = self.hashes.hash_one(&key);
                if self.rows.remove(&key).is_none() {
                    self.further.remove(&hash);
                }
            }
            Update::Complete => self.complete(),
            Update::Whole(rows) => {
                self.begin();
                rows.into_iter().for_each(|(key, row)| self.put(key, row));
                self.complete();
            }
            Update::Fault(fault) => self.fault = one_line(&fault),
        }
    }

    fn begin(&mut self) {
        self.round += 1;
        self.further.clear();
    }

    fn complete(&mut self) {
        let round = self.round;
        self.rows.retain(|_, kept| kept.round == round);
        self.is_complete = true;
    }

    fn put(&mut self, key: String, mut row: Row) {
        for ((width, heading), cell) in self.widths.iter_mut().zip(&self.headings).zip(&mut row.cells) {
            if cell.text().width() > MAX_CELL {
                *cell = Cell::styled(cell.style(), cut(cell.text(), MAX_CELL));
            }
            if width.is_some() || !cell.text().is_empty() {
                *width = Some(width.unwrap_or(heading.width()).max(cell.text().width()));
            }
        }
        let (round, is_complete) = (self.round, self.is_complete);
        if let Some(kept) = self.rows.get_mut(&key) {
            let is_same = kept.row.cells.iter().map(Cell::text).eq(row.cells.iter().map(Cell::text));
            let changed_at = if is_same { kept.changed_at } else { Some(Instant::now()) };
            *kept = Kept { row, round, changed_at };
            return;
        }
        self.further.remove(&self.hashes.hash_one(&key));
        if self.rows.len() >= MAX_ROWS {
            if self.rows.last_key_value().is_some_and(|(last, _)| *last < key) {
                return self.count(&key);
            }
            if let Some((last, _)) = self.rows.pop_last() {
                self.count(&last);
            }
        }
        let changed_at = is_complete.then(Instant::now);
        self.rows.insert(key, Kept { row, round, changed_at });
    }

    fn count(&mut self, key: &str) {
        if self.further.len() < MAX_COUNTED {
            self.further.insert(self.hashes.hash_one(key));
        }
    }

    /// The rows with a text, in order, each with its key's mark: true if it changed just now.
    pub(super) fn matching<'s>(&'s self, filter: &str) -> impl Iterator<Item = (&'s Row, bool)> {
        let (wanted, now) = (filter.to_lowercase(), Instant::now());
        let fits = move |row: &Row| {
            wanted.is_empty() || row.cells.iter().any(|cell| cell.text().to_lowercase().contains(&wanted))
        };
        let stands_out = move |at: Instant| now.saturating_duration_since(at) < STANDING_OUT;
        let rows = self.rows.values().filter(move |kept| fits(&kept.row));
        rows.map(move |kept| (&kept.row, kept.changed_at.is_some_and(stands_out)))
    }

    /// Widths that the columns need; `None` for a hidden one.
    pub(super) fn widths(&self) -> &[Option<usize>] {
        &self.widths
    }

    /// Number of rows that are not kept, and true if there may be more.
    pub(super) fn further(&self) -> (usize, bool) {
        (self.further.len(), self.further.len() >= MAX_COUNTED)
    }
}
