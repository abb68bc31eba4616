//! Settings of a peer.

use std::{path::PathBuf, time::Duration};

/// A region that copies are pulled from.
#[derive(Debug, Clone)]
pub struct PeerOptions {
    /// Its name, which is the owning region of what is pulled.
    pub name: String,
    /// Where its gRPC port is: `https://HOST:PORT`, or `http://HOST:PORT` without TLS.
    pub address: String,
    /// Authorities (PEM) of its certificate; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// This server's certificate (PEM) and its key, to show to the peer.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The file with the token for the peer.
    pub token_file: Option<PathBuf>,
    /// The name that its certificate has to be for, if not the address's.
    pub tls_server_name: Option<String>,
    /// The longest wait before it is tried again.
    pub max_backoff: Duration,
    /// How long it may be silent before it is asked whether it is still there, and how long its answer may take.
    pub keep_alive: Duration,
}
