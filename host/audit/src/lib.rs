//! The audit log: who did what, one JSON object for each line, in files that rotate.
//!
//! # Contract
//! A call that will change something first reserves a [`Reservation`], and gives the record after the change: so no change
//! begins without room for its record. With [`OnFull::Wait`] the call waits for a place, up to a limit, and is then
//! refused; with [`OnFull::Drop`] the record is dropped, and a later record has the number of dropped ones. A dropped
//! place leaves no record: a caller that must record even a cancelled call gives the record in its own `Drop`.
//!
//! Records hold names, never data or secrets. They are in the file within moments and on the disk within
//! [`Options::sync`]: a loss of power can lose the last of them, a kill of the process the few that waited.
//!
//! # Limits
//! A field has at most [`MAX_FIELD_BYTES`] bytes, which bounds a line. No place is given while [`Options::queue`] records
//! wait; calls that hold a place are recorded beyond that bound, so slow calls block no others. Files are bounded in
//! bytes and number. Only their owner can read them (mode 0600, the directory 0700).
//!
//! # Cost
//! About two microseconds for a record, and a system call for each 64 KiB, or when no more records wait.

mod files;
mod log;
mod record;
mod waiting;
mod writer;

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use log::{AuditLog, OpenError, QueueFull, Reservation};
pub use record::{Decision, MAX_FIELD_BYTES, Record};

/// Selection of recorded calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Events {
    /// Records no calls.
    None,
    /// Calls that were to change something, successful or not, and calls refused for want of a permission.
    Changes,
    /// Also reads, lists and watches.
    All,
}

/// Action when records come faster than they are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnFull {
    /// Callers wait, and are refused after a limit.
    Wait,
    /// Records are dropped and counted.
    Drop,
}

/// Settings of the log.
#[derive(Debug, Clone)]
pub struct Options {
    /// Directory of the files.
    pub dir: PathBuf,
    /// Recorded calls.
    pub events: Events,
    /// Size at which a file is closed and a new one begun, bytes.
    pub file_bytes: u64,
    /// Number of files kept, the current one included.
    pub files: usize,
    /// Most records that may wait to be written.
    pub queue: usize,
    /// Action when the queue is full.
    pub when_full: OnFull,
    /// Longest wait for a place.
    pub wait: Duration,
    /// Longest time between writing and syncing a record.
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
