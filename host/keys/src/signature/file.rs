//! Files of keys and signatures: where they are, and reading them within a bound.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Largest file of a key or a signature. minisign's own comments have 9 KiB at most.
pub const MAX_BYTES: usize = 16 << 10;

/// A file that cannot be read as text.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file system refuses.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// It has more than [`MAX_BYTES`].
    #[error("{} has more than {MAX_BYTES} bytes, which no key and no signature has", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// It holds something else.
    #[error("{} is not text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Where it is not.
        source: std::string::FromUtf8Error,
    },
}

/// The signature's file of a file: `FILE.minisig`.
#[must_use]
pub fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".minisig");
    path.into()
}

/// The text of the signature beside a file; `None` when there is none.
///
/// # Errors
/// [`FileError`].
pub fn read_signature(file: &Path) -> Result<Option<String>, FileError> {
    match read(&signature_path(file)) {
        Err(FileError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    // Without waiting: what is no file may never have a beginning.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "it is no file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    String::from_utf8(bytes).map_err(|source| FileError::NotText { path: path.to_owned(), source })
}
