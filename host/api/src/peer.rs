//! What is known of a client by its connection.

use std::sync::Arc;

use mortise_keys::certificate::{Certificate, CertificateDer, MalformedCertificate};

/// The certificate that a client has shown, after it was verified against `tls.client_ca_file`. Cheap to clone.
///
/// Requests on both ports have it among their extensions; those of a client without a certificate have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerCertificate {
    /// DNS names, URIs, then the subject's common name, each once. May be empty.
    pub(crate) names: Arc<[String]>,
}

impl PeerCertificate {
    /// Reads the names of a certificate that was verified.
    ///
    /// # Errors
    /// The certificate is one that rustls takes and this reader does not; then the client counts as unknown.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Self, MalformedCertificate> {
        Ok(Self { names: Certificate::parse(certificate)?.identities().into() })
    }
}

/// The user at the other end of a unix socket, as the kernel says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalUser(u32);

impl LocalUser {
    /// The user of an id.
    pub(crate) fn new(uid: u32) -> Self {
        Self(uid)
    }

    /// The user's id.
    pub(crate) fn uid(self) -> u32 {
        self.0
    }

    /// Whether the user is root, or the one that the server runs as.
    pub(crate) fn is_operator(self) -> bool {
        self.0 == 0 || self.0 == rustix::process::geteuid().as_raw()
    }
}
