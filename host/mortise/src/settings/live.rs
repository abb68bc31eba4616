//! The settings while the server runs: reads the configuration again, applies what takes effect at once, and reports
//! the rest.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    sync::Arc,
};

use mortise_plugin_host::PluginSettings;
use mortise_plugin_manager::ConfigFault;
use parking_lot::Mutex;
use toml::{Table, Value};

use super::{
    error::{ConfigError, SettingError},
    load::Reload,
    plugin::{self, PluginConfig},
    table::Config,
};
use crate::{logging::Log, server_flags::Mode};

/// Settings that take effect without a restart, besides the tables of plugins. An [`Effects`] applies each.
const LIVE: [&str; 7] = [
    "log.level",
    "http.allowed_hosts",
    "http.allowed_origins",
    "service.caller_reads_per_second",
    "service.caller_writes_per_second",
    "service.reads_per_second",
    "service.writes_per_second",
];

/// The running settings, and their source.
pub(crate) struct LiveSettings {
    mode: Mode,
    source: Reload,
    log: Log,
    state: LiveState,
    effects: Effects,
}

/// Knowledge about the settings since the start. Cheap to clone; clones share it.
#[derive(Clone)]
pub(crate) struct LiveState {
    readings: Arc<Mutex<Readings>>,
    source: Reload,
    mode: Mode,
}

struct Readings {
    /// Settings as of the start, by key.
    started: BTreeMap<String, Value>,
    /// Settings as of the last right configuration.
    read: BTreeMap<String, Value>,
    /// The last right configuration.
    config: Config,
    /// Settings of which a caller has heard.
    reported: BTreeMap<String, Value>,
    /// Fault of the configuration as it was last read.
    fault: Option<String>,
}

impl LiveState {
    /// Returns the keys of changed settings that take effect with a restart, sorted.
    pub(crate) fn restart_needed(&self) -> Vec<String> {
        let readings = self.readings.lock();
        waiting(&readings.started, &readings.read)
    }

    /// Tells whether the server has the defaults of `mortise dev`, where a setting is not given.
    pub(crate) fn is_dev(&self) -> bool {
        self.mode == Mode::Dev
    }

    /// Source of the settings.
    pub(crate) fn source(&self) -> &Reload {
        &self.source
    }

    /// The last right configuration.
    pub(crate) fn config(&self) -> Config {
        self.readings.lock().config.clone()
    }

    /// Returns the fault of the configuration as it was last read.
    pub(crate) fn fault(&self) -> Option<String> {
        self.readings.lock().fault.clone()
    }

    /// Returns the keys that have changed since this function was last called, or since the start.
    pub(crate) fn take_changes(&self) -> Vec<String> {
        let mut readings = self.readings.lock();
        let changed = differences(&readings.reported, &readings.read);
        readings.reported = readings.read.clone();
        changed.into_iter().collect()
    }
}

/// Applies settings to parts of the running server.
type Effect = Box<dyn Fn(&Config) + Send + Sync>;

/// The parts of the server that take changed settings. Cheap to clone; clones share them.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<Mutex<(Vec<Effect>, Option<Config>)>>);

impl Effects {
    /// Adds a part. It gets each right configuration, and at once the last one that was read since the start.
    pub(crate) fn add(&self, effect: impl Fn(&Config) + Send + Sync + 'static) {
        let mut inner = self.0.lock();
        if let Some(config) = &inner.1 {
            effect(config);
        }
        inner.0.push(Box::new(effect));
    }

    fn apply(&self, config: Config) {
        let mut inner = self.0.lock();
        for effect in &inner.0 {
            effect(&config);
        }
        inner.1 = Some(config);
    }
}

impl LiveSettings {
    /// Takes the settings of the start.
    ///
    /// # Errors
    /// The configuration has changed since, and is wrong.
    pub(crate) fn new(mode: Mode, source: Reload, log: Log) -> Result<Self, ConfigError> {
        let config = source.read()?;
        let started = by_key(&config)?;
        let readings = Readings { read: started.clone(), config, reported: started.clone(), started, fault: None };
        let state = LiveState { readings: Arc::new(Mutex::new(readings)), source: source.clone(), mode };
        Ok(Self { mode, source, log, state, effects: Effects::default() })
    }

    /// The configuration's file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.source.file()
    }

    /// Knowledge about the settings since the start.
    pub(crate) fn state(&self) -> LiveState {
        self.state.clone()
    }

    /// The parts of the server that take changed settings.
    pub(crate) fn effects(&self) -> Effects {
        self.effects.clone()
    }

    /// Reads the configuration again, and applies it. A faulty one changes nothing. Logs which settings changed, and
    /// which ones need a restart. Returns the settings of plugins.
    pub(crate) fn apply(&self) -> Result<PluginSettings, ConfigFault> {
        let applied = self.try_apply();
        self.state.readings.lock().fault = applied.as_ref().err().map(|fault| without_excerpt(&fault.what));
        applied
    }

    fn try_apply(&self) -> Result<PluginSettings, ConfigFault> {
        let fault = |e: ConfigError| ConfigFault { plugin: self.source.culprit(), what: e.to_string() };
        let next = self.source.read().map_err(fault)?;
        let settings = plugin::read(&next.plugin).map_err(|e| fault(e.into()))?;
        if self.mode != Mode::Dev {
            next.check_exposure(next.acl.enabled).map_err(|e| fault(e.into()))?;
            next.check_authority(next.acl.enabled).map_err(|e| fault(e.into()))?;
        }
        let now = by_key(&next).map_err(|e| fault(e.into()))?;
        self.log.set_level(&next.log.level).map_err(|e| fault(e.into()))?;
        self.effects.apply(next.clone());
        let mut readings = self.state.readings.lock();
        readings.config = next;
        let changed: Vec<_> = differences(&readings.read, &now).into_iter().collect();
        let waiting = waiting(&readings.started, &now);
        readings.read = now;
        drop(readings);
        if !changed.is_empty() {
            tracing::info!("the configuration was read again; changed: {}", changed.join(", "));
        }
        if !waiting.is_empty() {
            tracing::warn!("these settings take effect with a restart: {}", waiting.join(", "));
        }
        Ok(settings)
    }
}

/// Returns a fault on one line, without the lines of the file that TOML's errors show: callers get it, and these lines
/// may have secrets of plugins.
pub(crate) fn without_excerpt(fault: &str) -> String {
    let is_excerpt = |line: &&str| line.trim_start_matches(|c: char| c == ' ' || c.is_ascii_digit()).starts_with('|');
    let lines = fault.lines().filter(|line| !is_excerpt(line)).map(str::trim).filter(|line| !line.is_empty());
    lines.collect::<Vec<_>>().join(": ")
}

/// Keys with different values that take effect with a restart.
fn waiting(started: &BTreeMap<String, Value>, now: &BTreeMap<String, Value>) -> Vec<String> {
    differences(started, now).into_iter().filter(|key| !is_live(key)).collect()
}

/// Returns true for a setting that takes effect without a restart.
fn is_live(key: &str) -> bool {
    LIVE.contains(&key) || matches!(in_plugin(key), Some("settings" | "grants" | "log_level"))
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
