//! Settings of the destination API.

use std::time::Duration;

/// Options of the destination API, in config.toml.
#[derive(Debug, Clone)]
pub struct DestinationOptions {
    /// Whether the API is served.
    pub enabled: bool,
    /// The last labels of names, besides `cluster.local`.
    pub zone: String,
    /// Interval of heartbeats on a stream without changes.
    pub heartbeat: Duration,
    /// Concurrent streams; further ones are refused.
    pub max_streams: usize,
    /// Concurrently watched services; streams for further ones are refused.
    pub max_services: usize,
    /// Bytes of all known endpoints; beyond them, streams for further services are refused.
    pub state_bytes: usize,
}

impl Default for DestinationOptions {
    fn default() -> Self {
        Self {
            enabled: true,
            zone: "cluster.local".to_owned(),
            heartbeat: Duration::from_secs(30),
            max_streams: 10_000,
            max_services: 4_096,
            state_bytes: 256 << 20,
        }
    }
}
