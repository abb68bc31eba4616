//! Files beside sled's that hold a word and a number: `mortise-store 1`, `mortise-commit 42`, each with a line feed.

use std::{fs, io, path::Path};

use crate::{StoreError, error::io_fault};

/// Characters of a file that errors show.
const SHOWN_CHARS: usize = 40;

/// Returns the content of such a file.
pub(crate) fn text(word: &str, number: u64) -> String {
    format!("{word} {number}\n")
}

/// Replaces or makes a file, durably and atomically.
pub(crate) fn replace(dir: &Path, name: &str, word: &str, number: u64) -> Result<(), StoreError> {
    let (file, unfinished) = (dir.join(name), dir.join(format!("{name}.new")));
    Ok(mortise_durable_fs::replace_through(&unfinished, &file, text(word, number).as_bytes())?)
}

/// Returns the number in a file; `None` if the file does not exist.
///
/// # Errors
/// [`StoreError::Corrupt`] when the content is not that word and a number, [`StoreError::Io`] when it cannot be read.
pub(crate) fn read(file: &Path, word: &str) -> Result<Option<u64>, StoreError> {
    let bytes = match fs::read(file) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io_fault(file, "read")(source)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let number = text.strip_prefix(word).and_then(|rest| rest.strip_prefix(' ')?.trim_end().parse().ok());
    number.map(Some).ok_or_else(|| {
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        let what = format!("it holds {shown:?} instead of {word:?} and a number");
        StoreError::Corrupt { path: file.to_owned(), what }
    })
}
