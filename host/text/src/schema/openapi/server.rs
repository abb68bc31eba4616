//! Paths that do not depend on types.

use serde_json::{Map, Value, json};

use super::answers::with_responses;

/// Adds the paths that do not depend on types.
pub(super) fn server_paths(paths: &mut Map<String, Value>) {
    let get = |id: &str, summary: &str, media: &str, schema: Value, codes: &[&str]| {
        let operation = json!({ "operationId": id, "tags": ["server"], "summary": summary });
        let content = Map::from_iter([(media.to_owned(), json!({ "schema": schema }))]);
        let success = json!({ "200": { "description": summary, "content": content } });
        json!({ "get": with_responses(operation, success, codes) })
    };
    let text = || json!({ "type": "string" });
    let types = json!({
        "type": "object",
        "properties": { "types": { "type": "array", "items": { "$ref": "#/components/schemas/mortise-Type" } } },
        "required": ["types"],
        "additionalProperties": false,
    });
    paths.insert(
        "/v1/types".into(),
        get("types.list", "Every registered type.", "application/json", types, &["401", "403"]),
    );
    let described = json!({ "$ref": "#/components/schemas/mortise-TypeWithSchema" });
    let summary = "One type, with the JSON Schema of its data.";
    let mut operation = get("types.get", summary, "application/json", described, &["401", "403", "404"]);
    if let Some(operation) = operation.as_object_mut() {
        let parameter = json!({
            "name": "type", "in": "path", "required": true, "description": "The type, such as `demo.v2.Artist`.",
            "schema": { "type": "string" },
        });
        operation.insert("parameters".to_owned(), json!([parameter]));
    }
    paths.insert("/v1/types/{type}".into(), operation);
    let document = json!({ "type": "object" });
    paths.insert(
        "/v1/openapi.json".into(),
        get("openapi", "This document.", "application/json", document, &["401", "403", "500"]),
    );
    let document = json!({ "type": "object" });
    let summary = "The document of the types of one group.";
    let mut operation = get("openapi.group", summary, "application/json", document, &["401", "403", "404", "500"]);
    if let Some(operation) = operation.as_object_mut() {
        let parameter = json!({
            "name": "group", "in": "path", "required": true, "description": "The group, such as `demo`, followed by `.json`.",
            "schema": { "type": "string" },
        });
        operation.insert("parameters".to_owned(), json!([parameter]));
    }
    paths.insert("/v1/openapi/{group}".into(), operation);
    let version = json!({ "$ref": "#/components/schemas/mortise-Version" });
    let summary = "Name and version of the server.";
    paths.insert("/v1/version".into(), get("version", summary, "application/json", version, &["401", "403"]));
    let root = json!({ "$ref": "#/components/schemas/mortise-Root" });
    let summary = "The paths and the state of the server; HTML for browsers.";
    paths.insert("/".into(), get("root", summary, "application/json", root, &["401", "403"]));
    paths.insert("/healthz".into(), get("healthz", "The process is up.", "text/plain", text(), &[]));
    let mut ready = get("readyz", "The server is ready: everything is loaded.", "text/plain", text(), &[]);
    if let Some(responses) = ready.pointer_mut("/get/responses").and_then(Value::as_object_mut) {
        let not_ready = json!({
            "description": "Not ready: still loading, or stopping.", "content": { "text/plain": { "schema": { "type": "string" } } },
        });
        responses.insert("503".to_owned(), not_ready);
    }
    paths.insert("/readyz".into(), ready);
    paths.insert("/metrics".into(), get("metrics", "Prometheus text.", "text/plain", text(), &["401", "403"]));
}
