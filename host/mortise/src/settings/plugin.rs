//! Turns `[plugin.<name>.settings]` from TOML into JSON for the plugin; its grants go along. A wrong `log_level` is
//! refused here, too, so that a configuration is checked in the same way when it is read again.
//!
//! Dates and times become strings as TOML writes them. `inf` and `nan`, which JSON does not have, are refused with
//! their key.

use std::collections::BTreeMap;

use mortise_plugin_host::{Grants, PluginSettings, threshold};
use mortise_registry::{Policy, Reference, Update};
use mortise_resource::name;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value};
use toml::Table;

use super::error::SettingError;
use crate::bundled;

/// The table of one plugin.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct PluginConfig {
    pub(crate) log_level: String,
    /// Its place in a registry, such as `oci://ghcr.io/acme/demo:1.2.0`; empty for a plugin of another source.
    pub(crate) source: String,
    /// Newer versions than that of `source` that the server installs by itself.
    pub(crate) update: Update,
    /// The plugin's own settings; the plugin gets all of them.
    pub(crate) settings: Table,
    /// Rights of the plugin's controllers beyond the plugin's own types.
    pub(crate) grants: Grants,
}

impl Default for PluginConfig {
    fn default() -> Self {
        Self {
            log_level: "info".into(),
            source: String::new(),
            update: Update::Pin,
            settings: Table::new(),
            grants: Grants::default(),
        }
    }
}

/// The settings of every plugin that the configuration names.
pub(crate) fn read(plugins: &BTreeMap<String, PluginConfig>) -> Result<PluginSettings, SettingError> {
    let mut all = PluginSettings::default();
    for (name, plugin) in plugins {
        if threshold(&plugin.log_level).is_none() {
            return Err(SettingError::PluginLogLevel { plugin: name.clone(), level: plugin.log_level.clone() });
        }
        source(name, plugin)?;
        all.set(name, object(&plugin.settings, &format!("plugin.{name}.settings"))?);
        all.grant(name, plugin.grants.clone());
    }
    Ok(all)
}

/// A plugin, and its place in a registry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) plugin: String,
    pub(crate) reference: Reference,
    /// Newer versions to install; `None` for the reference alone.
    pub(crate) policy: Option<Policy>,
}

/// The plugins that come from registries.
pub(crate) fn sources(plugins: &BTreeMap<String, PluginConfig>) -> Result<Vec<Source>, SettingError> {
    plugins.iter().filter_map(|(name, plugin)| source(name, plugin).transpose()).collect()
}

fn source(name: &str, config: &PluginConfig) -> Result<Option<Source>, SettingError> {
    let (plugin, update) = (name.to_owned(), config.update);
    if config.source.is_empty() {
        return if update == Update::Pin {
            Ok(None)
        } else {
            Err(SettingError::UpdateWithoutSource { plugin, update })
        };
    }
    if !name::is_valid(&plugin) {
        return Err(SettingError::NotAPluginName { plugin });
    }
    if bundled::find(&plugin).is_some() {
        return Err(SettingError::SourceOfBundled { plugin });
    }
    let reference: Reference = match config.source.parse() {
        Ok(reference) => reference,
        Err(source) => return Err(SettingError::PluginSource { plugin, source }),
    };
    let policy = match update {
        Update::Pin => None,
        _ if reference.digest.is_some() => return Err(SettingError::UpdateOfDigest { plugin, update }),
        _ => match Policy::new(reference.tag(), update) {
            Some(policy) => Some(policy),
            None => return Err(SettingError::UpdateOfTag { plugin, update, tag: reference.tag().to_owned() }),
        },
    };
    Ok(Some(Source { plugin, reference, policy }))
}

/// Returns the fault of each plugin's table that has one.
pub(crate) fn faults(plugins: &BTreeMap<String, PluginConfig>) -> impl Iterator<Item = SettingError> {
    plugins.iter().filter_map(|(name, plugin)| read(&BTreeMap::from([(name.clone(), plugin.clone())])).err())
}

fn object(table: &Table, path: &str) -> Result<Map<String, Value>, SettingError> {
    table.iter().map(|(key, item)| Ok((key.clone(), value(item, &format!("{path}.{key}"))?))).collect()
}

