//! Signatures of files in minisign's format: Ed25519, with a comment that is also signed (the *trusted* one).
//!
//! # Contract
//! `FILE.minisig` has four lines: a comment that proves nothing, the signature of the content (of its BLAKE2b hash, or
//! of all of it in the legacy mode), the trusted comment, and a signature of the first signature and that comment.
//! [`verify`] checks both. A key file has two lines; its second line alone is also accepted. The program `minisign`
//! reads these files, and this crate reads those of `minisign`.
//!
//! The crate `minisign` makes keys and signatures; verifying is written here, since a trusted comment may be any bytes:
//! docs/decisions/0025-signatures-are-verified-as-bytes.md.
//!
//! # Cost and limits
//! Files of signatures and keys have at most [`MAX_BYTES`]. Verifying reads the content once, and blocks meanwhile.
//! Opening a secret key with a password takes a second and 32 MiB (scrypt), as the key file demands; a demand of over 1
//! GiB is rejected.

mod file;
mod key;
mod sign;
mod verify;

pub use file::{FileError, MAX_BYTES, read_signature, signature_path};
pub use key::{KeyError, PublicKey};
pub use sign::{KeyPair, SecretKey, SigningError, sign};
pub use verify::{SignatureError, Verified, verify};
