//! Decrypts files in age's format (C2SP, version 1) with X25519 identities.
//!
//! # Contract
//! [`is_encrypted`] recognises such a file by its beginning, binary or armored. [`Identities`] are read from a file in
//! the form of `age-keygen`. [`Identities::decrypt`] returns the whole content or an error: the header's MAC and the
//! tag of each chunk authenticate every byte. Files with a passphrase (scrypt) are rejected, since such a file could
//! demand any amount of work. Recipients of other kinds are skipped.
//!
//! The cryptography is that of `ring` and `x25519-dalek`; the crate `age` would bring 78 further crates:
//! docs/decisions/0024-files-of-age-are-decrypted-here.md.
//!
//! # Cost and limits
//! The caller reads the file, and bounds its size. A file is in memory as a whole, encrypted and decrypted; an armored
//! file also without its armor. It has at most 64 recipients, and there are at most 16 identities; each pair takes a
//! scalar multiplication, about 50 µs, until one fits.

mod armor;
mod header;
mod identity;
mod keys;

pub use identity::{Identities, IdentityError, MAX_IDENTITIES};

/// The first line of a binary file.
pub(crate) const VERSION: &str = "age-encryption.org/v1";

/// Whether the content begins like a file of this format, of any version. A byte order mark before the beginning, and
/// UTF-16, make a file that [`Identities::decrypt`] refuses, but no plain text.
#[must_use]
pub fn is_encrypted(content: &[u8]) -> bool {
    let begins = |content: &[u8]| {
        content.starts_with(b"age-encryption.org/") || content.trim_ascii_start().starts_with(armor::BEGIN.as_bytes())
    };
    begins(content) || behind_mark(content).is_some_and(|rest| begins(&rest))
}

/// The beginning of a content behind its byte order mark, without the zeros of UTF-16; `None` without a mark.
fn behind_mark(content: &[u8]) -> Option<Vec<u8>> {
    let rest = MARKS.iter().find_map(|mark| content.strip_prefix(*mark))?;
    Some(rest.iter().copied().filter(|byte| *byte != 0).take(MAX_BEGINNING).collect())
}

/// The byte order marks of UTF-8 and of both kinds of UTF-16.
const MARKS: [&[u8]; 3] = [b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff"];

/// Bytes behind a byte order mark in which a beginning is looked for.
const MAX_BEGINNING: usize = 256;

/// The reason why a file cannot be decrypted. No variant holds any of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AgeError {
    /// The file does not follow the format.
    #[error("not an age file of version 1: {0}")]
    Malformed(&'static str),
    /// The file has too many recipients.
    #[error("the file has more than {} recipients; encrypt it for fewer", header::MAX_RECIPIENTS)]
    TooManyRecipients,
    /// The file is encrypted with a passphrase.
    #[error("the file is encrypted with a passphrase; encrypt it for a recipient (age -r) instead")]
    Passphrase,
    /// The file is encrypted for other identities.
    #[error("the file is encrypted for other identities than the configured ones")]
    NoIdentity,
    /// The header or the content was changed, or the end is missing.
    #[error("the file was changed or is truncated")]
    Altered,
}
