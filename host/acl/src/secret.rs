//! Secrets and their hashes.

use sha2::{Digest as _, Sha256};

/// Most bytes of a secret; a longer one counts as unknown.
pub(crate) const MAX_SECRET_BYTES: usize = 256;

/// Hashes a secret, in the form that tokens store.
#[must_use]
pub fn hash_secret(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}
