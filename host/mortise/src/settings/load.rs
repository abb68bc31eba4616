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
    renamed,
    store::Engine,
    table::{Config, SECTIONS},
    test_limits::TestLimits,
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

    /// The flags.
    pub(crate) fn flags(&self) -> &Overrides {
        &self.flags
    }

    /// The configuration as file, environment and flags have it now.
    pub(crate) fn read(&self) -> Result<Config, ConfigError> {
        let env = |name: &str| std::env::var(name).ok();
        Settings::load(self.file(), &env, self.flags.clone()).map(|settings| settings.config)
    }

    /// The plugin with a wrong table in the file.
    pub(crate) fn culprit(&self) -> Option<String> {
        let table: Table = std::fs::read_to_string(self.file()?).ok()?.parse().ok()?;
        let plugins = table.get("plugin")?.as_table()?;
        let broken = |(name, table): &(&String, &Value)| {
            let config = PluginConfig::deserialize((*table).clone());
            config.is_err()
                || config.is_ok_and(|config| plugin::read(&BTreeMap::from([((*name).clone(), config)])).is_err())
        };
        plugins.iter().find(broken).map(|(name, _)| name.clone())
    }
}

/// Settings from flags.
#[derive(Debug, Clone, Default)]
pub(crate) struct Overrides {
    pub(crate) grpc_addr: Option<SocketAddr>,
    pub(crate) http_addr: Option<SocketAddr>,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) plugin_dir: Option<PathBuf>,
    pub(crate) store_engine: Option<Engine>,
    /// Addresses, separated by commas.
    pub(crate) etcd_endpoints: Option<String>,
    /// Sets `allow_insecure`.
    pub(crate) insecure: bool,
}

impl Overrides {
    /// Lays the flags over the settings.
    pub(super) fn apply(&self, table: &mut Table) {
        let text = |dir: &PathBuf| dir.to_string_lossy().into_owned();
        for (key, value) in [
            ("grpc_addr", self.grpc_addr.map(|addr| addr.to_string())),
            ("http_addr", self.http_addr.map(|addr| addr.to_string())),
            ("data_dir", self.data_dir.as_ref().map(text)),
            ("plugin_dir", self.plugin_dir.as_ref().map(text)),
        ] {
            table.extend(value.map(|value| (key.to_owned(), Value::String(value))));
        }
        // The overlay of the environment has made every table.
        if let Some(store) = table.get_mut("store").and_then(Value::as_table_mut) {
            // The name of an engine is a text in every form.
            store.extend(
                self.store_engine.and_then(|engine| Some(("engine".to_owned(), Value::try_from(engine).ok()?))),
            );
            if let (Some(text), Some(Value::Table(etcd))) = (&self.etcd_endpoints, store.get_mut("etcd")) {
                let listed = text.split(',').map(str::trim).filter(|addr| !addr.is_empty());
                let listed = listed.map(|addr| Value::String(addr.to_owned())).collect();
                etcd.insert("endpoints".to_owned(), Value::Array(listed));
            }
        }
        if self.insecure {
            table.insert("allow_insecure".to_owned(), Value::Boolean(true));
        }
    }

    /// Returns the flag that sets this key.
    pub(super) fn flag(&self, key: &str) -> Option<&'static str> {
        let (flag, is_given) = match key {
            "grpc_addr" => ("--grpc-addr", self.grpc_addr.is_some()),
            "http_addr" => ("--http-addr", self.http_addr.is_some()),
            "data_dir" => ("--data-dir", self.data_dir.is_some()),
            "plugin_dir" => ("--plugin-dir", self.plugin_dir.is_some()),
            "store.engine" => ("--store-engine", self.store_engine.is_some()),
            "store.etcd.endpoints" => ("--etcd-endpoints", self.etcd_endpoints.is_some()),
            "allow_insecure" => ("--insecure", self.insecure),
            _ => return None,
        };
        is_given.then_some(flag)
    }
}

