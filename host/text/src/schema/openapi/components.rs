//! The components that all types share: parameters, errors, and the schemas of Mortise's own objects.

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Longest name in characters.
const MAX_NAME_CHARACTERS: usize = mortise_resource::name::MAX_NAME_BYTES;

/// The rule of names, as an expression.
const NAME_PATTERN: &str = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$";

/// Most characters of a text parameter, so that all parameters fit into an address: 64 KiB, escapes included.
const MAX_TEXT_CHARACTERS: usize = 1 << 10;

/// Most characters of the start of a generated name.
const MAX_PREFIX_CHARACTERS: usize = 40;

/// A list of entity tags: versions in quotes.
const TAGS_PATTERN: &str = "^(\\*|(W/)?\"[0-9]*\"(, ?(W/)?\"[0-9]*\")*)$";

/// Parameters, by their names in operations.
pub(super) fn parameters() -> Value {
    let query = |name: &str, description: &str, schema: Value| json!({ "name": name, "in": "query", "description": description, "schema": schema });
    let flag = |name: &str, description: &str, values: &[&str]| {
        json!({
            "name": name, "in": "query", "description": description, "allowEmptyValue": true,
            "schema": { "type": "string", "enum": values },
        })
    };
    let tags = |name: &str, description: &str| {
        json!({
            "name": name, "in": "header", "description": description,
            "schema": { "type": "string", "maxLength": MAX_NAME_CHARACTERS, "pattern": TAGS_PATTERN },
        })
    };
    let text = |longest: usize| json!({ "type": "string", "maxLength": longest });
    let unit = || json!({ "type": "string", "maxLength": MAX_NAME_CHARACTERS, "pattern": NAME_PATTERN });
    let units = || json!({ "anyOf": [unit(), { "const": "*" }] });
    let note = "; `default` if left out.";
    let many = "; `*` for all, `default` if left out.";
    json!({
        "name": {
            "name": "name", "in": "path", "required": true, "description": "The resource's name.",
            "schema": { "type": "string", "minLength": 1, "maxLength": MAX_NAME_CHARACTERS, "pattern": NAME_PATTERN },
        },
        "partition": query("partition", &format!("The outer unit of tenancy{note}"), unit()),
        "namespace": query("namespace", &format!("The inner unit of tenancy{note}"), unit()),
        "ns": query("ns", "Short name of `namespace`; `namespace` wins if both are given.", unit()),
        "partition-of-many": query("partition", &format!("The outer unit of tenancy{many}"), units()),
        "namespace-of-many": query("namespace", &format!("The inner unit of tenancy{many}"), units()),
        "ns-of-many": query("ns", "Short name of `namespace`; `namespace` wins if both are given.", units()),
        "version": query("version", "Stored version that the resource must have; answers 409 otherwise.", json!({ "type": "string", "minLength": 1 })),
        "If-Match": tags("If-Match", "Entity tags of which the stored version must be one, or `*`; answers 412 otherwise."),
        "If-None-Match": tags(
            "If-None-Match",
            "Entity tags of which the stored version must be none, or `*` for a resource that must not exist; a read answers 304 \
             otherwise, a change 412.",
        ),
        "name_prefix": query(
            "name_prefix",
            "Start of the names to list.",
            json!({ "type": "string", "maxLength": MAX_NAME_CHARACTERS, "pattern": "^[a-z0-9-]*$" }),
        ),
        "consistent": flag("consistent", "Asks for a strong read; the bare name is enough.", &["", "true"]),
        "selector": query("selector", "Labels that resources must have, such as `env=prod,tier in (a,b),!old`.", text(MAX_TEXT_CHARACTERS)),
        "filter": query("filter", "Filter that resources must match, such as `data.genre = \"GENRE_JAZZ\"`.", text(MAX_TEXT_CHARACTERS)),
        "order_by": query("order_by", "Order: paths separated by commas, each followed by `asc` or `desc` if wanted.", text(MAX_TEXT_CHARACTERS)),
        "fields": query("fields", "Fields to show: paths separated by commas.", text(MAX_TEXT_CHARACTERS)),
        "view": query("view", "Set of fields to show.", json!({ "enum": ["name", "basic", "detail", "full"] })),
        "page_size": query(
            "page_size",
            "Most resources of a page; 0 means 100.",
            json!({ "type": "integer", "minimum": 0, "maximum": 1_000 }),
        ),
        "page_token": query("page_token", "Token of a page, from an earlier answer.", text(MAX_TEXT_CHARACTERS)),
        "explain": flag("explain", "Asks for the plan by which the resources were found; the bare name is enough.", &["", "true", "false"]),
        "paging_info": flag("paging_info", "Asks for the number of all matches; the bare name is enough.", &["", "true", "false"]),
        "resume_token": query("resume_token", "Token at which to resume, from an earlier watch of the same query.", text(MAX_TEXT_CHARACTERS)),
        "generate_name": query(
            "generate_name",
            "Start of the generated name, such as `web-`.",
            json!({ "type": "string", "maxLength": MAX_PREFIX_CHARACTERS, "pattern": "^([a-z0-9][a-z0-9-]*)?$" }),
        ),
    })
}

