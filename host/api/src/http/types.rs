//! `/v1/types`: the registry as data.

use axum::{
    extract::{Path, State, rejection::PathRejection},
    http::{HeaderMap, Uri},
    response::{IntoResponse as _, Response},
};
use mortise_resource::{Error, Scope};
use mortise_service::registry::{Owner, ResourceType};
use serde_json::{Value, json};

use super::{
    Shared,
    accept::Form,
    error::HttpError,
    json::{JSON, pretty},
    route::collection_path,
};

/// Answers all types.
pub(super) async fn list(State(shared): State<Shared>) -> Response {
    let types: Vec<_> = shared.service.types().types().iter().map(|t| summary(t)).collect();
    ([JSON], pretty(&json!({ "types": types }))).into_response()
}

/// Answers a type, by `group.version.Kind`, with the schema of its data.
pub(super) async fn get_one(
    State(shared): State<Shared>,
    name: Result<Path<String>, PathRejection>,
    uri: Uri,
    headers: HeaderMap,
) -> Response {
    // A path that is not UTF-8 names no type.
    let name = name.map(|Path(name)| name).unwrap_or_else(|_| uri.path().to_owned());
    let registry = shared.service.types();
    match registry.types().iter().find(|t| t.gvk.to_string() == name) {
        Some(found) => {
            let mut described = summary(found);
            if let Some(described) = described.as_object_mut() {
                described.insert("schema".to_owned(), mortise_text::schema::json_schema(found.schema.message()));
            }
            described.sort_all_objects();
            ([JSON], pretty(&described)).into_response()
        }
        None => {
            let what = format!("resource type {name} not registered; GET /v1/types lists registered types");
            HttpError::from(Error::not_found(what)).into_response(Form::of_ours(&headers), uri.path())
        }
    }
}

fn summary(t: &ResourceType) -> Value {
    let (plugin, version) = match &t.owner {
        Owner::Host => (Value::Null, Value::Null),
        Owner::Plugin(plugin) => (json!(plugin.name()), json!(plugin.version())),
        Owner::Missing(absent) => (json!(absent.name), json!(absent.manifest.version.to_string())),
    };
    let columns: Vec<_> = t.columns.iter().map(|column| json!({ "name": column.name, "path": column.path })).collect();
    json!({
        "name": t.gvk.to_string(),
        "group": t.gvk.group,
        "groupVersion": t.gvk.group_version,
        "kind": t.gvk.kind,
        "path": collection_path(&t.gvk),
        "scope": scope(t.scope),
        "message": t.schema.message().full_name(),
        "schemaVersion": t.schema_version.get(),
        "plugin": plugin,
        "pluginVersion": version,
        "orphaned": matches!(t.owner, Owner::Missing(_)),
        "shortNames": t.short_names,
        "printerColumns": columns,
        "immutableFields": t.schema.immutable_paths(),
    })
}

fn scope(scope: Scope) -> &'static str {
    match scope {
        Scope::Cluster => "cluster",
        Scope::Partition => "partition",
        Scope::Namespace => "namespace",
        Scope::Undefined => "undefined",
    }
}
