//! Reads the settings: the file, the environment, flags.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
};

use serde::Deserialize as _;
use toml::{Table, Value};

use super::{
    declare::check_ranges,
    environment::{overlay, variable},
    error::{ConfigError, SettingError},
    plugin::{self, PluginConfig},
    table::{Config, SECTIONS},
};

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
            one.is_err() || one.is_ok_and(|one| plugin::read(&BTreeMap::from([((*name).clone(), one)])).is_err())
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

/// The configuration, and what of it was chosen.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// What was said, and is not the default.
    pub(crate) given: Given,
    /// How it is read again.
    pub(crate) reload: Reload,
}

/// Which settings somebody has set: without them `mortise dev` has its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) data_dir: bool,
    pub(crate) plugin_dir: bool,
    /// `dns.enabled`.
    pub(crate) dns: bool,
    /// `acl.enabled`.
    pub(crate) acl: bool,
    /// `audit.events`.
    pub(crate) audit: bool,
    /// `plugins.trust_folder`.
    pub(crate) trust: bool,
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
            let at_fault = |source: SettingError| ConfigError::File { path: path.clone(), source };
            table = text.parse().map_err(|e: toml::de::Error| at_fault(e.into()))?;
            check_ranges(SECTIONS, "", &table).map_err(|e| at_fault(e.into()))?;
            // Straight from the text into the type: these errors point at lines.
            toml::from_str::<Config>(&text).map_err(|e| at_fault(e.into()))?;
        }
        let defaults = Table::try_from(Config::default()).map_err(|e| SettingError::Defaults(Box::new(e)))?;
        overlay("", &defaults, &mut table, env)?;
        let mut given = |key: &str, value: Option<String>| {
            if let Some(value) = value {
                table.insert(key.to_owned(), Value::String(value));
            }
        };
        given("grpc_addr", flags.grpc_addr.map(|addr| addr.to_string()));
        given("http_addr", flags.http_addr.map(|addr| addr.to_string()));
        given("data_dir", flags.data_dir.map(|dir| dir.to_string_lossy().into_owned()));
        given("plugin_dir", flags.plugin_dir.map(|dir| dir.to_string_lossy().into_owned()));

        let within = |section: &str, key: &str| table.get(section).is_some_and(|section| section.get(key).is_some());
        let given = Given {
            data_dir: table.contains_key("data_dir"),
            plugin_dir: table.contains_key("plugin_dir"),
            dns: within("dns", "enabled"),
            acl: within("acl", "enabled"),
            audit: within("audit", "events"),
            trust: within("plugins", "trust_folder"),
        };
        let probation_given = within("quarantine", "probation_faults");
        let backoff_given = within("quarantine", "backoff_ms");
        // Every part of it was taken by itself before.
        let mut config: Config = table.try_into().map_err(SettingError::from)?;
        // A default follows the setting that bounds it.
        let rules = &mut config.quarantine;
        if !probation_given {
            rules.probation_faults = rules.probation_faults.min(rules.faults);
        }
        if !backoff_given {
            rules.backoff_ms = rules.backoff_ms.min(rules.max_backoff_ms);
        }
        config.check().map_err(|source| {
            // Every such fault begins with the key.
            let name = source.to_string().split(' ').next().map(variable).filter(|name| env(name).is_some());
            match (name, file) {
                (Some(name), _) => ConfigError::Environment { name, source },
                (None, Some(path)) => ConfigError::File { path: path.to_owned(), source },
                (None, None) => source.into(),
            }
        })?;
        Ok(Self { config, given, reload })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mortise_plugin_host::grants::Secret;
    use std::collections::HashMap;

    fn load(file: Option<&str>, env: &[(&str, &str)], flags: Overrides) -> Result<Settings, ConfigError> {
        let env: HashMap<_, _> = env.iter().copied().collect();
        Settings::load(file.map(Path::new), &|name| env.get(name).map(|v| (*v).to_owned()), flags)
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
        assert!(settings.given.data_dir);
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
            ("read = [\"Route\"]", "\"Route\" is not a type; write it as \"demo.v2.Artist\""),
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
