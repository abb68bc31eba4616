//! Every duration of this crate: defaults of a [`Definition`](crate::Definition), and bounds that are not settings.

use std::time::Duration;

/// Shortest and longest wait after a failure of a resource, unless its definition says otherwise; Consul's.
pub(crate) const MIN_RETRY_WAIT: Duration = Duration::from_millis(5);
pub(crate) const MAX_RETRY_WAIT: Duration = Duration::from_secs(1000);

/// Shortest and longest wait of a quarantined resource, unless its definition says otherwise.
pub(crate) const MIN_QUARANTINE_WAIT: Duration = Duration::from_secs(1);
pub(crate) const MAX_QUARANTINE_WAIT: Duration = Duration::from_secs(60);

/// Shortest and longest wait after a refused reconcile. Both are short, since a plugin that refuses for long has its
/// controller paused.
pub(crate) const MIN_REFUSED_WAIT: Duration = Duration::from_millis(10);
pub(crate) const MAX_REFUSED_WAIT: Duration = Duration::from_secs(1);

/// Shortest and longest wait before a run that keeps ending starts again; a fifth of it at most is taken off. Consul's.
pub(crate) const MIN_RESTART_WAIT: Duration = Duration::from_millis(625);
pub(crate) const MAX_RESTART_WAIT: Duration = Duration::from_secs(75);

/// A run that lasted longer than this did not crash at its start.
pub(crate) const MIN_STABLE_RUN: Duration = Duration::from_secs(2);

/// Default and shortest interval of resyncs.
pub(crate) const DEFAULT_RESYNC_INTERVAL: Duration = Duration::from_secs(8 * 3600);
pub(crate) const MIN_RESYNC_INTERVAL: Duration = Duration::from_secs(1);

/// Time that running reconciles have when a run ends, unless its definition says otherwise.
pub(crate) const DEFAULT_DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Shortest distance of requeues that do not count as a loop, and longest wait of a loop that is slowed down.
pub(crate) const MIN_PACED_DELAY: Duration = Duration::from_secs(1);

/// Due time of a timer that would be beyond the clock's range.
pub(crate) const MAX_TIMER_WAIT: Duration = Duration::from_secs(86_400 * 365);
