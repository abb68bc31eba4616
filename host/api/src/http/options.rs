//! Settings of the HTTP port.

use std::time::Duration;

use tokio::sync::Semaphore;

/// Options of the HTTP port, in config.toml.
#[derive(Debug, Clone)]
pub struct HttpOptions {
    /// Whether the port serves the resource API in addition to health and metrics.
    pub api: bool,
    /// Concurrent connections; further ones are answered 503.
    pub max_connections: usize,
    /// Longest time to send a request's head, and again for its body.
    pub request_timeout: Duration,
    /// Longest time for which a client may read nothing of an answer.
    pub stall_timeout: Duration,
    /// Interval of keep-alive comments on an open watch.
    pub keep_alive: Duration,
    /// Largest body, bytes. Parsing JSON may take a hundred times as much memory.
    pub max_body_bytes: usize,
    /// Additional names of the server, besides `localhost` and literal addresses (`browsers`).
    pub allowed_hosts: Vec<String>,
    /// Origins of web pages that may use the API (`cors`).
    pub allowed_origins: Vec<String>,
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
            allowed_origins: Vec::new(),
        }
    }
}

impl HttpOptions {
    /// The largest useful body, bytes: at most the largest request, and not much more than the JSON of the largest
    /// resource, where a byte of a packed list of numbers takes a line.
    #[must_use]
    pub fn body_bytes(max_request_bytes: usize, max_resource_bytes: usize) -> usize {
        max_request_bytes.min(max_resource_bytes.saturating_mul(8).saturating_add(64 << 10))
    }

    /// Concurrent watches; the remaining connections are for health checks and short requests.
    pub(crate) fn max_watches(&self) -> usize {
        (self.max_connections - self.max_connections / 4).min(Semaphore::MAX_PERMITS)
    }
}
