//! The settings of plugins: what stands in config.toml under `[plugin.<name>.settings]`.

use std::collections::BTreeMap;

use serde_json::Value;

/// Settings by plugin name. `Default` has none.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PluginSettings(BTreeMap<String, Value>);

impl PluginSettings {
    /// From names and objects.
    #[must_use]
    pub fn new(settings: BTreeMap<String, Value>) -> Self {
        Self(settings)
    }

    /// The settings of one plugin; an empty object when there are none.
    #[must_use]
    pub fn of(&self, name: &str) -> &Value {
        static NONE: std::sync::LazyLock<Value> = std::sync::LazyLock::new(|| Value::Object(serde_json::Map::new()));
        self.0.get(name).unwrap_or(&NONE)
    }
}
