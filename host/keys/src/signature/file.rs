//! Files of keys and signatures: their paths, and bounded reading.

use std::{
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
};

/// Most bytes of a file of a key or a signature. minisign's own comments have at most 9 KiB.
pub const MAX_BYTES: usize = 16 << 10;

/// A file that cannot be read as text.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Fault from the system.
        source: io::Error,
    },
    /// The file has more than [`MAX_BYTES`].
    #[error("{} has more than {MAX_BYTES} bytes, too many for a key or a signature", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
    },
    /// The file is not text.
    #[error("{} is not text", path.display())]
    NotText {
        /// The file.
        path: PathBuf,
        /// Position of the first invalid byte.
        source: std::string::FromUtf8Error,
    },
}

/// The path of a file's signature: `FILE.minisig`.
#[must_use]
pub fn signature_path(file: &Path) -> PathBuf {
    let mut path = file.as_os_str().to_owned();
    path.push(".minisig");
    path.into()
}

/// Reads the signature beside a file; `None` if it has none. Comments in it may be in any encoding.
///
/// # Errors
/// [`FileError`], but not [`FileError::NotText`].
pub fn read_signature(file: &Path) -> Result<Option<Vec<u8>>, FileError> {
    match read_bytes(&signature_path(file)) {
        Err(FileError::Unreadable { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
        read => read.map(Some),
    }
}

pub(crate) fn read(path: &Path) -> Result<String, FileError> {
    String::from_utf8(read_bytes(path)?).map_err(|source| FileError::NotText { path: path.to_owned(), source })
}

fn read_bytes(path: &Path) -> Result<Vec<u8>, FileError> {
    let unreadable = |source| FileError::Unreadable { path: path.to_owned(), source };
    // Opens without waiting: opening a pipe may block for ever.
    let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
    if !file.metadata().map_err(unreadable)?.is_file() {
        return Err(unreadable(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file")));
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() > MAX_BYTES {
        return Err(FileError::TooLarge { path: path.to_owned() });
    }
    Ok(bytes)
}
