//! Checks of a configuration without a server; they skip unknown parts.

use std::sync::LazyLock;

use mortise_resource::name;
use tonic::codegen::http::uri::Authority;

use super::{
    companions,
    diagnostic::{error, error_at, value_error},
    read::listed_type,
    search::condition_faults,
    wait::{field_path, wait_timeout},
};
use crate::{
    mapping::{Attribute, Object, Shape},
    proto::tfplugin6::Diagnostic,
    schema::{ProviderSchema, ResourceSchema},
    state::{CONTROLLER_KEYS, ControllerKeys, Defaults, request, revealed_config},
    value::{PathText, Step, Value},
};

static NO_DEFAULTS: LazyLock<Defaults> = LazyLock::new(Defaults::default);

/// Checks the configuration of a resource. `takes_write_only` says whether core keeps values that are only written out
/// of its files.
pub(crate) fn resource(schema: &ResourceSchema, config: &Value, takes_write_only: bool) -> Vec<Diagnostic> {
    let mut found = companions::faults(schema, config, takes_write_only);
    for unit in ["name", "partition", "namespace"] {
        if let Some(fault) = config.get(unit).as_str().and_then(name::fault) {
            found.push(error_at(&[Step::Attribute(unit.to_owned())], fault));
        }
    }
    for path in schema.set_by_server(config) {
        let summary = format!("the server sets {}; remove it from the configuration", PathText(&path));
        found.push(error_at(&path, summary));
    }
    for path in [["wait", "timeout"], ["timeouts", "create"], ["timeouts", "update"], ["timeouts", "delete"]] {
        let text = path.iter().fold(config, |value, name| value.get(name)).as_str();
        if let Some(Err(fault)) = text.map(wait_timeout) {
            found.push(error_at(&path.map(|name| Step::Attribute(name.to_owned())), fault.to_string()));
        }
    }
    for name in ["labels", "annotations", "tags"] {
        let has_null = match config.get(name) {
            Value::Map(entries) => entries.values().any(Value::is_null),
            Value::List(items) => items.iter().any(Value::is_null),
            _ => false,
        };
        if has_null {
            found.push(error_at(&[Step::Attribute(name.to_owned())], "null cannot be an element"));
        }
    }
    if let Value::Map(fields) = config.get("wait").get("fields") {
        for text in fields.keys().filter(|text| field_path(schema, text).is_none()) {
            let path = ["wait", "fields"].map(|name| Step::Attribute(name.to_owned()));
            let summary = format!("{text:?} is not the path of a single value, such as data.address");
            found.push(error_at(&path, summary));
        }
    }
    let config = revealed_config(schema, config);
    let known = known_object(&schema.data, config.get("data"));
    let config = match &config {
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

/// Checks the configuration of a data source: the name of a resource, or the type of a list.
pub(crate) fn data_source(schema: &ProviderSchema, name: &str, config: &Value) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    for unit in ["name", "partition", "namespace"] {
        let text = config.get(unit).as_str().filter(|text| !(name == schema.list_name() && *text == "*"));
        if let Some(fault) = text.and_then(name::fault) {
            found.push(error_at(&[Step::Attribute(unit.to_owned())], fault));
        }
    }
    if name == schema.list_name() && config.get("type").as_str().is_some() {
        match listed_type(schema, config) {
            Ok(listed) => return condition_faults(listed, config),
            Err(faults) => found.extend(faults),
        }
    }
    found
}

/// Checks the configuration of the provider.
pub(crate) fn provider(config: &Value) -> Vec<Diagnostic> {
    let mut found = Vec::new();
    if !config.get("token").is_null() && !config.get("token_file").is_null() {
        found.push(error("only one of token and token_file may be set", ""));
    }
    if let Some(address) = config.get("address").as_str().filter(|address| !is_address(address)) {
        let summary = format!("{address:?} is not an address; write host:port, https://host:port or unix:///path");
        found.push(error_at(&[Step::Attribute("address".to_owned())], summary));
    }
    let faults = ControllerKeys::read(config.get(CONTROLLER_KEYS)).err().unwrap_or_default();
    found.extend(faults.iter().map(value_error));
    found
}

/// Whether a text has the form of a server's address. The empty text leaves the address to the environment.
fn is_address(text: &str) -> bool {
    if let Some(path) = text.strip_prefix("unix://") {
        return path.starts_with('/');
    }
    let rest = ["https://", "http://"].iter().find_map(|scheme| text.strip_prefix(scheme)).unwrap_or(text);
    let authority = rest.parse::<Authority>();
    text.is_empty() || authority.is_ok_and(|authority| !authority.host().is_empty() && is_port(&authority))
}

/// Whether an authority has no port, or a number of 16 bits.
fn is_port(authority: &Authority) -> bool {
    authority.port().is_some() || authority.as_str().ends_with(authority.host())
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
