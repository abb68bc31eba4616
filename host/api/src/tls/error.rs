//! Why there is no TLS.

use std::path::PathBuf;

use mortise_keys::certificate::{MalformedCertificate, PemFileError};
use tokio_rustls::rustls::{self, server::VerifierBuilderError};

/// What is wrong with the files of `[tls]`. Each text begins with the setting.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read, or holds nothing of use.
    #[error("{setting}: {source}")]
    File {
        /// The setting that names it.
        setting: &'static str,
        /// What is wrong.
        source: PemFileError,
    },
    /// A certificate cannot be read.
    #[error("{setting}: {}: {source}", path.display())]
    Malformed {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: MalformedCertificate,
    },
    /// rustls does not take the certificate.
    #[error("{setting}: a certificate in {} cannot be used: {source}", path.display())]
    Unusable {
        /// The setting that names the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The key is of a kind that rustls does not know, or broken.
    #[error("tls.key_file: the key in {} cannot be used, take one of RSA (2048 bits and more), P-256, P-384 or Ed25519: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Why.
        source: rustls::Error,
    },
    /// The key belongs to another certificate.
    #[error(
        "tls.key_file: the key in {} is not that of the first certificate in {} (tls.cert_file); both have to be of one \
         pair, and the server's own certificate comes before those of its issuers", key.display(), cert.display()
    )]
    Mismatch {
        /// The key's file.
        key: PathBuf,
        /// The certificate's.
        cert: PathBuf,
    },
    /// The authorities cannot be used.
    #[error("tls.client_ca_file: {} holds no authority that can be used: {source}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Why.
        source: VerifierBuilderError,
    },
    /// rustls does not take its own versions of TLS, which no release does.
    #[error("tls: {0}")]
    Versions(#[source] rustls::Error),
    /// The files were not read to their end.
    #[error("tls: reading the files: {0}")]
    Task(#[from] tokio::task::JoinError),
}
