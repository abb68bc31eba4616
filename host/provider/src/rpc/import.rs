//! Imports: of an existing resource, by `name`, `namespace/name` or `partition/namespace/name`, as far as the type has
//! these units; and of something outside, by its name there.

use mortise_resource::{Scope, name, pb};

use super::{diagnostic::error, pending::take_over, session::Server};
use crate::{
    mapping::Divergences,
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Defaults, Pending, Private, hidden, resource_id, state},
    value::{Type, Value},
};

/// A resource by its place and name, as an import gives them; the provider or the server completes the place.
pub(crate) struct Named {
    pub(crate) partition: Option<String>,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// The uid that it must have; any if it is `None`.
    pub(crate) uid: Option<String>,
}

/// The state for an id, and its private data: of an existing resource, or of something outside that the type's plugin
/// knows. Adds the server's warnings to `diagnostics`.
pub(crate) async fn import_state(
    schema: &ResourceSchema,
    server: &Server,
    id: &str,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(Value, Vec<u8>), Vec<Diagnostic>> {
    let named = parse(schema, id).and_then(|named| state_with_id(schema, server, &named));
    if let Some(named) = named.as_ref()
        && let Some(found) = existing(schema, server, named, None).await?
    {
        return Ok(found);
    }
    if !schema.imports {
        // The read that follows finds that it does not exist.
        return named
            .map(|named| (named, Private::write(&Divergences::default(), None)))
            .ok_or_else(|| vec![invalid_id(schema, id)]);
    }
    let units = [("partition", &server.defaults.partition), ("namespace", &server.defaults.namespace)];
    let place = Value::object(units.map(|(name, unit)| (name, Value::text(unit.as_deref().unwrap_or_default()))));
    let pending = Pending::Import { external_id: id.to_owned() };
    let expected = take_over(&pending, schema, server, &place, true, diagnostics).await?;
    let expected = expected.ok_or_else(|| vec![invalid_id(schema, id)])?;
    // The read that follows shows values that a state cannot have.
    let (shown, _) = state(schema, &expected, &Value::Null, &Divergences::default(), &server.defaults.controller_keys);
    Ok((hidden(schema, &shown, &Value::Null), Private::write(&Divergences::default(), Some(&pending))))
}

/// The state for an identity, and its private data. An identity is that of a resource; it names nothing outside.
pub(crate) async fn import_named(
    schema: &ResourceSchema,
    server: &Server,
    named: &Named,
) -> Result<(Value, Vec<u8>), Vec<Diagnostic>> {
    let name = &named.name;
    let state = state_with_id(schema, server, named);
    let state = state.ok_or_else(|| vec![error(format!("{name:?} is not the name of a resource"), "")])?;
    existing(schema, server, &state, named.uid.as_deref()).await?.ok_or_else(|| {
        let (with, remedy) = match &named.uid {
            Some(uid) => (format!(" with the uid {uid}"), "Leave out the uid for any resource of the name."),
            None => (String::new(), "`mortise get` lists those that exist."),
        };
        let place = [&named.partition, &named.namespace].into_iter().flatten().cloned();
        let id = place.chain([name.clone()]).collect::<Vec<_>>().join("/");
        vec![error(format!("there is no {} {id:?}{with}", schema.name), remedy)]
    })
}

/// The state and the private data of a resource that exists, with its id only; a read fills in the rest.
async fn existing(
    schema: &ResourceSchema,
    server: &Server,
    named: &Value,
    uid: Option<&str>,
) -> Result<Option<(Value, Vec<u8>)>, Vec<Diagnostic>> {
    let id = resource_id(schema, named, &Defaults::default());
    let wanted = pb::Id { uid: uid.unwrap_or_default().to_owned(), ..id };
    let (Some(found), Value::Map(parts)) = (server.read(wanted).await?, named) else { return Ok(None) };
    let mut parts = parts.clone();
    let id = found.id.unwrap_or_default();
    parts.insert("uid".to_owned(), Value::text(id.uid));
    // The server's defaults.
    let tenancy = id.tenancy.unwrap_or_default();
    for (unit, value) in [("partition", tenancy.partition), ("namespace", tenancy.namespace)] {
        if parts.contains_key(unit) {
            parts.insert(unit.to_owned(), Value::text(value));
        }
    }
    Ok(Some((Value::Map(parts), Private::write(&Divergences::default(), None))))
}

/// Reads an id of the type; `None` if it has another form.
fn parse(schema: &ResourceSchema, id: &str) -> Option<Named> {
    let parts: Vec<_> = id.split('/').map(ToOwned::to_owned).collect();
    let (partition, namespace, name) = match (schema.scope, parts.as_slice()) {
        (_, [name]) => (None, None, name),
        (Scope::Partition, [partition, name]) => (Some(partition), None, name),
        (Scope::Namespace, [namespace, name]) => (None, Some(namespace), name),
        (Scope::Namespace, [partition, namespace, name]) => (Some(partition), Some(namespace), name),
        _ => return None,
    };
    Some(Named { partition: partition.cloned(), namespace: namespace.cloned(), name: name.clone(), uid: None })
}

/// A state with the id of the resource only; `None` for a part that cannot be a name.
fn state_with_id(schema: &ResourceSchema, server: &Server, named: &Named) -> Option<Value> {
    let Named { partition, namespace, name, .. } = named;
    if partition.iter().chain(namespace).chain([name]).any(|part| !name::is_valid(part)) {
        return None;
    }
    let unit = |given: &Option<String>, default: &Option<String>| {
        Value::text(given.as_ref().or(default.as_ref()).cloned().unwrap_or_default())
    };
    let Type::Object(attributes) = schema.to_type() else { return None };
    let attribute = |(attribute, kind): (String, Type)| {
        let value = match (attribute.as_str(), kind) {
            ("name", _) => Value::text(name.as_str()),
            ("partition", _) => unit(partition, &server.defaults.partition),
            ("namespace", _) => unit(namespace, &server.defaults.namespace),
            ("data", Type::Object(fields)) => {
                Value::Map(fields.into_keys().map(|field| (field, Value::Null)).collect())
            }
            _ => Value::Null,
        };
        (attribute, value)
    };
    Some(Value::Map(attributes.into_iter().map(attribute).collect()))
}

fn invalid_id(schema: &ResourceSchema, id: &str) -> Diagnostic {
    let forms = match schema.scope {
        Scope::Cluster | Scope::Undefined => "NAME",
        Scope::Partition => "NAME or PARTITION/NAME",
        Scope::Namespace => "NAME, NAMESPACE/NAME or PARTITION/NAMESPACE/NAME",
    };
    error(format!("{id:?} is not an id of {}", schema.name), format!("Write {forms}."))
}
