//! Configurations of applies. Core plans with the prior values of the attributes under `ignore_changes`, and applies
//! with the configuration as written; the planned state shows the values that were planned with.

use std::collections::BTreeMap;

use crate::value::Value;

/// The configuration with planned values where it has others. Parts that it leaves out stay so: the server fills them
/// in.
pub(super) fn as_planned(planned: &Value, config: &Value) -> Value {
    match (planned, config) {
        (Value::Unknown(_), config) => config.clone(),
        (_, Value::Null) => Value::Null,
        (Value::Map(planned), Value::Map(config)) => {
            let part = |(name, planned): (&String, &Value)| {
                (name.clone(), config.get(name).map_or_else(|| known(planned), |config| as_planned(planned, config)))
            };
            Value::Map(planned.iter().map(part).collect())
        }
        (Value::List(planned), Value::List(config)) if planned.len() == config.len() => {
            Value::List(planned.iter().zip(config).map(|(planned, config)| as_planned(planned, config)).collect())
        }
        (planned, _) => known(planned),
    }
}

/// The configuration with the planned values of parts that it leaves out and that were to stay as in the prior state.
pub(super) fn as_before(planned: &Value, prior: &Value, config: &Value) -> Value {
    match (planned, config) {
        (Value::Null, _) => config.clone(),
        (planned, Value::Null) if planned == prior => planned.clone(),
        (Value::Map(planned), Value::Map(config)) => {
            let part = |(name, config): (&String, &Value)| {
                let planned = planned.get(name).unwrap_or(&Value::Null);
                (name.clone(), as_before(planned, prior.get(name), config))
            };
            Value::Map(config.iter().map(part).collect::<BTreeMap<_, _>>())
        }
        (Value::List(planned), Value::List(config)) if planned.len() == config.len() => {
            let before: &[Value] = if let Value::List(before) = prior { before } else { &[] };
            let item =
                |(index, (planned, config))| as_before(planned, before.get(index).unwrap_or(&Value::Null), config);
            Value::List(planned.iter().zip(config).enumerate().map(item).collect())
        }
        _ => config.clone(),
    }
}

/// A planned value without the parts that the server fills in.
fn known(planned: &Value) -> Value {
    match planned {
        Value::Unknown(_) => Value::Null,
        Value::Map(parts) => Value::Map(parts.iter().map(|(name, part)| (name.clone(), known(part))).collect()),
        Value::List(items) => Value::List(items.iter().map(known).collect()),
        other => other.clone(),
    }
}
