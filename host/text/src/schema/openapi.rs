//! An OpenAPI 3.1 document of the HTTP API, for the registered types.
//!
//! Names of components: full names for messages, `Resource-<type>` and `Write-<type>` for the bodies of a type, and
//! `mortise-…` for schemas that all types share. Names in protobuf have no dash, so these cannot clash. If two plugins
//! have different messages of one name, those of the second are called `<plugin>-<message>`.

use std::collections::BTreeMap;

use mortise_resource::{Scope, types::Gvk};
use prost_reflect::MessageDescriptor;
use serde_json::{Map, Value, json};

use self::{
    components::{own_schemas, parameters, responses},
    operations::{collection, item, validate, watch},
    server::server_paths,
};
use super::{comments::Commented as _, json_schema::Definitions};
use crate::data::{UNKNOWN, UNPRINTABLE_DATA_KEY};

mod answers;
mod components;
mod operations;
mod rpcs;
mod server;

pub use rpcs::{RpcDoc, Upload, rpc_openapi};

/// Start of references to messages.
const SCHEMA_REFERENCE_PREFIX: &str = "#/components/schemas/";

/// Input of the document.
#[derive(Debug)]
pub struct Api<'a> {
    /// Version of the server.
    pub version: &'a str,
    /// The group of all types; `None` for a document of every group.
    pub group: Option<&'a str>,
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
        paths.insert(format!("{}/_watch", t.path), watch(t, &name, false));
        paths.insert(format!("{}/{{name}}/_watch", t.path), watch(t, &name, true));
    }
    if api.group.is_none() {
        tags.push(json!({ "name": "server", "description": "Information about the server." }));
        server_paths(&mut paths);
    }
    components.schemas.extend(own_schemas());

    json!({
        "openapi": "3.1.0",
        "info": {
            "title": api.group.map_or_else(|| "Mortise".to_owned(), |group| format!("Mortise: {group}")),
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
            "securitySchemes": security_schemes(),
        },
        // Without access control a request needs no token.
        "security": [{ "bearer": [] }, { "token": [] }, {}],
    })
}

fn describe(object: &mut Value, text: String) {
    if let (Some(object), false) = (object.as_object_mut(), text.is_empty()) {
        object.insert("description".to_owned(), json!(text));
    }
}

/// The ways to send a token.
fn security_schemes() -> Value {
    json!({
        "bearer": { "type": "http", "scheme": "bearer", "description": "The token's secret. Needed with `acl.enabled`." },
        "token": {
            "type": "apiKey", "in": "header", "name": "X-Consul-Token", "description": "The token's secret, as Consul's clients send it.",
        },
    })
}

/// The schemas so far.
#[derive(Default)]
struct Components {
    schemas: BTreeMap<String, Value>,
}

impl Components {
    /// Adds definitions, with names prefixed by `owner` if other definitions have the same names; returns the
    /// references to them. Of definitions that differ in descriptions alone the first one stays.
    fn add(&mut self, owner: &str, define: impl Fn(&mut Definitions) -> Vec<Value>) -> Vec<Value> {
        let mut plain = Definitions::new(SCHEMA_REFERENCE_PREFIX, "");
        let references = define(&mut plain);
        let defined = plain.into_map();
        if defined.iter().all(|(name, schema)| self.schemas.get(name).is_none_or(|known| alike(known, schema))) {
            for (name, schema) in defined {
                self.schemas.entry(name).or_insert(schema);
            }
            return references;
        }
        let mut own = Definitions::new(SCHEMA_REFERENCE_PREFIX, format!("{owner}-"));
        let references = define(&mut own);
        self.schemas.extend(own.into_map());
        references
    }
}

/// Returns true for schemas that differ in descriptions alone: a plugin's descriptors may have the host's messages without their
/// comments. A description is a text; a schema under this key is that of a field.
fn alike(left: &Value, right: &Value) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            without_description(left).count() == without_description(right).count()
                && without_description(left).all(|(key, value)| right.get(key).is_some_and(|other| alike(value, other)))
        }
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| alike(left, right))
        }
        _ => left == right,
    }
}

fn without_description(object: &Map<String, Value>) -> impl Iterator<Item = (&String, &Value)> {
    object.iter().filter(|(key, value)| *key != "description" || !value.is_string())
}

/// The schema of a resource of a type in answers. Generated clients read `data` without a check, so it is required:
/// only a resource with `unprintableData`, which no client in JSON can make, has none.
fn resource(template: &Value, data: &Value) -> Value {
    let mut schema = template.clone();
    if let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) {
        properties.remove(UNKNOWN);
        properties.insert("data".to_owned(), data.clone());
        let unprintable = json!({ "$ref": "#/components/schemas/mortise-UnprintableData" });
        properties.insert(UNPRINTABLE_DATA_KEY.to_owned(), unprintable);
    }
    if let Some(schema) = schema.as_object_mut() {
        schema.insert("required".to_owned(), json!(["data", "id"]));
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
