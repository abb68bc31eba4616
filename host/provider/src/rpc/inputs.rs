//! Inputs of core in the provider's terms: stored states of any version, and the provider's own configuration.

use super::diagnostic::{error, error_at, value_error};
use crate::{
    client::ConnectionSettings,
    proto::tfplugin6::{Diagnostic, RawState},
    schema::ResourceSchema,
    state::{CONTROLLER_KEYS, ControllerKeys, Defaults},
    value::{Step, Type, Value, json},
};

type Faults = Vec<Diagnostic>;

/// Converts a state of any version of the type to the current form. The server has upgraded the resource itself, and a
/// read follows; so only attributes that both versions have are kept.
pub(super) fn upgrade(schema: &ResourceSchema, raw: Option<&RawState>) -> Result<Value, Faults> {
    let Some(raw) = raw.filter(|raw| !raw.json.is_empty()) else {
        return Err(vec![error("the state has the form of Terraform before 0.12, which is not supported", "")]);
    };
    let kind = schema.to_type();
    let state = json::decode_older(&raw.json, &kind).map_err(|fault| vec![value_error(&fault)])?;
    let Value::Map(mut parts) = state else { return Err(vec![error("the state is not an object", "")]) };
    // A block is never null.
    if let (Some(Value::Null), Type::Object(attributes)) = (parts.get("data"), &kind)
        && let Some(Type::Object(fields)) = attributes.get("data")
    {
        let empty = fields.keys().map(|name| (name.clone(), Value::Null)).collect();
        parts.insert("data".to_owned(), Value::Map(empty));
    }
    Ok(Value::Map(parts))
}

/// The settings of the server and of default tenancy units in a configuration.
pub(super) fn settings(config: &Value) -> Result<(ConnectionSettings, Defaults), Faults> {
    if !config.is_wholly_known() {
        let detail = "It depends on values that exist only after an apply. Apply those first, with -target.";
        return Err(vec![error("the provider's configuration is not known yet", detail)]);
    }
    let text = |name: &str| config.get(name).as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned);
    let settings = ConnectionSettings {
        address: text("address"),
        token: text("token"),
        token_file: text("token_file"),
        ca_file: text("ca_file"),
        client_cert: text("client_cert"),
        client_key: text("client_key"),
        tls_server_name: text("tls_server_name"),
    };
    let labels = match config.get("default_labels") {
        Value::Map(labels) => labels
            .iter()
            .map(|(key, value)| match value.as_str() {
                Some(text) => Ok((key.clone(), text.to_owned())),
                None => Err(vec![error_at(
                    &[Step::Attribute("default_labels".to_owned())],
                    format!("the label {key:?} is null"),
                )]),
            })
            .collect::<Result<_, Faults>>()?,
        _ => Default::default(),
    };
    let keys = ControllerKeys::read(config.get(CONTROLLER_KEYS));
    let controller_keys = keys.map_err(|faults| faults.iter().map(value_error).collect::<Faults>())?;
    Ok((settings, Defaults { partition: text("partition"), namespace: text("namespace"), labels, controller_keys }))
}
