//! The check of a store that no server has open.
//!
//! Sled has no way to open a file without writing to it, so the files are copied first, into the store's directory, and the
//! copy is opened: what is checked stays as it was found, to the byte.

use std::{fs, path::Path};

use super::{
    files::{closed_at, format, wal},
    open::{self, DB, STORE},
    tree::{check, record::Meta, table::Table},
};
use crate::{
    StoreError,
    check::{Problem, Report},
};

/// What sled may keep in memory.
const CACHE_BYTES: u64 = 64 << 20;

/// Checks the store in `path`.
pub(crate) fn check(path: &Path) -> Result<Report, StoreError> {
    let dir = path.join(STORE);
    if !dir.exists() {
        return Err(StoreError::Absent { path: path.to_owned() });
    }
    let lock = open::lock(path)?;
    let format = format::judge(path, &dir)?;
    open::remove_copies(path)?;
    let copy = tempfile::Builder::new().prefix(open::COPY).tempdir_in(path);
    let copy = copy.map_err(open::io_fault(path, "make a directory for a copy in"))?;
    let to = copy.path();
    copy_dir(&dir, to)?;
    open::remove_unfinished_snapshots(to)?;
    let table = Table::new(open::open_sled(to, &dir.join(DB), CACHE_BYTES)?, dir.join(DB));
    // Errors name the log as it is, not the copy.
    open::settle(&dir, &table, &open::data_file(&to.join(DB))?, false)?;
    let meta = open::meta(&table)?;
    let mut problems = check::walk(&table, &dir.join("blobs"), meta)?;
    let lost = closed_at::judge(&dir, meta.last_seq)?;
    problems.extend(lost.map(|fault| Problem { thing: dir.join(DB).display().to_string(), fault }));
    let Meta { last_seq: sequence, first_event, .. } = meta;
    drop(lock);
    Ok(Report { format, sequence, first_event, bytes: open::size(&dir)?, problems })
}

fn copy_dir(from: &Path, to: &Path) -> Result<(), StoreError> {
    for entry in fs::read_dir(from).map_err(open::io_fault(from, "read"))? {
        let path = entry.map_err(open::io_fault(from, "read"))?.path();
        let Some(name) = path.file_name() else { continue };
        // The log is read where it is.
        if wal::FILES.iter().any(|log| name == *log) {
            continue;
        }
        let target = to.join(name);
        if path.is_dir() {
            fs::create_dir(&target).map_err(open::io_fault(&target, "make"))?;
            copy_dir(&path, &target)?;
        } else {
            fs::copy(&path, &target).map_err(open::io_fault(&path, "copy"))?;
        }
    }
    Ok(())
}
