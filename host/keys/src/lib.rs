//! Files of keys, and what is done with them. Each module is behind a feature of its name, so that its users compile no
//! other.

#[cfg(feature = "age")]
pub mod age;
#[cfg(feature = "certificate")]
pub mod certificate;
#[cfg(feature = "signature")]
pub mod signature;
