//! The commit with which a store was closed, in the file `closed-at` beside sled's own: `mortise-commit 42` and a line
//! feed.
//!
//! Sled takes a damaged end of its file for a write that a crash cut off, and goes on without it. Whoever was told that
//! those commits are durable was told the truth, until the disk forgot them. A store that ends before the commit with
//! which it was once closed is therefore not opened: it lost something, and a person decides what follows.
//!
//! The number only grows, so it holds after a crash, too: it then says less than it could, and never anything wrong. It
//! costs one small file and its sync for each close that follows a commit.

use std::path::Path;

use crate::StoreError;
use crate::engine::files::number_file;

/// Name of the file.
const FILE: &str = "closed-at";
/// The word before the number.
const WORD: &str = "mortise-commit";

/// Notes in the store's directory that it is closed with this commit as its last.
pub(crate) fn set(dir: &Path, last_seq: u64) -> Result<(), StoreError> {
    if get(dir)? == Some(last_seq) {
        return Ok(());
    }
    number_file::replace(dir, FILE, WORD, last_seq)
}

/// The commit with which the store was closed last.
pub(crate) fn get(dir: &Path) -> Result<Option<u64>, StoreError> {
    number_file::read(&dir.join(FILE), WORD)
}

/// Whether the store was closed with this commit as its last: then nothing is in its log. Not if nobody can tell.
pub(crate) fn is(dir: &Path, last_seq: u64) -> bool {
    get(dir).is_ok_and(|closed_at| closed_at == Some(last_seq))
}

/// What is wrong with a store whose last commit is this one, if anything is.
pub(crate) fn judge(dir: &Path, last_seq: u64) -> Result<Option<String>, StoreError> {
    let closed_at = get(dir).map_err(|error| match error {
        StoreError::Corrupt { path, what } => {
            let what =
                format!("{what} (only this file may be: without it the store opens, and a lost end is not noticed)");
            StoreError::Corrupt { path, what }
        }
        other => other,
    })?;
    let closed_at = closed_at.unwrap_or(0);
    Ok((last_seq < closed_at).then(|| {
        format!(
            "its last commit is {last_seq}, but it was closed with commit {closed_at}: its end is damaged (to go on without \
             what is lost, remove {})",
            dir.join(FILE).display()
        )
    }))
}
