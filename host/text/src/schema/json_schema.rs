//! JSON Schema (draft 2020-12) of a message in the JSON mapping of protobuf 3.
//!
//! Messages are definitions, by their full names, and refer to each other; so a message may hold itself. Well-known
//! types are written in place. Each definition has `@unknown`, which holds the fields that the descriptor does not know.
//!
//! Plugins define messages, and a chain of messages may be as long as a plugin makes it: a list of pending messages
//! keeps the stack from growing with the chain.

use std::collections::BTreeMap;

use prost_reflect::{EnumDescriptor, ExtensionDescriptor, FieldDescriptor, Kind, MessageDescriptor, OneofDescriptor};
use serde_json::{Map, Value, json};

use super::comments::Commented as _;
use crate::data::UNKNOWN;

/// The dialect.
const DIALECT: &str = "https://json-schema.org/draft/2020-12/schema";

/// The largest float in the fewest digits that read back as it, as it is printed; a little more than its exact value.
const MAX_FLOAT: f64 = 3.402_823_5e38;

/// Names of floats that are not finite, as the mapping writes them.
const NOT_FINITE: [&str; 3] = ["NaN", "Infinity", "-Infinity"];

/// The schema of a message by itself: a document with `$defs`.
#[must_use]
pub fn json_schema(message: &MessageDescriptor) -> Value {
    let mut definitions = Definitions::new("#/$defs/", "");
    let mut root = definitions.message(message);
    let defs = definitions.into_map();
    if let Some(object) = root.as_object_mut() {
        object.insert("$schema".to_owned(), json!(DIALECT));
        object.insert("title".to_owned(), json!(message.full_name()));
        if !defs.is_empty() {
            object.insert("$defs".to_owned(), Value::Object(defs.into_iter().collect()));
        }
    }
    root
}

/// Definitions of messages that refer to each other, collected while schemas are made.
#[derive(Debug)]
pub struct Definitions {
    /// Start of every reference.
    reference_base: &'static str,
    /// Prefix of every name.
    prefix: String,
    known: BTreeMap<String, Value>,
    /// Messages with references but no definition yet, under their names in `known`.
    pending: Vec<(String, MessageDescriptor)>,
}

impl Definitions {
    /// Makes an empty collection. References will be `location`, `prefix` and the message's full name.
    #[must_use]
    pub fn new(location: &'static str, prefix: impl Into<String>) -> Self {
        Self { reference_base: location, prefix: prefix.into(), known: BTreeMap::new(), pending: Vec::new() }
    }

    /// Defines every message that has a reference, and returns the definitions by name.
    #[must_use]
    pub fn into_map(mut self) -> BTreeMap<String, Value> {
        while let Some((name, message)) = self.pending.pop() {
            let defined = self.define(&message);
            self.known.insert(name, defined);
        }
        self.known
    }

    /// The schema of a message: a reference to its definition, or the schema of a well-known type.
    pub fn message(&mut self, message: &MessageDescriptor) -> Value {
        if let Some(known) = well_known(message.full_name()) {
            return known;
        }
        let name = format!("{}{}", self.prefix, message.full_name());
        if !self.known.contains_key(&name) {
            self.known.insert(name.clone(), Value::Null);
            self.pending.push((name.clone(), message.clone()));
        }
        json!({ "$ref": format!("{}{name}", self.reference_base) })
    }

    fn define(&mut self, message: &MessageDescriptor) -> Value {
        let mut properties = Map::new();
        for field in message.fields() {
            properties.insert(field.json_name().to_owned(), self.field(&field));
        }
        for extension in message.extensions() {
            properties.insert(extension.json_name().to_owned(), self.extension(&extension));
        }
        // As fields are printed that no descriptor knows: a client that refuses other fields has to know this one.
        let unknown = "Fields that the server's descriptor does not know, as protobuf.";
        let unknown = json!({ "type": "string", "contentEncoding": "base64", "description": unknown });
        properties.insert(UNKNOWN.to_owned(), unknown);
        let mut schema = Map::new();
        schema.insert("type".to_owned(), json!("object"));
        describe(&mut schema, &message.comment());
        schema.insert("properties".to_owned(), Value::Object(properties));
        schema.insert("additionalProperties".to_owned(), json!(false));
        let choices: Vec<_> = message.oneofs().filter(|o| !o.is_synthetic()).filter_map(|o| at_most_one(&o)).collect();
        if !choices.is_empty() {
            schema.insert("allOf".to_owned(), Value::Array(choices));
        }
        Value::Object(schema)
    }

