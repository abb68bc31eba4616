//! Faults of the files of the authority.

use std::path::PathBuf;

use jiff::Timestamp;
use mortise_keys::certificate::{MalformedCertificate, PemFileError};
use tokio_rustls::rustls::{self, server::VerifierBuilderError};

/// A fault of the files of `[identity]`. Each text begins with the setting.
#[derive(Debug, thiserror::Error)]
pub enum AuthorityError {
    /// The file cannot be read, or holds nothing usable.
    #[error("{setting}: {source}")]
    File {
        /// Setting of the file.
        setting: &'static str,
        /// Fault of the file.
        source: PemFileError,
    },
    /// A certificate cannot be read.
    #[error("identity.cert_file: {}: {source}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// Fault of the certificate.
        source: MalformedCertificate,
    },
    /// The certificate is not one of an authority.
    #[error(
        "identity.cert_file: the first certificate in {} may not issue certificates; `mortise tls init --mesh DOMAIN` \
         makes an authority for identities", path.display()
    )]
    NotAuthority {
        /// The file.
        path: PathBuf,
    },
    /// The authority is not valid now.
    #[error(
        "identity.cert_file: the authority in {} is valid from {from} to {until}; make another one by `mortise tls init \
         --mesh DOMAIN --force`, or check the clock of this machine", path.display()
    )]
    NotValid {
        /// The file.
        path: PathBuf,
        /// Start of validity.
        from: Timestamp,
        /// End of validity.
        until: Timestamp,
    },
    /// The key is broken, or of an unsupported kind.
    #[error(
        "identity.key_file: the key in {} cannot be used; take RSA, P-256, P-384 or Ed25519, in PKCS#8 (-----BEGIN \
         PRIVATE KEY-----): {source}", path.display()
    )]
    Key {
        /// The file.
        path: PathBuf,
        /// Fault of the key.
        source: rcgen::Error,
    },
    /// The key belongs to another certificate.
    #[error(
        "identity.key_file: the key in {} does not belong to the first certificate in {} (identity.cert_file); put the \
         authority's certificate before those of its issuers, and use its key", key.display(), cert.display()
    )]
    Mismatch {
        /// Path of the key file.
        key: PathBuf,
        /// Path of the certificate file.
        cert: PathBuf,
    },
    /// The certificate cannot be used as an issuer.
    #[error("identity.cert_file: the authority in {} cannot issue certificates: {source}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// Fault of the certificate.
        source: rcgen::Error,
    },
    /// The certificate cannot be a trust anchor.
    #[error("identity.cert_file: clients cannot use the authority in {}: {source}", path.display())]
    Anchor {
        /// The file.
        path: PathBuf,
        /// Fault reported by rustls.
        source: rustls::Error,
    },
    /// The verifier cannot be made.
    #[error("identity.cert_file: clients cannot use the authority in {}: {source}", path.display())]
    Verifier {
        /// The file.
        path: PathBuf,
        /// Fault reported by rustls.
        source: VerifierBuilderError,
    },
    /// Clients would refuse certificates of the trust domain.
    #[error(
        "identity.trust_domain: clients would refuse the authority in {} for identities in {domain:?} ({source}); use \
         the domain that the authority was made for", path.display()
    )]
    TrustDomain {
        /// The file.
        path: PathBuf,
        /// The trust domain.
        domain: String,
        /// Fault of the trial certificate.
        source: IssueError,
    },
    /// The task that reads the files did not finish.
    #[error("identity: reading the files: {0}")]
    Task(#[from] tokio::task::JoinError),
}

/// A fault in making a certificate.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// The certificate cannot be made.
    #[error("the certificate cannot be made: {0}")]
    Certificate(#[from] rcgen::Error),
    /// The system has no random numbers.
    #[error("the system has no random numbers")]
    Random,
    /// The authority has expired.
    #[error("the authority expired at {0}")]
    Expired(Timestamp),
    /// Clients would refuse the certificate.
    #[error("clients would refuse the certificate: {0}")]
    Refused(#[source] rustls::Error),
}
