//! TLS, 1.2 and 1.3, on both ports; docs/security.md is the user's side of it.
//!
//! | file | does |
//! |---|---|
//! | `files` | reads certificate, key and client authorities, and makes rustls' configurations of them |
//! | `current` | holds those in service |
//! | `reload`, `stamps` | reads the files again when they change |
//! | `expiry` | counts the seconds until certificates expire, and warns |
//! | `handshake` | makes TLS of a connection |
//! | `plain` | answers a client that does not speak TLS |
//!
//! # Contract
//! A configuration is put in service whole: the key fits the certificate, and both ports have the same. Files that are
//! refused change nothing but the log and `mortise_tls_reloads_total`. A connection keeps the configuration of its
//! handshake until it ends.
//!
//! Each port offers one protocol by ALPN, `h2` or `http/1.1`, so a client that is led to the wrong port learns it in the
//! handshake. A session can be resumed for as long as the configuration is in service that it was made with, so a client
//! certificate of an authority that is no longer in the file opens nothing anew.
//!
//! # Cost and limits
//! A handshake takes one of the port's connections, [`TlsOptions::HANDSHAKE`] at most, and about a millisecond of processor
//! time with an RSA key, less with P-256. It runs in a task of its own. A connection takes 8 KiB more than one in the
//! clear. There are no revocation lists: a client certificate that leaked is taken out of the policies, or its authority
//! out of the file.

mod current;
mod error;
mod expiry;
mod files;
mod handshake;
mod plain;
mod reload;
mod stamps;
#[cfg(test)]
pub(crate) mod testing;

use std::{path::PathBuf, time::Duration};

use serde::{Deserialize, Serialize};

pub use self::error::TlsError;
pub(crate) use self::{current::Tls, handshake::Protocol};

/// How TLS is spoken. Part of config.toml.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// The server's certificate, its own before those of its issuers.
    pub cert_file: PathBuf,
    /// The key of the first of them.
    pub key_file: PathBuf,
    /// Authorities whose certificates clients may show; `None` asks for none.
    pub client_ca_file: Option<PathBuf>,
    /// Whether they have to.
    pub client_certs: ClientCerts,
    /// How long a handshake may take, and the answer to a client that does not speak TLS.
    pub handshake: Duration,
    /// How often the files are looked at.
    pub rescan: Duration,
}

impl TlsOptions {
    /// Time that a handshake may take. A connection counts as open from before it.
    pub const HANDSHAKE: Duration = Duration::from_secs(10);

    /// Time between two looks at the files. A change is read once the files have stayed the same for as long.
    pub const RESCAN: Duration = Duration::from_secs(2);
}

/// Whether clients have to show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCerts {
    /// A client may have none; one that is shown has to be valid.
    #[default]
    Optional,
    /// There is no connection without.
    Required,
}
