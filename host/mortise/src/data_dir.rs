//! The data directory: its user's alone, also if an earlier release made it for everyone to read.

use std::path::Path;

use mortise_durable_fs::{FsError, tighten};

use crate::bootstrap;

/// Names that Mortise gives to entries of a data directory. Others, such as a user's own files, keep their modes.
const ENTRIES: [&str; 12] = [
    "store",
    "store.migrated",
    "copy",
    "plugins",
    "plugin-files",
    "cache",
    "audit",
    "restored",
    "restore.new",
    "restore.ready",
    "replaced",
    bootstrap::FILE,
];

/// Takes the permissions of group and others from a data directory and from everything that Mortise made in it. Returns
/// the number of changes.
///
/// # Errors
/// The first fault of the file system; the rest was tried nevertheless.
pub(crate) fn make_private(data_dir: &Path) -> Result<usize, FsError> {
    tighten(data_dir, &ENTRIES)
}

/// [`make_private`], with its outcome in the log: a server that cannot change a mode serves nevertheless.
pub(crate) fn make_private_and_log(data_dir: &Path) {
    match make_private(data_dir) {
        Ok(0) => {}
        Ok(changed) => tracing::warn!(
            data_dir = %data_dir.display(),
            "other users could read the data directory: took the permissions of group and others from {changed} files \
             and directories; to let other users use the unix socket, put it elsewhere (socket)"
        ),
        Err(fault) => tracing::warn!("other users may read the data directory: {fault}; change its owner or its mode"),
    }
}
