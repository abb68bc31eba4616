//! Faults of the TLS files.

use std::path::PathBuf;

use mortise_keys::certificate::{MalformedCertificate, PemFileError};
use tokio_rustls::rustls::{self, server::VerifierBuilderError};

/// A fault of the files of `[tls]`. Each text begins with the setting.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The file cannot be read, or holds nothing usable.
    #[error("{setting}: {source}")]
    File {
        /// Setting of the file.
        setting: &'static str,
        /// Fault of the file.
        source: PemFileError,
    },
    /// A certificate cannot be read.
    #[error("{setting}: {}: {source}", path.display())]
    Malformed {
        /// Setting of the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Fault of the certificate.
        source: MalformedCertificate,
    },
    /// rustls rejects the certificate.
    #[error("{setting}: a certificate in {} cannot be used: {source}", path.display())]
    Unusable {
        /// Setting of the file.
        setting: &'static str,
        /// The file.
        path: PathBuf,
        /// Fault reported by rustls.
        source: rustls::Error,
    },
    /// The key is broken, or of a kind that rustls does not support.
    #[error("tls.key_file: the key in {} cannot be used; take RSA (2048 bits or more), P-256, P-384 or Ed25519: {source}", path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// Fault reported by rustls.
        source: rustls::Error,
    },
    /// The key belongs to another certificate.
    #[error(
        "tls.key_file: the key in {} does not belong to the first certificate in {} (tls.cert_file); put the server's own \
         certificate before those of its issuers, and use its key", key.display(), cert.display()
    )]
    Mismatch {
        /// Path of the key file.
        key: PathBuf,
        /// Path of the certificate file.
        cert: PathBuf,
    },
    /// The authorities cannot be used.
    #[error("tls.client_ca_file: {} holds no usable authority: {source}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Fault reported by rustls.
        source: VerifierBuilderError,
    },
    /// rustls rejects its own versions of TLS, which no release does.
    #[error("tls: {0}")]
    Versions(#[source] rustls::Error),
    /// The task that reads the files did not finish.
    #[error("tls: reading the files: {0}")]
    Task(#[from] tokio::task::JoinError),
}
