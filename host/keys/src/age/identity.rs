//! Identities: secret keys, and the decryption with them.

use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::{AgeError, armor, behind_mark, header::Header, keys};

/// Most identities of a file.
pub const MAX_IDENTITIES: usize = 16;
/// Most bytes of a file of identities.
const MAX_BYTES: u64 = 64 << 10;
/// The beginning of an identity, in lower case.
const PREFIX: &str = "age-secret-key-";

/// The fault of a file of identities. No variant holds any of the file's content.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file cannot be read.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Fault from the system.
        source: io::Error,
    },
    /// Users other than the owner may read the file.
    #[error("{} is readable by others (mode {mode:03o}); run chmod 600 on it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Mode bits of the file.
        mode: u32,
    },
    /// A line is neither an identity nor a comment.
    #[error("{}, line {line}: not an X25519 identity; make one with age-keygen", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Line number from 1.
        line: usize,
    },
    /// The file holds no identity, or too many.
    #[error("{} holds {count} identities; put 1 to {MAX_IDENTITIES} into it", path.display())]
    Count {
        /// The file.
        path: PathBuf,
        /// Number of identities in the file.
        count: usize,
    },
}

struct Identity {
    secret: [u8; 32],
    public: [u8; 32],
}

/// Secret keys for decryption. `Debug` does not show them.
pub struct Identities(Vec<Identity>);

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({})", self.0.len())
    }
}

impl Identities {
    /// Reads a file that only its owner may read: one identity per line; empty lines and lines that begin with `#` are
    /// skipped.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        let unreadable = |source| IdentityError::Unreadable { path: path.to_owned(), source };
        // Opens without waiting: opening a pipe may block for ever.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let wrong = |what| unreadable(io::Error::new(io::ErrorKind::InvalidInput, what));
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(wrong("it is not a regular file of at most 64 KiB"));
        }
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o077 != 0 {
            return Err(IdentityError::Exposed { path: path.to_owned(), mode });
        }
        let mut text = String::new();
        file.take(MAX_BYTES).read_to_string(&mut text).map_err(|_| wrong("it is not text"))?;
        let mut found = Vec::new();
        for (number, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let malformed = || IdentityError::Malformed { path: path.to_owned(), line: number + 1 };
            found.push(parse(line).ok_or_else(malformed)?);
        }
        match found.len() {
            1..=MAX_IDENTITIES => Ok(Self(found)),
            count => Err(IdentityError::Count { path: path.to_owned(), count }),
        }
    }

    /// Decrypts a file, binary or armored.
    ///
    /// # Errors
    /// [`AgeError`].
    pub fn decrypt(&self, file: &[u8]) -> Result<Vec<u8>, AgeError> {
        if behind_mark(file).is_some() {
            return Err(AgeError::Malformed("it begins with a byte order mark; save it as UTF-8 without one"));
        }
        let file = armor::unwrap(file)?;
        let header = Header::parse(&file)?;
        for Identity { secret, public } in &self.0 {
            for stanza in &header.stanzas {
                if let Some(file_key) = keys::unwrap(secret, public, stanza)? {
                    return keys::decrypt(&file_key, &header);
                }
            }
        }
        Err(AgeError::NoIdentity)
    }
}

fn parse(line: &str) -> Option<Identity> {
    let (prefix, secret) = bech32::decode(line).ok()?;
    let secret: [u8; 32] = secret.try_into().ok().filter(|_| prefix.to_lowercase() == PREFIX)?;
    let public = x25519_dalek::x25519(secret, x25519_dalek::X25519_BASEPOINT_BYTES);
    Some(Identity { secret, public })
}

#[cfg(test)]
mod tests;
