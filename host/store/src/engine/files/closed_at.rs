//! The commit with which a store was closed, in the file `closed-at` beside sled's own: `mortise-commit 42` and a line
//! feed. While the store is in use the file is called `opened-at`.
//!
//! Sled takes a damaged end of its file for a write that a crash cut off, and goes on without it. Whoever was told that
//! those commits are durable was told the truth, until the disk forgot them. A store that ends before the commit with
//! which it was once closed is therefore not opened: it lost something, and a person decides what follows.
//!
//! The number only grows, so it holds after a crash, too: it then says less than it could, and never anything wrong.
//! An opening changes the name before anything can be committed, so a store whose log is gone or empty is known as one
//! that was not closed.
//!
//! It costs one small file and its sync for each close that follows a commit, and for each opening and any other close a
//! rename and the sync of the directory, which need no room.

use std::{fs, io, path::Path};

use mortise_durable_fs::{remove, sync};

use crate::{StoreError, engine::files::number_file, error::io_fault};

/// Name of the file.
const FILE: &str = "closed-at";
/// Its name while the store is in use.
const IN_USE: &str = "opened-at";
/// The word before the number.
const WORD: &str = "mortise-commit";

/// Notes in the store's directory that it is closed with this commit as its last.
pub(crate) fn set(dir: &Path, last_seq: u64) -> Result<(), StoreError> {
    if is(dir, last_seq) {
        return Ok(());
    }
    if read(dir, IN_USE)? == Some(last_seq) {
        return rename(dir, IN_USE, FILE);
    }
    number_file::replace(dir, FILE, WORD, last_seq)?;
    // It says less. The next opening writes over one that is left.
    Ok(remove(&dir.join(IN_USE))?)
}

/// Notes, durably, that the store is in use.
pub(crate) fn set_in_use(dir: &Path) -> Result<(), StoreError> {
    rename(dir, FILE, IN_USE)
}

/// Renames a file if it is there.
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

/// The commit with which the store was closed last.
pub(crate) fn get(dir: &Path) -> Result<Option<u64>, StoreError> {
    Ok(read(dir, FILE)?.max(read(dir, IN_USE)?))
}

/// Whether the store was closed, with whatever commit, and nobody opened it since. Not if nobody can tell.
pub(crate) fn is_there(dir: &Path) -> bool {
    read(dir, FILE).is_ok_and(|closed_at| closed_at.is_some())
}

/// Whether it was closed with this commit as its last: then nothing is in its log.
pub(crate) fn is(dir: &Path, last_seq: u64) -> bool {
    read(dir, FILE).is_ok_and(|closed_at| closed_at == Some(last_seq))
}

/// What is wrong with a store whose last commit is this one, if anything is.
pub(crate) fn judge(dir: &Path, last_seq: u64) -> Result<Option<String>, StoreError> {
    for name in [FILE, IN_USE] {
        let closed_at = read(dir, name).map_err(|error| match error {
            StoreError::Corrupt { path, what } => {
                let what = format!(
                    "{what} (only this file may be: without it the store opens, and a lost end is not noticed)"
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
