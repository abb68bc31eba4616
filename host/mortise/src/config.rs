//! The configuration: a file, the environment, flags, in rising order of precedence; unset keys have defaults.
//!
//! Every key has a variable: `MORTISE_` and its path in upper case, joined by underscores, such as
//! `MORTISE_STORE_CACHE_BYTES`. Unknown keys are errors, and so are values out of their ranges: all of it is checked here,
//! before anything is opened.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    time::Duration,
};

use mortise_plugin_host::{Grants, Limits, LogSettings, Quarantine, ReconcileLimits};
use mortise_plugin_manager::controllers::Quota;
use serde::{Deserialize, Serialize};
use toml::{Table, Value};

use crate::{
    bundled, logging, plugin_settings,
    ranges::{check_range, check_ranges},
    run,
};

/// The whole configuration; `config.toml` documents each key.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) grpc_addr: SocketAddr,
    pub(crate) http_addr: SocketAddr,
    pub(crate) data_dir: PathBuf,
    pub(crate) plugin_dir: PathBuf,
    /// Empty: `cache` in the data directory, or the user's cache directory in dev mode.
    pub(crate) cache_dir: PathBuf,
    pub(crate) shutdown_grace_ms: u64,
    pub(crate) log: Log,
    pub(crate) plugins: Plugins,
    /// Single plugins, by name.
    pub(crate) plugin: BTreeMap<String, PluginConfig>,
    pub(crate) service: Service,
    pub(crate) grpc: Grpc,
    pub(crate) http: Http,
    pub(crate) store: Store,
    pub(crate) sandbox: Limits,
    pub(crate) controllers: ReconcileLimits,
    pub(crate) quarantine: Quarantine,
    pub(crate) plugin_logs: LogSettings,
    /// What plugins' reconcilers may keep.
    pub(crate) kv: Quota,
}

/// Logs go to stderr.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) level: String,
    pub(crate) spans: bool,
}

/// Which plugins are loaded beside those in the folder, and how the folder is looked after.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Plugins {
    pub(crate) bundled: Vec<String>,
    pub(crate) settle_ms: u64,
    pub(crate) unfinished_ms: u64,
    pub(crate) rescan_ms: u64,
    pub(crate) drain_ms: u64,
}

impl Default for Plugins {
    fn default() -> Self {
        Self { bundled: Vec::new(), settle_ms: 50, unfinished_ms: 5_000, rescan_ms: 2_000, drain_ms: 30_000 }
    }
}

impl Config {
    /// Refuses what no range of a single setting can: numbers that do not fit each other, and names that mean nothing.
    fn check(&self) -> Result<(), String> {
        self.quarantine.check()?;
        self.controllers.check()?;
        run::http_options(self).check()?;
        if let Some(name) = self.plugins.bundled.iter().find(|name| bundled::find(name).is_none()) {
            let known = bundled::ALL.map(|(name, _)| name).join(", ");
            return Err(format!("plugins.bundled names {name:?}, which this binary does not have; it has {known}"));
        }
        logging::filter(&self.log).map_err(|e| e.to_string())?;
        plugin_settings::read(&self.plugin).map_err(|e| e.to_string())?;
        Ok(())
    }

    /// All that takes effect with a restart only: everything but the settings and the grants of plugins.
    pub(crate) fn without_settings(mut self) -> Self {
        for plugin in self.plugin.values_mut() {
            plugin.settings.clear();
            plugin.grants = Grants::default();
        }
        self.plugin.retain(|_, plugin| *plugin != PluginConfig::default());
        self
    }
}

/// What is set for one plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PluginConfig {
    pub(crate) log_level: String,
    /// The plugin's own business; it is told all of it.
    pub(crate) settings: Table,
    /// What it may do beyond its own types.
    pub(crate) grants: Grants,
}

impl Default for PluginConfig {
    fn default() -> Self {
        Self { log_level: "info".into(), settings: Table::new(), grants: Grants::default() }
    }
}

/// The resource API.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Service {
    pub(crate) max_request_bytes: usize,
    pub(crate) max_streams: u32,
    pub(crate) max_watches: usize,
    pub(crate) second_pass_ms: u64,
}

