//! The commit of the last close, in the file `closed-at` beside sled's own: `mortise-commit 42` and a line feed. While
//! the store is in use the file has the name `opened-at`.
//!
//! Sled takes a damaged end of its file for a write that a crash cut off, and goes on without it, even if the commits
//! there were acknowledged and the disk lost them later. So a store that ends before the commit of its last close does
//! not open: it lost data, and a person decides what follows.
//!
//! The number only grows, so it is a valid lower bound after a crash, too. An opening renames the file before any
//! commit, so a store whose log is missing or empty is recognizable as not closed.
//!
//! The cost: one small file and its sync for each close after a commit; a rename and a sync of the directory, which
//! need no space, for each opening and any other close.

use std::{fs, io, path::Path};

use mortise_durable_fs::{remove, sync};

use crate::{StoreError, engine::files::number_file, error::io_fault};

/// Name of the file of a closed store.
const FILE: &str = "closed-at";
/// Name of the file while the store is in use.
const IN_USE: &str = "opened-at";
/// Word before the number.
const WORD: &str = "mortise-commit";

/// Notes in the store's directory that the store is closed, with this last commit.
pub(crate) fn set(dir: &Path, last_seq: u64) -> Result<(), StoreError> {
    if is(dir, last_seq) {
        return Ok(());
    }
    if read(dir, IN_USE)? == Some(last_seq) {
        return rename(dir, IN_USE, FILE);
    }
    number_file::replace(dir, FILE, WORD, last_seq)?;
    // The old file has a lower commit. If it stays, the next opening replaces it.
    Ok(remove(&dir.join(IN_USE))?)
}

/// Notes, durably, that the store is in use.
pub(crate) fn set_in_use(dir: &Path) -> Result<(), StoreError> {
    rename(dir, FILE, IN_USE)
}

/// Renames a file if it exists.
fn rename(dir: &Path, from: &str, to: &str) -> Result<(), StoreError> {
    let from = dir.join(from);
    match fs::rename(&from, dir.join(to)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        renamed => renamed.map_err(io_fault(&from, "rename")).and_then(|()| Ok(sync(dir)?)),
    }
}

fn read(dir: &Path, name: &str) -> Result<Option<u64>, StoreError> {
    number_file::read(&dir.join(name), WORD)
}

/// Returns the commit of the last close.
pub(crate) fn get(dir: &Path) -> Result<Option<u64>, StoreError> {
    Ok(read(dir, FILE)?.max(read(dir, IN_USE)?))
}

/// Whether the store was closed, at any commit, and not opened since. False on an unreadable file.
pub(crate) fn is_there(dir: &Path) -> bool {
    read(dir, FILE).is_ok_and(|closed_at| closed_at.is_some())
}

/// Whether the store was closed with this last commit: then its log is empty.
pub(crate) fn is(dir: &Path, last_seq: u64) -> bool {
    read(dir, FILE).is_ok_and(|closed_at| closed_at == Some(last_seq))
}

/// Returns the fault of a store with this last commit, if any.
pub(crate) fn check(dir: &Path, last_seq: u64) -> Result<Option<String>, StoreError> {
    for name in [FILE, IN_USE] {
        let closed_at = read(dir, name).map_err(|error| match error {
            StoreError::Corrupt { path, what } => {
                let what = format!(
                    "{what} (if only this file is damaged: without it the store opens, but cannot notice a lost end)"
                );
                StoreError::Corrupt { path, what }
            }
            other => other,
        })?;
        if let Some(closed_at) = closed_at.filter(|closed_at| last_seq < *closed_at) {
            return Ok(Some(format!(
                "its last commit is {last_seq}, but it was closed with commit {closed_at}: its end is damaged (to go on \
                 without what is lost, remove {})",
                dir.join(name).display()
            )));
        }
    }
    Ok(None)
}
