//! The check of a store that no server has open.
//!
//! Sled has no way to open a file without writing to it, so the files are copied first, into the store's directory, and
//! the copy is opened: what is checked stays as it was found, to the byte.

use std::{fs, path::Path};

use super::{
    files::{
        closed_at, format,
        layout::{self, DB, STORE},
        recovery, wal,
    },
    tree::{check, record::Meta, sled_file, table::Table},
};
use crate::{
    StoreError,
    check::{Problem, Report},
    error::io_fault,
};

/// What sled may keep in memory.
const CACHE_BYTES: u64 = 64 << 20;

/// Checks the store in `path`.
pub(crate) fn check(path: &Path) -> Result<Report, StoreError> {
    let dir = path.join(STORE);
    if !dir.exists() {
        return Err(StoreError::Absent { path: path.to_owned() });
    }
    let lock = layout::lock(path)?;
    let format = format::judge(path, &dir)?;
    layout::remove_copies(path)?;
    let copy = tempfile::Builder::new().prefix(layout::COPY).tempdir_in(path);
    let copy = copy.map_err(io_fault(path, "make a directory for a copy in"))?;
    let to = copy.path();
    copy_dir(&dir, to)?;
    sled_file::remove_unfinished_snapshots(to)?;
    let table = Table::new(sled_file::open_sled(to, &dir.join(DB), CACHE_BYTES)?, dir.join(DB));
    // Errors name the log as it is, not the copy.
    recovery::settle(&dir, &table, &sled_file::data_file(&to.join(DB))?, || Ok(()), false)?;
    let meta = recovery::meta(&table)?;
    let mut problems = check::walk(&table, &dir.join("blobs"), meta)?;
    let lost = closed_at::judge(&dir, meta.last_seq)?;
    problems.extend(lost.map(|fault| Problem { thing: dir.join(DB).display().to_string(), fault }));
    let Meta { last_seq: sequence, first_event, .. } = meta;
    drop(lock);
    Ok(Report { format, sequence, first_event, bytes: layout::size(&dir)?, problems })
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
            fs::copy(&path, &target).map_err(io_fault(&path, "copy"))?;
        }
    }
    Ok(())
}
