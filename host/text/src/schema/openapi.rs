//! An OpenAPI 3.1 document of the HTTP API, for the registered types.
//!
//! Names of components: full names for messages, `Resource-<type>` and `Write-<type>` for the bodies of a type, and
//! `mortise-…` for schemas that all types share. Names in protobuf have no dash, so these cannot clash. If two plugins
//! have different messages of one name, those of the second are called `<plugin>-<message>`.

use std::collections::BTreeMap;

use mortise_resource::{Scope, types::Gvk};
use prost_reflect::MessageDescriptor;
use serde_json::{Map, Value, json};

use self::components::{own_schemas, parameters, responses};
use super::{comments::Commented as _, json_schema::Definitions};

mod components;

/// Start of references to messages.
const SCHEMA_REFERENCE_PREFIX: &str = "#/components/schemas/";

/// Input of the document.
#[derive(Debug)]
pub struct Api<'a> {
    /// Version of the server.
    pub version: &'a str,
    /// The message `hashicorp.consul.resource.Resource`.
    pub resource: &'a MessageDescriptor,
    /// Every type.
    pub types: Vec<TypeDoc<'a>>,
}

/// A type of the document.
#[derive(Debug)]
pub struct TypeDoc<'a> {
    /// Its name.
    pub gvk: &'a Gvk,
    /// Its scope.
    pub scope: Scope,
    /// Its plugin; `None` for the host's own types.
    pub plugin: Option<&'a str>,
    /// Message of its data.
    pub message: &'a MessageDescriptor,
    /// Path of its collection.
    pub path: String,
}

/// Makes the document.
#[must_use]
pub fn openapi(api: &Api<'_>) -> Value {
    let mut components = Components::default();
    let host = components.add("host", |definitions| vec![definitions.message(api.resource)]);
    // The message `Resource` itself is never sent: each type has its own schema.
    let template = host
        .first()
        .and_then(|reference| reference.get("$ref")?.as_str()?.strip_prefix(SCHEMA_REFERENCE_PREFIX))
        .and_then(|name| components.schemas.remove(name))
        .unwrap_or_default();

    let mut paths = Map::new();
    let mut tags = Vec::new();
    for t in &api.types {
        let name = t.gvk.to_string();
        let data = components.add(t.plugin.unwrap_or("host"), |definitions| vec![definitions.message(t.message)]);
        let data = data.into_iter().next().unwrap_or_default();
        components.schemas.insert(format!("Resource-{name}"), resource(&template, &data));
        components.schemas.insert(format!("Write-{name}"), body_schema(&template, &data));
        let mut tag = json!({ "name": name });
        describe(&mut tag, t.message.comment());
        tags.push(tag);
        paths.insert(t.path.clone(), collection(t, &name));
        paths.insert(format!("{}/{{name}}", t.path), item(t, &name));
        paths.insert(format!("{}/{{name}}/_validate", t.path), validate(t, &name));
    }
    tags.push(json!({ "name": "server", "description": "Information about the server." }));
    server_paths(&mut paths);
    components.schemas.extend(own_schemas());

    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Mortise",
            "version": api.version,
            "description": "Typed resources through Consul's HTTP mapping of its resource API. Describes the types that are registered \
                            now; it changes when plugins are loaded or removed.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "parameters": parameters(),
            "responses": responses(),
        },
    })
}

fn describe(object: &mut Value, text: String) {
    if let (Some(object), false) = (object.as_object_mut(), text.is_empty()) {
        object.insert("description".to_owned(), json!(text));
    }
}

/// The schemas so far.
#[derive(Default)]
struct Components {
    schemas: BTreeMap<String, Value>,
}

impl Components {
    /// Adds definitions, with names prefixed by `owner` if other definitions have the same names; returns the
    /// references to them.
    fn add(&mut self, owner: &str, define: impl Fn(&mut Definitions) -> Vec<Value>) -> Vec<Value> {
        let mut plain = Definitions::new(SCHEMA_REFERENCE_PREFIX, "");
        let references = define(&mut plain);
        let defined = plain.into_map();
        if defined.iter().all(|(name, schema)| self.schemas.get(name).is_none_or(|known| known == schema)) {
            self.schemas.extend(defined);
            return references;
        }
        let mut own = Definitions::new(SCHEMA_REFERENCE_PREFIX, format!("{owner}-"));
        let references = define(&mut own);
        self.schemas.extend(own.into_map());
        references
    }
}

/// The schema of a resource of a type in answers.
fn resource(template: &Value, data: &Value) -> Value {
    let mut schema = template.clone();
    let printed = json!({ "anyOf": [data, { "$ref": "#/components/schemas/mortise-UnprintableData" }] });
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.insert("data".to_owned(), printed);
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("required".to_owned(), json!(["id"]));
    }
    schema
}

/// The schema of the body of a write.
fn body_schema(template: &Value, data: &Value) -> Value {
    let owner = template.pointer("/properties/owner").cloned().unwrap_or_default();
    let metadata = template.pointer("/properties/metadata").cloned().unwrap_or_default();
    let meta = template.pointer("/properties/meta").cloned().unwrap_or_default();
    json!({
        "type": "object",
        "description": "Other keys are ignored, so a resource that was read can be written back.",
        "properties": { "data": data, "meta": meta, "metadata": metadata, "owner": owner },
        "required": ["data"],
    })
}

