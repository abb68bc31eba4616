//! Old names of settings. A configuration with one is refused with the new name.

use toml::Table;

use super::{
    environment::variable,
    error::{ConfigError, SettingError},
};

/// Old keys with their new ones.
pub(super) const ALL: [(&str, &str); 10] = [
    ("audit.when_full", "audit.on_full"),
    ("dns.queries", "dns.concurrent_queries"),
    ("grpc.answer_bytes", "grpc.outbound_buffer_bytes"),
    ("grpc.request_bytes", "grpc.inbound_buffer_bytes"),
    ("kv.values", "kv.keys"),
    ("plugins.trust_folder", "plugins.load_unsigned"),
    ("quarantine.skip_mutate", "quarantine.bypass_mutate_types"),
    ("service.max_snapshots", "service.concurrent_watch_snapshots"),
    ("service.max_waiting", "service.max_queued_lists"),
    ("service.second_pass_ms", "service.cascade_second_pass_ms"),
];

/// Refuses a file with an old key.
pub(crate) fn check_table(table: &Table) -> Result<(), SettingError> {
    let has = |key: &str| {
        key.split_once('.')
            .is_some_and(|(section, name)| table.get(section).is_some_and(|inner| inner.get(name).is_some()))
    };
    match ALL.into_iter().find(|(old, _)| has(old)) {
        Some((old, new)) => Err(SettingError::Renamed { old, new }),
        None => Ok(()),
    }
}

/// Refuses the variable of an old key.
pub(crate) fn check_environment(env: &impl Fn(&str) -> Option<String>) -> Result<(), ConfigError> {
    match ALL.into_iter().map(|(old, new)| (variable(old), old, new)).find(|(name, ..)| env(name).is_some()) {
        Some((name, old, new)) => Err(ConfigError::Environment { name, source: SettingError::Renamed { old, new } }),
        None => Ok(()),
    }
}
