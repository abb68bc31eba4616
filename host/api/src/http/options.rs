//! Settings of the HTTP port.

use std::time::Duration;

use tokio::sync::Semaphore;

/// How the HTTP port behaves. Part of config.toml.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Whether the port serves the resource API in addition to health and metrics.
    pub api: bool,
    /// Connections at once; further ones are answered 503.
    pub max_connections: usize,
    /// How long a client may take to send a request's head, and again its body.
    pub request_timeout: Duration,
    /// How long a client may take nothing of an answer that is waiting for it.
    pub stall_timeout: Duration,
    /// How often an open watch says that it is alive.
    pub keep_alive: Duration,
    /// Largest body, bytes. What JSON says in so many bytes may take a hundred times as much memory while it is read.
    pub max_body_bytes: usize,
    /// Names by which the port may be addressed, besides `localhost` and literal addresses (`browsers`).
    pub allowed_hosts: Vec<String>,
}

impl Default for HttpOptions {
    fn default() -> Self {
        Self {
            api: true,
            max_connections: 4_096,
            request_timeout: Duration::from_secs(30),
            stall_timeout: Duration::from_secs(30),
            keep_alive: Duration::from_secs(15),
            max_body_bytes: Self::body_bytes(50 << 20, 1 << 20),
            allowed_hosts: Vec::new(),
        }
    }
}

impl HttpOptions {
    /// The largest body that makes sense: no larger than a request may be, nor much larger than the largest resource is
    /// in JSON, where a byte of a packed list of numbers takes a line.
    #[must_use]
    pub fn body_bytes(max_request_bytes: usize, max_resource_bytes: usize) -> usize {
        max_request_bytes.min(max_resource_bytes.saturating_mul(8).saturating_add(64 << 10))
    }

    /// Watches at once: the other connections are for who asks whether the server is alive.
    pub(crate) fn max_watches(&self) -> usize {
        (self.max_connections - self.max_connections / 4).min(Semaphore::MAX_PERMITS)
    }
}