/// The parts that an operation has for every type.
fn operation(t: &TypeDoc<'_>, name: &str, verb: &str, summary: &str, parameters: &[&str]) -> Value {
    let units: &[&str] = match t.scope {
        Scope::Cluster => &[],
        Scope::Partition => &["partition"],
        Scope::Namespace | Scope::Undefined => &["partition", "namespace", "ns"],
    };
    let many = matches!(verb, "list");
    let units = units.iter().map(|unit| if many { format!("{unit}-of-many") } else { (*unit).to_owned() });
    let parameters: Vec<_> = units
        .chain(parameters.iter().map(|p| (*p).to_owned()))
        .map(|p| json!({ "$ref": format!("#/components/parameters/{p}") }))
        .collect();
    json!({
        "operationId": format!("{name}.{verb}"),
        "tags": [name],
        "summary": summary,
        "parameters": parameters,
    })
}

/// Adds the answers to an operation: the successful ones, and the codes of the failures.
fn with_responses(mut operation: Value, success: Value, codes: &[&str]) -> Value {
    let mut responses = success;
    if let Some(responses) = responses.as_object_mut() {
        for code in codes {
            responses.insert((*code).to_owned(), json!({ "$ref": format!("#/components/responses/{code}") }));
        }
    }
    if let Some(operation) = operation.as_object_mut() {
        operation.insert("responses".to_owned(), responses);
    }
    operation
}

/// Codes of failures of each operation on resources.
const READ_FAILURE_CODES: [&str; 7] = ["400", "403", "404", "429", "500", "503", "504"];
const ITEM_FAILURE_CODES: [&str; 8] = ["400", "403", "404", "412", "429", "500", "503", "504"];
const DELETE_FAILURE_CODES: [&str; 9] = ["400", "403", "404", "409", "412", "429", "500", "503", "504"];
const DRY_RUN_FAILURE_CODES: [&str; 11] = ["400", "403", "404", "408", "409", "413", "415", "429", "500", "503", "504"];
const WRITE_FAILURE_CODES: [&str; 12] =
    ["400", "403", "404", "408", "409", "412", "413", "415", "429", "500", "503", "504"];

/// A stream of server-sent events. OpenAPI 3.1 cannot describe the parts of a stream; as tools for such streams expect,
/// the schema describes one event.
fn events(item: &str) -> Value {
    let data = json!({
        "type": "string",
        "description": "JSON: the resource; a problem object in `error`; an empty object in `end-of-snapshot`, `current` and `reset`.",
        "contentMediaType": "application/json",
        "contentSchema": {
            "anyOf": [{ "$ref": item }, { "$ref": "#/components/schemas/mortise-Problem" }, { "maxProperties": 0 }],
        },
    });
    json!({ "schema": {
        "type": "object",
        "description": "One event.",
        "properties": {
            "event": { "enum": ["upsert", "delete", "end-of-snapshot", "current", "reset", "error"] },
            "id": { "type": "string", "description": "The resource's version; in a watch of a query, a resume token." },
            "data": data,
        },
        "required": ["event", "data"],
    } })
}

fn item_schema(name: &str) -> String {
    format!("{SCHEMA_REFERENCE_PREFIX}Resource-{name}")
}

fn collection(t: &TypeDoc<'_>, name: &str) -> Value {
    let item = item_schema(name);
    let list = operation(
        t,
        name,
        "list",
        "Lists resources, or a page of a query's results; with `watch`, streams changes as server-sent events.",
        &[
            "name_prefix",
            "consistent",
            "watch",
            "selector",
            "filter",
            "order_by",
            "fields",
            "view",
            "page_size",
            "page_token",
            "explain",
            "paging_info",
            "resume_token",
        ],
    );
    let success = json!({
        "200": {
            "description": "The resources that the caller may read, ordered by tenancy and name; or events: the current resources, \
                            the end of that snapshot, and every change.",
            "content": {
                "application/json": { "schema": {
                    "type": "object",
                    "properties": {
                        "resources": { "type": "array", "items": { "$ref": item } },
                        "prevPageToken": { "type": "string" },
                        "nextPageToken": { "type": "string" },
                        "currentOffset": { "type": "integer" },
                        "totalResultsCount": { "type": "integer" },
                        "plan": { "$ref": "#/components/schemas/mortise-QueryPlan" },
                    },
                    "required": ["resources"],
                    "additionalProperties": false,
                } },
                "text/event-stream": events(&item),
            },
        },
    });
    json!({ "get": with_responses(list, success, &READ_FAILURE_CODES) })
}

