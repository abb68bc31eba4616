//! Settings of the HTTP port.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwap;
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
    /// Additional names of the server, and origins of web pages; they change while the port is open.
    pub allowed: Allowed,
}

/// Names of the server besides `localhost` and literal addresses (`browsers`), and origins of web pages that may use
/// the API (`cors`). A change applies from the next request on. Cheap to clone; clones share their content.
#[derive(Debug, Clone, Default)]
pub struct Allowed(Arc<ArcSwap<AllowedNames>>);

/// The content of [`Allowed`], in lower case.
#[derive(Debug, Default)]
struct AllowedNames {
    hosts: Vec<String>,
    origins: Vec<String>,
}

impl Allowed {
    /// Makes lists with this content.
    #[must_use]
    pub fn new(hosts: &[String], origins: &[String]) -> Self {
        let allowed = Self::default();
        allowed.set(hosts, origins);
        allowed
    }

    /// Replaces the content of both lists.
    pub fn set(&self, hosts: &[String], origins: &[String]) {
        let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect();
        self.0.store(Arc::new(AllowedNames { hosts: lower(hosts), origins: lower(origins) }));
    }

    /// Returns whether a name of the server is listed. `name` is in lower case.
    pub(super) fn has_host(&self, name: &str) -> bool {
        self.0.load().hosts.iter().any(|allowed| allowed == name)
    }

    /// Returns whether an origin is listed. `origin` is in lower case.
    pub(super) fn has_origin(&self, origin: &str) -> bool {
        self.0.load().origins.iter().any(|allowed| allowed == origin)
    }

    /// Returns whether any origin is listed.
    pub(super) fn has_origins(&self) -> bool {
        !self.0.load().origins.is_empty()
    }
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
            allowed: Allowed::default(),
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
