//! Lets what was replaced go: when the last call in it has ended, or at a deadline, after which it goes by itself.
//!
//! Calls hold the registry that they began with, and that holds the plugin; so the plugin is gone when they are. Nobody
//! else keeps it.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use mortise_plugin_host::Plugin;

/// How often it is looked at.
const PERIOD: Duration = Duration::from_millis(5);

/// How the wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Drained {
    /// The plugin's name.
    pub plugin: String,
    /// Whether calls were still in it at the deadline.
    pub late: bool,
}

/// Waits until a plugin is gone.
pub async fn drain(name: String, digest: String, plugin: Weak<Plugin>, deadline: Duration) -> Drained {
    let begun = Instant::now();
    while plugin.strong_count() > 0 {
        if begun.elapsed() >= deadline {
            let holders = plugin.strong_count();
            tracing::warn!(
                plugin = name,
                digest,
                holders,
                "calls in a replaced version did not end within {deadline:?} (limit plugins.drain_ms); they go on"
            );
            return Drained { plugin: name, late: true };
        }
        tokio::time::sleep(PERIOD).await;
    }
    tracing::debug!(plugin = name, digest, took = ?begun.elapsed(), "a replaced version is gone");
    Drained { plugin: name, late: false }
}

/// What is left to hold once the strong reference is given up.
#[must_use]
pub fn release(plugin: Arc<Plugin>) -> Weak<Plugin> {
    Arc::downgrade(&plugin)
}
