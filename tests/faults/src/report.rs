//! The length of a run, and its report.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    time::{Duration, Instant},
};

use crate::Outcome;

/// Bound of a run, by cases or by time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    count: u64,
    until: Option<Instant>,
}

impl Bound {
    /// Makes a bound of `count` cases, or of the seconds if they are given.
    pub(crate) fn new(count: u64, seconds: Option<u64>) -> Self {
        match seconds {
            Some(seconds) => Self { count: u64::MAX, until: Some(Instant::now() + Duration::from_secs(seconds)) },
            None => Self { count, until: None },
        }
    }

    /// Whether the bound still allows this case.
    pub(crate) fn allows(&self, case: u64) -> bool {
        case < self.count && self.until.is_none_or(|until| Instant::now() < until)
    }
}

/// Counts by row and column.
#[derive(Debug, Default)]
pub(crate) struct Table(BTreeMap<String, BTreeMap<&'static str, u64>>);

impl Table {
    /// Counts one more.
    pub(crate) fn add(&mut self, row: &str, column: &'static str) {
        *self.0.entry(row.to_owned()).or_default().entry(column).or_default() += 1;
    }

    /// Returns the sum of a column.
    pub(crate) fn sum(&self, column: &str) -> u64 {
        self.0.values().filter_map(|row| row.get(column)).sum()
    }

    /// Returns the sum of all columns.
    pub(crate) fn total(&self) -> u64 {
        self.0.values().flat_map(BTreeMap::values).sum()
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut columns: Vec<_> = self.0.values().flat_map(BTreeMap::keys).collect();
        columns.sort_unstable();
        columns.dedup();
        let first = self.0.keys().map(String::len).max().unwrap_or(0);
        write!(f, "{:first$}", "")?;
        for column in &columns {
            write!(f, "  {column:>8}")?;
        }
        writeln!(f, "  {:>8}", "all")?;
        for (name, row) in &self.0 {
            write!(f, "{name:first$}")?;
            for column in &columns {
                let width = column.len().max(8);
                write!(f, "  {:>width$}", row.get(*column).unwrap_or(&0))?;
            }
            writeln!(f, "  {:>8}", row.values().sum::<u64>())?;
        }
        Ok(())
    }
}

/// Makes the working directory of a run: in memory if the machine has such a file system, since copies would otherwise
/// take most of the time. It is removed at the end.
pub(crate) fn work_dir() -> Outcome<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let made = tempfile::Builder::new().prefix("mortise-faults-").tempdir_in(memory);
    Ok(made.or_else(|_| tempfile::Builder::new().prefix("mortise-faults-").tempdir())?)
}
