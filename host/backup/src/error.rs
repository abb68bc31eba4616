//! Errors of backups.

use std::{
    io,
    path::{Path, PathBuf},
};

use mortise_durable_fs::FsError;
use mortise_store::StoreError;

/// Failure of a backup or a restore.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file is not a backup.
    #[error("{}: not a backup of mortise: {what}", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// Fault of the file.
        what: String,
    },
    /// The file ends early, or something follows its end.
    #[error("{}: its seal is missing: the file was cut off, or something was appended; nothing was changed; copy it again", path.display())]
    Unsealed {
        /// The file.
        path: PathBuf,
    },
    /// The file is not as it was written.
    #[error("{}: it was altered: its content does not match its seal; nothing was changed; use another copy", path.display())]
    Altered {
        /// The file.
        path: PathBuf,
    },
    /// The file matches its seal, but its content is invalid.
    #[error("{}: {entry}: {what}; nothing was changed; use another backup", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Entry with the fault.
        entry: String,
        /// Fault of the entry.
        what: String,
    },
    /// The backup was written by a newer release.
    #[error("{}: backup format {found} of mortise {by}; this release knows up to {known}: restore with that release, or a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Format of the backup.
        found: u32,
        /// Release that wrote it.
        by: String,
        /// Newest format that this release reads.
        known: u32,
    },
    /// The target is not empty.
    #[error("{}: {what}; choose an empty directory, or replace it with --force", path.display())]
    Occupied {
        /// File or directory in the way.
        path: PathBuf,
        /// Description of the obstacle.
        what: String,
    },
    /// The plugin folder is inside a directory that a restore replaces.
    #[error("{}: it is inside {within} of the data directory, which a restore replaces; choose another plugin_dir", plugin_dir.display())]
    Nested {
        /// The plugin folder.
        plugin_dir: PathBuf,
        /// Name of the directory in the data directory.
        within: &'static str,
    },
    /// The backup has no id of its store.
    #[error("{}: it has no store id, since an earlier release wrote it; nothing was changed; restore it without --keep-id", path.display())]
    NoId {
        /// The file.
        path: PathBuf,
    },
    /// A directory has more files than a backup holds.
    #[error("{}: it has more than {limit} plugin files; move the others away, then take the backup again", dir.display())]
    TooManyFiles {
        /// The directory.
        dir: PathBuf,
        /// Most files of a directory in a backup.
        limit: usize,
    },
    /// The disk has too little space for a backup.
    #[error("{}: less than {} MiB of its disk are free, and a backup leaves these to the store; make space, or keep backups on another disk (backup.dir)", dir.display(), spare >> 20)]
    NoSpace {
        /// The directory of the backup.
        dir: PathBuf,
        /// Free bytes that a backup needs at any time.
        spare: u64,
    },
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
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
    /// The reader of the backup closed its channel.
    #[error("the reader of the backup disconnected; take the backup again")]
    ReaderGone,
    /// The process is ending.
    #[error("the server is stopping; take the backup again once it runs")]
    Stopping,
}

/// Adds path and action to an I/O error, for `map_err`.
pub(crate) fn io_fault(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| BackupError::Io { path, action, source }
}

impl From<FsError> for BackupError {
    fn from(FsError { path, action, source }: FsError) -> Self {
        Self::Io { path, action, source }
    }
}