/// The configuration with the origin of its settings.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// The settings that were set, even to their default.
    pub(crate) given: Given,
    /// The source for reading it again.
    pub(crate) reload: Reload,
}

/// Whether settings are set for which `mortise dev` has its own defaults.
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
    /// `plugins.load_unsigned`.
    pub(crate) load_unsigned: bool,
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
            renamed::check_table(&table).map_err(at_fault)?;
            check_ranges(SECTIONS, "", &table).map_err(|e| at_fault(e.into()))?;
            // Straight from the text into the type: these errors point at lines.
            toml::from_str::<Config>(&text).map_err(|e| at_fault(e.into()))?;
        }
        let defaults = Table::try_from(Config::default()).map_err(|e| SettingError::Defaults(Box::new(e)))?;
        renamed::check_environment(env)?;
        overlay("", &defaults, &mut table, env)?;
        flags.apply(&mut table);

        let within = |section: &str, key: &str| table.get(section).is_some_and(|section| section.get(key).is_some());
        let given = Given {
            data_dir: table.contains_key("data_dir"),
            plugin_dir: table.contains_key("plugin_dir"),
            dns: within("dns", "enabled"),
            acl: within("acl", "enabled"),
            audit: within("audit", "events"),
            load_unsigned: within("plugins", "load_unsigned"),
        };
        // File, environment and flags were each checked before, so a fault here would have no place.
        let mut config: Config = table.try_into().map_err(SettingError::from)?;
        config.test_limits = TestLimits::read(env)?;
        config.check().map_err(|source| {
            // Each fault begins with its key. If the variable of that key is set, it is the origin.
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
    use mortise_plugin_host::{
        grants::{GrantedLimits, Instances, Secret},
        units::{Millis, Seconds, Size},
    };
    use std::collections::HashMap;

    fn load(file: Option<&str>, env: &[(&str, &str)], flags: Overrides) -> Result<Settings, ConfigError> {
        let env: HashMap<_, _> = env.iter().copied().collect();
        Settings::load(file.map(Path::new), &|name| env.get(name).map(|v| (*v).to_owned()), flags)
    }

    #[test]
    fn flags_beat_the_environment_which_beats_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "data_dir = \"file\"\nplugin_dir = \"file\"\n[store]\nhistory_events = 7\n").unwrap();
        let env = [
            ("MORTISE_DATA_DIR", "env"),
            ("MORTISE_STORE_CACHE_BYTES", "99000"),
            ("MORTISE_PLUGINS_BUNDLED", "demo, routes"),
        ];
        let flags = Overrides { data_dir: Some("flag".into()), ..Default::default() };
        let settings = load(path.to_str(), &env, flags).unwrap();
        assert_eq!(settings.config.data_dir, Path::new("flag"));
        assert_eq!(settings.config.plugin_dir, Path::new("file"));
        assert_eq!(settings.config.store.cache_bytes, Size(99_000));
        assert_eq!(settings.config.store.history_events, 7);
        assert_eq!(settings.config.plugins.bundled, ["demo", "routes"]);
        assert!(settings.given.data_dir);
    }

    #[test]
    fn tests_have_limits_of_their_own() {
        let read = |text| load(None, &[("MORTISE_TEST_LIMITS", text)], Overrides::default()).map(|read| read.config);
        assert_eq!(
            read("dns_connections = 2\ndns_idle_ms = \"1s\"").unwrap().test_limits.dns_idle_ms,
            Some(Millis(1_000))
        );
        let fault = read("dns_conections = 2").unwrap_err().to_string();
        assert!(
            fault.starts_with("environment variable MORTISE_TEST_LIMITS: ") && fault.contains("dns_conections"),
            "{fault}"
        );
    }

    #[test]
    fn an_old_name_is_refused_with_the_new_one() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        std::fs::write(&path, "[kv]\nvalues = 7\n").unwrap();
        let fault = load(path.to_str(), &[], Overrides::default()).unwrap_err().to_string();
        assert!(fault.ends_with("c.toml: kv.values is now kv.keys"), "{fault}");
        let env = [("MORTISE_AUDIT_WHEN_FULL", "drop")];
        let fault = load(None, &env, Overrides::default()).unwrap_err().to_string();
        assert_eq!(fault, "environment variable MORTISE_AUDIT_WHEN_FULL: audit.when_full is now audit.on_full");
    }

    #[test]
    fn sizes_and_times_are_read_with_and_without_units() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        let load_text = |text: &str| {
            std::fs::write(&path, text).unwrap();
            load(path.to_str(), &[], Overrides::default()).map(|settings| settings.config).map_err(|e| e.to_string())
        };
        let text = "[store]\ncache_bytes = \"2 MiB\"\nhistory_bytes = 1048576\n[http]\nkeep_alive_ms = \"1m\"\n[dns]\nttl_s = \"2s\"\n";
        let config = load_text(text).unwrap();
        assert_eq!((config.store.cache_bytes, config.store.history_bytes), (Size(2 << 20), Size(1 << 20)));
        assert_eq!((config.http.keep_alive_ms, config.dns.ttl_s), (Millis(60_000), Seconds(2)));
        let fault = load_text("[store]\nmax_resource_bytes = \"1 Mb\"\n").unwrap_err();
        let says = "store.max_resource_bytes: \"1 Mb\" is not a size; write a number of bytes or a number with B, KiB, MiB, GiB or TiB";
        assert_eq!(fault, format!("configuration {}: {says}", path.display()));
        let fault = load_text("shutdown_grace_ms = \"25h\"\n").unwrap_err();
        assert!(fault.ends_with("shutdown_grace_ms must be 0 to 24h, got 25h"), "{fault}");
        let config = load(None, &[("MORTISE_HTTP_KEEP_ALIVE_MS", "2s")], Overrides::default()).unwrap().config;
        assert_eq!(config.http.keep_alive_ms, Millis(2_000));
    }

    #[test]
    fn grants_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.toml");
        let text = "[plugin.demo.grants]\nread = [\"edge.v1.Route\"]\nwrite = [\"mesh.v1.*\"]\n\
                    directories = { out = { path = \"/srv/out\", write = true, bytes = \"1MiB\" }, in = { path = \"/srv/in\" } }\n\
                    secrets = { token = { file = \"/run/token\" }, key = { env = \"KEY\" } }\n\
                    instances = \"reuse\"\nlimits = { memory_bytes = \"64MiB\", fuel = 7, deadline_ms = \"1s\" }\n";
        std::fs::write(&path, text).unwrap();
        let config = load(path.to_str(), &[], Overrides::default()).unwrap().config;
        let grants = &config.plugin["demo"].grants;
        assert_eq!(
            grants.read.iter().chain(&grants.write).map(ToString::to_string).collect::<Vec<_>>(),
            ["edge.v1.Route", "mesh.v1.*"]
        );
        assert!(grants.directories["out"].write && !grants.directories["in"].write);
        assert_eq!(grants.directories["out"].bytes, Some(Size(1 << 20)));
        assert_eq!(grants.secrets["token"], Secret::File("/run/token".into()));
        assert_eq!(grants.secrets["key"], Secret::Env("KEY".into()));
        assert_eq!(grants.instances, Instances::Reuse);
        let limits =
            GrantedLimits { memory_bytes: Some(Size(64 << 20)), fuel: Some(7), deadline_ms: Some(Millis(1_000)) };
        assert_eq!(grants.limits, limits);
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
            ("instances = \"warm\"", "unknown variant `warm`, expected `fresh` or `reuse`"),
            ("limits = { memory = 1 }", "unknown field `memory`"),
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
        let fault = "sandbox.fuel: \"much\" is not a whole number; write digits alone";
        assert_eq!(text, format!("environment variable MORTISE_SANDBOX_FUEL: {fault}"));
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
