//! Disk space that is allocated ahead of its use, so that a full disk is noticed before anything is half written.
//!
//! Blocks are allocated behind the end of a file (`fallocate` with `KEEP_SIZE`). The file's length stays the same, and
//! later growth uses these blocks, even if other processes fill the disk meanwhile. Truncating the file frees them.
//!
//! # Limits
//! On a file system that cannot allocate (some network file systems) only the free space is checked, and one that
//! copies on each write (btrfs, zfs) may need space even for allocated blocks. On these a full disk may only show in a
//! failed write.
//!
//! # Cost
//! Some microseconds for blocks that are allocated already.

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

/// File that only reserves space, and is removed when sled needs the space to open.
const SPARE: &str = "spare";
/// Smallest unit of allocation, bytes.
const BLOCK_BYTES: u64 = 4096;

/// A file and the allocated blocks behind its end.
#[derive(Debug)]
pub(crate) struct Reserve {
    file: File,
    path: PathBuf,
}

impl Reserve {
    /// Opens the existing file `path`.
    pub(crate) fn of(path: &Path) -> Result<Self, StoreError> {
        let file = fs::OpenOptions::new().write(true).open(path).map_err(io_fault(path, "open"))?;
        Ok(Self { file, path: path.to_owned() })
    }

    /// Ensures that `bytes` behind the end are allocated.
    ///
    /// # Errors
    /// [`StoreError::Full`] when the disk has no room for them.
    pub(crate) fn take(&self, bytes: u64) -> Result<(), StoreError> {
        take(&self.file, &self.path, bytes)
    }

    /// Returns the allocated bytes behind the end, about; or the free bytes of a file system that cannot allocate.
    pub(crate) fn taken(&self) -> Result<u64, StoreError> {
        taken(&self.file).map_err(io_fault(&self.path, "read metadata"))
    }
}

/// [`Reserve::take`] for an open file.
pub(crate) fn take(file: &File, path: &Path, bytes: u64) -> Result<(), StoreError> {
    let len = file.metadata().map_err(io_fault(path, "read metadata"))?.len();
    let full = || -> Result<(), StoreError> {
        let taken = taken(file).map_err(io_fault(path, "read metadata"))?;
        Err(StoreError::Full { path: path.to_owned(), missing: missing(file, bytes.saturating_sub(taken)) })
    };
    match fallocate(file, FallocateFlags::KEEP_SIZE, len, bytes.max(1)) {
        Ok(()) => Ok(()),
        Err(Errno::NOSPC | Errno::DQUOT) => full(),
        // Another error means that the file system cannot allocate; then enough free space is fine.
        Err(_) if available(file) >= bytes => Ok(()),
        Err(_) => full(),
    }
}

fn taken(file: &File) -> io::Result<u64> {
    let found = file.metadata()?;
    // `blocks` counts units of 512 bytes on every file system.
    Ok((found.blocks() * 512).saturating_sub(found.len()))
}

/// Returns the free bytes of a file's file system; the maximum when unknown.
fn available(file: &File) -> u64 {
    fstatvfs(file).map_or(u64::MAX, |found| found.f_bavail.saturating_mul(found.f_frsize))
}

/// Returns how many of `bytes` have no space. At least a block: the reason may be a quota, which the free space does
/// not show.
pub(crate) fn missing(file: &File, bytes: u64) -> u64 {
    bytes.saturating_sub(available(file)).max(BLOCK_BYTES)
}

/// Whether an error of the file system means a full disk.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Reserves bytes in the store's directory for its next opening. Without them it opens only if the disk has space.
pub(crate) fn keep_spare(dir: &Path, bytes: u64) -> Result<(), StoreError> {
    let path = dir.join(SPARE);
    let file = fs::OpenOptions::new().write(true).create(true).truncate(false).open(&path);
    take(&file.map_err(io_fault(&path, "open"))?, &path, bytes)
}

/// Frees the space of [`keep_spare`].
pub(crate) fn use_spare(dir: &Path) -> Result<(), StoreError> {
    Ok(mortise_durable_fs::remove(&dir.join(SPARE))?)
}
