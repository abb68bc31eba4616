//! Identities of resources: the place, the name and the uid. Core keeps an identity beside each state, and imports by
//! it. A uid tells a resource from an earlier one of its name; an import may leave it out.

use mortise_resource::Scope;

use super::{
    diagnostic::{error, value_error},
    import::Named,
    wire::{decode_object, encode},
};
use crate::{
    proto::tfplugin6::{Diagnostic, RawState, ResourceIdentityData, ResourceIdentitySchema, resource_identity_schema},
    schema::{ProviderSchema, ResourceSchema},
    value::{Type, Value, json},
};

/// Version of the form of identities.
const VERSION: i64 = 0;

/// The attributes of an identity, and whether an import needs them.
fn attributes(scope: Scope) -> Vec<(&'static str, bool, &'static str)> {
    let partition = ("partition", false, "The partition; the provider's or the server's default if it is not set.");
    let namespace = ("namespace", false, "The namespace; the provider's or the server's default if it is not set.");
    let mut all = match scope {
        Scope::Cluster | Scope::Undefined => Vec::new(),
        Scope::Partition => vec![partition],
        Scope::Namespace => vec![partition, namespace],
    };
    all.extend([("name", true, "The name."), ("uid", false, "The uid; any resource of the name if it is not set.")]);
    all
}

fn identity_type(schema: &ResourceSchema) -> Type {
    Type::object(attributes(schema.scope).into_iter().map(|(name, ..)| (name, Type::String)))
}

/// The schemas of the identities of all resources.
pub(crate) fn schemas(schema: &ProviderSchema) -> std::collections::BTreeMap<String, ResourceIdentitySchema> {
    let attribute = |(name, required, description): (&str, bool, &str)| resource_identity_schema::IdentityAttribute {
        name: name.to_owned(),
        r#type: Type::String.to_bytes(),
        required_for_import: required,
        optional_for_import: !required,
        description: description.to_owned(),
    };
    let identity = |resource: &ResourceSchema| ResourceIdentitySchema {
        version: VERSION,
        identity_attributes: attributes(resource.scope).into_iter().map(attribute).collect(),
    };
    schema.resources().map(|resource| (resource.name.clone(), identity(resource))).collect()
}

/// The identity of the resource of a state; `None` if the server does not have the resource yet, or any more.
pub(crate) fn of_state(schema: &ResourceSchema, state: &Value) -> Option<ResourceIdentityData> {
    state.get("uid").as_str()?;
    let parts = attributes(schema.scope).into_iter().map(|(name, ..)| (name, state.get(name).clone()));
    Some(ResourceIdentityData { identity_data: encode(&Value::object(parts)) })
}

/// An identity as core stored it, in the form of now.
pub(crate) fn upgrade(
    schema: &ResourceSchema,
    raw: Option<&RawState>,
) -> Result<ResourceIdentityData, Vec<Diagnostic>> {
    let raw = raw.map(|raw| raw.json.as_slice()).unwrap_or_default();
    let identity = json::decode_older(raw, &identity_type(schema)).map_err(|fault| vec![value_error(&fault)])?;
    match identity {
        found @ Value::Map(_) => Ok(ResourceIdentityData { identity_data: encode(&found) }),
        _ => Err(vec![error("the identity is not an object", "")]),
    }
}

/// The resource of an import by identity.
pub(crate) fn named(schema: &ResourceSchema, identity: &ResourceIdentityData) -> Result<Named, Vec<Diagnostic>> {
    let identity = decode_object(identity.identity_data.as_ref(), &identity_type(schema))?;
    let text = |name: &str| identity.get(name).as_str().filter(|text| !text.is_empty()).map(ToOwned::to_owned);
    Ok(Named {
        partition: text("partition"),
        namespace: text("namespace"),
        name: text("name").unwrap_or_default(),
        uid: text("uid"),
    })
}
