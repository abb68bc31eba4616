//! Operations on the resources of a type.

use mortise_resource::Scope;
use serde_json::{Value, json};

use super::{SCHEMA_REFERENCE_PREFIX, TypeDoc, answers::with_responses};

/// The parts that an operation has for every type.
fn operation(t: &TypeDoc<'_>, name: &str, verb: &str, summary: &str, parameters: &[&str]) -> Value {
    let units: &[&str] = match t.scope {
        Scope::Cluster => &[],
        Scope::Partition => &["partition"],
        Scope::Namespace | Scope::Undefined => &["partition", "namespace", "ns"],
    };
    let many = matches!(verb, "list" | "watch");
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

/// Codes of failures of each operation on resources.
const READ_FAILURE_CODES: [&str; 8] = ["400", "401", "403", "404", "429", "500", "503", "504"];
const ITEM_FAILURE_CODES: [&str; 9] = ["400", "401", "403", "404", "412", "429", "500", "503", "504"];
const DELETE_FAILURE_CODES: [&str; 10] = ["400", "401", "403", "404", "409", "412", "429", "500", "503", "504"];
const DRY_RUN_FAILURE_CODES: [&str; 12] =
    ["400", "401", "403", "404", "408", "409", "413", "415", "429", "500", "503", "504"];
const WRITE_FAILURE_CODES: [&str; 13] =
    ["400", "401", "403", "404", "408", "409", "412", "413", "415", "429", "500", "503", "504"];

/// A stream of server-sent events. OpenAPI 3.1 cannot describe the parts of a stream; as tools for such streams expect,
/// the schema describes one event.
fn events(item: &str) -> Value {
    let data = json!({
        "type": "string",
        "description": "JSON: the resource; a problem object in `closed`; an empty object in `end-of-snapshot`, `current` and `reset`.",
        "contentMediaType": "application/json",
        "contentSchema": {
            "anyOf": [{ "$ref": item }, { "$ref": "#/components/schemas/mortise-Problem" }, { "maxProperties": 0 }],
        },
    });
    json!({ "schema": {
        "type": "object",
        "description": "One event.",
        "properties": {
            "event": { "enum": ["upsert", "delete", "end-of-snapshot", "current", "reset", "closed"] },
            "id": { "type": "string", "description": "The resource's version; in a watch of a query, a resume token." },
            "data": data,
        },
        "required": ["event", "data"],
    } })
}

fn item_schema(name: &str) -> String {
    format!("{SCHEMA_REFERENCE_PREFIX}Resource-{name}")
}

/// The collection: lists, searches and creates with a generated name.
pub(super) fn collection(t: &TypeDoc<'_>, name: &str) -> Value {
    let item = item_schema(name);
    let mut parameters =
        vec!["name_prefix", "consistent", "order_by", "page_size", "page_token", "explain", "paging_info"];
    parameters.extend(QUERY_PARAMETERS);
    let list = operation(t, name, "list", "Lists resources, or a page of a query's results.", &parameters);
    let mut listed = json!({
        "description": "The resources that the caller may read, ordered by tenancy and name, or in the query's order.",
        "content": { "application/json": { "schema": {
            "type": "object",
            "properties": {
                "resources": { "type": "array", "items": { "$ref": item } },
                "prevPageToken": { "type": "string" },
                "nextPageToken": { "type": "string" },
                "at": { "type": "string" },
                "resumeToken": { "type": "string" },
                "currentOffset": { "type": "integer" },
                "totalResultsCount": { "type": "integer" },
                "plan": { "$ref": "#/components/schemas/mortise-QueryPlan" },
            },
            "required": ["resources"],
            "additionalProperties": false,
        } } },
    });
    add_header(&mut listed, "Link", "The address of the next page, with rel=\"next\".");
    let mut create = operation(
        t,
        name,
        "create",
        "Creates a resource with a generated name: a prefix and random letters.",
        &["generate_name"],
    );
    body(&mut create, name);
    let mut created = resource_answer(&item, "The created resource.");
    add_header(&mut created, "ETag", TAG_DESCRIPTION);
    add_header(&mut created, "Location", "The address of the resource.");
    add_header(&mut created, "Warning", WARNING_DESCRIPTION);
    json!({
        "get": with_responses(list, json!({ "200": listed }), &READ_FAILURE_CODES),
        "post": with_responses(create, json!({ "201": created }), &DRY_RUN_FAILURE_CODES),
    })
}

/// Parameters of queries that a watch has, too.
const QUERY_PARAMETERS: [&str; 4] = ["selector", "filter", "fields", "view"];

/// The events of a collection, or of an item.
pub(super) fn watch(t: &TypeDoc<'_>, name: &str, of_item: bool) -> Value {
    let (verb, summary, mut parameters) = match of_item {
        true => {
            ("follow", "Streams the changes of a resource as server-sent events, even before it exists.", Vec::new())
        }
        false => ("watch", "Streams changes as server-sent events.", vec!["name_prefix", "resume_token"]),
    };
    if !of_item {
        parameters.extend(QUERY_PARAMETERS);
    }
    let watch = operation(t, name, verb, summary, &parameters);
    let success = json!({ "200": {
        "description": "Events: the current resources, the end of that snapshot, and every change.",
        "content": { "text/event-stream": events(&item_schema(name)) },
    } });
    let get = with_responses(watch, success, &READ_FAILURE_CODES);
    match of_item {
        true => json!({ "parameters": [{ "$ref": "#/components/parameters/name" }], "get": get }),
        false => json!({ "get": get }),
    }
}

/// An answer that is a resource.
fn resource_answer(item: &str, description: &str) -> Value {
    json!({ "description": description, "content": { "application/json": { "schema": { "$ref": item } } } })
}

pub(super) fn item(t: &TypeDoc<'_>, name: &str) -> Value {
    let item = item_schema(name);
    let response = |description: &str| resource_answer(&item, description);
    let read =
        operation(t, name, "read", "Reads a resource.", &["consistent", "fields", "view", "If-Match", "If-None-Match"]);
    let mut found = response("The resource.");
    add_header(&mut found, "ETag", TAG_DESCRIPTION);
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
    add_header(&mut stored, "Warning", WARNING_DESCRIPTION);
    let mut patch = operation(
        t,
        name,
        "patch",
        "Changes parts of a resource, whose form is that of a GET; with `version`, only if that is the stored version.",
        &["version", "If-Match", "If-None-Match"],
    );
    let merge = json!({ "type": "object", "additionalProperties": true, "description": "Values that replace those of the resource; null removes (RFC 7396)." });
    if let Some(patch) = patch.as_object_mut() {
        // Not the JSON patch: a list beside an object makes generated clients fail, or send nothing but lists.
        let content = json!({ "application/merge-patch+json": { "schema": merge } });
        patch.insert("requestBody".to_owned(), json!({ "required": true, "content": content }));
    }
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
        "put": with_responses(write, json!({ "200": stored.clone() }), &WRITE_FAILURE_CODES),
        "patch": with_responses(patch, json!({ "200": stored }), &WRITE_FAILURE_CODES),
        "delete": with_responses(delete, json!({ "204": { "description": "Deleted, or marked for deletion." } }), &DELETE_FAILURE_CODES),
    })
}

/// Description of the warnings of an answer.
const WARNING_DESCRIPTION: &str = "Warnings of the validation, one header each: `299 mortise \"text\"`.";

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
        // Not YAML, of which generators warn: generated clients send JSON.
        operation.insert(
            "requestBody".to_owned(),
            json!({ "required": true, "content": { "application/json": { "schema": schema } } }),
        );
    }
}

pub(super) fn validate(t: &TypeDoc<'_>, name: &str) -> Value {
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
