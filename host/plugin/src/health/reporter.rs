//! Collector of a loaded plugin's faults, measurements and log lines.
//!
//! # Contract
//! One reporter belongs to one loaded plugin, and outlives its instances. It names the plugin in each error, counts
//! each fault, writes at most one backtrace a second, and decides whether the plugin's calls have low priority.
//!
//! # Cost
//! A call that ends well pays one relaxed load here. A fault pays a look-up of its counter, and a log line at most.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use crate::{
    error::{HookError, HookFault},
    health::{
        backtrace,
        breaker::{CallerId, HealthState, Quarantine},
        call_time::PluginWork,
        log_level::LogLevel,
        logs::Logs,
        metrics::PluginMetrics,
        plugin_health::{Health, HookHealth},
        throttle::Throttle,
    },
    hook::Hook,
};

/// Collector of the events in one plugin's instances.
pub(crate) struct Reporter {
    pub(crate) plugin: Arc<str>,
    pub(crate) version: Arc<str>,
    pub(crate) logs: Arc<Logs>,
    pub(crate) metrics: Arc<PluginMetrics>,
    pub(crate) health: Health,
    pub(crate) work: Arc<PluginWork>,
    backtraces: Throttle,
    hooks: Demotion,
    /// Separate from the hooks: heavy controllers do not slow hooks down.
    controllers: Demotion,
    /// Time for which a cause of low priority has effect.
    demotion: Duration,
    /// Zero of the clock of `hooks` and `controllers`.
    start: Instant,
}

impl Reporter {
    /// Makes a reporter. `used` are the hooks whose health is reported; `demotion` is `Limits::low_priority_ms`;
    /// `start` is the zero of its clock.
    pub(crate) fn new(
        (plugin, version): (Arc<str>, Arc<str>),
        logs: Arc<Logs>,
        metrics: PluginMetrics,
        (rules, used): (Arc<Quarantine>, Vec<Hook>),
        (demotion, start): (Duration, Instant),
    ) -> Self {
        let metrics = Arc::new(metrics);
        Self {
            health: health(&plugin, &logs, &metrics, rules, used),
            plugin,
            version,
            logs,
            metrics,
            work: Arc::default(),
            backtraces: Throttle::default(),
            hooks: Demotion::default(),
            controllers: Demotion::default(),
            demotion,
            start,
        }
    }

    /// Makes an error of this plugin and logs it, with at most one backtrace a second.
    pub(crate) fn fault(&self, hook: &'static str, fault: HookFault, cause: Option<&wasmtime::Error>) -> HookError {
        let counts = fault.is_of_the_plugin();
        let error =
            HookError { plugin: self.plugin.to_string(), version: self.version.to_string(), hook, fault, counts };
        self.metrics.fault(hook, error.fault.kind());
        // The quarantine was logged when it began.
        let is_news = !matches!(error.fault, HookFault::Quarantined { .. });
        if let Some(missed) = is_news.then(|| self.backtraces.admit()).flatten() {
            let backtrace = cause.map(backtrace::render).unwrap_or_default();
            let more =
                if missed > 0 { format!(" ({missed} more faults since the last one logged)") } else { String::new() };
            let text = format!("{error}{more}\n{backtrace}");
            self.logs.log_host_line(&self.plugin, hook, LogLevel::Error, text.trim_end().to_owned());
        }
        error
    }

    /// Counts a fault for an answer to `caller` that breaks the contract, found only by the user of the hook.
    pub(crate) fn blame_answer(&self, hook: &'static str, caller: CallerId, what: String) -> HookError {
        let error = self.fault(hook, HookFault::Answer(what), None);
        if let Some(hook) = Hook::named(hook) {
            self.health.count_late_fault(hook, caller, &error.fault);
            self.lower_priority(hook, || error.fault.to_string());
        }
        error
    }

