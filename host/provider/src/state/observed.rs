//! The state of a resource on the server.

use std::collections::BTreeMap;

use mortise_resource::{Scope, meta, pb, types::gvk};

use super::metadata_shape;
use crate::{
    mapping::{Divergences, from_data, undo},
    schema::ResourceSchema,
    value::{Step, Value, ValueError},
};

/// A resource cannot be converted to state.
#[derive(Debug, thiserror::Error)]
#[error("{what} cannot be converted to state: {source}")]
pub struct StateError {
    /// The resource.
    pub what: String,
    /// Cause.
    pub source: ValueError,
}

/// The state of a resource. It keeps the spelling of `prior` where the server's value still corresponds to it.
///
/// # Errors
/// The data has no form as a value.
pub fn state(
    schema: &ResourceSchema,
    resource: &pb::Resource,
    prior: &Value,
    divergences: &Divergences,
) -> Result<Value, StateError> {
    let mut state = envelope(schema.scope, resource);
    let metadata = undo(&metadata_shape(), "metadata", prior.get("metadata"), &metadata(resource), divergences);
    let data = data(schema, resource)?;
    state.insert("metadata".to_owned(), metadata);
    state.insert("data".to_owned(), undo(&schema.shape(), "data", prior.get("data"), &data, divergences));
    state.insert("owner".to_owned(), owner(resource.owner.as_ref()));
    state.insert("wait".to_owned(), prior.get("wait").clone());
    Ok(Value::Map(state))
}

/// The state of a data source.
///
/// # Errors
/// The data has no form as a value.
pub fn data_source_state(schema: &ResourceSchema, resource: &pb::Resource) -> Result<Value, StateError> {
    let mut state = envelope(schema.scope, resource);
    state.insert("metadata".to_owned(), metadata(resource));
    state.insert("data".to_owned(), data(schema, resource)?);
    state.insert("owner".to_owned(), owner(resource.owner.as_ref()));
    Ok(Value::Map(state))
}

/// A resource in a list.
///
/// # Errors
/// The data has no form as JSON.
pub fn list_entry(schema: &ResourceSchema, resource: &pb::Resource) -> Result<Value, StateError> {
    let json = match &resource.data {
        Some(data) => mortise_text::data_to_json(data, &schema.data.message)
            .ok_or_else(|| fault(resource)(ValueError::new("its data cannot be written as JSON")))?,
        None => "{}".to_owned(),
    };
    let id = resource.id.clone().unwrap_or_default();
    let tenancy = id.tenancy.clone().unwrap_or_default();
    Ok(Value::object([
        ("id", Value::String(id_text(schema.scope, &id))),
        ("name", Value::text(id.name)),
        ("partition", Value::text(tenancy.partition)),
        ("namespace", Value::text(tenancy.namespace)),
        ("uid", Value::text(id.uid)),
        ("generation", Value::text(resource.generation.as_str())),
        ("version", Value::text(resource.version.as_str())),
        ("metadata", metadata(resource)),
        ("data", Value::String(json)),
    ]))
}

fn fault(resource: &pb::Resource) -> impl FnOnce(ValueError) -> StateError + '_ {
    move |source| {
        let id = resource.id.as_ref();
        let kind = id.and_then(|id| id.r#type.as_ref()).map(gvk).unwrap_or_default();
        StateError { what: format!("{kind}/{}", id.map(|id| id.name.as_str()).unwrap_or_default()), source }
    }
}

fn data(schema: &ResourceSchema, resource: &pb::Resource) -> Result<Value, StateError> {
    from_data(&schema.data, resource.data.as_ref())
        .map_err(|e| fault(resource)(e.within(Step::Attribute("data".to_owned()))))
}

/// The id in the form that import takes.
#[must_use]
pub fn id_text(scope: Scope, id: &pb::Id) -> String {
    let tenancy = id.tenancy.clone().unwrap_or_default();
    match scope {
        Scope::Cluster | Scope::Undefined => id.name.clone(),
        Scope::Partition => format!("{}/{}", tenancy.partition, id.name),
        Scope::Namespace => format!("{}/{}/{}", tenancy.partition, tenancy.namespace, id.name),
    }
}

fn envelope(scope: Scope, resource: &pb::Resource) -> BTreeMap<String, Value> {
    let id = resource.id.clone().unwrap_or_default();
    let tenancy = id.tenancy.clone().unwrap_or_default();
    let kind = id.r#type.clone().unwrap_or_default();
    let mut parts = vec![
        ("id", Value::String(id_text(scope, &id))),
        ("name", Value::String(id.name)),
        ("uid", Value::text(id.uid)),
        ("generation", Value::text(resource.generation.as_str())),
        ("version", Value::text(resource.version.as_str())),
        ("group_version", Value::text(kind.group_version)),
        ("status", status(resource)),
    ];
    if matches!(scope, Scope::Partition | Scope::Namespace) {
        parts.push(("partition", Value::text(tenancy.partition)));
    }
    if scope == Scope::Namespace {
        parts.push(("namespace", Value::text(tenancy.namespace)));
    }
    parts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// Metadata without the server's own keys; null if nothing is left.
#[must_use]
pub fn metadata(resource: &pb::Resource) -> Value {
    let own = |key: &&String| *key != meta::FINALIZERS && *key != meta::DELETION_TIMESTAMP;
    let entries: BTreeMap<_, _> = resource
        .metadata
        .iter()
        .filter(|(key, _)| own(key))
        .map(|(key, value)| (key.clone(), Value::String(value.clone())))
        .collect();
    if entries.is_empty() { Value::Null } else { Value::Map(entries) }
}

fn owner(owner_id: Option<&pb::Id>) -> Value {
    let Some(id) = owner_id else { return Value::Null };
    let kind = id.r#type.clone().unwrap_or_default();
    let tenancy = id.tenancy.clone().unwrap_or_default();
    Value::object([
        ("group", Value::String(kind.group)),
        ("group_version", Value::String(kind.group_version)),
        ("kind", Value::String(kind.kind)),
        ("partition", Value::text(tenancy.partition)),
        ("namespace", Value::text(tenancy.namespace)),
        ("name", Value::String(id.name.clone())),
        ("uid", Value::text(id.uid.as_str())),
    ])
}

fn status(resource: &pb::Resource) -> Value {
    let condition = |condition: &pb::Condition| {
        Value::object([
            ("type", Value::text(condition.r#type.as_str())),
            ("state", Value::String(condition.state().as_str_name().to_owned())),
            ("reason", Value::text(condition.reason.as_str())),
            ("message", Value::text(condition.message.as_str())),
        ])
    };
    let status = |status: &pb::Status| {
        let updated = status.updated_at.as_ref().map(ToString::to_string).unwrap_or_default();
        Value::object([
            ("observed_generation", Value::text(status.observed_generation.as_str())),
            ("updated_at", Value::text(updated)),
            ("conditions", Value::List(status.conditions.iter().map(condition).collect())),
        ])
    };
    Value::Map(resource.status.iter().map(|(name, entry)| (name.clone(), status(entry))).collect())
}
