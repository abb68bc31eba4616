//! Taking over what is there: by `name`, `namespace/name` or `partition/namespace/name`, as far as the type has them.

use mortise_resource::{Scope, name};

use super::{diagnostic::error, session::Server};
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::ResourceSchema,
    value::{Type, Value},
};

/// A state that says where the resource is; the rest is read.
pub(crate) fn skeleton(of: &ResourceSchema, server: &Server, id: &str) -> Result<Value, Vec<Diagnostic>> {
    let parts: Vec<_> = id.split('/').collect();
    let (partition, namespace, found) = match (of.scope, parts.as_slice()) {
        (_, [name]) => (None, None, *name),
        (Scope::Partition, [partition, name]) => (Some(*partition), None, *name),
        (Scope::Namespace, [namespace, name]) => (None, Some(*namespace), *name),
        (Scope::Namespace, [partition, namespace, name]) => (Some(*partition), Some(*namespace), *name),
        _ => return Err(vec![wrong(of, id)]),
    };
    if [partition, namespace].into_iter().flatten().chain([found]).any(|part| !name::is_valid(part)) {
        return Err(vec![wrong(of, id)]);
    }
    let unit = |given: Option<&str>, default: &str| match given {
        Some(unit) => Value::text(unit),
        None => Value::text(default),
    };
    let Type::Object(attributes) = of.to_type() else { return Err(vec![wrong(of, id)]) };
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

fn wrong(of: &ResourceSchema, id: &str) -> Diagnostic {
    let forms = match of.scope {
        Scope::Cluster | Scope::Undefined => "NAME",
        Scope::Partition => "NAME or PARTITION/NAME",
        Scope::Namespace => "NAME, NAMESPACE/NAME or PARTITION/NAMESPACE/NAME",
    };
    error(format!("{id:?} is no id of {}", of.name), format!("It takes {forms}."))
}
