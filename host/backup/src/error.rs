//! What can go wrong with a backup.

use std::{
    io,
    path::{Path, PathBuf},
};

use mortise_durable_fs::FsError;
use mortise_store::StoreError;

/// Why there is no backup, or nothing was restored.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The file is not a backup at all.
    #[error("{}: not a backup of mortise: {what}", path.display())]
    NotABackup {
        /// The file.
        path: PathBuf,
        /// What it is instead.
        what: String,
    },
    /// The file ends early, or something follows its end.
    #[error("{}: its end is not the end of a backup: it was cut off, or something was added; nothing was touched, copy it again, whole", path.display())]
    Unsealed {
        /// The file.
        path: PathBuf,
    },
    /// The file is not what was written.
    #[error("{}: it was altered: its content does not match its seal; nothing was touched, use another copy", path.display())]
    Altered {
        /// The file.
        path: PathBuf,
    },
    /// The file is whole and says something that cannot be.
    #[error("{}: {entry}: {what}; nothing was touched, use another backup", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Where in it.
        entry: String,
        /// What is wrong.
        what: String,
    },
    /// Written by a newer release.
    #[error("{}: backup format {found} of mortise {by}; this release knows up to {known}: restore with that release, or a newer one", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its format.
        found: u32,
        /// The release that wrote it.
        by: String,
        /// The newest format that is known.
        known: u32,
    },
    /// There is something where the backup would go.
    #[error("{}: {what}; choose an empty directory, or replace it with --force", path.display())]
    Occupied {
        /// What is in the way.
        path: PathBuf,
        /// What it is.
        what: String,
    },
    /// The plugin folder stands within what a restore replaces.
    #[error("{}: it stands within {within} of the data directory, which a restore replaces; choose another plugin_dir", plugin_dir.display())]
    Nested {
        /// The plugin folder.
        plugin_dir: PathBuf,
        /// A directory of the data directory.
        within: &'static str,
    },
    /// The store refused.
    #[error("{0}")]
    Store(#[from] StoreError),
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
    /// Nobody reads the backup any more.
    #[error("the reader of the backup is gone")]
    ReaderGone,
    /// The process is ending.
    #[error("the server is stopping")]
    Stopping,
}

/// Names a refusal of the file system.
pub(crate) fn io_fault(path: &Path, action: &'static str) -> impl FnOnce(io::Error) -> BackupError + use<> {
    let path = path.to_owned();
    move |source| BackupError::Io { path, action, source }
}

impl From<FsError> for BackupError {
    fn from(FsError { path, action, source }: FsError) -> Self {
        Self::Io { path, action, source }
    }
}
