//! The end of a replaced version: it is dropped when the last call in it has ended.
//!
//! Calls hold the registry that they began with, and that holds the plugin; nothing else keeps it. So the plugin is
//! gone when its last call is. Calls that take longer than the deadline are named in the log; they end by themselves.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use mortise_plugin_host::Plugin;

use crate::{event::Event, state::ManagerState};

/// How often it is looked at, before the deadline and after.
const CHECK_INTERVALS: (Duration, Duration) = (Duration::from_millis(5), Duration::from_millis(250));

impl ManagerState {
    /// Waits, in the background, until the calls in a replaced version have ended.
    pub(crate) fn drain_old(&mut self, name: &str, old: Arc<Plugin>) {
        self.managed(name).draining += 1;
        let (deadline, events, plugin) = (self.options.drain, self.events.clone(), name.to_owned());
        let digest = old.digest().to_owned();
        let old = release(old);
        self.work.spawn(async move {
            drained(&plugin, digest, old, deadline).await;
            // An error means that the server is stopping.
            let _ = events.send(Event::Drained { plugin }).await;
        });
    }
}

/// Waits until a plugin is gone.
async fn drained(name: &str, digest: String, plugin: Weak<Plugin>, deadline: Duration) {
    let begun = Instant::now();
    let mut period = CHECK_INTERVALS.0;
    while plugin.strong_count() > 0 {
        if period == CHECK_INTERVALS.0 && begun.elapsed() >= deadline {
            period = CHECK_INTERVALS.1;
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
}

/// What is left to hold once the strong reference is given up.
fn release(plugin: Arc<Plugin>) -> Weak<Plugin> {
    Arc::downgrade(&plugin)
}
