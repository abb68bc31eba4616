//! X.509 certificates and their keys: reads PEM files ([`read_certificates`], [`read_key`]) and the claims of a
//! certificate ([`Certificate`]). Checks requests for certificates ([`check_request`]).
//!
//! # Contract
//! No certificate is verified here: a [`Certificate`] repeats the claims of its bytes. rustls has to check the
//! signature of a trusted authority before these claims count.
//!
//! # Cost and limits
//! A file is read whole, up to [`MAX_FILE_BYTES`]; anything but a regular file is rejected, since reading a pipe might
//! never end. Links are followed. Reading blocks.

mod description;
mod pem_file;
mod request;

pub use description::{Certificate, MalformedCertificate, Validity};
pub use pem_file::{MAX_FILE_BYTES, PemFileError, read_certificates, read_key};
pub use request::{MAX_REQUEST_BYTES, RequestError, check_request};

pub use rustls_pki_types::{CertificateDer, PrivateKeyDer};
