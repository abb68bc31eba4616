//! Identities: the secret keys, and what they open.

use std::{
    fmt,
    fs::OpenOptions,
    io::{self, Read as _},
    os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
};

use super::{AgeError, armor, header::Header, keys};

/// Most identities of a file.
pub const MAX_IDENTITIES: usize = 16;
/// Largest file of identities.
const MAX_BYTES: u64 = 64 << 10;
/// What an identity begins with.
const PREFIX: &str = "age-secret-key-";

/// Why there are no identities. No variant holds anything of the file's content.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file system refuses.
    #[error("{} cannot be read: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Others than its owner may read it.
    #[error("{} may be read by others (mode {mode:03o}); chmod 600 it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its mode.
        mode: u32,
    },
    /// A line is something else.
    #[error("{}, line {line}: no X25519 identity; age-keygen makes one", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: usize,
    },
    /// It has none, or too many.
    #[error("{} holds {count} identities; it takes 1 to {MAX_IDENTITIES}", path.display())]
    Count {
        /// The file.
        path: PathBuf,
        /// How many.
        count: usize,
    },
}

struct Identity {
    secret: [u8; 32],
    public: [u8; 32],
}

/// Secret keys that open files. They are not shown.
pub struct Identities(Vec<Identity>);

impl fmt::Debug for Identities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Identities({})", self.0.len())
    }
}

impl Identities {
    /// Reads a file that only its owner may read: an identity in each line, but for empty lines and those that begin
    /// with `#`.
    ///
    /// # Errors
    /// [`IdentityError`].
    pub fn read(path: &Path) -> Result<Self, IdentityError> {
        let unreadable = |source| IdentityError::Unreadable { path: path.to_owned(), source };
        // Without waiting: what is no file may never have a beginning.
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        let wrong = |what| unreadable(io::Error::new(io::ErrorKind::InvalidInput, what));
        if !metadata.is_file() || metadata.len() > MAX_BYTES {
            return Err(wrong("it is no file of at most 64 KiB"));
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

    /// The content of an encrypted file, binary or armored.
    ///
    /// # Errors
    /// [`AgeError`].
    pub fn decrypt(&self, file: &[u8]) -> Result<Vec<u8>, AgeError> {
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
