//! Faults of registries and of the way to them. Each names the thing; [`RegistryError::step`] is the next step.

use std::{io, path::PathBuf, time::Duration};

use http::StatusCode;

use crate::{credentials::CredentialError, digest::Digest, reference::ReferenceError};

/// Fault of an operation at a registry.
#[derive(Debug, thiserror::Error)]
pub enum RegistryError {
    /// A malformed reference.
    #[error(transparent)]
    Reference(#[from] ReferenceError),
    /// Credentials cannot be found out.
    #[error(transparent)]
    Credentials(#[from] CredentialError),
    /// Plain http to another machine, which nothing allows.
    #[error("{host} would be asked over plain http, which only loopback addresses may be")]
    PlainHttp {
        /// The host.
        host: String,
    },
    /// A connection that cannot be made.
    #[error("cannot connect to {host}: {source}")]
    Connect {
        /// The host and the port.
        host: String,
        /// Fault of the system.
        source: io::Error,
    },
    /// A handshake of TLS that failed.
    #[error("cannot speak TLS with {host}: {source}")]
    Tls {
        /// The host.
        host: String,
        /// Fault of the handshake.
        source: io::Error,
    },
    /// A machine without authorities for certificates.
    #[error("this machine has no certificates of authorities")]
    NoAuthorities,
    /// A file of authorities.
    #[error("the authorities in {}: {source}", path.display())]
    Authorities {
        /// The file.
        path: PathBuf,
        /// Its fault.
        source: io::Error,
    },
    /// The connection broke off.
    #[error("{host}: the answer broke off: {source}")]
    Broken {
        /// The host.
        host: String,
        /// Fault of the transport.
        source: hyper::Error,
    },
    /// The operation took too long.
    #[error("{host} did not answer whole within {limit:?}")]
    TooLate {
        /// The host.
        host: String,
        /// The time.
        limit: Duration,
    },
    /// A thing with more bytes than allowed.
    #[error("{what} takes more than {limit} bytes")]
    TooLarge {
        /// The thing.
        what: String,
        /// Most bytes.
        limit: usize,
    },
    /// The registry wants a login, or a better one.
    #[error("{what}: {host} refuses access{}: {detail}", if *.has_login { " to these credentials" } else { " without credentials" })]
    Denied {
        /// The thing.
        what: String,
        /// The host.
        host: String,
        /// Whether credentials were sent.
        has_login: bool,
        /// The registry's words.
        detail: String,
    },
    /// The thing does not exist.
    #[error("{what}: the registry does not have it")]
    NotFound {
        /// The thing.
        what: String,
    },
    /// Another refusal.
    #[error("{what}: the registry answered {code}{detail}")]
    Refused {
        /// The thing.
        what: String,
        /// The status.
        code: StatusCode,
        /// The registry's words after a colon, or nothing.
        detail: String,
    },
    /// A redirect that is not followed.
    #[error("{what}: the registry redirects {why}")]
    Redirect {
        /// The thing.
        what: String,
        /// The reason.
        why: &'static str,
    },
    /// Content that is not as its digest says.
    #[error("{what}: the content has the digest {actual}, not {expected}")]
    WrongDigest {
        /// The thing.
        what: String,
        /// The digest that was asked for.
        expected: Digest,
        /// The digest of the content.
        actual: Digest,
    },
    /// An answer that cannot be understood.
    #[error("{what}: {fault}")]
    Malformed {
        /// The thing.
        what: String,
        /// The fault.
        fault: String,
    },
    /// A manifest or a layer of something else than a component.
    #[error("{reference} is not a component: {fault}")]
    NotComponent {
        /// The reference.
        reference: String,
        /// The fault.
        fault: String,
    },
}

impl RegistryError {
    /// The next step.
    #[must_use]
    pub fn step(&self) -> &'static str {
        match self {
            Self::Reference(_) => "write oci://HOST/NAME:TAG or oci://HOST/NAME@sha256:DIGEST",
            Self::Credentials(_) => "log in again (`docker login`, `oras login`), or correct the file",
            Self::PlainHttp { .. } => {
                "use TLS, or plain http if the network is yours: --plain-http, plugins.plain_http_registries"
            }
            Self::Connect { .. } => "check the host and the port; is its registry running?",
            Self::Tls { .. } => {
                "does the registry speak TLS? --registry-ca FILE (plugins.registry_ca_file) names its authorities (PEM)"
            }
            Self::NoAuthorities => "install the system's certificates, or set SSL_CERT_FILE=FILE",
            Self::Authorities { .. } => "it must hold certificates in PEM",
            Self::Broken { .. } => "try again",
            Self::TooLate { .. } => "try again; a command allows more with --registry-timeout DURATION",
            Self::TooLarge { .. } => "is it a plugin? sandbox.component_bytes bounds a component",
            Self::Denied { has_login: false, .. } => {
                "log in (`docker login`, `oras login`), or name a file of credentials: --registry-config FILE (plugins.registry_config_file)"
            }
            Self::Denied { has_login: true, .. } => "check the rights of these credentials, and log in again",
            Self::NotFound { .. } => {
                "check the name, the tag and the digest: `mortise plugin search HOST/NAME` lists tags"
            }
            Self::Refused { code: StatusCode::BAD_REQUEST, .. } => {
                "does it want TLS? --registry-ca FILE (plugins.registry_ca_file) names its authorities (PEM)"
            }
            Self::Refused { .. } | Self::Redirect { .. } | Self::Malformed { .. } => {
                "is it a registry of OCI artifacts?"
            }
            Self::WrongDigest { .. } => "do not use it: the registry, or the way to it, changed the content",
            Self::NotComponent { .. } => "push a component with `mortise plugin push`, `wkg oci push` or `oras push`",
        }
    }

    /// Whether the same call may succeed later without a change here: the network, or an overloaded registry.
    #[must_use]
    pub fn may_pass(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Broken { .. } | Self::TooLate { .. } => true,
            Self::Refused { code, .. } => code.is_server_error() || *code == StatusCode::TOO_MANY_REQUESTS,
            _ => false,
        }
    }
}
