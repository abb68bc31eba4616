//! Settings of the destination API.

use std::time::Duration;

/// How the destination API behaves. Part of config.toml.
#[derive(Debug, Clone)]
pub struct DestinationOptions {
    /// Whether it is served.
    pub enabled: bool,
    /// What names end with, besides `cluster.local`.
    pub zone: String,
    /// How often a stream says something when nothing changes.
    pub heartbeat: Duration,
    /// Streams at once; one more is refused.
    pub max_streams: usize,
    /// Services that streams are about at once; streams for one more are refused.
    pub max_services: usize,
    /// Bytes of what is known of services; over that, streams for what is not known yet are refused.
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
