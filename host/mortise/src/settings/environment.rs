//! Settings from the environment: `MORTISE_` and the key in upper case, joined by underscores.

use serde::Deserialize as _;
use toml::{Table, Value};

use super::{
    declare::range,
    error::{ConfigError, SettingError},
    flag::with_local_host,
    table::{Config, SECTIONS},
};

/// The environment variable of a key.
pub(crate) fn variable(key: &str) -> String {
    format!("MORTISE_{}", key.to_uppercase().replace('.', "_"))
}

/// Lays variables over the table, for every key that has a default, in the default's type. Keys begin with `section`.
pub(crate) fn overlay(
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
            overlay(&format!("{full}."), defaults, &mut inner, env)?;
            table.insert(key.clone(), Value::Table(inner));
        } else if let Some(text) = env(&name) {
            let text = if full.ends_with("addr") { with_local_host(&text) } else { text };
            let value = parse(&full, default, &text).map_err(|source| ConfigError::Environment { name, source })?;
            table.insert(key.clone(), value);
        }
    }
    Ok(())
}

/// Variables of all settings that have a default.
pub(crate) fn variables() -> Vec<String> {
    keys().iter().map(|key| variable(key)).collect()
}

/// Keys of all settings that have a default.
fn keys() -> Vec<String> {
    fn collect(section: &str, table: &Table, found: &mut Vec<String>) {
        for (key, value) in table {
            match value {
                Value::Table(inner) => collect(&format!("{section}{key}."), inner, found),
                _ => found.push(format!("{section}{key}")),
            }
        }
    }
    let mut found = Vec::new();
    collect("", &Table::try_from(Config::default()).unwrap_or_default(), &mut found);
    found
}

/// Returns the key of each setting with a variable that is set.
pub(crate) fn given(env: &impl Fn(&str) -> Option<String>) -> Vec<(String, String)> {
    let set = |key: String| Some((variable(&key), key)).filter(|(name, _)| env(name).is_some());
    keys().into_iter().filter_map(set).collect()
}

fn parse(key: &str, default: &Value, text: &str) -> Result<Value, SettingError> {
    let owned = || text.to_owned();
    if let Some(range) = range(SECTIONS, key) {
        return Ok(Value::Integer(range.read(key, text)?));
    }
    let value = match default {
        Value::Boolean(_) => {
            Value::Boolean(text.parse().map_err(|source| SettingError::NoBool { text: owned(), source })?)
        }
        Value::Array(_) => {
            let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
            Value::Array(items.map(|item| Value::String(item.to_owned())).collect())
        }
        _ => Value::String(owned()),
    };
    // By itself: what is wrong with the whole configuration would not say whose fault it is.
    let alone = key.rsplit('.').fold(value.clone(), |inner, key| Table::from_iter([(key.to_owned(), inner)]).into());
    Config::deserialize(alone).map_err(|source| SettingError::Variable {
        key: key.to_owned(),
        text: owned(),
        source: Box::new(source),
    })?;
    Ok(value)
}