/// The gRPC port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Grpc {
    pub(crate) max_connections: usize,
}

/// The HTTP port.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Http {
    pub(crate) api: bool,
    pub(crate) max_connections: usize,
    pub(crate) request_timeout_ms: u64,
    pub(crate) stall_timeout_ms: u64,
    pub(crate) keep_alive_ms: u64,
}

/// The store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Store {
    pub(crate) cache_bytes: u64,
    pub(crate) max_resource_bytes: usize,
    pub(crate) history_events: u64,
    pub(crate) history_bytes: u64,
    pub(crate) watch_buffer: usize,
    pub(crate) commit_queue: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            grpc_addr: SocketAddr::from(([127, 0, 0, 1], 8502)),
            http_addr: SocketAddr::from(([127, 0, 0, 1], 8500)),
            data_dir: "data".into(),
            plugin_dir: "plugins".into(),
            cache_dir: PathBuf::new(),
            shutdown_grace_ms: 10_000,
            log: Log::default(),
            plugins: Plugins::default(),
            plugin: BTreeMap::new(),
            service: Service::default(),
            grpc: Grpc::default(),
            http: Http::default(),
            store: Store::default(),
            sandbox: Limits::default(),
            controllers: ReconcileLimits::default(),
            quarantine: Quarantine::default(),
            plugin_logs: LogSettings::default(),
            kv: Quota::default(),
        }
    }
}

impl Default for Log {
    fn default() -> Self {
        Self { level: "info".into(), spans: false }
    }
}

impl Default for Service {
    fn default() -> Self {
        Self { max_request_bytes: 50 << 20, max_streams: 2048, max_watches: 10_000, second_pass_ms: 30_000 }
    }
}

impl Default for Grpc {
    fn default() -> Self {
        Self { max_connections: 4_096 }
    }
}

impl Default for Http {
    fn default() -> Self {
        let mortise_api::HttpOptions { api, max_connections, request_timeout, stall_timeout, keep_alive, .. } =
            mortise_api::HttpOptions::default();
        let ms = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self {
            api,
            max_connections,
            request_timeout_ms: ms(request_timeout),
            stall_timeout_ms: ms(stall_timeout),
            keep_alive_ms: ms(keep_alive),
        }
    }
}

impl Default for Store {
    fn default() -> Self {
        let options = mortise_store::Options::new("");
        Self {
            cache_bytes: 0,
            max_resource_bytes: options.max_resource_bytes,
            history_events: options.history_events,
            history_bytes: options.history_bytes,
            watch_buffer: options.watch_buffer,
            commit_queue: options.commit_queue,
        }
    }
}

/// Reads the configuration again, from where it came.
#[derive(Debug, Clone, Default)]
pub(crate) struct Reload {
    file: Option<PathBuf>,
    flags: Overrides,
}

impl Reload {
    /// The file, if there is one.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The configuration as file, environment and flags have it now.
    pub(crate) fn read(&self) -> Result<Config, ConfigError> {
        let env = |name: &str| std::env::var(name).ok();
        Settings::load(self.file(), &env, self.flags.clone()).map(|settings| settings.config)
    }

    /// The plugin whose table is what is wrong with the file.
    pub(crate) fn culprit(&self) -> Option<String> {
        let table: Table = std::fs::read_to_string(self.file()?).ok()?.parse().ok()?;
        let plugins = table.get("plugin")?.as_table()?;
        let broken = |(name, table): &(&String, &Value)| {
            let one = PluginConfig::deserialize((*table).clone());
            one.is_err()
                || one.is_ok_and(|one| plugin_settings::read(&BTreeMap::from([((*name).clone(), one)])).is_err())
        };
        plugins.iter().find(broken).map(|(name, _)| name.clone())
    }
}

/// What flags say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) grpc_addr: Option<SocketAddr>,
    pub(crate) http_addr: Option<SocketAddr>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) plugin_dir: Option<PathBuf>,
}

/// The configuration, and what of it somebody chose.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// Whether the data directory was given and is not the default.
    pub(crate) data_dir_given: bool,
    /// How it is read again.
    pub(crate) reload: Reload,
}

