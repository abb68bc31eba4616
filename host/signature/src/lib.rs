//! Signatures of files in minisign's format: Ed25519, with a comment that is signed along (the *trusted* one).
//!
//! # Contract
//! `FILE.minisig` has four lines: a comment that proves nothing, the signature of the content (of its BLAKE2b hash, or
//! of all of it in the legacy mode), the trusted comment, and a signature of the first signature and that comment. Both
//! have to be right ([`verify`]). Keys are files of two lines, or the second of them alone. The program `minisign`
//! reads what is written here, and the other way round.
//!
//! The crate `minisign` makes keys and signatures, and `minisign-verify` verifies:
//! docs/decisions/0025-two-crates-for-minisigns-format.md.
//!
//! # Cost and limits
//! A signature's file has at most [`MAX_BYTES`], a key's too. Verifying reads the content once, and blocks for that
//! long. A secret key with a password takes a second and 32 MiB to be opened (scrypt), as its file asks; over 1 GiB it
//! is refused.

mod file;
mod key;
mod sign;
mod verify;

pub use file::{FileError, MAX_BYTES, read_signature, signature_path};
pub use key::{KeyError, PublicKey};
pub use sign::{KeyPair, SecretKey, SigningError, sign};
pub use verify::{SignatureError, Verified, verify};
