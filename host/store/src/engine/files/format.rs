//! The format number of a store, in the file `format` beside sled's own: `mortise-store 1` and a line feed.
//!
//! The file is outside the database so that a release can check the number without understanding the rest.

use std::path::Path;

use crate::StoreError;
use crate::engine::files::number_file;

/// Name of the file.
pub(crate) const FILE: &str = "format";
/// Format that this release writes, and the newest that it reads. Unit tests are one ahead, so that they see a store of
/// an older format raised.
pub const CURRENT: u32 = if cfg!(test) { 2 } else { 1 };

/// Word before the number.
const WORD: &str = "mortise-store";

/// Returns the content of the file.
pub(crate) fn text() -> String {
    number_file::text(WORD, CURRENT.into())
}

/// Sets the current format for the store in `dir`, durably.
pub(crate) fn raise(dir: &Path) -> Result<(), StoreError> {
    number_file::replace(dir, FILE, WORD, CURRENT.into())
}

/// Checks the format of the store in `dir`. Errors name `path`.
pub(crate) fn check(path: &Path, dir: &Path) -> Result<u32, StoreError> {
    let file = dir.join(FILE);
    let corrupt = |what: &str| StoreError::Corrupt { path: file.clone(), what: what.to_owned() };
    let found = number_file::read(&file, WORD)?.ok_or_else(|| corrupt("it is missing"))?;
    let found = u32::try_from(found).ok().filter(|found| *found > 0);
    let found = found.ok_or_else(|| corrupt("it holds no valid format number"))?;
    if found > CURRENT {
        return Err(StoreError::NewerFormat { path: path.to_owned(), found, known: CURRENT });
    }
    Ok(found)
}