/// Why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    #[error("cannot read the configuration {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("configuration {}: {what}", path.display())]
    Malformed { path: PathBuf, what: String },
    #[error("environment variable {name}: {what}")]
    Environment { name: String, what: String },
    #[error("{0}")]
    Setting(String),
    #[error("log.level {level:?} is no filter: {what}; use error, warn, info, debug or trace")]
    LogLevel { level: String, what: String },
    #[error("{key}: {what}")]
    PluginSetting { key: String, what: &'static str },
    #[error("plugin.{plugin}.log_level {level:?} is no level; use off, error, warn, info, debug or trace")]
    PluginLogLevel { plugin: String, level: String },
}

impl Settings {
    /// Reads the file, if any, then the environment, then the flags.
    pub(crate) fn load(
        file: Option<&Path>,
        env: &impl Fn(&str) -> Option<String>,
        flags: Overrides,
    ) -> Result<Self, ConfigError> {
        let reload = Reload { file: file.map(Path::to_owned), flags: flags.clone() };
        let mut table = Table::new();
        if let Some(path) = file {
            let path = path.to_owned();
            let text = std::fs::read_to_string(&path)
                .map_err(|source| ConfigError::Unreadable { path: path.clone(), source })?;
            let malformed = |what: String| ConfigError::Malformed { path: path.clone(), what };
            table = text.parse().map_err(|e: toml::de::Error| malformed(e.to_string()))?;
            check_ranges("", &table).map_err(malformed)?;
            // Straight from the text into the type: these errors point at lines.
            toml::from_str::<Config>(&text).map_err(|e| malformed(e.to_string()))?;
        }
        let defaults = Table::try_from(Config::default())
            .map_err(|e| ConfigError::Environment { name: "MORTISE_".into(), what: e.to_string() })?;
        environment("", &defaults, &mut table, env)?;
        let mut given = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                table.insert(key.to_owned(), Value::String(value));
            }
        };
        given("grpc_addr", flags.grpc_addr.map(|addr| addr.to_string()));
        given("http_addr", flags.http_addr.map(|addr| addr.to_string()));
        given("data_dir", flags.data_dir.map(|dir| dir.to_string_lossy().into_owned()));
        given("plugin_dir", flags.plugin_dir.map(|dir| dir.to_string_lossy().into_owned()));

        let data_dir_given = table.contains_key("data_dir");
        let given = |key: &str| table.get("quarantine").is_some_and(|section| section.get(key).is_some());
        let (probation_given, backoff_given) = (given("probation_faults"), given("backoff_ms"));
        // Every part of it was taken by itself before.
        let mut config: Config = table.try_into().map_err(|e: toml::de::Error| ConfigError::Setting(e.to_string()))?;
        // A default follows the setting that bounds it.
        let rules = &mut config.quarantine;
        if !probation_given {
            rules.probation_faults = rules.probation_faults.min(rules.faults);
        }
        if !backoff_given {
            rules.backoff_ms = rules.backoff_ms.min(rules.max_backoff_ms);
        }
        config.check().map_err(|what| {
            // Every such error begins with the key.
            let name = what.split(' ').next().map(variable).filter(|name| env(name).is_some());
            match (name, file) {
                (Some(name), _) => ConfigError::Environment { name, what },
                (None, Some(path)) => ConfigError::Malformed { path: path.to_owned(), what },
                (None, None) => ConfigError::Setting(what),
            }
        })?;
        Ok(Self { config, data_dir_given, reload })
    }
}

/// The environment variable of a key.
pub(crate) fn variable(key: &str) -> String {
    format!("MORTISE_{}", key.to_uppercase().replace('.', "_"))
}

