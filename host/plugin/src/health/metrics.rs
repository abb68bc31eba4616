//! Metrics about plugins, by plugin and hook. The table of all metrics is docs/metrics.md.
//!
//! Handles are looked up when a plugin is loaded, so that a call pays atomic additions only: two counters and a
//! histogram at its end, two gauge moves for its instance. Faults, which are rare, look theirs up.
//!
//! Bounded: labels are names of loaded plugins, hooks and kinds of fault. After [`MAX_NAMES`] names in one life of the
//! process, further plugins share the name `(others)`.

use std::{
    collections::HashSet,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use metrics::{Counter, Gauge, Histogram};
use parking_lot::Mutex;

use crate::{
    health::breaker::HealthState,
    hook::{Hook, PerHook},
};

/// Most plugins with series of their own.
const MAX_NAMES: usize = 256;

/// Label of all further plugins.
const OTHERS_LABEL: &str = "(others)";

/// The names that label series.
#[derive(Default)]
pub(crate) struct PluginLabels(Mutex<HashSet<Arc<str>>>);

impl PluginLabels {
    /// The label of a plugin.
    pub(crate) fn label(&self, plugin: &Arc<str>) -> Arc<str> {
        let mut names = self.0.lock();
        if names.contains(plugin) || (names.len() < MAX_NAMES && names.insert(plugin.clone())) {
            plugin.clone()
        } else {
            OTHERS_LABEL.into()
        }
    }

    /// The label of a name that may not be a loaded plugin: such names share a series.
    pub(crate) fn label_if_loaded(&self, called: &str) -> Arc<str> {
        self.0.lock().get(called).cloned().unwrap_or_else(|| OTHERS_LABEL.into())
    }
}

/// The handles of one plugin.
pub(crate) struct PluginMetrics {
    label: Arc<str>,
    hooks: PerHook<HookMetrics>,
    instances: Gauge,
    reused: Counter,
    peak: Gauge,
    peak_bytes: AtomicUsize,
}

/// The handles of one hook.
pub(crate) struct HookMetrics {
    calls: Counter,
    low_priority: Counter,
    seconds: Histogram,
    fuel: Counter,
    refused: Counter,
    state: Gauge,
}

impl PluginMetrics {
    /// Makes handles for a plugin. The metrics of its hooks begin at 0, or continue those of another version of it.
    pub(crate) fn new(label: Arc<str>) -> Self {
        let plugin = label.to_string();
        let hook = |hook: Hook| HookMetrics::new(&plugin, hook.name());
        Self {
            hooks: PerHook::new(hook),
            instances: metrics::gauge!("mortise_plugin_instances", "plugin" => plugin.clone()),
            reused: metrics::counter!("mortise_plugin_instances_reused_total", "plugin" => plugin.clone()),
            peak: metrics::gauge!("mortise_plugin_memory_peak_bytes", "plugin" => plugin.clone()),
            peak_bytes: AtomicUsize::new(0),
            label,
        }
    }

    /// Name of the plugin in metrics.
    pub(crate) fn label(&self) -> String {
        self.label.to_string()
    }

    pub(crate) fn hook(&self, hook: Hook) -> &HookMetrics {
        self.hooks.get(hook)
    }

    /// Counts a fault that ended a call of a hook.
    pub(crate) fn fault(&self, hook: &'static str, kind: &'static str) {
        match Hook::named(hook) {
            Some(hook) if kind == "quarantined" => self.hook(hook).refused.increment(1),
            _ => metrics::counter!(
                "mortise_plugin_faults_total", "plugin" => self.label.to_string(), "hook" => hook, "kind" => kind
            )
            .increment(1),
        }
    }

    /// Counts a new instance.
    pub(crate) fn instance_started(&self) {
        self.instances.increment(1.0);
    }

    /// Counts a request that an idle instance serves.
    pub(crate) fn instance_reused(&self) {
        self.reused.increment(1);
    }

    /// Counts the end of an instance that had this much memory, bytes.
    pub(crate) fn instance_ended(&self, memory: usize) {
        self.instances.decrement(1.0);
        if memory > self.peak_bytes.load(Ordering::Relaxed)
            && memory > self.peak_bytes.fetch_max(memory, Ordering::Relaxed)
        {
            self.peak.set(memory as f64);
        }
    }

    /// Records the time that compiling took.
    pub(crate) fn record_compilation(&self, took: Duration) {
        metrics::histogram!("mortise_plugin_compile_seconds", "plugin" => self.label.to_string()).record(took);
    }
}

impl HookMetrics {
    fn new(plugin: &str, hook: &'static str) -> Self {
        let plugin = || plugin.to_owned();
        Self {
            calls: metrics::counter!("mortise_plugin_calls_total", "plugin" => plugin(), "hook" => hook),
            low_priority: metrics::counter!("mortise_plugin_calls_low_priority_total", "plugin" => plugin(), "hook" => hook),
            seconds: metrics::histogram!("mortise_plugin_call_seconds", "plugin" => plugin(), "hook" => hook),
            fuel: metrics::counter!("mortise_plugin_fuel_total", "plugin" => plugin(), "hook" => hook),
            refused: metrics::counter!("mortise_plugin_refused_total", "plugin" => plugin(), "hook" => hook),
            state: metrics::gauge!("mortise_plugin_quarantine_state", "plugin" => plugin(), "hook" => hook),
        }
    }

    /// Counts a finished call that was not refused. `took` is the time that its request waited for it, including the
    /// time for an instance.
    pub(crate) fn record_call(&self, took: Duration, fuel: u64) {
        self.calls.increment(1);
        self.seconds.record(took);
        self.fuel.increment(fuel);
    }

    /// Counts a call at low priority.
    pub(crate) fn low_priority(&self) {
        self.low_priority.increment(1);
    }

    /// Sets the health of the hook.
    pub(crate) fn set_state(&self, state: HealthState) {
        self.state.set(f64::from(state as u8));
    }
}

/// Counts an attempt to load a plugin; `outcome` is `new`, `replaced` or `refused`.
pub(crate) fn count_load(label: &str, outcome: &'static str) {
    metrics::counter!("mortise_plugin_loads_total", "plugin" => label.to_owned(), "outcome" => outcome).increment(1);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_bounded() {
        let names = PluginLabels::default();
        let labels: HashSet<_> = (0..1_000).map(|n| names.label(&format!("p{n}").into())).collect();
        assert_eq!(labels.len(), MAX_NAMES + 1);
        assert_eq!(&*names.label(&"p3".into()), "p3");
        assert_eq!(&*names.label(&"p999".into()), "(others)");
        assert_eq!((&*names.label_if_loaded("p3"), &*names.label_if_loaded("never-loaded")), ("p3", "(others)"));
    }
}
