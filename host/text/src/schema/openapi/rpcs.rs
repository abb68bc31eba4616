//! An OpenAPI 3.1 document of the RPCs over HTTP. It is a document of its own: clients of the resource API have no use
//! for these operations, and generators would make a module for each message.

use prost_reflect::{MessageDescriptor, MethodDescriptor};
use serde_json::{Map, Value, json};

use super::{
    Components, SCHEMA_REFERENCE_PREFIX,
    answers::with_responses,
    components::{own_schemas, responses},
    describe, security_schemes,
};
use crate::{data::UNPRINTABLE_DATA_KEY, schema::comments::Commented as _};

/// The message of resources.
const RESOURCE_MESSAGE: &str = "hashicorp.consul.resource.Resource";

/// Schemas of Mortise's own objects that the document refers to.
const OWN_SCHEMAS: [&str; 3] = ["mortise-Diagnostic", "mortise-Problem", "mortise-UnprintableData"];

/// Codes of failures of a call.
const FAILURE_CODES: [&str; 12] = ["400", "401", "403", "404", "408", "409", "413", "415", "429", "500", "503", "504"];

/// An RPC of the document.
#[derive(Debug)]
pub struct RpcDoc {
    /// The method.
    pub method: MethodDescriptor,
    /// Its path.
    pub path: String,
    /// The parameters and the media type of a body that is not the message in JSON.
    pub upload: Option<Upload>,
}

/// A body of bytes, with parameters beside it.
#[derive(Debug)]
pub struct Upload {
    /// Media type of the body.
    pub media: &'static str,
    /// Names of the parameters, their place (`query` or `header`), and their descriptions.
    pub parameters: Vec<(&'static str, &'static str, &'static str)>,
}

/// Makes the document.
#[must_use]
pub fn rpc_openapi(version: &str, rpcs: &[RpcDoc]) -> Value {
    let mut components = Components::default();
    let mut schema = |message: &MessageDescriptor| {
        let references = components.add("host", |definitions| vec![definitions.message(message)]);
        references.into_iter().next().unwrap_or_default()
    };
    let mut paths = Map::new();
    let mut tags: Vec<Value> = Vec::new();
    for rpc in rpcs {
        let service = rpc.method.parent_service();
        if !tags.iter().any(|tag| tag["name"] == service.full_name()) {
            let mut tag = json!({ "name": service.full_name() });
            describe(&mut tag, service.comment());
            tags.push(tag);
        }
        let output = schema(&rpc.method.output());
        let body = match &rpc.upload {
            Some(upload) => json!({ "required": true, "content": { upload.media: {} } }),
            None => json!({ "content": { "application/json": { "schema": schema(&rpc.method.input()) } } }),
        };
        paths.insert(rpc.path.clone(), json!({ "post": operation(rpc, body, output) }));
    }
    if let Some(resource) = components.schemas.get_mut(RESOURCE_MESSAGE) {
        shape_resource(resource);
    }
    components.schemas.extend(own_schemas().into_iter().filter(|(name, _)| OWN_SCHEMAS.contains(&name.as_str())));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Mortise: RPCs",
            "version": version,
            "description": "The methods of Mortise's own gRPC services as JSON.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "tags": tags,
        "paths": paths,
        "components": {
            "schemas": components.schemas,
            "responses": responses(),
            "securitySchemes": security_schemes(),
        },
        "security": [{ "bearer": [] }, { "token": [] }, {}],
    })
}

fn operation(rpc: &RpcDoc, body: Value, output: Value) -> Value {
    let (name, comment) = (rpc.method.parent_service().name().to_owned(), rpc.method.comment());
    let mut operation = json!({
        "operationId": format!("{name}.{}", rpc.method.name()),
        "tags": [rpc.method.parent_service().full_name()],
        "requestBody": body,
    });
    describe(&mut operation, comment);
    if let (Some(upload), Some(operation)) = (&rpc.upload, operation.as_object_mut()) {
        let parameter = |(name, place, description): &(&str, &str, &str)| json!({ "name": name, "in": place, "description": description, "schema": { "type": "string" } });
        operation.insert("parameters".to_owned(), upload.parameters.iter().map(parameter).collect());
    }
    let content = match rpc.method.is_server_streaming() {
        true => json!({ "text/event-stream": { "schema": event(&output) } }),
        false => json!({ "application/json": { "schema": output } }),
    };
    let success = json!({ "200": { "description": "The answer.", "content": content } });
    with_responses(operation, success, &FAILURE_CODES)
}

/// One event of a stream.
fn event(message: &Value) -> Value {
    let data = json!({
        "type": "string",
        "description": "JSON: the message; a problem object in `closed`; an empty object in `end`.",
        "contentMediaType": "application/json",
        "contentSchema": {
            "anyOf": [message, { "$ref": format!("{SCHEMA_REFERENCE_PREFIX}mortise-Problem") }, { "maxProperties": 0 }],
        },
    });
    json!({
        "type": "object",
        "description": "One event.",
        "properties": { "event": { "enum": ["message", "end", "closed"] }, "data": data },
        "required": ["event", "data"],
    })
}

/// Gives the schema of a resource the form in which its data is printed and read.
fn shape_resource(schema: &mut Value) {
    let Some(properties) = schema.get_mut("properties").and_then(Value::as_object_mut) else { return };
    let data = "The message of the resource's type, which `/v1/types` describes.";
    properties.insert("data".to_owned(), json!({ "type": "object", "description": data }));
    let unprintable = json!({ "$ref": format!("{SCHEMA_REFERENCE_PREFIX}mortise-UnprintableData") });
    properties.insert(UNPRINTABLE_DATA_KEY.to_owned(), unprintable);
}