fn value(from: &toml::Value, path: &str) -> Result<Value, SettingError> {
    Ok(match from {
        toml::Value::String(text) => Value::from(text.as_str()),
        toml::Value::Integer(number) => Value::from(*number),
        toml::Value::Float(number) => Number::from_f64(*number)
            .map(Value::Number)
            .ok_or_else(|| SettingError::NotFinite { key: path.to_owned() })?,
        toml::Value::Boolean(truth) => Value::from(*truth),
        toml::Value::Datetime(time) => Value::from(time.to_string()),
        toml::Value::Array(items) => {
            let items = items.iter().enumerate().map(|(n, item)| value(item, &format!("{path}[{n}]")));
            Value::Array(items.collect::<Result<_, _>>()?)
        }
        toml::Value::Table(table) => Value::Object(object(table, path)?),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_text(text: &str) -> Result<PluginSettings, SettingError> {
        read(&text.parse::<Table>().unwrap().try_into()?)
    }

    #[test]
    fn every_kind_of_value_has_its_json() {
        let all = read_text(
            "[demo.settings]\ntext = \"a\"\nnumber = -3\nreal = 0.5\ntruth = true\nday = 2026-01-02\n\
             list = [1, { x = \"y\" }]\n[demo.settings.inner]\nz = []\n[empty]\n",
        )
        .unwrap();
        let expected = r#"{"day":"2026-01-02","inner":{"z":[]},"list":[1,{"x":"y"}],"number":-3,"real":0.5,"text":"a","truth":true}"#;
        assert_eq!(all.for_plugin("demo").to_string(), expected);
        assert_eq!(all.for_plugin("empty").to_string(), "{}");
        assert_eq!(all.names().collect::<Vec<_>>(), ["demo", "empty"]);
    }

    #[test]
    fn grants_go_along() {
        let all = read_text("[demo.grants]\nread = [\"edge.v1.Route\"]\n[other]\n").unwrap();
        assert_eq!(all.grants_of("demo").read[0].to_string(), "edge.v1.Route");
        assert_eq!(*all.grants_of("other"), Grants::default());
        assert_ne!(all, read_text("[demo]\n[other]\n").unwrap(), "a change of grants is a change");
    }

    #[test]
    fn a_log_level_that_is_none_is_refused_with_its_plugin() {
        let fault = read_text("[demo]\n[other]\nlog_level = \"loud\"\n").unwrap_err().to_string();
        assert!(fault.starts_with("plugin.other.log_level \"loud\" is not a level; use off, error,"), "{fault}");
    }

    #[test]
    fn an_update_needs_a_version_to_count_from() {
        let read_source = |source: &str, update: &str| {
            let digest = format!("sha256:{}", "0".repeat(64));
            let source = source.replace("DIGEST", &digest);
            read_text(&format!("[stamp]\nsource = \"{source}\"\nupdate = \"{update}\"\n"))
                .map_err(|error| error.to_string())
        };
        for (source, update) in [("oci://a.example/x:v1.2.0", "patch"), ("oci://a.example/x:1.2.0@DIGEST", "pin")] {
            read_source(source, update).unwrap();
        }
        for (source, update, fault) in [
            ("", "patch", "plugin.stamp.update is patch, but plugin.stamp.source is empty"),
            (
                "oci://a.example/x:1.2.0@DIGEST",
                "minor",
                "plugin.stamp.update is minor, and the digest in plugin.stamp.source",
            ),
            ("oci://a.example/x", "minor", "plugin.stamp.update is minor, and the tag \"latest\""),
            ("oci://a.example/x:1.2", "patch", "plugin.stamp.update is patch, and the tag \"1.2\""),
        ] {
            let error = read_source(source, update).unwrap_err();
            assert!(error.starts_with(fault), "{error}");
        }
        let fault = read_source("oci://a.example/x:1.2.0", "major").unwrap_err();
        assert!(fault.contains("unknown variant `major`"), "{fault}");
    }

    #[test]
    fn what_json_cannot_say_is_refused_with_its_key() {
        let fault = read_text("[demo.settings]\nlist = [{ x = [inf] }]\n").unwrap_err().to_string();
        assert!(fault.starts_with("plugin.demo.settings.list[0].x[0]: must be finite"), "{fault}");
    }
}
