//! The end of a replaced version: it is dropped when its last call has ended.
//!
//! Calls hold the registry that they began with, and the registry holds the plugin; there is no other reference. So the
//! plugin is gone when its last call is. The log names calls that take longer than the deadline; they end by
//! themselves.

use std::{
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use mortise_plugin_host::Plugin;

use crate::{event::Event, state::ManagerState};

/// Interval of checks before the deadline, and after it.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);
const LATE_CHECK_INTERVAL: Duration = Duration::from_millis(250);

impl ManagerState {
    /// Waits, in the background, until the calls in a replaced version have ended.
    pub(crate) fn drain_old(&mut self, name: &str, old: Arc<Plugin>) {
        self.managed(name).draining += 1;
        let (deadline, events, plugin) = (self.options.limits.drain, self.events.clone(), name.to_owned());
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
    let mut period = CHECK_INTERVAL;
    while plugin.strong_count() > 0 {
        if period == CHECK_INTERVAL && begun.elapsed() >= deadline {
            period = LATE_CHECK_INTERVAL;
            let holders = plugin.strong_count();
            tracing::warn!(
                plugin = name,
                digest,
                holders,
                "calls in a replaced version have not ended within {deadline:?}; they go on"
            );
        }
        tokio::time::sleep(period).await;
    }
    tracing::debug!(plugin = name, digest, took = ?begun.elapsed(), "a replaced version is gone");
}

/// Gives up the strong reference, and keeps a weak one.
fn release(plugin: Arc<Plugin>) -> Weak<Plugin> {
    Arc::downgrade(&plugin)
}
