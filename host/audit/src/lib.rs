//! The audit log: callers, their requests and the outcomes, one JSON object for each line, in files that rotate, and in
//! further sinks ([`Sink`]).
//!
//! # Contract
//! A call that will change something first takes a [`Reservation`], and gives the record after the change: so no change
//! begins without room for its record. When the queue is full, [`OnFull::Wait`] makes the call wait, up to
//! [`Options::wait`], and then refuses it; [`OnFull::Drop`] drops the record, and a later line has the number of
//! dropped records. A reservation that is dropped unused leaves no record: a caller that must record even a cancelled
//! call gives the record in its own `Drop`.
//!
//! Records hold names, never data or secrets. They are in the file within moments and on the disk within
//! [`Options::sync`]: a loss of power can lose the last of them, a kill of the process the few that waited. A file that
//! is moved or removed from outside is left for a new one, before the next write and within [`Options::sync`].
//!
//! Each line names the one before it (`chain`), through rotations, moves and restarts, so that [`verify`] finds
//! missing and changed lines.
//!
//! # Limits
//! A field is cut after [`MAX_FIELD_BYTES`] bytes, which bounds a line. With [`OnFull::Wait`], no reservation is given
//! while [`Options::queue`] records wait. Reservations themselves are not counted, so slow calls block no others, and
//! at most the running calls add to the queue beyond its bound. Files are bounded in bytes and number; a batch of lines
//! larger than a file gets a file of its own. Only their owner can read them (mode 0600, the directory 0700).
//!
//! # Cost
//! About two microseconds for a record; in the writer's thread half a microsecond for its link in the chain, and a look
//! at the file's name and a write for each batch: the records of 5 milliseconds, or 128 at once if as many wait.
//! `audit.head`, the file with the end of the chain, is replaced with each sync that follows records.

mod chain;
mod files;
mod log;
mod record;
mod sinks;
mod verify;
mod waiting;
mod writer;

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use log::{AuditLog, OpenError, QueueFull, Reservation};
pub use record::{Decision, MAX_FIELD_BYTES, Record};
pub use sinks::{Sink, SinkError};
pub use verify::{Verified, VerifyError, verify};

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
    /// Further places of the records.
    pub sinks: Vec<Sink>,
    /// Size up to which lines are added to a file, bytes; the next batch begins a new file.
    pub file_bytes: u64,
    /// Number of files kept, the current one included; 0 counts as 1.
    pub files: usize,
    /// Most records that may wait to be written; 0 counts as 1.
    pub queue: usize,
    /// Action when the queue is full.
    pub when_full: OnFull,
    /// Longest wait for a reservation, with [`OnFull::Wait`].
    pub wait: Duration,
    /// Longest time between writing and syncing a record.
    pub sync: Duration,
}

impl Options {
    /// The server's value of [`Options::queue`].
    pub const QUEUE_RECORDS: usize = 4_096;

    /// The server's value of [`Options::wait`].
    pub const QUEUE_WAIT: Duration = Duration::from_secs(5);

    /// The server's value of [`Options::sync`].
    pub const SYNC_INTERVAL: Duration = Duration::from_secs(1);
}
