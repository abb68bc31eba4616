//! Files of keys: certificates in PEM (`certificate`), signatures in minisign's format (`signature`), and decryption of
//! age's format (`age`). Each module is behind a feature of its name, so that its users compile no other. The modules
//! share no code; each has its own contract and limits.

#[cfg(feature = "age")]
pub mod age;
#[cfg(feature = "certificate")]
pub mod certificate;
#[cfg(feature = "signature")]
pub mod signature;
