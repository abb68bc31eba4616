//! How a plugin's hooks have been doing. Nothing quarantines a plugin yet, so every plugin is healthy.

use std::time::Duration;

use tokio::sync::watch;

/// The state of a hook, or of the worst hook of a plugin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthState {
    /// Called as usual.
    Healthy,
    /// On trial after a quarantine.
    Probation,
    /// Not called.
    Quarantined,
}

/// One hook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HookHealth {
    /// Its name, such as `validate`.
    pub hook: &'static str,
    /// Its state.
    pub state: HealthState,
    /// Faults since the plugin was loaded.
    pub faults: u64,
    /// What the last one said; empty when there was none.
    pub last_fault: String,
    /// When it is tried again.
    pub retry_in: Option<Duration>,
}

/// A plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthReport {
    /// The worst of its hooks.
    pub state: HealthState,
    /// Hooks that had faults.
    pub hooks: Vec<HookHealth>,
}

/// Keeps the health of one plugin.
#[derive(Debug)]
pub struct Health {
    changes: watch::Sender<u64>,
}

impl Default for Health {
    fn default() -> Self {
        Self { changes: watch::Sender::new(0) }
    }
}

impl Health {
    /// As of now.
    #[must_use]
    pub fn report(&self) -> HealthReport {
        HealthReport { state: HealthState::Healthy, hooks: Vec::new() }
    }

    /// A counter that changes with every change of state.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Lifts every quarantine.
    pub fn reset(&self) {
        self.changes.send_modify(|changes| *changes += 1);
    }
}
