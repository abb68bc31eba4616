//! Decrypts files in age's format (C2SP, version 1) with X25519 identities.
//!
//! # Contract
//! [`is_encrypted`] tells such a file by its beginning, binary or armored. [`Identities`] are read from a file as
//! `age-keygen` writes it, and [`Identities::decrypt`] gives the whole content or none of it: every byte is
//! authenticated, by the header's MAC and by each chunk's tag. Files for a passphrase (scrypt) are refused, since one
//! could ask for any amount of work. Recipients of other kinds are passed over.
//!
//! The cryptography is that of `ring` and `x25519-dalek`; the crate `age` would bring 78 further crates:
//! docs/decisions/0024-files-of-age-are-decrypted-here.md.
//!
//! # Cost and limits
//! A file is in memory as a whole, twice. It has at most 64 recipients, and there are at most 16 identities; each pair
//! of the two takes a scalar multiplication, about 50 µs, until one fits.

mod armor;
mod header;
mod identity;
mod keys;

pub use identity::{Identities, IdentityError, MAX_IDENTITIES};

/// The first line of a file.
pub(crate) const VERSION: &str = "age-encryption.org/v1";

/// Whether a content says that it is encrypted in this format, in this version or another.
#[must_use]
pub fn is_encrypted(content: &[u8]) -> bool {
    content.starts_with(b"age-encryption.org/") || content.trim_ascii_start().starts_with(armor::BEGIN.as_bytes())
}

/// Why a file is not decrypted. No variant holds anything of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AgeError {
    /// It is not written as the format asks.
    #[error("it is no age file of version 1: {0}")]
    Malformed(&'static str),
    /// It has more recipients than are looked at.
    #[error("it has more than {} recipients", header::MAX_RECIPIENTS)]
    TooManyRecipients,
    /// It is encrypted with a passphrase.
    #[error("it is encrypted with a passphrase; encrypt it for a recipient (age -r) instead")]
    Passphrase,
    /// It is for others.
    #[error("it is encrypted for none of the identities")]
    NoIdentity,
    /// Its header or its content was changed, or its end is missing.
    #[error("it was changed or is truncated")]
    Altered,
}
