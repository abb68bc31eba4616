//! Files beside sled's that hold a word and a number: `mortise-store 1`, `mortise-commit 42`, each with a line feed.

use std::{
    fs::File,
    io::{self, Read as _},
    path::Path,
};

use crate::{StoreError, error::io_fault};

/// Characters of a file that errors show.
const SHOWN_CHARS: usize = 40;

/// Most bytes of such a file; the longest content has 36.
const MAX_BYTES: usize = 64;

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
/// [`StoreError::Corrupt`] when the content is not that word and a number in at most 64 bytes, [`StoreError::Io`]
/// when it cannot be read.
pub(crate) fn read(file: &Path, word: &str) -> Result<Option<u64>, StoreError> {
    let mut bytes = Vec::new();
    match File::open(file).and_then(|opened| opened.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)) {
        Ok(_) => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(io_fault(file, "read")(source)),
    };
    let text = String::from_utf8_lossy(&bytes);
    let number = || {
        let digits = text.strip_prefix(word)?.strip_prefix(' ')?.trim_end();
        let is_number = bytes.len() <= MAX_BYTES && digits.bytes().all(|digit| digit.is_ascii_digit());
        if is_number { digits.parse().ok() } else { None }
    };
    number().map(Some).ok_or_else(|| {
        let shown: String = text.chars().take(SHOWN_CHARS).collect();
        let what = format!("it holds {shown:?} instead of {word:?} and a number");
        StoreError::Corrupt { path: file.to_owned(), what }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_no_word_and_number_or_too_long_is_corrupt() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let read = |content: &str| {
            std::fs::write(&file, content).unwrap();
            read(&file, "word")
        };
        assert_eq!(read("word 42\n").unwrap(), Some(42));
        assert_eq!(read(&text("word", u64::MAX)).unwrap(), Some(u64::MAX));
        let long = format!("word 42{}", "\n".repeat(100));
        for content in ["", "word", "word \n", "word +42\n", "word -1\n", "words 42\n", "word 42 42\n", &long] {
            let error = read(content).unwrap_err();
            assert!(matches!(error, StoreError::Corrupt { .. }), "{content:?}: {error}");
        }
    }

    /// The file is sparse, and larger than the memory of a machine.
    #[test]
    fn a_file_of_any_size_is_read_up_to_a_bound() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        File::create(&file).unwrap().set_len(1 << 40).unwrap();
        let error = read(&file, "word").unwrap_err();
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
    }
}
