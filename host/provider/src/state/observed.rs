//! The state of a resource on the server.

use std::collections::BTreeMap;

use mortise_resource::{Scope, meta, pb, types::gvk};

use super::{
    ControllerKeys, metadata_shape,
    notes::{all, owned},
};
use crate::{
    mapping::{Divergences, from_data, undo},
    schema::ResourceSchema,
    value::{Step, Value, ValueError},
};

/// A state, and the parts of the stored resource that it cannot have: null, with their paths.
pub type Observed = (Value, Vec<ValueError>);

/// The state of a resource. It keeps the spelling of `prior` where the server's value still corresponds to it, and the
/// values of `prior` under keys of controllers.
#[must_use]
pub fn state(
    schema: &ResourceSchema,
    resource: &pb::Resource,
    prior: &Value,
    divergences: &Divergences,
    keys: &ControllerKeys,
) -> Observed {
    let mut state = envelope(schema.scope, resource);
    let before = prior.get("metadata");
    let found = keys.settled(before, metadata(resource));
    let metadata = undo(&metadata_shape(), "metadata", before, &found, divergences);
    let (data, faults) = data(schema, resource);
    state.insert("metadata".to_owned(), metadata);
    state.insert("data".to_owned(), undo(&schema.shape(), "data", prior.get("data"), &data, divergences));
    state.insert("owner".to_owned(), owner(resource.owner.as_ref()));
    state.extend(owned(prior, resource, keys).map(|(name, value)| (name.to_owned(), value)));
    for own in ["wait", "timeouts"] {
        state.insert(own.to_owned(), prior.get(own).clone());
    }
    (Value::Map(state), faults)
}

/// The state of a data source.
#[must_use]
pub fn data_source_state(schema: &ResourceSchema, resource: &pb::Resource) -> Observed {
    let mut state = envelope(schema.scope, resource);
    let (data, faults) = data(schema, resource);
    state.insert("metadata".to_owned(), metadata(resource));
    state.insert("data".to_owned(), data);
    state.extend(all(resource).map(|(name, value)| (name.to_owned(), value)));
    state.insert("owner".to_owned(), owner(resource.owner.as_ref()));
    (Value::Map(state), faults)
}

/// A resource in a list. Its data is null if it has no form in JSON.
#[must_use]
pub fn list_entry(schema: &ResourceSchema, resource: &pb::Resource) -> Observed {
    let json = match &resource.data {
        Some(data) => mortise_text::data_to_json(data, &schema.data.message),
        None => Some("{}".to_owned()),
    };
    let id = resource.id.clone().unwrap_or_default();
    let tenancy = id.tenancy.clone().unwrap_or_default();
    let text = id_text(schema.scope, &id);
    let fault = json.is_none().then(|| {
        ValueError::new(format!("the data of {text} has a value without a form in JSON, and is shown as null"))
    });
    let entry = Value::object(
        [
            ("id", Value::String(text)),
            ("name", Value::text(id.name)),
            ("partition", Value::text(tenancy.partition)),
            ("namespace", Value::text(tenancy.namespace)),
            ("uid", Value::text(id.uid)),
            ("generation", Value::text(resource.generation.as_str())),
            ("version", Value::text(resource.version.as_str())),
            ("metadata", metadata(resource)),
            ("data", json.map_or(Value::Null, Value::String)),
        ]
        .into_iter()
        .chain(all(resource)),
    );
    (entry, fault.into_iter().collect())
}

fn data(schema: &ResourceSchema, resource: &pb::Resource) -> Observed {
    let (data, faults) = from_data(&schema.data, resource.data.as_ref());
    (data, faults.into_iter().map(|fault| fault.within(Step::Attribute("data".to_owned()))).collect())
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

/// The resource that a condition is about: `catalog.v1.Service/default/default/web`.
fn reference_text(reference: &pb::Reference) -> String {
    let tenancy = reference.tenancy.clone().unwrap_or_default();
    let kind = reference.r#type.as_ref().map(gvk).unwrap_or_default();
    let parts = [kind, tenancy.partition, tenancy.namespace, reference.name.clone(), reference.section.clone()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("/")
}

fn status(resource: &pb::Resource) -> Value {
    let condition = |condition: &pb::Condition| {
        Value::object([
            ("type", Value::text(condition.r#type.as_str())),
            ("state", Value::String(condition.state().as_str_name().to_owned())),
            ("reason", Value::text(condition.reason.as_str())),
            ("message", Value::text(condition.message.as_str())),
            ("resource", condition.resource.as_ref().map_or(Value::Null, |about| Value::String(reference_text(about)))),
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