/// Answers to failed requests, by their codes. A client that prefers text gets text; generated clients do not, and
/// would have to tell the two apart.
pub(super) fn responses() -> Value {
    let refusal = |description: &str| {
        json!({
            "description": description,
            "content": {
                "application/problem+json": { "schema": { "$ref": "#/components/schemas/mortise-Problem" } },
            },
        })
    };
    json!({
        "400": refusal("The request is invalid: its body, its parameters, or by the rules of the type."),
        "401": refusal("The token is unknown."),
        "403": refusal("The caller may not do this."),
        "404": refusal("There is no such resource, tenancy, type or path."),
        "408": refusal("The body did not arrive in time."),
        "409": refusal("The version is not the stored one, or a patch does not fit the stored resource. For clients that prefer problems also: the type's plugin is gone."),
        "412": refusal("A condition does not hold: If-Match or If-None-Match."),
        "413": refusal("The body is too large."),
        "415": refusal("The body is neither JSON nor YAML, or is encoded."),
        "429": refusal("A limit was reached, such as that of open watches."),
        "500": refusal("A fault of the server or of a plugin. Clients that do not prefer problems get this for 429, 503 and 504, too."),
        "503": refusal("Not available now: the server is stopping, or a plugin's hook is quarantined."),
        "504": refusal("A plugin took too long."),
    })
}

