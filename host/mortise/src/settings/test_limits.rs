//! Limits that only tests change. Operators have no reason to change them, so they are not settings: each is a constant
//! or a default of the crate that keeps the limit.
//!
//! The variable `MORTISE_TEST_LIMITS` holds them as TOML, such as `watch_buffer = 4`; the log names the variable if it
//! is set. A limit is added here when the first test needs it.

use std::time::Duration;

use mortise_api::DestinationOptions;
use mortise_plugin_host::{
    Limits, Quarantine, ReconcileLimits,
    units::{Millis, Size},
};
use serde::Deserialize;

use super::error::ConfigError;

const VARIABLE: &str = "MORTISE_TEST_LIMITS";

/// Limits that a test chose; an unset one is as in production.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct TestLimits {
    pub(crate) audit_queue: Option<usize>,
    pub(crate) backup_interval_ms: Option<Millis>,
    pub(crate) audit_wait_ms: Option<Millis>,
    pub(crate) dns_connections: Option<usize>,
    pub(crate) dns_idle_ms: Option<Millis>,
    pub(crate) tls_handshake_ms: Option<Millis>,
    pub(crate) tls_rescan_ms: Option<Millis>,
    destination_heartbeat_ms: Option<Millis>,
    destination_services: Option<usize>,
    destination_streams: Option<usize>,
    directory_bytes: Option<Size>,
    directory_files: Option<u64>,
    instance_idle_ms: Option<Millis>,
    plugin_delay_ms: Option<Millis>,
    plugin_rescan_ms: Option<Millis>,
    plugin_settings_bytes: Option<Size>,
    plugin_settle_ms: Option<Millis>,
    plugin_unfinished_ms: Option<Millis>,
    quarantine_backoff_ms: Option<Millis>,
    quarantine_max_backoff_ms: Option<Millis>,
    quarantine_probation_faults: Option<u32>,
    pub(crate) registry_retry_ms: Option<Millis>,
    remembered_decisions: Option<usize>,
    store_sync_ms: Option<Millis>,
    token_pass_ms: Option<Millis>,
    watch_buffer: Option<usize>,
    watch_buffer_bytes: Option<Size>,
}

impl TestLimits {
    /// Reads the variable.
    pub(crate) fn read(env: &impl Fn(&str) -> Option<String>) -> Result<Self, ConfigError> {
        let text = env(VARIABLE).unwrap_or_default();
        toml::from_str(&text).map_err(|e| ConfigError::Environment { name: VARIABLE.into(), source: e.into() })
    }

    /// Logs the variable if it is set.
    pub(crate) fn log(&self) {
        if *self != Self::default() {
            tracing::info!("{VARIABLE} is set; it is for tests only");
        }
    }

    pub(crate) fn apply_to_store(&self, options: &mut mortise_store::Options) {
        set(&mut options.sync_time, self.store_sync_ms.map(Duration::from));
        set(&mut options.watch_buffer, self.watch_buffer);
        set(&mut options.watch_buffer_bytes, self.watch_buffer_bytes.map(Size::to_usize));
    }

    pub(crate) fn apply_to_manager(&self, limits: &mut mortise_plugin_manager::Limits) {
        set(&mut limits.rescan, self.plugin_rescan_ms.map(Duration::from));
        set(&mut limits.settle, self.plugin_settle_ms.map(Duration::from));
        set(&mut limits.unfinished, self.plugin_unfinished_ms.map(Duration::from));
    }

    pub(crate) fn apply_to_sandbox(&self, limits: &mut Limits) {
        set(&mut limits.max_delay_ms, self.plugin_delay_ms.map(|time| time.0));
        set(&mut limits.idle_ms, self.instance_idle_ms.map(|time| time.0));
        set(&mut limits.settings_bytes, self.plugin_settings_bytes.map(Size::to_usize));
        set(&mut limits.remembered_decisions, self.remembered_decisions);
    }

    pub(crate) fn apply_to_service(&self, options: &mut mortise_service::Options) {
        set(&mut options.token_pass, self.token_pass_ms.map(Duration::from));
    }

    pub(crate) fn apply_to_controllers(&self, limits: &mut ReconcileLimits) {
        set(&mut limits.directory_bytes, self.directory_bytes.map(|size| size.0));
        set(&mut limits.directory_files, self.directory_files);
    }

    pub(crate) fn apply_to_quarantine(&self, options: &mut Quarantine) {
        set(&mut options.probation_faults, self.quarantine_probation_faults);
        set(&mut options.backoff_ms, self.quarantine_backoff_ms.map(|time| time.0));
        set(&mut options.max_backoff_ms, self.quarantine_max_backoff_ms.map(|time| time.0));
    }

    pub(crate) fn apply_to_destination(&self, options: &mut DestinationOptions) {
        set(&mut options.heartbeat, self.destination_heartbeat_ms.map(Duration::from));
        set(&mut options.max_services, self.destination_services);
        set(&mut options.max_streams, self.destination_streams);
    }
}

fn set<T>(limit: &mut T, chosen: Option<T>) {
    if let Some(chosen) = chosen {
        *limit = chosen;
    }
}
