//! What a run says at its end, and as long as it lasts.

use std::{
    collections::BTreeMap,
    fmt,
    path::Path,
    time::{Duration, Instant},
};

use crate::Outcome;

/// How long a run lasts.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Bound {
    count: u64,
    until: Option<Instant>,
}

impl Bound {
    /// So many cases, or as many as fit into so many seconds.
    pub(crate) fn new(count: u64, seconds: Option<u64>) -> Self {
        match seconds {
            Some(seconds) => Self { count: u64::MAX, until: Some(Instant::now() + Duration::from_secs(seconds)) },
            None => Self { count, until: None },
        }
    }

    /// Whether this case is still one of them.
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

    /// How many there are in a column.
    pub(crate) fn sum(&self, column: &str) -> u64 {
        self.0.values().filter_map(|row| row.get(column)).sum()
    }

    /// How many there are.
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

/// The directory that a run works in: in memory where the machine has such a file system, since most of the time goes
/// into copies otherwise. It goes at the end.
pub(crate) fn work_dir() -> Outcome<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let made = tempfile::Builder::new().prefix("mortise-faults-").tempdir_in(memory);
    Ok(made.or_else(|_| tempfile::Builder::new().prefix("mortise-faults-").tempdir())?)
}
