//! Reads: of a resource with a state, of a resource by its name, of lists.

use mortise_resource::{Scope, meta, pb, types::gvk};

use super::{
    diagnostic::{at, error, server_faults, warning},
    pending::take_over,
    session::Server,
};
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::{ProviderSchema, ResourceSchema},
    state::{Defaults, Private, data_source_state, list_entry, place_of, resource_id, state},
    value::{Step, Value},
};

/// Most resources in the list of a data source.
const MAX_LISTED_RESOURCES: usize = 100_000;

/// The current state, and its private data; null for a deleted resource. A pending resource has the state that a dry
/// run predicts.
pub(crate) async fn resource(
    of: &ResourceSchema,
    server: &Server,
    prior: &Value,
    private: &[u8],
) -> Result<(Value, Vec<u8>), Vec<Diagnostic>> {
    let uid = prior.get("uid").as_str().unwrap_or_default().to_owned();
    let id = pb::Id { uid, ..resource_id(of, prior, &Defaults::default()) };
    let found = server.client.read(id).await;
    let found = found.map_err(|status| server_faults("reading", server.client.address(), &status))?;
    let pending = Private::pending(private);
    let (found, kept) = match (found, &pending) {
        (Some(found), None) => (found, private.to_vec()),
        // The pending change happened in another way.
        (Some(found), Some(_)) => (found, Private::write(&Private::read(private, of), None)),
        (None, Some(pending)) => match take_over(pending, of, server, prior, true).await? {
            Some(expected) => (expected, private.to_vec()),
            None => return Ok((Value::Null, private.to_vec())),
        },
        (None, None) => return Ok((Value::Null, private.to_vec())),
    };
    let shown = state(of, &found, prior, &Private::read(private, of));
    Ok((shown.map_err(|fault| vec![error(fault.to_string(), "")])?, kept))
}

/// A warning of the finalizers that hold up the deletion of a resource, if it has any.
pub(crate) async fn finalizers(
    of: &ResourceSchema,
    server: &Server,
    prior: &Value,
) -> Result<Vec<Diagnostic>, Vec<Diagnostic>> {
    let uid = prior.get("uid").as_str().unwrap_or_default().to_owned();
    let id = pb::Id { uid, ..resource_id(of, prior, &Defaults::default()) };
    let found = server.client.read(id).await;
    let found = found.map_err(|status| server_faults("reading", server.client.address(), &status))?;
    let held = found.map(|found| meta::finalizers(&found.metadata).into_iter().collect::<Vec<_>>().join(", "));
    let held = held.filter(|held| !held.is_empty());
    Ok(held.map(|held| warning(format!("the deletion waits for finalizers: {held}"))).into_iter().collect())
}

/// Reads a resource by its name, for a data source.
pub(crate) async fn by_name(of: &ResourceSchema, server: &Server, config: &Value) -> Result<Value, Vec<Diagnostic>> {
    let id = resource_id(of, config, &server.defaults);
    let found = server.client.read(id.clone()).await;
    match found.map_err(|status| server_faults("reading", server.client.address(), &status))? {
        Some(found) => data_source_state(of, &found).map_err(|fault| vec![error(fault.to_string(), "")]),
        None => {
            let path = [Step::Attribute("name".to_owned())];
            Err(vec![at(&path, format!("there is no {} named {:?}", gvk(&of.kind), id.name))])
        }
    }
}

/// Lists resources of a type.
pub(crate) async fn list(schema: &ProviderSchema, server: &Server, config: &Value) -> Result<Value, Vec<Diagnostic>> {
    let wanted = config.get("type").as_str().unwrap_or_default();
    let named = |one: &&ResourceSchema| {
        gvk(&one.kind) == wanted || format!("{}.{}", one.kind.group, one.kind.kind) == wanted || one.name == wanted
    };
    let path = [Step::Attribute("type".to_owned())];
    let of = schema.resources().find(named);
    let of =
        of.ok_or_else(|| vec![at(&path, format!("the server has no type {wanted:?}; `mortise types` lists them"))])?;
    let mut tenancy = place_of(of.scope, config, &server.defaults);
    if of.scope == Scope::Namespace && tenancy.namespace.is_empty() && tenancy.partition == "*" {
        "*".clone_into(&mut tenancy.namespace);
    }
    let request = pb::ListRequest {
        r#type: Some(of.kind.clone()),
        tenancy: Some(tenancy),
        name_prefix: config.get("name_prefix").as_str().unwrap_or_default().to_owned(),
    };
    let found = server.client.list(request).await;
    let mut found = found.map_err(|status| server_faults("listing", server.client.address(), &status))?;
    if let Value::Map(wanted) = config.get("metadata") {
        found.retain(|one| {
            wanted.iter().all(|(key, value)| one.metadata.get(key).map(String::as_str) == value.as_str())
        });
    }
    if found.len() > MAX_LISTED_RESOURCES {
        let summary = format!(
            "there are {} resources, and a list has at most {MAX_LISTED_RESOURCES}; narrow it with name_prefix",
            found.len()
        );
        return Err(vec![error(summary, "")]);
    }
    let entries = found.iter().map(|one| list_entry(of, one)).collect::<Result<_, _>>();
    let entries = entries.map_err(|fault| vec![error(fault.to_string(), "")])?;
    let Value::Map(mut parts) = config.clone() else { return Ok(config.clone()) };
    parts.insert("resources".to_owned(), Value::List(entries));
    Ok(Value::Map(parts))
}
