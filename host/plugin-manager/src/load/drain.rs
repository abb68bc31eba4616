//! Lets what was replaced go, when the last call in it has ended.
//!
//! Calls hold the registry that they began with, and that holds the plugin; so the plugin is gone when they are. Nobody
//! else keeps it. Calls that take longer than the deadline are said in the log; they end by themselves.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use mortise_plugin_host::Plugin;

/// LoadReason often it is looked at, before the deadline and after.
const PERIOD: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

/// A replaced version is gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Drained {
    /// The plugin's name.
    pub(crate) plugin: String,
}

/// Waits until a plugin is gone.
pub(crate) async fn drain(name: String, digest: String, plugin: Weak<Plugin>, deadline: Duration) -> Drained {
    let begun = Instant::now();
    let mut period = PERIOD.0;
    while plugin.strong_count() > 0 {
        if period == PERIOD.0 && begun.elapsed() >= deadline {
            period = PERIOD.1;
            let holders = plugin.strong_count();
            tracing::warn!(
                plugin = name,
                digest,
                holders,
                "calls in a replaced version have not ended within {deadline:?} (limit plugins.drain_ms); they go on"
            );
        }
        tokio::time::sleep(period).await;
    }
    tracing::debug!(plugin = name, digest, took = ?begun.elapsed(), "a replaced version is gone");
    Drained { plugin: name }
}

/// What is left to hold once the strong reference is given up.
#[must_use]
pub(crate) fn release(plugin: Arc<Plugin>) -> Weak<Plugin> {
    Arc::downgrade(&plugin)
}
