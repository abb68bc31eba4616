//! Disk space that is taken ahead of its use, so that a full disk is found out before anything is half written.
//!
//! Blocks are allocated behind the end of a file (`fallocate` with `KEEP_SIZE`). The file's length stays as it is, and
//! what makes the file longer later takes these blocks, whatever other processes have written meanwhile. They are given
//! back when the file is cut.
//!
//! # Limits
//! A file system that cannot allocate (some network file systems) is asked for its free space instead, and one that
//! copies on each write (btrfs, zfs) may need room where blocks are allocated already. On these a full disk may still
//! be noticed by a write only.
//!
//! # Cost
//! Some microseconds for blocks that are there already.

use std::{
    fs::{self, File},
    io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use rustix::{
    fs::{FallocateFlags, fallocate, fstatvfs},
    io::Errno,
};

use crate::{StoreError, error::io_fault};

/// A file that only takes room, and is given up for what sled writes while it opens.
const SPARE: &str = "spare";
/// What a file system gives at once.
const BLOCK: u64 = 4096;

/// A file and the blocks behind its end.
#[derive(Debug)]
pub(crate) struct Reserve {
    file: File,
    path: PathBuf,
}

impl Reserve {
    /// Of the file `path`, which is there.
    pub(crate) fn of(path: &Path) -> Result<Self, StoreError> {
        let file = fs::OpenOptions::new().write(true).open(path).map_err(io_fault(path, "open"))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Sees to it that `bytes` behind the end are the file's.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the disk has no room for them.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), StoreError> {
        take(&self.file, &self.path, bytes)
    }

    /// Bytes behind the end that are the file's, about; or that the file system has, if it cannot allocate.
    pub(crate) fn taken(&self) -> Result<u64, StoreError> {
        taken(&self.file).map_err(io_fault(&self.path, "look at"))
    }
}

/// As [`Reserve::take`], of an open file.
pub(crate) fn take(file: &File, path: &Path, bytes: u64) -> Result<(), StoreError> {
    let len = file.metadata().map_err(io_fault(path, "look at"))?.len();
    let full = || -> Result<(), StoreError> {
        let taken = taken(file).map_err(io_fault(path, "look at"))?;
        Err(StoreError::Full { path: path.to_owned(), missing: missing(file, bytes.saturating_sub(taken)) })
    };
    match fallocate(file, FallocateFlags::KEEP_SIZE, len, bytes.max(1)) {
        Ok(()) => Ok(()),
        Err(Errno::NOSPC | Errno::DQUOT) => full(),
        // Whatever keeps it from allocating is no fault of the disk.
        Err(_) if available(file) >= bytes => Ok(()),
        Err(_) => full(),
    }
}

fn taken(file: &File) -> io::Result<u64> {
    let found = file.metadata()?;
    // In units of 512 bytes, whatever the file system's are.
    Ok((found.blocks() * 512).saturating_sub(found.len()))
}

/// What the file system of a file has free, bytes; all there can be when it does not say.
fn available(file: &File) -> u64 {
    fstatvfs(file).map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// How much of `bytes` there is no room for. At least a block: a quota may be the bound, and is not told.
pub(crate) fn missing(file: &File, bytes: u64) -> u64 {
    bytes.saturating_sub(available(file)).max(BLOCK)
}

/// Whether an error of the file system says that there is no room.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Keeps so many bytes of the store in `dir` for its next opening. Without them it opens as long as the disk has room.
pub(crate) fn keep_spare(dir: &Path, bytes: u64) -> Result<(), StoreError> {
    let path = dir.join(SPARE);
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    take(&file.map_err(io_fault(&path, "open"))?, &path, bytes)
}

/// Gives up what [`keep_spare`] kept.
pub(crate) fn use_spare(dir: &Path) -> Result<(), StoreError> {
    Ok(mortise_durable_fs::remove(&dir.join(SPARE))?)
}
