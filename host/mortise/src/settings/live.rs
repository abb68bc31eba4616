//! The settings while the server runs: reads the configuration again, applies what takes effect at once, and reports
//! the rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

use mortise_plugin_host::PluginSettings;
use mortise_plugin_manager::ConfigFault;
use toml::{Table, Value};

use super::{
    error::{ConfigError, SettingError},
    load::Reload,
    plugin::{self, PluginConfig},
    table::Config,
};
use crate::{cli::Mode, logging::Log};

/// The setting that a reload changes, besides those of plugins.
const LEVEL: &str = "log.level";

/// The running settings, and their source.
pub(crate) struct LiveSettings {
    mode: Mode,
    source: Reload,
    log: Log,
    /// Settings as of the start, by key.
    started: BTreeMap<String, Value>,
    /// Settings as of the last reading.
    read: BTreeMap<String, Value>,
}

impl LiveSettings {
    /// Takes the settings of the start.
    ///
    /// # Errors
    /// The configuration has changed since, and is wrong.
    pub(crate) fn new(mode: Mode, source: Reload, log: Log) -> Result<Self, ConfigError> {
        let started = by_key(&source.read()?)?;
        Ok(Self { mode, source, log, read: started.clone(), started })
    }

    /// The configuration's file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.source.file()
    }

    /// Reads the configuration again, and applies it. A faulty one changes nothing. Logs which settings changed, and
    /// which ones need a restart. Returns the settings of plugins.
    pub(crate) fn apply(&mut self) -> Result<PluginSettings, ConfigFault> {
        let fault = |e: ConfigError| ConfigFault { plugin: self.source.culprit(), what: e.to_string() };
        let next = self.source.read().map_err(fault)?;
        let settings = plugin::read(&next.plugin).map_err(|e| fault(e.into()))?;
        if self.mode == Mode::Serve {
            next.check_exposure(next.acl.enabled).map_err(|e| fault(e.into()))?;
            next.check_authority(next.acl.enabled).map_err(|e| fault(e.into()))?;
        }
        let now = by_key(&next).map_err(|e| fault(e.into()))?;
        self.log.set_level(&next.log.level).map_err(|e| fault(e.into()))?;
        let changed = differences(&self.read, &now);
        let waiting: Vec<_> = differences(&self.started, &now).into_iter().filter(|key| !is_live(key)).collect();
        if !changed.is_empty() {
            let changed: Vec<_> = changed.into_iter().collect();
            tracing::info!("the configuration was read again; changed: {}", changed.join(", "));
        }
        if !waiting.is_empty() {
            tracing::warn!("these settings take effect with a restart: {}", waiting.join(", "));
        }
        self.read = now;
        Ok(settings)
    }
}

/// Whether a setting takes effect without a restart: the log's level, and the settings and grants of plugins.
fn is_live(key: &str) -> bool {
    key == LEVEL || matches!(in_plugin(key), Some("settings" | "grants"))
}

/// The name within the table of a plugin; `None` for any other key.
fn in_plugin(key: &str) -> Option<&str> {
    key.strip_prefix("plugin.")?.rsplit_once('.').map(|(_, name)| name)
}

/// Keys with different values.
fn differences(before: &BTreeMap<String, Value>, after: &BTreeMap<String, Value>) -> BTreeSet<String> {
    let keys: BTreeSet<_> = before.keys().chain(after.keys()).collect();
    keys.into_iter().filter(|key| before.get(*key) != after.get(*key)).cloned().collect()
}

/// The settings by key. A plugin's settings, and its grants, are one value each.
fn by_key(config: &Config) -> Result<BTreeMap<String, Value>, SettingError> {
    fn collect(prefix: &str, table: Table, into: &mut BTreeMap<String, Value>) {
        for (name, value) in table {
            let key = format!("{prefix}{name}");
            match value {
                Value::Table(inner) if !is_live(&key) => collect(&format!("{key}."), inner, into),
                value => drop(into.insert(key, value)),
            }
        }
    }
    let table = |from: Result<Table, toml::ser::Error>| from.map_err(|e| SettingError::Defaults(Box::new(e)));
    let mut all = BTreeMap::new();
    collect("", table(Table::try_from(config))?, &mut all);
    // A table of a plugin with defaults alone is as good as none.
    let defaults = table(Table::try_from(PluginConfig::default()))?;
    all.retain(|key, value| in_plugin(key).is_none_or(|name| defaults.get(name) != Some(value)));
    Ok(all)
}
