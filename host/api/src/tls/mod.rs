//! TLS 1.2 and 1.3 on both ports; docs/security.md describes it for users.
//!
//! | file | does |
//! |---|---|
//! | `files` | reads certificate, key and client authorities, and makes rustls configurations |
//! | `current` | holds the active configuration |
//! | `reload`, `stamps` | reads the files again when they change |
//! | `expiry` | counts the seconds until certificates expire, and warns |
//! | `handshake` | makes the handshake of a connection |
//! | `plain` | answers a client that does not speak TLS |
//!
//! # Contract
//! A configuration becomes active as a whole: the key fits the certificate, and both ports have the same. Rejected
//! files change nothing but the log and `mortise_tls_reloads_total`. A connection keeps the configuration of its
//! handshake until its end.
//!
//! Each port offers one protocol by ALPN, `h2` or `http/1.1`, so a client on the wrong port learns this in the
//! handshake. A session can be resumed only while the configuration of its handshake is active. So a client certificate
//! whose authority was removed from the file cannot open a connection again.
//!
//! # Cost and limits
//! A handshake counts as one of the port's connections. It has at most [`TlsOptions::HANDSHAKE_TIMEOUT`], and takes
//! about a millisecond of processor time with an RSA key, less with P-256. It runs in a task of its own. A connection
//! takes 8 KiB more than one in the clear. There are no revocation lists: to revoke a leaked client certificate, remove
//! its name from `[acl.certificates]`, or its authority from the file.

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

pub(crate) use self::{
    current::{LastRead, Tls},
    expiry::ExpiryMonitor,
    handshake::Protocol,
    reload::FileState,
    stamps::Stamps,
};
pub use self::{
    error::TlsError,
    reload::{TlsFiles, TlsReload},
};

/// Options of TLS, in config.toml.
#[derive(Debug, Clone)]
pub struct TlsOptions {
    /// File with the server's certificate, followed by those of its issuers.
    pub cert_file: PathBuf,
    /// File with the key of the server's certificate.
    pub key_file: PathBuf,
    /// File with the authorities of client certificates; `None` requests no certificates.
    pub client_ca_file: Option<PathBuf>,
    /// Whether clients must show a certificate.
    pub client_certs: ClientCerts,
    /// Longest time for a handshake, and for the answer to a client that does not speak TLS.
    pub handshake: Duration,
    /// Interval for checking the files.
    pub rescan: Duration,
}

impl TlsOptions {
    /// Longest time of a handshake. A connection counts as open from before its handshake.
    pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

    /// Time between two looks at the files. A change is read once the files have stayed the same for as long.
    pub const RESCAN_INTERVAL: Duration = Duration::from_secs(2);

    /// Reads the files, and returns their faults. Changes nothing. Blocks.
    #[must_use]
    pub fn faults(&self) -> Vec<TlsError> {
        files::Configs::faults(self)
    }
}

/// The duty of clients to show a certificate.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClientCerts {
    /// Optional; a shown certificate has to be valid.
    #[default]
    Optional,
    /// Required for every connection.
    Required,
}
