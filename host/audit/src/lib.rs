//! The record of who did what: one JSON object for each line, in files that rotate.
//!
//! # Contract
//! A call that is about to change something takes a [`Place`] first, and gives the record when the change is done: so no
//! change begins that could not be recorded. With [`WhenFull::Wait`] a place is waited for, up to a limit, and the
//! change is refused after it; with [`WhenFull::Drop`] the record is dropped, and how many were is itself a record. A
//! place that is dropped leaves no record: what must not happen unseen gives one when it is dropped.
//!
//! Records hold names, never data or secrets. They are in the file within moments and on the disk within
//! [`Options::sync`]: a loss of power can take the last of them, a kill of the process the last few that waited.
//!
//! # Limits
//! A field has at most [`MAX_FIELD`] bytes, which bounds a line. No place is given while [`Options::queue`] records wait;
//! calls that have one are recorded beyond that, so slow calls keep nobody waiting. Files are bounded in bytes and
//! number. They belong to their owner alone (mode 0600, the directory 0700).
//!
//! # Cost
//! About two microseconds for a record, and a system call for each 64 KiB or each time nothing more waits.

mod files;
mod log;
mod record;
mod waiting;
mod writer;

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use log::{AuditLog, OpenError, Place, QueueFull};
pub use record::{Decision, MAX_FIELD, Record};

/// What is recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Events {
    /// Nothing.
    None,
    /// What was to change something, done or not, and what was refused for want of a permission.
    Changes,
    /// Reads, lists and watches, too.
    All,
}

/// What happens when records come faster than they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WhenFull {
    /// Callers wait, and are refused after a limit.
    Wait,
    /// Records are dropped, counted and said.
    Drop,
}

/// How the log is kept.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where its files are.
    pub dir: PathBuf,
    /// What is recorded.
    pub events: Events,
    /// Size at which a file is put aside, bytes.
    pub file_bytes: u64,
    /// Files that are kept, the one that is written included.
    pub files: usize,
    /// Records that may wait to be written.
    pub queue: usize,
    /// What happens when so many wait.
    pub when_full: WhenFull,
    /// The longest wait for a place.
    pub wait: Duration,
    /// How long a record may be in the file before it is on the disk.
    pub sync: Duration,
}

impl Options {
    /// Records that may wait to be written.
    pub const QUEUE: usize = 4_096;

    /// Time that a call waits for a place in the queue before it is refused.
    pub const WAIT: Duration = Duration::from_secs(5);

    /// Time that a record may be in the file before it is on the disk.
    pub const SYNC: Duration = Duration::from_secs(1);
}
