//! What is done with a store that no server has open: its check, and the copy that `salvage` reads.
//!
//! Sled has no way to open a file without writing to it, so the files are copied first, into the store's directory or
//! one that is named, and the copy is opened: the store stays as it was found, to the byte, and may be on a medium that
//! cannot be written.
//!
//! Sled panics on some damaged files. That ends in an error that names the file, whatever is looked at.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use super::{
    files::{
        closed_at, format,
        layout::{self, DB, STORE},
        recovery, wal,
    },
    tree::{
        check, checkpoint_position::CheckpointPosition, panics::contained_read, record::Meta, sled_file, table::Table,
    },
};
use crate::{
    StoreError,
    check::{Problem, Report},
    error::io_fault,
};

/// What sled may keep in memory.
const CACHE_BYTES: u64 = 64 << 20;

/// A store that is looked at, and the copy that is opened instead of it.
pub(super) struct Copied {
    pub(super) dir: PathBuf,
    pub(super) copy: TempDir,
    format: u32,
    /// Keeps servers out; `None` where nobody could make one.
    _lock: Option<File>,
}

impl Copied {
    pub(super) fn make(path: &Path, work_dir: Option<&Path>) -> Result<Self, StoreError> {
        let dir = path.join(STORE);
        if !dir.exists() {
            return Err(StoreError::Absent { path: path.to_owned() });
        }
        let lock = match work_dir {
            Some(work_dir) => {
                mortise_durable_fs::make_dir(work_dir)?;
                layout::lock_read_only(path)?
            }
            None => Some(layout::lock(path)?),
        };
        let format = format::judge(path, &dir)?;
        if work_dir.is_none() {
            layout::remove_copies(path)?;
        }
        let within = work_dir.unwrap_or(path);
        let copy = tempfile::Builder::new().prefix(layout::COPY).tempdir_in(within);
        let copy = copy.map_err(io_fault(within, "make a directory for a copy in"))?;
        copy_dir(&dir, copy.path())?;
        sled_file::remove_unfinished_snapshots(copy.path())?;
        Ok(Self { dir, copy, format, _lock: lock })
    }

    /// The tree. Errors name the file as it is, not the copy.
    pub(super) fn open(&self) -> Result<Table, StoreError> {
        let file = self.dir.join(DB);
        Ok(Table::new(sled_file::open_sled(self.copy.path(), &file, CACHE_BYTES)?, file))
    }

    /// The tree, without sled's snapshot of where its pages are. With it, sled does not open if it has a page wrong that
    /// it needs for that; without it, sled looks for pages itself, and where one is damaged takes an older one or none.
    pub(super) fn open_without_snapshot(&self) -> Result<Table, StoreError> {
        sled_file::remove_snapshots(self.copy.path(), |_| true)?;
        self.open()
    }

    /// Copies to the tree what the log has.
    pub(super) fn settle(&self, table: &Table) -> Result<(), StoreError> {
        let data = sled_file::data_file(&self.copy.path().join(DB))?;
        recovery::settle(&self.dir, table, &data, || Ok(()), false).map(drop)
    }

    /// Puts in front of the tree what can be read of a log that is damaged.
    pub(super) fn settle_readable(&self, table: &Table) -> Result<(), StoreError> {
        if let Some((checkpoint, end)) = CheckpointPosition::read(table)? {
            table.recent().put_in_front(wal::readable(&self.dir, checkpoint, end));
        }
        Ok(())
    }
}

/// Checks the store in `path`.
pub(crate) fn check(path: &Path, work_dir: Option<&Path>) -> Result<Report, StoreError> {
    let copied = Copied::make(path, work_dir)?;
    let Copied { dir, format, .. } = &copied;
    let file = dir.join(DB);
    let (meta, mut problems) = contained_read(&file, || {
        let table = copied.open()?;
        copied.settle(&table)?;
        let meta = recovery::meta(&table)?;
        Ok((meta, check::walk(&table, &dir.join("blobs"), meta)?))
    })?;
    let lost = closed_at::judge(dir, meta.last_seq)?;
    problems.extend(lost.map(|fault| Problem { thing: file.display().to_string(), fault }));
    let Meta { last_seq: sequence, first_event, .. } = meta;
    Ok(Report {
        format: *format,
        sequence,
        first_event,
        events: meta.event_count(),
        bytes: layout::size(dir)?,
        problems,
    })
}

fn copy_dir(from: &Path, to: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(from).map_err(io_fault(from, "read"))? {
        let path = entry.map_err(io_fault(from, "read"))?.path();
        let Some(name) = path.file_name() else { continue };
        // The log is read where it is.
        if wal::FILES.iter().any(|log| name == *log) {
            continue;
        }
        let target = to.join(name);
        if path.is_dir() {
            fs::create_dir(&target).map_err(io_fault(&target, "make"))?;
            copy_dir(&path, &target)?;
        } else {
            let mut source = File::open(&path).map_err(io_fault(&path, "copy"))?;
            // Not its mode: the original may be read-only.
            let mut copy = File::create(&target).map_err(io_fault(&target, "write"))?;
            std::io::copy(&mut source, &mut copy).map_err(io_fault(&path, "copy"))?;
        }
    }
    Ok(())
}
