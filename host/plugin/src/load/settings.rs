//! Settings and grants of single plugins, by the plugins' names: `[plugin.<name>.settings]` and
//! `[plugin.<name>.grants]` in config.toml.
//!
//! Settings are one JSON object for each plugin. They reach the plugin as text, through the contract's `config`,
//! bounded by `Limits::settings_bytes`. A [`crate::Plugin`] keeps the settings that it was loaded with for as long as
//! it lives; other settings, or other grants, make another `Plugin`, with an empty cache of decisions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use serde_json::{Map, Value};

use crate::{error::LoadError, grants::Grants};

/// Empty settings, as a plugin sees them.
pub(crate) const EMPTY_SETTINGS: &str = "{}";

/// Settings and grants of every plugin, by name. The default has none, and grants nothing.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginSettings {
    settings: BTreeMap<String, Value>,
    granted: BTreeMap<String, Grants>,
}

impl PluginSettings {
    /// Replaces the settings of the plugin of that name.
    pub fn set(&mut self, name: impl Into<String>, settings: Map<String, Value>) {
        self.settings.insert(name.into(), Value::Object(settings));
    }

    /// Settings of the plugin of that name: always an object, empty if none were set.
    #[must_use]
    pub fn for_plugin(&self, name: &str) -> &Value {
        static NOTHING: LazyLock<Value> = LazyLock::new(|| Value::Object(Map::new()));
        self.settings.get(name).unwrap_or(&NOTHING)
    }

    /// Replaces the grants of the plugin of that name.
    pub fn grant(&mut self, name: impl Into<String>, grants: Grants) {
        self.granted.insert(name.into(), grants);
    }

    /// Grants of the plugin of that name.
    #[must_use]
    pub fn grants_of(&self, name: &str) -> &Grants {
        static NOTHING: LazyLock<Grants> = LazyLock::new(Grants::default);
        self.granted.get(name).unwrap_or(&NOTHING)
    }

    /// Names of plugins with settings or grants, in order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let names: BTreeSet<_> = self.settings.keys().chain(self.granted.keys()).map(String::as_str).collect();
        names.into_iter()
    }

    /// Settings as the plugin gets them: JSON, within the limit of bytes.
    pub(crate) fn text(&self, name: &str, limit: usize) -> Result<Arc<str>, LoadError> {
        let text = self.for_plugin(name).to_string();
        if text.len() > limit {
            return Err(LoadError::Settings {
                key: key(name, ""),
                what: format!("they take {} bytes as JSON, more than the limit of {limit} (a fixed limit)", text.len()),
            });
        }
        Ok(text.into())
    }
}

/// Key in config.toml of one setting, or of all of them if `path` is empty.
pub(crate) fn key(name: &str, path: &str) -> String {
    match path {
        "" => format!("plugin.{name}.settings"),
        // An index needs no dot.
        path if path.starts_with('[') => format!("plugin.{name}.settings{path}"),
        path => format!("plugin.{name}.settings.{path}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_settings_are_an_empty_object() {
        let mut all = PluginSettings::default();
        assert_eq!(all.for_plugin("demo").to_string(), EMPTY_SETTINGS);
        all.set("demo", Map::from_iter([("a".to_owned(), Value::from(1))]));
        assert_eq!(all.for_plugin("demo").to_string(), r#"{"a":1}"#);
        assert_eq!(all.for_plugin("other").to_string(), EMPTY_SETTINGS);
        assert_eq!(all.names().collect::<Vec<_>>(), ["demo"]);
    }

    #[test]
    fn settings_are_bounded_and_the_fault_names_the_keys() {
        let mut all = PluginSettings::default();
        all.set("demo", Map::from_iter([("a".to_owned(), Value::from("x".repeat(100)))]));
        assert!(all.text("demo", 108).is_ok());
        let fault = all.text("demo", 107).unwrap_err().to_string();
        assert_eq!(
            fault,
            "settings plugin.demo.settings: they take 108 bytes as JSON, more than the limit of 107 \
             (a fixed limit)"
        );
    }

    #[test]
    fn keys_are_as_they_stand_in_the_file() {
        assert_eq!(key("demo", ""), "plugin.demo.settings");
        assert_eq!(key("demo", "a.b"), "plugin.demo.settings.a.b");
        assert_eq!(key("demo", "[0].a"), "plugin.demo.settings[0].a");
    }
}
