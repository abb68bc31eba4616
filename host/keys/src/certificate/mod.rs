//! X.509 certificates and their keys: PEM files are read ([`read_certificates`], [`read_key`]), and a certificate says
//! what it is for ([`Certificate`]).
//!
//! # Contract
//! Nothing here is verified: a [`Certificate`] repeats the claims of its bytes. Whether they are signed by an authority
//! that is trusted is for rustls to say, before these claims are believed.
//!
//! # Cost and limits
//! A file is read whole, up to [`MAX_FILE_BYTES`]; anything but a regular file is refused, since reading a pipe might
//! not end. Links are followed. Reading blocks.

mod description;
mod pem_file;

pub use description::{Certificate, MalformedCertificate, Validity};
pub use pem_file::{MAX_FILE_BYTES, PemFileError, read_certificates, read_key};

pub use rustls_pki_types::{CertificateDer, PrivateKeyDer};
