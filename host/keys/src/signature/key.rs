//! Public keys.

use std::path::Path;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::file::{self, FileError};

/// Where the id stands in a key and in a signature, behind two bytes for the algorithm.
const ID: std::ops::Range<usize> = 2..10;

/// What is no public key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// Its file cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is not written as minisign writes one.
    #[error("no public key of minisign: {0}")]
    Malformed(#[from] minisign_verify::Error),
}

/// A key that proves signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    pub(crate) key: minisign_verify::PublicKey,
}

impl PublicKey {
    /// Reads the text of a key's file, or the line of it that is the key.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let line = text.lines().nth(1).unwrap_or(text).trim();
        let key = minisign_verify::PublicKey::from_base64(line)?;
        Ok(Self { id: id(line).unwrap_or_default(), key })
    }

    /// Takes what an operator gives as a key: the line that is the key, or the path of its file.
    ///
    /// # Errors
    /// [`KeyError`]. Of what is no key, that there is no such file.
    pub fn load(given: &str) -> Result<Self, KeyError> {
        Self::parse(given).or_else(|_| Self::parse(&file::read(Path::new(given))?))
    }

    /// The id, as `minisign` shows it: 16 hexadecimal digits. It names the key, and proves nothing.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// The id of the key in a line of base64, which is a key or a signature.
pub(crate) fn id(line: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(line.trim()).ok()?;
    let id: [u8; 8] = bytes.get(ID)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(id)))
}
