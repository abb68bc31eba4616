//! Public keys.

use std::path::Path;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::file::{self, FileError};

/// Range of the key's id in a key and in a signature, after two bytes for the algorithm.
const ID: std::ops::Range<usize> = 2..10;

/// The fault of an unusable public key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file of the key cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The text is not in minisign's form.
    #[error("not a public key of minisign: {0}")]
    Malformed(#[from] minisign_verify::Error),
}

/// A public key, which verifies signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    id: String,
    pub(crate) key: minisign_verify::PublicKey,
}

impl PublicKey {
    /// Reads the text of a key file, or its line with the key.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let line = text.lines().nth(1).unwrap_or(text).trim();
        let key = minisign_verify::PublicKey::from_base64(line)?;
        Ok(Self { id: id(line).unwrap_or_default(), key })
    }

    /// Reads a key from an operator's setting: the line with the key, or the path of a key file.
    ///
    /// # Errors
    /// [`KeyError`]. A text that is neither a key nor the path of a file gives [`KeyError::File`].
    pub fn load(given: &str) -> Result<Self, KeyError> {
        Self::parse(given).or_else(|_| Self::parse(&file::read(Path::new(given))?))
    }

    /// The id in minisign's form: 16 hexadecimal digits. It names the key and proves nothing.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }
}

/// The id of the key in a base64 line of a key or a signature.
pub(crate) fn id(line: &str) -> Option<String> {
    let bytes = BASE64_STANDARD.decode(line.trim()).ok()?;
    let id: [u8; 8] = bytes.get(ID)?.try_into().ok()?;
    Some(format!("{:016X}", u64::from_le_bytes(id)))
}
