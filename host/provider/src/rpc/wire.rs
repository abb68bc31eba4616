//! Values on the wire.

use super::diagnostic::{error, value_error};
use crate::{
    proto::tfplugin6::{Diagnostic, DynamicValue},
    value::{Type, Value, json, msgpack},
};

/// Decodes a value. An absent value is null.
pub(crate) fn decode(value: Option<&DynamicValue>, value_type: &Type) -> Result<Value, Vec<Diagnostic>> {
    let decoded = match value {
        None => Ok(Value::Null),
        Some(value) if !value.msgpack.is_empty() => msgpack::decode(&value.msgpack, value_type),
        Some(value) if !value.json.is_empty() => json::decode(&value.json, value_type),
        Some(_) => Ok(Value::Null),
    };
    decoded.map_err(|fault| {
        let hint = "Types of the server may have changed during the run; run the command again.";
        let found = value_error(&fault);
        let detail = if found.detail.is_empty() { hint.to_owned() } else { format!("{}. {hint}", found.detail) };
        vec![Diagnostic { detail, ..found }]
    })
}

/// Decodes a value that has to be an object.
pub(crate) fn decode_object(value: Option<&DynamicValue>, value_type: &Type) -> Result<Value, Vec<Diagnostic>> {
    match decode(value, value_type)? {
        found @ Value::Map(_) => Ok(found),
        _ => Err(vec![error("core sent a value that is not an object", "")]),
    }
}

/// Encodes a value.
pub(crate) fn encode(value: &Value) -> Option<DynamicValue> {
    Some(DynamicValue { msgpack: msgpack::encode(value), json: Vec::new() })
}
