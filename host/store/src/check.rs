//! Findings of a check of a whole store.

use std::{fmt, path::PathBuf};

use crate::StoreId;

/// A contradiction in the store, or a record that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The thing concerned, such as `resource demo/Artist/default/default/korn`.
    pub thing: String,
    /// Fault of the thing.
    pub fault: String,
}

/// Result of a check of a store that no server has open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Format of the store.
    pub format: u32,
    /// Sequence of the last commit.
    pub sequence: u64,
    /// Sequence of the oldest event; `sequence + 1` without events.
    pub first_event: u64,
    /// Number of events.
    pub events: u64,
    /// Bytes of the store's files.
    pub bytes: u64,
    /// Id of the store; `None` for a store of an earlier release that was not opened since.
    pub id: Option<StoreId>,
    /// Directory of the copy that was checked, if the disk of the store had no space for it.
    pub copied_to: Option<PathBuf>,
    /// Problems found; empty for a sound store.
    pub problems: Vec<Problem>,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.thing, self.fault)
    }
}
