//! The authority for identities of workloads: issues short-lived certificates from the files of `[identity]`.
//!
//! | file | does |
//! |---|---|
//! | `name` | checks that an identity is in the trust domain |
//! | `issuer` | reads certificate and key, and issues certificates |
//! | `current` | holds the active files, and reads them again when they change |
//!
//! # Contract
//! A certificate has one alternative name, the identity, and is for both sides of TLS. Each is verified against the
//! issuer before it is handed out, so that name constraints of the issuer hold here, too. Its serial number is random.
//! The caller's right is checked by the service ([`mortise_service::Certification`]).
//!
//! # Cost and limits
//! A request is bounded in bytes ([`mortise_keys::certificate::MAX_REQUEST_BYTES`]). At most [`MAX_SIGNERS`] requests
//! are verified and signed at the same time, on threads that may block; others wait.

mod current;
mod error;
mod issuer;
mod name;

use std::{path::PathBuf, time::Duration};

pub(crate) use self::current::{Authority, Certified};
pub use self::{current::AuthorityFiles, error::AuthorityError};

/// Requests that are verified and signed at the same time. One takes about a millisecond.
const MAX_SIGNERS: usize = 4;

/// The setting of the authority's certificate.
const CERT_FILE: &str = "identity.cert_file";

/// Options of the identity service, in config.toml.
#[derive(Debug, Clone)]
pub struct IdentityOptions {
    /// File with the certificate of the authority, followed by those of its issuers.
    pub cert_file: PathBuf,
    /// File with the key of the authority.
    pub key_file: PathBuf,
    /// End of all DNS identities, and the trust domain of SPIFFE IDs.
    pub trust_domain: String,
    /// Validity of a certificate.
    pub lifetime: Duration,
    /// Time before now at which a certificate begins to be valid, for machines with slow clocks.
    pub clock_allowance: Duration,
    /// Interval for checking the files.
    pub rescan: Duration,
}