    fn field(&mut self, field: &FieldDescriptor) -> Value {
        let schema = self.collection_schema(&field.kind(), field.is_map(), field.is_list());
        let Value::Object(mut schema) = schema else { return schema };
        describe(&mut schema, &field.comment());
        if field.field_descriptor_proto().options.as_ref().is_some_and(|options| options.deprecated()) {
            schema.insert("deprecated".to_owned(), json!(true));
        }
        Value::Object(schema)
    }

    fn extension(&mut self, extension: &ExtensionDescriptor) -> Value {
        self.collection_schema(&extension.kind(), extension.is_map(), extension.is_list())
    }

    fn collection_schema(&mut self, kind: &Kind, is_map: bool, is_list: bool) -> Value {
        match kind {
            Kind::Message(entry) if is_map => {
                let value = self.kind(&entry.map_entry_value_field().kind());
                let mut schema = json!({ "type": "object", "additionalProperties": value });
                if let (Some(names), Some(schema)) = (key(&entry.map_entry_key_field().kind()), schema.as_object_mut())
                {
                    schema.insert("propertyNames".to_owned(), names);
                }
                schema
            }
            kind if is_list => json!({ "type": "array", "items": self.kind(kind) }),
            kind => self.kind(kind),
        }
    }

    fn kind(&mut self, kind: &Kind) -> Value {
        match kind {
            Kind::Message(message) => self.message(message),
            Kind::Enum(descriptor) => enumeration(descriptor),
            scalar => scalar_schema(scalar),
        }
    }
}

fn describe(schema: &mut Map<String, Value>, comment: &str) {
    if !comment.is_empty() {
        let text = match schema.get("description").and_then(Value::as_str) {
            Some(before) => format!("{comment}\n\n{before}"),
            None => comment.to_owned(),
        };
        schema.insert("description".to_owned(), json!(text));
    }
}

/// The schema for at most one field of a `oneof`: exactly one of "none of them" and "this one".
fn at_most_one(oneof: &OneofDescriptor) -> Option<Value> {
    let names: Vec<_> = oneof.fields().map(|f| json!({ "required": [f.json_name()] })).collect();
    if names.len() < 2 {
        return None;
    }
    let none = json!({ "not": { "anyOf": names } });
    let choices: Vec<_> = std::iter::once(none).chain(names).collect();
    Some(json!({ "oneOf": choices }))
}

fn enumeration(descriptor: &EnumDescriptor) -> Value {
    if descriptor.full_name() == "google.protobuf.NullValue" {
        return json!({ "type": "null" });
    }
    let names: Vec<_> = descriptor.values().map(|value| json!(value.name())).collect();
    let described: Vec<_> = descriptor
        .values()
        .filter_map(|value| Some(value.comment()).filter(|c| !c.is_empty()).map(|c| format!("{}: {c}", value.name())))
        .collect();
    let mut schema = Map::new();
    schema.insert("anyOf".to_owned(), json!([{ "enum": names }, integer(i64::from(i32::MIN), i64::from(i32::MAX))]));
    describe(&mut schema, &described.join("\n"));
    describe(&mut schema, &descriptor.comment());
    Value::Object(schema)
}

fn integer(minimum: i64, maximum: i64) -> Value {
    json!({ "type": "integer", "minimum": minimum, "maximum": maximum })
}

/// The schema of a scalar.
fn scalar_schema(kind: &Kind) -> Value {
    match kind {
        Kind::Bool => json!({ "type": "boolean" }),
        Kind::String => json!({ "type": "string" }),
        Kind::Bytes => json!({
            "type": "string", "contentEncoding": "base64",
            // The standard alphabet, or the one for URLs.
            "pattern": "^(?:(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?\
                        |(?:[A-Za-z0-9_-]{4})*(?:[A-Za-z0-9_-]{2}(?:==)?|[A-Za-z0-9_-]{3}=?)?)$",
        }),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => integer(i64::from(i32::MIN), i64::from(i32::MAX)),
        Kind::Uint32 | Kind::Fixed32 => integer(0, i64::from(u32::MAX)),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => {
            json!({ "anyOf": [integer(i64::MIN, i64::MAX), { "type": "string", "pattern": SIGNED }] })
        }
        Kind::Uint64 | Kind::Fixed64 => {
            let number = json!({ "type": "integer", "minimum": 0, "maximum": u64::MAX });
            json!({ "anyOf": [number, { "type": "string", "pattern": UNSIGNED }] })
        }
        Kind::Float => {
            let number = json!({ "type": "number", "minimum": -MAX_FLOAT, "maximum": MAX_FLOAT });
            json!({ "anyOf": [number, { "enum": NOT_FINITE }] })
        }
        Kind::Double => json!({ "anyOf": [{ "type": "number" }, { "enum": NOT_FINITE }] }),
        Kind::Message(_) | Kind::Enum(_) => json!({}),
    }
}

