//! Public keys.

use std::path::Path;

use base64::{Engine as _, prelude::BASE64_STANDARD};

use super::file::{self, FileError};

/// Name of Ed25519 at the start of keys, and of signatures of the whole content.
pub(crate) const ED25519: [u8; 2] = *b"Ed";
/// Name of Ed25519 at the start of signatures of the content's hash. Keys may have it, too.
pub(crate) const ED25519_HASHED: [u8; 2] = *b"ED";

/// The fault of an unusable public key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file of the key cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// The text is not in minisign's form.
    #[error("not a public key of minisign: {0}")]
    Malformed(&'static str),
}

/// The id of a key.
pub(crate) type KeyId = [u8; 8];

/// A public key, which verifies signatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicKey {
    shown_id: String,
    pub(crate) id: KeyId,
    pub(crate) key: [u8; 32],
}

impl PublicKey {
    /// Reads the text of a key file, or its line with the key.
    ///
    /// # Errors
    /// [`KeyError::Malformed`].
    pub fn parse(text: &str) -> Result<Self, KeyError> {
        let text = text.trim();
        let line = text.lines().nth(1).unwrap_or(text).trim();
        let bytes = BASE64_STANDARD.decode(line).map_err(|_| KeyError::Malformed("it is not base64"))?;
        let (algorithm, id, key) = parts(&bytes).ok_or(KeyError::Malformed("it does not have 42 bytes"))?;
        if ![ED25519, ED25519_HASHED].contains(&algorithm) {
            return Err(KeyError::Malformed("its algorithm is not Ed25519"));
        }
        Ok(Self { shown_id: shown(id), id, key })
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
        &self.shown_id
    }
}

/// Splits the bytes of a key or of a signature, which follow the algorithm's name and the key's id.
pub(crate) fn parts<const N: usize>(bytes: &[u8]) -> Option<([u8; 2], KeyId, [u8; N])> {
    let (algorithm, rest) = bytes.split_first_chunk()?;
    let (id, rest) = rest.split_first_chunk()?;
    Some((*algorithm, *id, rest.try_into().ok()?))
}

/// The id in minisign's form.
pub(crate) fn shown(id: KeyId) -> String {
    format!("{:016X}", u64::from_le_bytes(id))
}