    /// Whether calls of this hook have low priority now.
    pub(crate) fn has_low_priority(&self, hook: Hook) -> bool {
        let demotion = if hook.is_of_controllers() { &self.controllers } else { &self.hooks };
        demotion.is_active(self.start)
    }

    /// Gives low priority to the plugin's hooks, or to its controllers if one of them is the cause, until
    /// [`Self::demotion`] has passed without another cause.
    pub(crate) fn lower_priority(&self, hook: Hook, why: impl FnOnce() -> String) {
        let (demotion, what) =
            if hook.is_of_controllers() { (&self.controllers, "controllers") } else { (&self.hooks, "hooks") };
        if demotion.extend(self.start, self.demotion) {
            let length = self.demotion;
            let text = format!("its {what} run at low priority until {length:?} pass without another cause: {}", why());
            self.logs.log_host_line(&self.plugin, hook.name(), LogLevel::Warn, text);
        }
    }
}

/// Makes a health that reports each change of a hook's state to log and metrics.
fn health(
    plugin: &Arc<str>,
    logs: &Arc<Logs>,
    metrics: &Arc<PluginMetrics>,
    rules: Arc<Quarantine>,
    used: Vec<Hook>,
) -> Health {
    let (plugin, logs, metrics) = (plugin.clone(), logs.clone(), metrics.clone());
    let listener = move |hook: Hook, before: HealthState, now: &HookHealth| {
        metrics.hook(hook).set_state(now.state);
        let (name, faults) = (hook.name(), now.faults);
        let (level, text) = match (before, now.state) {
            (HealthState::Quarantined, HealthState::Quarantined) => {
                let wait = now.retry_in.unwrap_or_default();
                (LogLevel::Warn, format!("hook {name} stays quarantined: its trial failed; next trial in {wait:?}"))
            }
            (_, HealthState::Quarantined) => {
                let wait = now.retry_in.unwrap_or_default();
                (
                    LogLevel::Error,
                    format!("hook {name} is quarantined: {faults} faults so far; first trial in {wait:?}"),
                )
            }
            (HealthState::Quarantined, HealthState::Probation) => {
                (LogLevel::Warn, format!("hook {name} is back from quarantine, on probation"))
            }
            (_, HealthState::Probation) => {
                (LogLevel::Warn, format!("hook {name} is on probation: {faults} faults so far"))
            }
            (_, HealthState::Healthy) => (LogLevel::Info, format!("hook {name} is healthy again")),
        };
        logs.log_host_line(&plugin, name, level, text);
    };
    Health::new(rules, used, Box::new(listener))
}

/// End of low priority, milliseconds since a start that the caller keeps; 0 before the first cause.
#[derive(Default)]
struct Demotion(AtomicU64);

impl Demotion {
    /// Whether the demotion still lasts.
    fn is_active(&self, start: Instant) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        until > 0 && millis(start.elapsed()) < until
    }

    /// Makes the demotion last for `length` from now; answers whether it begins only now.
    fn extend(&self, start: Instant, length: Duration) -> bool {
        let now = millis(start.elapsed());
        self.0.fetch_max(now.saturating_add(millis(length)), Ordering::Relaxed) <= now && !length.is_zero()
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn at_low_priority_for_a_while_after_each_cause() {
        let start = Instant::now();
        let demotion = Demotion::default();
        assert!(!demotion.is_active(start));
        assert!(demotion.extend(start, Duration::from_secs(60)), "news");
        assert!(!demotion.extend(start, Duration::from_secs(60)), "no news");
        assert!(demotion.is_active(start));
        let long_ago = start.checked_sub(Duration::from_secs(61)).unwrap();
        assert!(!demotion.is_active(long_ago), "over by then");
        assert!(demotion.extend(long_ago, Duration::from_secs(60)), "news again");
    }

    #[test]
    fn setting_zero_lowers_no_priority() {
        let (start, demotion) = (Instant::now(), Demotion::default());
        assert!(!demotion.extend(start, Duration::ZERO));
        assert!(!demotion.is_active(start));
    }
}
