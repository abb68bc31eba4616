//! Work on a store that no server has open: its check, and the copy that `salvage` reads.
//!
//! Sled cannot open a file without writing to it, so this module copies the files first, into the store's directory or
//! a given one, and opens the copy. If the disk of the store is full, the copy is made in the directory for temporary
//! files. The store stays unchanged to the byte, and may be on a read-only medium.
//!
//! Sled panics on some damaged files. Such a panic becomes an error that names the file.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{
    files::{
        closed_at, format,
        layout::{self, DB},
        recovery, reserve, store_id, wal,
    },
    tree::{
        check, checkpoint_position::CheckpointPosition, panics::catch_sled_panic, record::Meta, sled_file, table::Table,
    },
};
use crate::{
    StoreError,
    check::{Problem, Report},
    error::io_fault,
};

/// Memory for sled's cache, bytes.
const CACHE_BYTES: u64 = 64 << 20;

/// A store, and the copy that is opened instead of it.
pub(super) struct StoreCopy {
    pub(super) dir: PathBuf,
    pub(super) copy: TempDir,
    /// Directory of the copy, if the disk of the store had no space for it.
    copied_to: Option<PathBuf>,
    format: u32,
    /// Lock against servers; `None` on a medium without a lock file or locks.
    _lock: Option<File>,
}

impl StoreCopy {
    pub(super) fn make(path: &Path, work_dir: Option<&Path>) -> Result<Self, StoreError> {
        let Some(dir) = layout::store_dir(path) else {
            return Err(StoreError::Absent { path: path.to_owned() });
        };
        let lock = match work_dir {
            Some(work_dir) => {
                mortise_durable_fs::make_dir(work_dir)?;
                layout::lock_read_only(path)?
            }
            None => Some(layout::lock(path)?),
        };
        let format = format::check(path, &dir)?;
        if work_dir.is_none() {
            layout::remove_copies(path)?;
        }
        let (copy, copied_to) = match copied(&dir, work_dir.unwrap_or(path)) {
            Err(StoreError::Io { source, .. }) if work_dir.is_none() && reserve::is_full(&source) => {
                let elsewhere = std::env::temp_dir();
                (copied(&dir, &elsewhere)?, Some(elsewhere))
            }
            copied => (copied?, None),
        };
        sled_file::remove_unfinished_snapshots(copy.path())?;
        Ok(Self { dir, copy, copied_to, format, _lock: lock })
    }

    /// Opens the copy's tree. Errors name the original file.
    pub(super) fn open(&self) -> Result<Table, StoreError> {
        let file = self.dir.join(DB);
        Ok(Table::new(sled_file::open_sled(self.copy.path(), &file, CACHE_BYTES)?, file))
    }

    /// Opens the tree without sled's snapshot of page positions. With the snapshot, sled does not open if a page is
    /// wrong that it needs for that; without it, sled looks for pages itself, and replaces damaged pages by older ones
    /// or none.
    pub(super) fn open_without_snapshot(&self) -> Result<Table, StoreError> {
        sled_file::remove_snapshots(self.copy.path(), |_| true)?;
        self.open()
    }

    /// Copies the log to the tree.
    pub(super) fn replay_log(&self, table: &Table) -> Result<(), StoreError> {
        let data = sled_file::data_file(&self.copy.path().join(DB))?;
        recovery::replay_log(&self.dir, table, &data, || Ok(()), false).map(drop)
    }

    /// Puts the readable part of a damaged log in front of the tree.
    pub(super) fn replay_readable_log(&self, table: &Table) -> Result<(), StoreError> {
        if let Some((checkpoint, end)) = CheckpointPosition::read(table)? {
            table.recent().add_below_active(wal::readable(&self.dir, checkpoint, end));
        }
        Ok(())
    }
}

/// Checks the store in `path`.
pub(crate) fn check(path: &Path, work_dir: Option<&Path>) -> Result<Report, StoreError> {
    let copied = StoreCopy::make(path, work_dir)?;
    let StoreCopy { dir, format, copied_to, .. } = &copied;
    let file = dir.join(DB);
    let (meta, id, mut problems) = catch_sled_panic(&file, || {
        let table = copied.open()?;
        let id = store_id::check(&table, dir)?;
        copied.replay_log(&table)?;
        let meta = recovery::meta(&table)?;
        Ok((meta, id, check::walk(&table, &dir.join("blobs"), meta)?))
    })?;
    let lost = closed_at::check(dir, meta.last_seq)?;
    problems.extend(lost.map(|fault| Problem { thing: file.display().to_string(), fault }));
    let Meta { last_seq: sequence, first_event, .. } = meta;
    Ok(Report {
        format: *format,
        sequence,
        first_event,
        events: meta.event_count(),
        bytes: layout::size(dir)?,
        id,
        copied_to: copied_to.clone(),
        problems,
    })
}

/// Copies the store in `dir`, without its log, to a new directory in `within`.
fn copied(dir: &Path, within: &Path) -> Result<TempDir, StoreError> {
    let copy = tempfile::Builder::new().prefix(layout::COPY).tempdir_in(within);
    let copy = copy.map_err(io_fault(within, "make a directory for a copy in"))?;
    copy_dir(dir, copy.path())?;
    Ok(copy)
}

fn copy_dir(from: &Path, to: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(from).map_err(io_fault(from, "read"))? {
        let path = entry.map_err(io_fault(from, "read"))?.path();
        let Some(name) = path.file_name() else { continue };
        // The log is read in place.
        if wal::FILES.iter().any(|log| name == *log) {
            continue;
        }
        let target = to.join(name);
        if path.is_dir() {
            fs::create_dir(&target).map_err(io_fault(&target, "make"))?;
            copy_dir(&path, &target)?;
        } else {
            let mut source = File::open(&path).map_err(io_fault(&path, "copy"))?;
            // Without its mode: the original may be read-only.
            let mut copy = File::create(&target).map_err(io_fault(&target, "write"))?;
            std::io::copy(&mut source, &mut copy).map_err(io_fault(&path, "copy"))?;
        }
    }
    Ok(())
}
