//! Errors of a store.

use std::{
    io,
    path::{Path, PathBuf},
};

use mortise_durable_fs::FsError;
use mortise_resource::{EncodedResource, EncodingError};

use crate::{ids::ListKey, quota::QuotaExceeded};

/// A failure of a store, or a refused request.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The id is not stored, or stored in another incarnation.
    #[error("resource not found")]
    NotFound,
    /// The resource is stored under another GroupVersion.
    #[error("resource was requested with GroupVersion={requested:?}, but stored with GroupVersion={:?}", stored.id().group_version)]
    GroupVersionMismatch {
        /// The GroupVersion of the request.
        requested: String,
        /// The stored resource.
        stored: Box<EncodedResource>,
    },
    /// Another incarnation is stored under the name.
    #[error("write failed because the given uid doesn't match what is stored")]
    WrongUid,
    /// The given version is not the stored one.
    #[error("CAS operation failed because the given version doesn't match what is stored")]
    CasFailure {
        /// Position of the mutation in its batch.
        mutation: usize,
    },
    /// An expectation of a batch does not hold.
    #[error("a resource that the write depends on has changed or is gone; read it again, then retry")]
    ExpectationFailed {
        /// Position in the batch's expectations.
        expectation: usize,
    },
    /// The references to a resource of a batch differ from those that the caller saw.
    #[error("the references to a resource of the write have changed; retry")]
    ReferrersChanged,
    /// A resource is over the limit, and larger than the stored one.
    #[error("the resource takes {size} bytes, more than the limit of {limit} (store.max_resource_bytes)")]
    TooLarge {
        /// Encoded size, bytes.
        size: usize,
        /// The limit, bytes.
        limit: usize,
    },
    /// A limited batch would take a tenancy over a quota; nothing was stored.
    #[error(transparent)]
    QuotaExceeded(#[from] Box<QuotaExceeded>),
    /// A part of a mutation's id is missing or does not fit into a key. A fault of the calling code.
    #[error("the id is incomplete: {0}")]
    IncompleteId(#[from] IdPartError),
    /// The reader of a watch fell further behind than the store buffers events.
    #[error(
        "the watch was closed: its reader fell more than {bound} events or {bytes} bytes behind, or others needed the memory \
         (limit store.watch_bytes); start it again"
    )]
    WatchLagged {
        /// Most buffered events of a watch.
        bound: usize,
        /// Most buffered bytes of a watch.
        bytes: usize,
    },
    /// A scan was aborted: too much was overwritten ahead of it.
    #[error(
        "the scan was aborted: more was overwritten ahead of it than the {bytes} bytes that all scans may buffer together \
         (limit store.watch_bytes); start it again"
    )]
    ScanAborted {
        /// Most bytes that all scans may buffer together.
        bytes: usize,
    },
    /// The history no longer holds the changes that a watch was about to read.
    #[error("the history lost the next changes (limits store.history_events, store.history_bytes); start again")]
    HistoryTrimmed,
    /// The backend replaced its content.
    #[error("watch closed by the storage backend (possibly due to snapshot restoration)")]
    WatchClosed,
    /// The limit of snapshots that are read at the same time is reached.
    #[error("{limit} snapshots of the store are being read already; wait until a backup is done, or stop one")]
    TooManySnapshots {
        /// Most snapshots at the same time.
        limit: usize,
    },
    /// A snapshot could not save a record before it was overwritten.
    #[error("the snapshot is lost: {0}; free space in data_dir, then take the backup again")]
    SnapshotLost(String),
    /// A record does not fit the store that is being loaded.
    #[error("{record}: {fault}")]
    BadRecord {
        /// Description of the record.
        record: String,
        /// Fault of the record.
        fault: String,
    },
    /// The directory of a new store holds a store already.
    #[error("{} holds a store already; choose an empty directory", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// The directory holds no store.
    #[error("{} holds no store; check data_dir", path.display())]
    Absent {
        /// The directory.
        path: PathBuf,
    },
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
    /// The disk has no space for a write; nothing was stored. Deletions go on with the space reserved for them, and
    /// writes as soon as there is space.
    #[error("{}: the disk is full: {missing} bytes are missing; free space: deletions work even now, writes after that", path.display())]
    Full {
        /// The file that needs the space.
        path: PathBuf,
        /// Bytes that must become free.
        missing: u64,
    },
    /// A failed write left the state of the disk unknown, or a file is gone; the store refuses all writes until a
    /// restart.
    #[error("the store refuses writes ({0}); repair this, then restart mortise")]
    Poisoned(String),
    /// The shared store behind this one gives no answer, or has no quorum. Nothing was stored by the call.
    #[error("etcd cannot be reached ({0}); nothing was stored; check etcd, then retry")]
    Unreachable(String),
    /// The shared store gave no answer to a commit, which may be stored or not.
    #[error("etcd did not answer ({0}), so the write may be stored or not; read the resource before you retry")]
    OutcomeUnknown(String),
    /// The store takes no writes while its content is moved.
    #[error("the store is read-only while its content is moved; nothing was stored; retry when the move has ended")]
    ReadOnly,
    /// Another server of the shared store does the work that the batch is a part of; nothing was stored.
    #[error("{0} runs on another server now; nothing was stored")]
    NotHeld(String),
    /// The shared store is over its quota of space; nothing was stored.
    #[error("etcd takes no writes ({0}); compact and defragment it, or raise its quota, then disarm its alarm")]
    SharedFull(String),
    /// A batch has more changes and conditions than a transaction of the shared store can hold; nothing was stored.
    #[error(
        "the change takes {operations} operations of etcd, more than the {limit} of one transaction; change less at once"
    )]
    TooManyChanges {
        /// Operations of the batch.
        operations: usize,
        /// Most operations of a batch.
        limit: usize,
    },
    /// A file of the store was moved or removed while the store was open.
    #[error("{} was moved or removed under the running server; put the data directory back, or take a backup now and restore it", path.display())]
    Gone {
        /// Former path of the file.
        path: PathBuf,
    },
    /// Another process has the directory open.
    #[error("{} is in use by another process; stop it, or choose another data_dir", path.display())]
    Locked {
        /// The data directory.
        path: PathBuf,
    },
    /// The directory was written by a newer release.
    #[error("{} has store format {found}, this release knows up to {known}; use the release that wrote it, or a newer one", path.display())]
    NewerFormat {
        /// The data directory.
        path: PathBuf,
        /// Format of the store.
        found: u32,
        /// Newest format that this release reads.
        known: u32,
    },
    /// A file cannot be what the store wrote.
    #[error("{} is damaged: {what}; restore a backup, or move the directory away to start empty", path.display())]
    Corrupt {
        /// The file or directory.
        path: PathBuf,
        /// Fault of the content.
        what: String,
    },
    /// A resource cannot be stored, or its content is not the one that was checked.
    #[error("a resource is malformed: {0}")]
    EncodingError(#[from] EncodingError),
    /// A resource of a scan cannot be read; the scan returned those before it.
    #[error("{source}")]
    Unreadable {
        /// ListKey of the resource among those of its type.
        place: Box<ListKey>,
        /// Reason why it cannot be read.
        source: Box<StoreError>,
    },
    /// The file system reported an error.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// Attempted action, as a verb.
        action: &'static str,
        /// Error of the file system.
        source: io::Error,
    },
}

/// The part of an id that is missing, or does not fit into a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0} is missing, too long, or contains a zero byte")]
pub struct IdPartError(pub &'static str);

impl From<FsError> for StoreError {
    fn from(FsError { path, action, source }: FsError) -> Self {
        Self::Io { path, action, source }
    }
}

/// Adds path and action to an I/O error, for `map_err`.
pub(crate) fn io_fault(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path, action, source }
}