/// Whole numbers as strings. A number out of range may pass here; the server rejects it.
const SIGNED: &str = "^-?(?:0|[1-9][0-9]{0,18})$";
const UNSIGNED: &str = "^(?:0|[1-9][0-9]{0,19})$";

/// The schema of a map's keys; `None` if every string is a key.
fn key(kind: &Kind) -> Option<Value> {
    match kind {
        Kind::Bool => Some(json!({ "enum": ["true", "false"] })),
        Kind::Uint32 | Kind::Fixed32 => Some(json!({ "pattern": "^(?:0|[1-9][0-9]{0,9})$" })),
        Kind::Uint64 | Kind::Fixed64 => Some(json!({ "pattern": UNSIGNED })),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Some(json!({ "pattern": "^-?(?:0|[1-9][0-9]{0,9})$" })),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Some(json!({ "pattern": SIGNED })),
        _ => None,
    }
}

/// The schemas of types with their own form in the mapping.
fn well_known(name: &str) -> Option<Value> {
    let wrapped = |kind: Kind| Some(scalar_schema(&kind));
    match name.strip_prefix("google.protobuf.")? {
        "Timestamp" => Some(json!({ "type": "string", "format": "date-time" })),
        "Duration" => Some(json!({ "type": "string", "pattern": "^-?[0-9]{1,12}(?:\\.[0-9]{1,9})?s$" })),
        "FieldMask" => {
            Some(json!({ "type": "string", "description": "Paths in lower camel case, separated by commas." }))
        }
        "Struct" => Some(json!({ "type": "object" })),
        "Value" => Some(json!({})),
        "ListValue" => Some(json!({ "type": "array" })),
        "Empty" => Some(json!({ "type": "object", "maxProperties": 0 })),
        "Any" => Some(json!({
            "type": "object",
            "properties": { "@type": { "type": "string", "description": "URL of the message's type." } },
            "required": ["@type"],
        })),
        "BoolValue" => wrapped(Kind::Bool),
        "StringValue" => wrapped(Kind::String),
        "BytesValue" => wrapped(Kind::Bytes),
        "Int32Value" => wrapped(Kind::Int32),
        "UInt32Value" => wrapped(Kind::Uint32),
        "Int64Value" => wrapped(Kind::Int64),
        "UInt64Value" => wrapped(Kind::Uint64),
        "FloatValue" => wrapped(Kind::Float),
        "DoubleValue" => wrapped(Kind::Double),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use prost_reflect::DescriptorPool;

    use super::*;

    fn validator(name: &str) -> jsonschema::Validator {
        let message = DescriptorPool::global().get_message_by_name(&format!("google.protobuf.{name}")).unwrap();
        jsonschema::draft202012::new(&json_schema(&message)).unwrap()
    }

    /// The largest values, in the digits that the server prints.
    #[test]
    fn the_longest_duration_and_the_largest_float_are_valid() {
        let duration = validator("Duration");
        for text in ["315576000000s", "-315576000000s", "315576000000.999999999s", "0s"] {
            assert!(duration.is_valid(&json!(text)), "{text}");
        }
        assert!(!duration.is_valid(&json!("3155760000000s")));
        let float = validator("FloatValue");
        for number in [f32::MAX, f32::MIN, 0.1] {
            let printed: Value = serde_json::from_str(&format!("{number:e}")).unwrap();
            assert!(float.is_valid(&printed), "{printed}");
        }
        assert!(!float.is_valid(&json!(3.5e38)) && !float.is_valid(&json!(-3.5e38)));
    }
}
