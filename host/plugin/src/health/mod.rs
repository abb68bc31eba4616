//! Health of serving plugins: faults and quarantine, metrics, logs, backtraces.

pub(crate) mod backtrace;
pub(crate) mod breaker;
pub(crate) mod call_time;
pub(crate) mod log_level;
pub(crate) mod logs;
pub(crate) mod metrics;
pub(crate) mod plugin_health;
pub(crate) mod processor_time;
pub(crate) mod reporter;
pub(crate) mod throttle;
