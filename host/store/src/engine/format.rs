//! The format number of a store, in the file `format` beside sled's own: `mortise-store 1` and a line feed.
//!
//! It stands outside the database so that a release can judge it without understanding the rest.

use std::{fs, io, path::Path};

use crate::StoreError;

/// Name of the file.
pub(crate) const FILE: &str = "format";
/// The format that this release writes, and the newest that it reads.
pub const CURRENT: u32 = 1;

/// The content of the file.
pub(crate) fn text() -> String {
    format!("mortise-store {CURRENT}\n")
}

/// Judges the format of the store in `dir`. `path` is what the user calls it.
pub(crate) fn judge(path: &Path, dir: &Path) -> Result<u32, StoreError> {
    let file = dir.join(FILE);
    let damaged = |what: String| StoreError::Corrupt { path: file.clone(), what };
    let text = match fs::read_to_string(&file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(damaged("it is missing".to_owned())),
        Err(error) if error.kind() == io::ErrorKind::InvalidData => return Err(damaged("it is not text".to_owned())),
        Err(source) => return Err(StoreError::Io { path: file.clone(), action: "read", source }),
    };
    let found = text
        .strip_prefix("mortise-store ")
        .and_then(|rest| rest.trim_end().parse::<u32>().ok())
        .filter(|number| *number > 0)
        .ok_or_else(|| damaged(format!("it holds {text:?} instead of \"mortise-store\" and a number")))?;
    if found > CURRENT {
        return Err(StoreError::NewerFormat { path: path.to_owned(), found, known: CURRENT });
    }
    Ok(found)
}