/// Lays variables over the table, for every key that has a default, in the default's type. Keys begin with `section`.
fn environment(
    section: &str,
    defaults: &Table,
    table: &mut Table,
    env: &impl Fn(&str) -> Option<String>,
) -> Result<(), ConfigError> {
    for (key, default) in defaults {
        let full = format!("{section}{key}");
        let name = variable(&full);
        if let Value::Table(defaults) = default {
            let mut inner = match table.remove(key) {
                Some(Value::Table(inner)) => inner,
                _ => Table::new(),
            };
            environment(&format!("{full}."), defaults, &mut inner, env)?;
            table.insert(key.clone(), Value::Table(inner));
        } else if let Some(text) = env(&name) {
            let value = parse(&full, default, &text).map_err(|what| ConfigError::Environment { name, what })?;
            table.insert(key.clone(), value);
        }
    }
    Ok(())
}

fn parse(key: &str, default: &Value, text: &str) -> Result<Value, String> {
    let value = match default {
        Value::Integer(_) => {
            let not = |_| format!("must be a whole number, got {text:?}");
            let number = text.parse::<i128>().map_err(not)?;
            check_range(key, number)?;
            Value::Integer(number.try_into().map_err(|_| format!("{number} is no number of 64 bits"))?)
        }
        Value::Boolean(_) => Value::Boolean(text.parse().map_err(|_| format!("must be true or false, got {text:?}"))?),
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        _ => Value::String(text.to_owned()),
    };
    // By itself: what is wrong with the whole configuration would not say whose fault it is.
    let alone = key.rsplit('.').fold(value.clone(), |inner, key| Table::from_iter([(key.to_owned(), inner)]).into());
    Config::deserialize(alone).map_err(|e| format!("{key}: {}, got {text:?}", e.message()))?;
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_plugin_host::grants::Secret;
    use std::collections::HashMap;

    const FILE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config.toml");

    fn load(file: Option<&str>, env: &[(&str, &str)], flags: Overrides) -> Result<Settings, ConfigError> {
        let env: HashMap<_, _> = env.iter().copied().collect();
        Settings::load(file.map(Path::new), &|name| env.get(name).map(|v| (*v).to_owned()), flags)
    }

    /// Every dotted key of a table.
    fn keys(prefix: &str, table: &Table) -> Vec<String> {
        table
            .iter()
            .flat_map(|(key, value)| match value {
                Value::Table(inner) => keys(&format!("{prefix}{key}."), inner),
                _ => vec![format!("{prefix}{key}")],
            })
            .collect()
    }

    #[test]
    fn the_documented_file_lists_every_setting_with_its_default() {
        let settings = load(Some(FILE), &[], Overrides::default()).unwrap();
        assert_eq!(settings.config, Config::default());
        let documented: Table = std::fs::read_to_string(FILE).unwrap().parse().unwrap();
        let known = Table::try_from(Config::default()).unwrap();
        let (mut documented, mut known) = (keys("", &documented), keys("", &known));
        documented.sort();
        known.sort();
        assert_eq!(documented, known);
    }

    #[test]
    fn every_setting_has_a_line_of_why() {
        let text = std::fs::read_to_string(FILE).unwrap();
        let mut commented = false;
        for line in text.lines() {
            let is_key = line.contains(" = ") && !line.starts_with('#');
            assert!(!is_key || commented, "no comment above: {line}");
            commented = line.starts_with('#');
        }
    }

    #[test]
    fn a_default_follows_the_setting_that_bounds_it() {
        let env = [("MORTISE_QUARANTINE_FAULTS", "1"), ("MORTISE_QUARANTINE_MAX_BACKOFF_MS", "20")];
        let rules = load(None, &env, Overrides::default()).unwrap().config.quarantine;
        assert_eq!((rules.probation_faults, rules.backoff_ms), (1, 20));
        let env = [("MORTISE_QUARANTINE_FAULTS", "5"), ("MORTISE_QUARANTINE_PROBATION_FAULTS", "7")];
        let text = load(None, &env, Overrides::default()).unwrap_err().to_string();
        let variable = "environment variable MORTISE_QUARANTINE_PROBATION_FAULTS: ";
        assert_eq!(text, format!("{variable}quarantine.probation_faults must be 1 to 5, got 7"));
    }

    #[test]
    fn flags_beat_the_environment_which_beats_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "data_dir = \"file\"\nplugin_dir = \"file\"\n[store]\nwatch_buffer = 7\n").unwrap();
        let env = [
            ("MORTISE_DATA_DIR", "env"),
            ("MORTISE_STORE_CACHE_BYTES", "99000"),
            ("MORTISE_PLUGINS_BUNDLED", "demo, routes"),
        ];
        let flags = Overrides { data_dir: Some("flag".into()), ..Default::default() };
        let settings = load(path.to_str(), &env, flags).unwrap();
        assert_eq!(settings.config.data_dir, Path::new("flag"));
        assert_eq!(settings.config.plugin_dir, Path::new("file"));
        assert_eq!(settings.config.store.cache_bytes, 99_000);
        assert_eq!(settings.config.store.watch_buffer, 7);
        assert_eq!(settings.config.plugins.bundled, ["demo", "routes"]);
        assert!(settings.data_dir_given);
    }

    #[test]
    fn grants_are_read_and_do_not_need_a_restart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        let text = "[plugin.demo.grants]\nread = [\"edge.v1.Route\"]\nwrite = [\"mesh.v1.*\"]\n\
                    directories = { out = { path = \"/srv/out\", write = true }, in = { path = \"/srv/in\" } }\n\
                    secrets = { token = { file = \"/run/token\" }, key = { env = \"KEY\" } }\n";
        std::fs::write(&path, text).unwrap();
        let config = load(path.to_str(), &[], Overrides::default()).unwrap().config;
        let grants = &config.plugin["demo"].grants;
        assert_eq!(
            grants.read.iter().chain(&grants.write).map(ToString::to_string).collect::<Vec<_>>(),
            ["edge.v1.Route", "mesh.v1.*"]
        );
        assert!(grants.directories["out"].write && !grants.directories["in"].write);
        assert_eq!(grants.secrets["token"], Secret::File("/run/token".into()));
        assert_eq!(grants.secrets["key"], Secret::Env("KEY".into()));
        assert_eq!(config.without_settings(), Config::default());
    }

    #[test]
    fn a_fault_in_a_grant_is_said_with_its_line_and_its_plugin() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        for (grant, says) in [
            ("read = [\"Route\"]", "\"Route\" is no type; write it as \"demo.v2.Artist\""),
            ("secrets = { token = { } }", "a secret is either { file = "),
            ("directories = { out = { write = true } }", "missing field `path`"),
            ("raed = []", "unknown field `raed`"),
        ] {
            std::fs::write(&path, format!("[plugin.demo]\nlog_level = \"warn\"\n[plugin.bad.grants]\n{grant}\n"))
                .unwrap();
            let text = load(path.to_str(), &[], Overrides::default()).unwrap_err().to_string();
            assert!(text.contains(says) && text.contains("line 4"), "{grant}: {text}");
            let reload = Reload { file: Some(path.clone()), flags: Overrides::default() };
            assert_eq!(reload.culprit().as_deref(), Some("bad"), "{grant}");
        }
    }

    #[test]
    fn faults_name_the_key() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "[store]\ncash_bytes = 1\n").unwrap();
        let text = load(path.to_str(), &[], Overrides::default()).unwrap_err().to_string();
        assert!(text.contains("cash_bytes") && text.contains("line 2"), "{text}");
        let text = load(None, &[("MORTISE_SANDBOX_FUEL", "much")], Overrides::default()).unwrap_err().to_string();
        assert_eq!(text, "environment variable MORTISE_SANDBOX_FUEL: must be a whole number, got \"much\"");
        let text = load(Some("/nonexistent.toml"), &[], Overrides::default()).unwrap_err().to_string();
        assert!(text.contains("/nonexistent.toml"), "{text}");
        let text = load(None, &[("MORTISE_GRPC_ADDR", "here")], Overrides::default()).unwrap_err().to_string();
        assert_eq!(
            text,
            "environment variable MORTISE_GRPC_ADDR: grpc_addr: invalid socket address syntax, got \"here\""
        );
        let number = "99999999999999999999";
        let text = load(None, &[("MORTISE_SANDBOX_FUEL", number)], Overrides::default()).unwrap_err().to_string();
        assert!(text.ends_with(&format!("sandbox.fuel must be 1 to {}, got {number}", i64::MAX)), "{text}");
    }
}
