//! States that change their type. Core asks for this in a separate process, which it does not configure.

use mortise_resource::pb;

use super::{
    diagnostic::error,
    pending::take_over,
    session::{Server, resource},
};
use crate::{
    mapping::Divergences,
    proto::tfplugin6::{Diagnostic, move_resource_state},
    schema::{ProviderSchema, ResourceSchema},
    state::{Defaults, Origin, Pending, Private, hidden, resource_id, state},
    value::{Type, Value, json},
};

/// The state in its new type, and its private data. Adds the server's warnings to `diagnostics`.
pub(crate) async fn move_state(
    schema: &ProviderSchema,
    server: &Server,
    request: &move_resource_state::Request,
    diagnostics: &mut Vec<Diagnostic>,
) -> Result<(Value, Vec<u8>), Vec<Diagnostic>> {
    let target = resource(schema, &request.target_type_name)?;
    let raw = request.source_state.as_ref().map(|raw| raw.json.as_slice()).unwrap_or_default();
    let source: serde_json::Value =
        serde_json::from_slice(raw).map_err(|e| vec![error("the state to move is not JSON", e.to_string())])?;
    let text = |name: &str| source.get(name).and_then(serde_json::Value::as_str).unwrap_or_default().to_owned();
    let parts = ["name", "partition", "namespace"].map(|name| (name.to_owned(), Value::text(text(name))));
    let prior = Value::Map(parts.into_iter().chain(owned_notes(target, raw)).collect());

    let Some(kind) = target.moved_from.iter().find(|kind| schema.name_of(kind) == request.source_type_name) else {
        return Err(vec![unsupported_move(target, request)]);
    };
    let tenancy = pb::Tenancy { partition: text("partition"), namespace: text("namespace") };
    // States are of the newest version of a kind; a resource may be stored under another one.
    let kind = pb::Type { group_version: version(&text("group_version"), kind), ..kind.clone() };
    let from = Origin::of(&pb::Id { r#type: Some(kind), tenancy: Some(tenancy), name: text("name"), uid: text("uid") });
    let (pending, none) = (Pending::Move { from }, Divergences::default());
    let keys = &server.defaults.controller_keys;
    let shown = |found: &pb::Resource| hidden(target, &state(target, found, &prior, &none, keys).0, &Value::Null);
    match take_over(&pending, target, server, &prior, true, diagnostics).await? {
        Some(found) => Ok((shown(&found), Private::write(&none, Some(&pending)))),
        // `mortise move` may have moved it before.
        None => {
            if let Some(found) = server.read(resource_id(target, &prior, &Defaults::default())).await? {
                return Ok((shown(&found), Private::write(&none, None)));
            }
            let summary = format!("{} {:?} no longer exists", request.source_type_name, text("name"));
            Err(vec![error(
                summary,
                format!("No {} of this name exists either. Remove it from the state.", target.name),
            )])
        }
    }
}

/// The labels, annotations and tags of the state of the former address: the new one owns the same keys.
fn owned_notes(target: &ResourceSchema, raw: &[u8]) -> Vec<(String, Value)> {
    let Type::Object(mut attributes) = target.to_type() else { return Vec::new() };
    attributes.retain(|name, _| ["labels", "all_labels", "annotations", "metadata", "tags"].contains(&name.as_str()));
    match json::decode_older(raw, &Type::Object(attributes)) {
        Ok(Value::Map(notes)) => notes.into_iter().collect(),
        _ => Vec::new(),
    }
}

fn version(stored: &str, kind: &pb::Type) -> String {
    if stored.is_empty() { kind.group_version.clone() } else { stored.to_owned() }
}

fn unsupported_move(schema: &ResourceSchema, request: &move_resource_state::Request) -> Diagnostic {
    let summary = format!(
        "{} of {} cannot become {}",
        request.source_type_name, request.source_provider_address, request.target_type_name
    );
    let detail = match schema.moved_from.as_slice() {
        [] => "Its plugin names no kind that can become this one.".to_owned(),
        from => {
            let from = from.iter().map(mortise_resource::types::gvk).collect::<Vec<_>>().join(", ");
            format!("Its plugin can make it from {from}.")
        }
    };
    error(summary, format!("{detail} Use `removed` and `import` blocks instead."))
}
