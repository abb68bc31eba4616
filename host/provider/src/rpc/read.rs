//! Reads: of a resource with a state, of a resource by its name, of lists.

use mortise_resource::types::gvk;

use super::{
    diagnostic::{error, error_at, stored_warning},
    pending::take_over,
    search::{MAX_LISTED_RESOURCES, Search},
    session::Server,
};
use crate::{
    proto::tfplugin6::Diagnostic,
    schema::{ProviderSchema, ResourceSchema},
    state::{Private, data_source_state, known_id, list_entry, resource_id, state},
    value::{Step, Value},
};

/// The current state, its private data, and warnings of values that a state cannot have; null for a deleted resource. A
/// pending resource has the state that a dry run predicts.
pub(crate) async fn resource(
    schema: &ResourceSchema,
    server: &Server,
    prior: &Value,
    private: &[u8],
) -> Result<(Value, Vec<u8>, Vec<Diagnostic>), Vec<Diagnostic>> {
    let found = server.read(known_id(schema, prior)).await?;
    let pending = Private::pending(private);
    let (found, kept) = match (found, &pending) {
        (Some(found), None) => (found, private.to_vec()),
        // The pending change happened in another way.
        (Some(found), Some(_)) => (found, Private::write(&Private::read(private, schema), None)),
        // The import or move, and later the plan, show the warnings.
        (None, Some(pending)) => match take_over(pending, schema, server, prior, true, &mut Vec::new()).await? {
            Some(expected) => (expected, private.to_vec()),
            None => return Ok((Value::Null, private.to_vec(), Vec::new())),
        },
        (None, None) => return Ok((Value::Null, private.to_vec(), Vec::new())),
    };
    let (divergences, keys) = (Private::read(private, schema), &server.defaults.controller_keys);
    let (state, faults) = state(schema, &found, prior, &divergences, keys);
    Ok((state, kept, faults.iter().map(stored_warning).collect()))
}

/// Reads a resource by its name, for a data source.
pub(crate) async fn by_name(
    schema: &ResourceSchema,
    server: &Server,
    config: &Value,
) -> Result<(Value, Vec<Diagnostic>), Vec<Diagnostic>> {
    let id = resource_id(schema, config, &server.defaults);
    match server.read(id.clone()).await? {
        Some(found) => {
            let (state, faults) = data_source_state(schema, &found);
            Ok((state, faults.iter().map(stored_warning).collect()))
        }
        None => {
            let path = [Step::Attribute("name".to_owned())];
            Err(vec![error_at(&path, format!("there is no {} named {:?}", gvk(&schema.kind), id.name))])
        }
    }
}

/// The type that a list names.
pub(crate) fn listed_type<'s>(
    schema: &'s ProviderSchema,
    config: &Value,
) -> Result<&'s ResourceSchema, Vec<Diagnostic>> {
    let wanted = config.get("type").as_str().unwrap_or_default();
    let is_named = |schema: &&ResourceSchema| {
        gvk(&schema.kind) == wanted
            || format!("{}.{}", schema.kind.group, schema.kind.kind) == wanted
            || schema.name == wanted
    };
    let path = [Step::Attribute("type".to_owned())];
    schema
        .resources()
        .find(is_named)
        .ok_or_else(|| vec![error_at(&path, format!("the server has no type {wanted:?}; `mortise types` lists them"))])
}

/// Lists resources of a type.
pub(crate) async fn list(
    schema: &ProviderSchema,
    server: &Server,
    config: &Value,
) -> Result<(Value, Vec<Diagnostic>), Vec<Diagnostic>> {
    let listed = listed_type(schema, config)?;
    let mut search = Search::new(listed, server, config)?;
    let mut found = Vec::new();
    while let Some(mut page) = search.page(MAX_LISTED_RESOURCES).await? {
        if let Value::Map(wanted) = config.get("metadata") {
            page.retain(|resource| {
                wanted.iter().all(|(key, value)| resource.metadata.get(key).map(String::as_str) == value.as_str())
            });
        }
        found.extend(page);
        if found.len() > MAX_LISTED_RESOURCES {
            let narrow = "narrow it with filter, selector or name_prefix";
            return Err(vec![error(format!("a list has at most {MAX_LISTED_RESOURCES} resources; {narrow}"), "")]);
        }
    }
    let (entries, faults): (Vec<_>, Vec<_>) = found.iter().map(|resource| list_entry(listed, resource)).unzip();
    let warnings = faults.iter().flatten().map(stored_warning).collect();
    let Value::Map(mut parts) = config.clone() else { return Ok((config.clone(), warnings)) };
    parts.insert("resources".to_owned(), Value::List(entries));
    Ok((Value::Map(parts), warnings))
}