/// Schemas that all types share.
pub(super) fn own_schemas() -> BTreeMap<String, Value> {
    let text = || json!({ "type": "string" });
    let diagnostic = json!({
        "type": "object",
        "properties": {
            "path": { "type": "string", "description": "Path of the field, in the names of protobuf, such as `data.tracks[3]`." },
            "summary": { "type": "string", "description": "The fault, in one sentence." },
            "detail": { "type": "string", "description": "Details, if one sentence is not enough." },
            "line": { "type": "integer", "minimum": 1, "description": "Line in the body, if the fault has a place there." },
            "column": { "type": "integer", "minimum": 1, "description": "Column in the body." },
            "severity": { "enum": ["warning"], "description": "Left out for faults that reject the request." },
        },
        "required": ["path", "summary"],
        "additionalProperties": false,
    });
    let blamed = json!({
        "type": "object",
        "description": "The plugin at fault.",
        "properties": {
            "plugin": text(),
            "version": text(),
            "hook": { "type": "string", "description": "The called function, such as `validate`." },
            "kind": { "type": "string", "description": "Reason of the failure, such as `trap`, `fuel` or `deadline`." },
            "retry_after_ms": { "type": "integer", "minimum": 0, "description": "Time after which to try again, in milliseconds." },
        },
        "required": ["plugin", "version", "hook", "kind"],
        "additionalProperties": false,
    });
    let problem = json!({
        "type": "object",
        "description": "A problem (RFC 9457).",
        "properties": {
            "type": { "type": "string", "format": "uri", "description": "`urn:mortise:problem:` and the kind of the problem." },
            "title": text(),
            "status": { "type": "integer", "minimum": 400, "maximum": 599 },
            "detail": text(),
            "code": { "type": "string", "description": "The name of gRPC's code, such as `NotFound`, for errors of the service." },
            "instance": { "type": "string", "format": "uri-reference" },
            "violations": { "type": "array", "items": { "$ref": "#/components/schemas/mortise-Diagnostic" } },
            "plugin": blamed,
        },
        "required": ["type", "title", "status", "detail", "instance"],
        "additionalProperties": false,
    });
    let unprintable = json!({
        "type": "object",
        "description": "Data that the JSON mapping has no form for, such as a time out of range.",
        "properties": { "@type": text(), "@bytes": { "type": "string", "contentEncoding": "base64" } },
        "required": ["@type", "@bytes"],
        "additionalProperties": false,
    });
    let column = json!({
        "type": "object",
        "properties": { "name": text(), "path": text() },
        "required": ["name", "path"],
        "additionalProperties": false,
    });
    let texts = || json!({ "type": "array", "items": { "type": "string" } });
    let summary = json!({
        "name": { "type": "string", "description": "`group.version.Kind`." },
        "group": text(),
        "groupVersion": text(),
        "kind": text(),
        "path": { "type": "string", "description": "Path of its resources." },
        "scope": { "enum": ["cluster", "partition", "namespace", "undefined"] },
        "message": { "type": "string", "description": "Full name of the message of its data." },
        "schemaVersion": { "type": "integer", "minimum": 1 },
        "plugin": { "type": ["string", "null"], "description": "Plugin that provides it; null for the host." },
        "pluginVersion": { "type": ["string", "null"] },
        "orphaned": { "type": "boolean", "description": "Whether its plugin is gone: resources can be read and deleted, but not written." },
        "shortNames": texts(),
        "printerColumns": { "type": "array", "items": column },
        "immutableFields": texts(),
    });
    let required: Vec<_> = summary.as_object().map(|o| o.keys().cloned().collect()).unwrap_or_default();
    let type_schema = json!({
        "type": "object", "properties": summary, "required": required, "additionalProperties": false,
    });
    let mut described = type_schema.clone();
    if let Some(properties) = described.get_mut("properties").and_then(Value::as_object_mut) {
        let what = "JSON Schema (2020-12) of its data.";
        properties.insert("schema".to_owned(), json!({ "type": "object", "description": what }));
    }
    if let Some(required) = described.get_mut("required").and_then(Value::as_array_mut) {
        required.push(json!("schema"));
    }
    let version = json!({
        "type": "object",
        "properties": { "name": text(), "version": text() },
        "required": ["name", "version"],
    });
    let root = json!({
        "type": "object",
        "properties": {
            "name": text(),
            "version": text(),
            "ready": { "type": "boolean" },
            "links": { "type": "object", "additionalProperties": text() },
            "types": { "type": "object", "description": "Paths of the types.", "additionalProperties": text() },
        },
        "required": ["name", "ready", "links"],
    });
    let count = || json!({ "type": "integer", "minimum": 0 });
    let plan = json!({
        "type": "object",
        "description": "Plan by which the resources of a query were found. The counts of examined resources are only for callers with all rights.",
        "properties": {
            "access": { "enum": ["UNSPECIFIED", "NAMES", "NAME_RANGE", "LABEL", "FIELD"] },
            "keys": texts(),
            "scanned": count(),
            "decoded": count(),
            "matched": count(),
            "sorted": { "type": "boolean" },
            "durationUs": count(),
        },
        "required": ["access", "keys", "scanned", "decoded", "matched", "sorted", "durationUs"],
        "additionalProperties": false,
    });
    [
        ("mortise-Diagnostic", diagnostic),
        ("mortise-QueryPlan", plan),
        ("mortise-Problem", problem),
        ("mortise-Root", root),
        ("mortise-Version", version),
        ("mortise-UnprintableData", unprintable),
        ("mortise-Type", type_schema),
        ("mortise-TypeWithSchema", described),
    ]
    .map(|(name, schema)| (name.to_owned(), schema))
    .into()
}
