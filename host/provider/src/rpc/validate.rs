//! Checks of a configuration without a server; they skip unknown parts.

use std::{sync::LazyLock, time::Duration};

use mortise_resource::name;

use super::diagnostic::{error_at, value_error};
use crate::{
    mapping::{Attribute, Object, Shape},
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Defaults, request},
    value::{Step, Value},
};

static NO_DEFAULTS: LazyLock<Defaults> = LazyLock::new(Defaults::default);

/// Checks the configuration of a resource.
pub(crate) fn resource(schema: &ResourceSchema, config: &Value) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for unit in ["name", "partition", "namespace"] {
        if let Some(fault) = config.get(unit).as_str().and_then(name::fault) {
            found.push(error_at(&[Step::Attribute(unit.to_owned())], fault));
        }
    }
    let timeout = config.get("wait").get("timeout");
    if let Some(text) = timeout.as_str()
        && let Err(fault) = wait_timeout(text)
    {
        found.push(error_at(&["wait", "timeout"].map(|name| Step::Attribute(name.to_owned())), fault.to_string()));
    }
    let known = known_object(&schema.data, config.get("data"));
    let config = match config {
        Value::Map(parts) => {
            let mut parts = parts.clone();
            parts.insert("data".to_owned(), known);
            if !parts.get("metadata").is_some_and(Value::is_wholly_known) {
                parts.remove("metadata");
            }
            Value::Map(parts)
        }
        other => other.clone(),
    };
    let faults = request(schema, &config, &NO_DEFAULTS).err().unwrap_or_default();
    found.extend(faults.iter().map(value_error));
    found
}

/// Longest `wait.timeout`: a day.
const MAX_WAIT_TIMEOUT: Duration = Duration::from_secs(86_400);

/// A text that is not a `wait.timeout`.
#[derive(Debug, thiserror::Error)]
#[error("{0:?} is not a duration of at most a day, such as 90s or 5m")]
pub(crate) struct WaitTimeoutError(String);

/// Reads a `wait.timeout`: `90s`, `5m` or `1h30m`, of at most a day.
pub(crate) fn wait_timeout(text: &str) -> Result<Duration, WaitTimeoutError> {
    let parsed = text.parse::<jiff::SignedDuration>().ok().and_then(|parsed| Duration::try_from(parsed).ok());
    parsed.filter(|wait| *wait <= MAX_WAIT_TIMEOUT).ok_or_else(|| WaitTimeoutError(text.to_owned()))
}

/// A value without its unknown parts. A list with an unknown element is left out as a whole, since positions matter.
fn known_object(fields: &Object, value: &Value) -> Value {
    let Value::Map(attributes) = value else { return Value::Map(Default::default()) };
    let part = |attribute: &Attribute| {
        let value = attributes.get(&attribute.name).unwrap_or(&Value::Null);
        (attribute.name.clone(), known_value(&attribute.shape, value))
    };
    Value::Map(fields.attributes.iter().map(part).collect())
}

fn known_value(shape: &Shape, value: &Value) -> Value {
    match (shape, value) {
        (_, value) if value.is_wholly_known() => value.clone(),
        (Shape::Object(object), Value::Map(_)) => known_object(object, value),
        (Shape::List(element) | Shape::Set(element), Value::List(items)) => match &**element {
            Shape::Object(object) if !items.iter().any(|item| matches!(item, Value::Unknown(_))) => {
                Value::List(items.iter().map(|item| known_object(object, item)).collect())
            }
            _ => Value::Null,
        },
        (Shape::Map(element), Value::Map(entries)) => {
            let known = entries.iter().filter(|(_, value)| !matches!(value, Value::Unknown(_)));
            Value::Map(known.map(|(key, value)| (key.clone(), self::known_value(element, value))).collect())
        }
        _ => Value::Null,
    }
}
