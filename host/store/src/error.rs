//! What can go wrong in a store.

use std::{
    io,
    path::{Path, PathBuf},
};

use mortise_durable_fs::FsError;
use mortise_resource::{BadEncoding, EncodedResource};

use crate::{ids::Place, quota::QuotaExceeded};

/// A failure of a store, or an answer that is not the wished one.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Nothing is stored under the id, or another incarnation is.
    #[error("resource not found")]
    NotFound,
    /// The resource is stored, under another GroupVersion.
    #[error("resource was requested with GroupVersion={requested:?}, but stored with GroupVersion={:?}", stored.id().group_version)]
    GroupVersionMismatch {
        /// The GroupVersion of the request.
        requested: String,
        /// What is stored.
        stored: Box<EncodedResource>,
    },
    /// Another incarnation is stored under the name.
    #[error("write failed because the given uid doesn't match what is stored")]
    WrongUid,
    /// The version is not the stored one.
    #[error("CAS operation failed because the given version doesn't match what is stored")]
    CasFailure {
        /// Position of the mutation in its batch.
        mutation: usize,
    },
    /// An expectation of a batch does not hold.
    #[error("a resource that the write depends on has changed or is gone")]
    Unexpected {
        /// Position in the batch's expectations.
        expectation: usize,
    },
    /// What refers to a resource of a batch is not what was seen.
    #[error("what refers to a resource of the write has changed")]
    ReferrersChanged,
    /// A resource is over the limit, and larger than what is stored.
    #[error("the resource takes {size} bytes, more than the limit of {limit} (store.max_resource_bytes)")]
    TooLarge {
        /// Encoded size, bytes.
        size: usize,
        /// The limit, bytes.
        limit: usize,
    },
    /// A limited batch adds more to a tenancy than it may hold. Nothing of it was stored.
    #[error(transparent)]
    QuotaExceeded(#[from] Box<QuotaExceeded>),
    /// A mutation lacks a part of its id, or has one that no key can hold. A fault of the caller's code.
    #[error("incomplete id: {0} is missing, too long, or has a zero byte in it")]
    IncompleteId(&'static str),
    /// The reader of a watch is further behind than events are remembered.
    #[error(
        "watch closed because its reader fell more than {bound} events or {bytes} bytes behind, or others needed the room \
         (limits store.watch_buffer, store.watch_buffer_bytes, store.watch_bytes); start it again"
    )]
    WatchLagged {
        /// How many events are remembered.
        bound: usize,
        /// How many bytes of them.
        bytes: usize,
    },
    /// A scan was given up: too much was overwritten in front of it.
    #[error(
        "the scan was given up: more was overwritten in front of it than the {bytes} bytes that scans may remember together \
         (limit store.watch_bytes); start it again"
    )]
    ScanOutrun {
        /// How many bytes may be remembered.
        bytes: usize,
    },
    /// Changes that a watch was about to read are not in the history any more.
    #[error("the history does not reach back far enough (limits store.history_events, store.history_bytes)")]
    HistoryTrimmed,
    /// The backend replaced its content.
    #[error("watch closed by the storage backend (possibly due to snapshot restoration)")]
    WatchClosed,
    /// As many snapshots as may be are being read already.
    #[error("{limit} snapshots of the store are being read already; wait until a backup is done, or end one")]
    TooManySnapshots {
        /// How many may be.
        limit: usize,
    },
    /// A snapshot could not keep what was about to be overwritten.
    #[error("the snapshot is lost: {0}; take the backup again once there is room in data_dir")]
    SnapshotLost(String),
    /// A record that does not belong into the store that is being loaded.
    #[error("{record}: {fault}")]
    BadRecord {
        /// Which one.
        record: String,
        /// What is wrong with it.
        fault: String,
    },
    /// A store is to be made where one is.
    #[error("{} holds a store already", path.display())]
    Exists {
        /// The directory.
        path: PathBuf,
    },
    /// No store is where one should be.
    #[error("{} holds no store; is it the right data_dir?", path.display())]
    Absent {
        /// The directory.
        path: PathBuf,
    },
    /// The store is shutting down.
    #[error("the store is closed")]
    Closed,
    /// The disk has no room for a write. Nothing of it was stored; deletions go on as long as what is kept for them
    /// lasts, and writes as soon as there is room.
    #[error("{}: the disk is full: {missing} bytes are missing; make room: deletions are still taken, and writes again once there is room", path.display())]
    Full {
        /// The file that room was wanted for.
        path: PathBuf,
        /// How much more the disk would have to have free, bytes.
        missing: u64,
    },
    /// An earlier failure to write left the state of the disk unknown; nothing is accepted until a restart.
    #[error("the store refuses writes since an earlier one failed ({0}); restart mortise once the disk is well again")]
    Poisoned(String),
    /// Another process has the directory.
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
        /// The format found there.
        found: u32,
        /// The newest format that is known.
        known: u32,
    },
    /// Something that cannot be what was written.
    #[error("{} is damaged: {what}; restore a backup, or move the directory away to start empty", path.display())]
    Corrupt {
        /// The file or directory.
        path: PathBuf,
        /// What is wrong with it.
        what: String,
    },
    /// A resource that cannot be stored, or whose content is not what it was checked to be.
    #[error("a resource: {0}")]
    BadEncoding(#[from] BadEncoding),
    /// One of the resources of a scan, which gave those before it.
    #[error("{source}")]
    Unreadable {
        /// Where it is among those of its type.
        place: Box<Place>,
        /// Why it cannot be read.
        source: Box<StoreError>,
    },
    /// The file system refused.
    #[error("{}: {action}: {source}", path.display())]
    Io {
        /// The file or directory.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        source: io::Error,
    },
}

impl From<FsError> for StoreError {
    fn from(FsError { path, action, source }: FsError) -> Self {
        Self::Io { path, action, source }
    }
}

/// Names the path and the action of an I/O error, for `map_err`.
pub(crate) fn io_fault(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> StoreError + use<> {
    let path = path.to_owned();
    move |source| StoreError::Io { path, action, source }
}
