//! The record of a course.

use std::collections::BTreeMap;

/// A change, in the order of the log.
#[derive(Debug, Clone)]
pub(super) struct Logged {
    pub(super) sequence: u64,
    /// Number of the batch.
    pub(super) commit: u64,
    pub(super) name: &'static str,
    /// Version before; `None` without a resource.
    pub(super) before: Option<u64>,
    /// Version after; `None` for a deletion.
    pub(super) now: Option<u64>,
}

/// A read of one resource.
#[derive(Debug)]
pub(super) struct Seen {
    pub(super) name: &'static str,
    /// Sequence of a commit that the reader knew.
    pub(super) known: u64,
    pub(super) version: Option<u64>,
}

/// Versions by name.
pub(super) type Content = BTreeMap<String, u64>;

/// Reason for the end of a watch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum End {
    /// The watcher went away.
    Left,
    Lagged,
    Closed,
}

/// An event of a watch.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) sequence: u64,
    pub(super) commit: u64,
    /// Whether the event says that another one of its batch follows.
    pub(super) more: bool,
    pub(super) name: String,
    pub(super) now: Option<u64>,
    /// Version before, as far as the event has it.
    pub(super) before: Option<u64>,
}

/// A watch.
#[derive(Debug)]
pub(super) struct Watched {
    pub(super) prefix: &'static str,
    /// Whether the watch has a hub of its terms.
    pub(super) has_terms: bool,
    pub(super) compares: bool,
    /// Sequence of the commit from which on it has events.
    pub(super) position: u64,
    /// Content as of that commit, if the watch has read it.
    pub(super) snapshot: Option<Content>,
    pub(super) events: Vec<Event>,
    /// Newest sequences that the watch got, each with the number of events before.
    pub(super) newest: Vec<(usize, u64)>,
    pub(super) end: End,
}

/// The observations of all callers.
#[derive(Debug, Default)]
pub(super) struct Record {
    pub(super) reads: Vec<Seen>,
    pub(super) watches: Vec<Watched>,
    /// Contents as of a commit, with its sequence.
    pub(super) contents: Vec<(u64, Content)>,
    /// Scans and contents that were ended for want of room.
    pub(super) aborted: usize,
}
