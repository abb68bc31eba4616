//! Names in the directory of a store, and the lock against other processes.

use std::{
    fs::{self, File, TryLockError},
    io,
    path::{Path, PathBuf},
};

use crate::{StoreError, error::io_fault};

/// Directory of the store in its path.
pub(crate) const STORE: &str = "store";
/// Directory of an unfinished store.
pub(crate) const UNFINISHED: &str = "store.new";
/// Directory of the store that a compaction replaces by two renames.
pub(crate) const FORMER: &str = "store.former";
/// Prefix of the directory with a check's copy.
pub(crate) const COPY: &str = "check-";
/// Lock file.
pub(crate) const LOCK: &str = "lock";
/// Sled's data file.
pub(crate) const DB: &str = "db";
/// A lock on a store's directory, without the store being open. Released on drop.
#[derive(Debug)]
pub struct Lock(#[expect(dead_code, reason = "held, never read")] File);

impl Lock {
    /// Locks the directory, and makes it if missing.
    ///
    /// # Errors
    /// [`StoreError::Locked`] when a store is open there; faults of the file system.
    pub fn take(path: &Path) -> Result<Self, StoreError> {
        mortise_durable_fs::make_dir(path)?;
        lock(path).map(Self)
    }
}

pub(crate) fn lock(path: &Path) -> Result<File, StoreError> {
    let file = path.join(LOCK);
    let lock =
        fs::OpenOptions::new().create(true).truncate(false).write(true).open(&file).map_err(io_fault(&file, "open"))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StoreError::Io { path: file, action: "lock", source }),
    }
}

/// Locks as [`lock`], on a medium that may be read-only: `None` without a lock file or support for locks.
pub(crate) fn lock_read_only(path: &Path) -> Result<Option<File>, StoreError> {
    let file = path.join(LOCK);
    let lock = match File::open(&file) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io_fault(&file, "open")(source)),
    };
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Err(StoreError::Locked { path: path.to_owned() }),
        // Some media do not support locks.
        Err(TryLockError::Error(_)) => Ok(None),
    }
}

/// Returns the directory of the store in `path`: under its own name or, after a compaction that was killed between two
/// renames, under that of the former store.
pub(crate) fn store_dir(path: &Path) -> Option<PathBuf> {
    [STORE, FORMER].map(|name| path.join(name)).into_iter().find(|dir| dir.exists())
}

/// Ends a compaction that was killed before it removed the former store: the store has its own name again, durably, and
/// the other directory is gone. The caller holds the lock.
pub(crate) fn settle_former(path: &Path) -> Result<(), StoreError> {
    let (dir, former) = (path.join(STORE), path.join(FORMER));
    if dir.exists() || !former.exists() {
        return Ok(mortise_durable_fs::remove(&former)?);
    }
    fs::rename(&former, &dir).map_err(io_fault(&former, "rename to store"))?;
    Ok(mortise_durable_fs::sync(path)?)
}

/// Removes copies that interrupted checks left. The caller holds the lock, so no check is running.
pub(crate) fn remove_copies(path: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(path).map_err(io_fault(path, "read"))? {
        let path = entry.map_err(io_fault(path, "read"))?.path();
        let is_copy = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(COPY.as_bytes()));
        if is_copy && path.is_dir() {
            mortise_durable_fs::remove(&path)?;
        }
    }
    Ok(())
}

/// Returns the bytes of the files in a directory.
pub(crate) fn size(dir: &Path) -> Result<u64, StoreError> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(io_fault(dir, "read"))? {
        let path = entry.map_err(io_fault(dir, "read"))?.path();
        bytes += match path.is_dir() {
            true => size(&path)?,
            false => fs::metadata(&path).map_err(io_fault(&path, "read metadata"))?.len(),
        };
    }
    Ok(bytes)
}
