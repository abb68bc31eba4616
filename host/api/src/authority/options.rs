//! Settings of the authority.

use std::{path::PathBuf, time::Duration};

use super::{error::AuthorityError, issuer::LoadedIssuer};

/// Requests that are verified and signed at the same time. One takes about a millisecond.
pub(super) const MAX_SIGNERS: usize = 4;

/// The setting of the authority's certificate.
pub(super) const CERT_FILE: &str = "identity.cert_file";

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

impl IdentityOptions {
    /// Reads the files, makes a trial certificate, and returns the fault. Changes nothing. Blocks.
    #[must_use]
    pub fn fault(&self) -> Option<AuthorityError> {
        LoadedIssuer::read(self).err()
    }
}