fn item(t: &TypeDoc<'_>, name: &str) -> Value {
    let item = item_schema(name);
    let response = |description: &str| json!({ "description": description, "content": { "application/json": { "schema": { "$ref": item } } } });
    let read = operation(
        t,
        name,
        "read",
        "Reads a resource; with `watch`, streams its changes as server-sent events, even before it exists.",
        &["consistent", "watch", "fields", "view", "If-Match", "If-None-Match"],
    );
    let mut found =
        response("The resource, or events: the current resource, the end of that snapshot, and every change.");
    add_header(&mut found, "ETag", TAG_DESCRIPTION);
    if let Some(content) = found.get_mut("content").and_then(Value::as_object_mut) {
        content.insert("text/event-stream".to_owned(), events(&item));
    }
    let mut write = operation(
        t,
        name,
        "write",
        "Creates a resource, or replaces its data and metadata, and its meta if the body has one; with `version`, only if that is the stored version.",
        &["version", "If-Match", "If-None-Match"],
    );
    body(&mut write, name);
    let mut stored = response("The stored resource.");
    add_header(&mut stored, "ETag", TAG_DESCRIPTION);
    add_header(&mut stored, "Warning", "Warnings of the validation, one header each: `299 mortise \"text\"`.");
    let delete = operation(
        t,
        name,
        "delete",
        "Deletes a resource, or marks it for deletion while it has finalizers. A resource that does not exist counts as deleted.",
        &["version", "If-Match", "If-None-Match"],
    );
    let mut unchanged = json!({ "description": "The client has the stored version." });
    add_header(&mut unchanged, "ETag", TAG_DESCRIPTION);
    json!({
        "parameters": [{ "$ref": "#/components/parameters/name" }],
        "get": with_responses(read, json!({ "200": found, "304": unchanged }), &ITEM_FAILURE_CODES),
        "put": with_responses(write, json!({ "200": stored }), &WRITE_FAILURE_CODES),
        "delete": with_responses(delete, json!({ "204": { "description": "Deleted, or marked for deletion." } }), &DELETE_FAILURE_CODES),
    })
}

/// Description of the entity tag of an answer.
const TAG_DESCRIPTION: &str = "The version in quotes, for If-Match and If-None-Match.";

/// Adds a header to an answer.
fn add_header(answer: &mut Value, name: &str, description: &str) {
    let header = json!({ "description": description, "schema": { "type": "string" } });
    if let Some(answer) = answer.as_object_mut()
        && let Some(headers) = answer.entry("headers").or_insert_with(|| json!({})).as_object_mut()
    {
        headers.insert(name.to_owned(), header);
    }
}

fn body(operation: &mut Value, name: &str) {
    if let Some(operation) = operation.as_object_mut() {
        let schema = json!({ "$ref": format!("{SCHEMA_REFERENCE_PREFIX}Write-{name}") });
        operation.insert(
            "requestBody".to_owned(),
            json!({ "required": true, "content": { "application/json": { "schema": schema } } }),
        );
    }
}

fn validate(t: &TypeDoc<'_>, name: &str) -> Value {
    let mut dry = operation(
        t,
        name,
        "validate",
        "Shows the resource that a write would store, without storing it or reading the stored one.",
        &[],
    );
    body(&mut dry, name);
    let success = json!({ "200": {
        "description": "The resource with its defaults, and the warnings of the validation.",
        "content": { "application/json": { "schema": {
            "type": "object",
            "properties": {
                "resource": { "$ref": item_schema(name) },
                "warnings": { "type": "array", "items": { "$ref": "#/components/schemas/mortise-Diagnostic" } },
            },
            "required": ["resource", "warnings"],
            "additionalProperties": false,
        } } },
    } });
    json!({ "parameters": [{ "$ref": "#/components/parameters/name" }], "post": with_responses(dry, success, &DRY_RUN_FAILURE_CODES) })
}

/// Adds the paths that do not depend on types.
fn server_paths(paths: &mut Map<String, Value>) {
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
    paths.insert("/v1/types".into(), get("types.list", "Every registered type.", "application/json", types, &[]));
    let described = json!({ "$ref": "#/components/schemas/mortise-TypeWithSchema" });
    let summary = "One type, with the JSON Schema of its data.";
    let mut operation = get("types.get", summary, "application/json", described, &["404"]);
    if let Some(operation) = operation.as_object_mut() {
        let parameter = json!({
            "name": "type", "in": "path", "required": true, "description": "The type, such as `demo.v2.Artist`.",
            "schema": { "type": "string" },
        });
        operation.insert("parameters".to_owned(), json!([parameter]));
    }
    paths.insert("/v1/types/{type}".into(), operation);
    let document = json!({ "type": "object" });
    paths.insert("/v1/openapi.json".into(), get("openapi", "This document.", "application/json", document, &["500"]));
    paths.insert("/healthz".into(), get("healthz", "The process is up.", "text/plain", text(), &[]));
    let mut ready = get("readyz", "The server is ready: everything is loaded.", "text/plain", text(), &[]);
    if let Some(responses) = ready.pointer_mut("/get/responses").and_then(Value::as_object_mut) {
        let not_ready = json!({
            "description": "Not ready: still loading, or stopping.", "content": { "text/plain": { "schema": { "type": "string" } } },
        });
        responses.insert("503".to_owned(), not_ready);
    }
    paths.insert("/readyz".into(), ready);
    paths.insert("/metrics".into(), get("metrics", "Prometheus text.", "text/plain", text(), &[]));
}
