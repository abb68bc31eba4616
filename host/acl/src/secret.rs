//! Secrets and their hashes.

use sha2::{Digest as _, Sha256};

/// Longest secret that is looked at, bytes; a longer one is unknown.
pub(crate) const MAX_SECRET_BYTES: usize = 256;

/// The hash of a secret, as tokens carry it.
#[must_use]
pub fn hash_secret(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}
