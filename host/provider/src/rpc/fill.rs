//! Attributes of a plan besides its data and metadata: the place, the owner, and what the server sets.

use mortise_resource::pb;

use super::session::Server;
use crate::{
    schema::ResourceSchema,
    state::{id_text, owner_units, tenancy_of},
    value::Value,
};

/// Attributes that every write changes; the server sets them.
const CHANGED_BY_EVERY_WRITE: [&str; 3] = ["generation", "version", "status"];

/// Attributes of a plan.
pub(super) type Parts = std::collections::BTreeMap<String, Value>;

/// Fills in partition and namespace: as configured, else by the provider's or the server's defaults; unknown until the
/// server has answered.
pub(super) fn fill_tenancy(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    config: &Value,
    mutated: Option<&pb::Resource>,
    parts: &mut Parts,
) {
    let wanted = tenancy_of(schema.scope, config, &server.defaults);
    let filled = mutated.and_then(|found| found.id.as_ref()?.tenancy.clone());
    let unit = |name: &str, part: fn(&pb::Tenancy) -> &String| match (config.get(name), part(&wanted)) {
        (Value::Null, wanted) if !wanted.is_empty() => Value::String(wanted.clone()),
        (Value::Null, _) => match (&filled, prior.get(name)) {
            (Some(filled), _) => Value::text(part(filled).as_str()),
            (None, prior) if !prior.is_null() => prior.clone(),
            (None, _) => Value::unknown(),
        },
        (configured, _) => configured.clone(),
    };
    for (name, part) in [
        ("partition", (|tenancy| &tenancy.partition) as fn(&pb::Tenancy) -> &String),
        ("namespace", |tenancy: &pb::Tenancy| &tenancy.namespace),
    ] {
        if parts.contains_key(name) {
            parts.insert(name.to_owned(), unit(name, part));
        }
    }
}

/// Fills in parts of the owner that the configuration leaves out: its place from the resource's own, the rest from the
/// prior state, or unknown until the server sets it.
pub(super) fn fill_owner(schema: &ResourceSchema, prior: &Value, config: &Value, parts: &mut Parts) {
    let before = prior.get("owner").clone();
    let own = owner_units(schema, config.get("owner"));
    let place: Vec<_> = own.iter().map(|unit| (*unit, parts.get(*unit).cloned())).collect();
    let Some(Value::Map(owner)) = parts.get_mut("owner") else { return };
    for name in ["partition", "namespace", "uid"] {
        if !owner.get(name).is_none_or(Value::is_null) {
            continue;
        }
        let in_place = place.iter().find(|(unit, _)| *unit == name).and_then(|(_, value)| value.clone());
        let known = match in_place {
            Some(value) if !value.is_null() => value,
            _ if before.is_null() => Value::unknown(),
            _ => before.get(name).clone(),
        };
        owner.insert(name.to_owned(), known);
    }
}

/// Sets the attributes that the server sets; those that it would change are unknown.
pub(super) fn fill_computed(
    schema: &ResourceSchema,
    prior: &Value,
    mutated: Option<&pb::Resource>,
    writes: bool,
    parts: &mut Parts,
) {
    let text = |name: &str| parts.get(name).and_then(Value::as_str).map(ToOwned::to_owned);
    let unit = |name: &str| match parts.get(name) {
        None => Some(String::new()),
        Some(Value::Null) => mutated.map(|_| String::new()),
        Some(_) => text(name),
    };
    let id = match (text("name"), unit("partition"), unit("namespace")) {
        (Some(name), Some(partition), Some(namespace)) => {
            let tenancy = Some(pb::Tenancy { partition, namespace });
            Value::String(id_text(schema.scope, &pb::Id { name, tenancy, ..pb::Id::default() }))
        }
        _ => Value::unknown(),
    };
    parts.insert("id".to_owned(), id);
    let uid = prior.get("uid");
    parts.insert("uid".to_owned(), if uid.is_null() { Value::unknown() } else { uid.clone() });
    parts.insert("group_version".to_owned(), Value::String(schema.kind.group_version.clone()));
    for name in CHANGED_BY_EVERY_WRITE {
        parts.insert(name.to_owned(), if writes { Value::unknown() } else { prior.get(name).clone() });
    }
}
