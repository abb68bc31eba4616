//! Settings of a peer.

use std::{path::PathBuf, time::Duration};

/// A peer region and the connection to it.
#[derive(Debug, Clone)]
pub struct PeerOptions {
    /// The peer's region, which owns the pulled resources.
    pub name: String,
    /// The peer's gRPC port: `https://HOST:PORT`, or `http://HOST:PORT` without TLS.
    pub address: String,
    /// Authorities (PEM) for the peer's certificate; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// This server's client certificate and key (PEM files).
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The file with the token for the peer.
    pub token_file: Option<PathBuf>,
    /// The expected name in the peer's certificate, if it is not the address's.
    pub tls_server_name: Option<String>,
    /// Share of a type's replicas, in percent, that a snapshot may remove without an operator.
    pub max_removed_percent: u32,
    /// Number of a type's replicas that a snapshot may always remove.
    pub max_removed: usize,
    /// The longest wait before the next attempt to follow a type.
    pub max_backoff: Duration,
    /// Time of silence before the connection is probed, and the longest wait for the probe's answer.
    pub keep_alive: Duration,
}
