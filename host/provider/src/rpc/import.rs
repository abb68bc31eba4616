//! Imports: of an existing resource, by `name`, `namespace/name` or `partition/namespace/name`, as far as the type has
//! these units; and of something outside, by its name there.

use mortise_resource::{Scope, name, pb};

use super::{diagnostic::error, pending::take_over, session::Server};
use crate::{
    mapping::Divergences,
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    state::{Defaults, Pending, Private, resource_id, state},
    value::{Type, Value},
};

/// The state for an id, and its private data: of an existing resource, with this uid if one is given, or of something
/// outside that the type's plugin knows. Adds the server's warnings to `diagnostics`.
pub(crate) async fn import_state(
    schema: &ResourceSchema,
    server: &Server,
    id: &str,
    uid: Option<String>,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(Value, Vec<u8>), Vec<Diagnostic>> {
    let named = state_with_id(schema, server, id);
    if let Ok(Value::Map(parts)) = &named {
        let wanted = pb::Id {
            uid: uid.clone().unwrap_or_default(),
            ..resource_id(schema, &Value::Map(parts.clone()), &Defaults::default())
        };
        if let Some(found) = server.read(wanted).await? {
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
            return Ok((Value::Map(parts), Private::write(&Divergences::default(), None)));
        }
    }
    if let Some(uid) = uid {
        return Err(vec![error(
            format!("there is no {} {id:?} with the uid {uid}", schema.name),
            "Leave out the uid.",
        )]);
    }
    if !schema.imports {
        // The read that follows finds that it does not exist.
        return named.map(|named| (named, Private::write(&Divergences::default(), None)));
    }
    let units = [("partition", &server.defaults.partition), ("namespace", &server.defaults.namespace)];
    let place = Value::object(units.map(|(name, unit)| (name, Value::text(unit.as_deref().unwrap_or_default()))));
    let pending = Pending::Import { external_id: id.to_owned() };
    let expected = take_over(&pending, schema, server, &place, true, diagnostics).await?;
    let expected = expected.ok_or_else(|| vec![invalid_id(schema, id)])?;
    // The read that follows shows values that a state cannot have.
    let (shown, _) = state(schema, &expected, &Value::Null, &Divergences::default());
    Ok((shown, Private::write(&Divergences::default(), Some(&pending))))
}

/// A state with the resource's id only; a read fills in the rest.
fn state_with_id(schema: &ResourceSchema, server: &Server, id: &str) -> Result<Value, Vec<Diagnostic>> {
    let parts: Vec<_> = id.split('/').collect();
    let (partition, namespace, found) = match (schema.scope, parts.as_slice()) {
        (_, [name]) => (None, None, *name),
        (Scope::Partition, [partition, name]) => (Some(*partition), None, *name),
        (Scope::Namespace, [namespace, name]) => (None, Some(*namespace), *name),
        (Scope::Namespace, [partition, namespace, name]) => (Some(*partition), Some(*namespace), *name),
        _ => return Err(vec![invalid_id(schema, id)]),
    };
    if [partition, namespace].into_iter().flatten().chain([found]).any(|part| !name::is_valid(part)) {
        return Err(vec![invalid_id(schema, id)]);
    }
    let unit =
        |given: Option<&str>, default: &Option<String>| Value::text(given.or(default.as_deref()).unwrap_or_default());
    let Type::Object(attributes) = schema.to_type() else { return Err(vec![invalid_id(schema, id)]) };
    let attribute = |(name, kind): (String, Type)| {
        let value = match (name.as_str(), kind) {
            ("name", _) => Value::text(found),
            ("partition", _) => unit(partition, &server.defaults.partition),
            ("namespace", _) => unit(namespace, &server.defaults.namespace),
            ("data", Type::Object(fields)) => {
                Value::Map(fields.into_keys().map(|field| (field, Value::Null)).collect())
            }
            _ => Value::Null,
        };
        (name, value)
    };
    Ok(Value::Map(attributes.into_iter().map(attribute).collect()))
}

fn invalid_id(schema: &ResourceSchema, id: &str) -> Diagnostic {
    let forms = match schema.scope {
        Scope::Cluster | Scope::Undefined => "NAME",
        Scope::Partition => "NAME or PARTITION/NAME",
        Scope::Namespace => "NAME, NAMESPACE/NAME or PARTITION/NAMESPACE/NAME",
    };
    error(format!("{id:?} is not an id of {}", schema.name), format!("Write {forms}."))
}
