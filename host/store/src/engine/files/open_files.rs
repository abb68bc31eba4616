//! Comparison of names with open files: whether the files that a store holds open still have their names.
//!
//! After `rm -rf` or `mv` of a data directory, writes and syncs of the open files succeed, and all of it is gone with
//! the process; without the lock file a second process could open the directory. So the names are compared after each
//! sync of the log, before the answer, and each second while the store is idle.
//!
//! The cost: four look-ups in the kernel's memory, some three microseconds together. The times of the files stay out of
//! it ([`identity`]): a look at those of the log would make each commit change its inode.

use std::{io, path::PathBuf};

use mortise_durable_fs::identity;

use crate::{StoreError, error::io_fault};

/// Names of open files, each with the device and the inode behind it.
#[derive(Debug)]
pub(crate) struct OpenFiles(Vec<(PathBuf, (u64, u64))>);

impl OpenFiles {
    /// Notes the files that have these names now.
    pub(crate) fn of(paths: impl IntoIterator<Item = PathBuf>) -> Result<Self, StoreError> {
        let files = paths.into_iter().map(|path| match identity(&path) {
            Ok(identity) => Ok((path, identity)),
            Err(error) => Err(io_fault(&path, "read metadata")(error)),
        });
        files.collect::<Result<_, _>>().map(Self)
    }

    /// Compares the names with the files. Only a definite answer counts: another file under the name, or none.
    ///
    /// # Errors
    /// [`StoreError::Gone`], with the first such name.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let is_gone = |(path, known): &&(PathBuf, (u64, u64))| match identity(path) {
            Ok(found) => found != *known,
            Err(error) => {
                use io::ErrorKind::{NotADirectory, NotFound, StaleNetworkFileHandle};
                matches!(error.kind(), NotFound | NotADirectory | StaleNetworkFileHandle)
            }
        };
        match self.0.iter().find(is_gone) {
            None => Ok(()),
            Some((path, _)) => Err(StoreError::Gone { path: path.clone() }),
        }
    }
}
