//! Facts about a client from its connection.

use std::sync::Arc;

use mortise_keys::certificate::{Certificate, CertificateDer, MalformedCertificate};

/// A client's certificate, verified against `tls.client_ca_file`. Cheap to clone.
///
/// Requests on both ports carry it in their extensions, unless the client has no certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PeerCertificate {
    /// DNS names, URIs, then the subject's common name, each once. May be empty.
    pub(crate) names: Arc<[String]>,
}

impl PeerCertificate {
    /// Reads the names of a verified certificate, shown with those of its issuers. Name constraints of an issuer bound
    /// alternative names, and not the common name; so the common name counts only without them.
    ///
    /// # Errors
    /// rustls accepts the certificates, but this reader does not; then the client counts as unknown.
    pub(crate) fn of(
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
    ) -> Result<Self, MalformedCertificate> {
        let mut certificate = Certificate::parse(certificate)?;
        for issuer in issuers {
            if Certificate::parse(issuer)?.constrains_names {
                certificate.common_name = None;
            }
        }
        Ok(Self { names: certificate.identities().into() })
    }
}

/// The user at the other end of a unix socket, as reported by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalUser(u32);

impl LocalUser {
    /// Makes a user from its id.
    pub(crate) fn new(uid: u32) -> Self {
        Self(uid)
    }

    /// The user's id.
    pub(crate) fn uid(self) -> u32 {
        self.0
    }

    /// Whether the user is root, or the user of the server's process.
    pub(crate) fn is_operator(self) -> bool {
        self.0 == 0 || self.0 == rustix::process::geteuid().as_raw()
    }
}
