//! Reads the messages of `google.protobuf` that have their own form in JSON; [`super::encode`] prints them.

use std::collections::HashMap;

use mortise_resource::PathStep;
use prost_reflect::{DynamicMessage, Kind, MapKey, MessageDescriptor, Value};
use prost_types::Any;

use crate::{
    data::{
        BYTES, TYPE,
        decoder::Decoder,
        names, scalar,
        time::{parse_duration, parse_timestamp},
        value::quoted,
    },
    node::{self, Node, Resolved},
};

/// Messages whose form in JSON is not the map of their fields; within an `Any` that form is under `value`.
pub(crate) fn has_own_form(full_name: &str) -> bool {
    let Some(name) = full_name.strip_prefix("google.protobuf.") else { return false };
    is_wrapper(name)
        || matches!(name, "Any" | "Timestamp" | "Duration" | "FieldMask" | "Struct" | "Value" | "ListValue" | "Empty")
}

pub(crate) fn is_wrapper(name: &str) -> bool {
    matches!(
        name,
        "DoubleValue"
            | "FloatValue"
            | "Int64Value"
            | "UInt64Value"
            | "Int32Value"
            | "UInt32Value"
            | "BoolValue"
            | "StringValue"
            | "BytesValue"
    )
}

/// Reads a message that has its own form; the outer `None` means that this message has none.
pub(crate) fn read(
    decoder: &mut Decoder<'_, '_>,
    descriptor: &MessageDescriptor,
    node: &Node,
) -> Option<Option<DynamicMessage>> {
    Some(match descriptor.name() {
        "Timestamp" => timestamp(decoder, descriptor, node),
        "Duration" => duration(decoder, descriptor, node),
        "FieldMask" => field_mask(decoder, descriptor, node),
        "Struct" => structure(decoder, descriptor, node),
        "ListValue" => list_value(decoder, descriptor, node),
        "Value" => value(decoder, descriptor, node),
        "Any" => any(decoder, descriptor, node),
        name if is_wrapper(name) => {
            let kind = descriptor.get_field(1)?.kind();
            decoder.value(&kind, node).and_then(|value| build(decoder, descriptor, node, [(1, value)]))
        }
        _ => return None,
    })
}

/// Builds a message from fields. It fails only if the type's descriptor of the message differs from protobuf's.
fn build<const N: usize>(
    decoder: &mut Decoder<'_, '_>,
    descriptor: &MessageDescriptor,
    node: &Node,
    fields: [(u32, Value); N],
) -> Option<DynamicMessage> {
    let mut message = DynamicMessage::new(descriptor.clone());
    for (number, value) in fields {
        if message.try_set_field_by_number(number, value).is_err() {
            decoder.fault(
                node.span,
                format!("the type's descriptor of {} differs from protobuf's", descriptor.full_name()),
                None,
            );
            return None;
        }
    }
    Some(message)
}

fn timestamp(decoder: &mut Decoder<'_, '_>, descriptor: &MessageDescriptor, node: &Node) -> Option<DynamicMessage> {
    let text = decoder.text(node)?;
    let Some(time) = parse_timestamp(&text) else {
        let remedy = "write it as in RFC 3339, such as 2024-06-01T12:00:00Z, in the years 1 to 9999";
        decoder.fault(node.span, format!("{} is not a timestamp", quoted(&text)), Some(remedy.into()));
        return None;
    };
    build(decoder, descriptor, node, [(1, Value::I64(time.0)), (2, Value::I32(time.1))])
}

fn duration(decoder: &mut Decoder<'_, '_>, descriptor: &MessageDescriptor, node: &Node) -> Option<DynamicMessage> {
    let text = decoder.text(node)?;
    let Some((seconds, nanos)) = parse_duration(&text) else {
        let remedy = "write seconds such as 1.5s, or units such as 1h30m, 250ms";
        decoder.fault(node.span, format!("{} is not a duration", quoted(&text)), Some(remedy.into()));
        return None;
    };
    build(decoder, descriptor, node, [(1, Value::I64(seconds)), (2, Value::I32(nanos))])
}

/// `a,b.cD`: paths in JSON names.
fn field_mask(decoder: &mut Decoder<'_, '_>, descriptor: &MessageDescriptor, node: &Node) -> Option<DynamicMessage> {
    let text = decoder.text(node)?;
    let snake = |path: &str| {
        let mut snake = String::with_capacity(path.len());
        for letter in path.chars() {
            if letter.is_ascii_uppercase() {
                snake.push('_');
            }
            snake.push(letter.to_ascii_lowercase());
        }
        Value::String(snake)
    };
    let paths: Vec<&str> = if text.is_empty() { Vec::new() } else { text.split(',').map(str::trim).collect() };
    let wrong = |path: &&str| path.is_empty() || !path.chars().all(|l| l.is_ascii_alphanumeric() || l == '.');
    if paths.iter().any(wrong) {
        let remedy = "write paths of JSON names with commas between them, such as name,groupMembers";
        decoder.fault(node.span, format!("{} is not a field mask", quoted(&text)), Some(remedy.into()));
        return None;
    }
    let paths = paths.into_iter().map(snake).collect();
    build(decoder, descriptor, node, [(1, Value::List(paths))])
}

/// The message type of a field, or of the values of a map field.
fn held(descriptor: &MessageDescriptor, number: u32) -> Option<MessageDescriptor> {
    let field = descriptor.get_field(number)?;
    let message = field.kind().as_message()?.clone();
    if field.is_map() { message.map_entry_value_field().kind().as_message().cloned() } else { Some(message) }
}

fn structure(decoder: &mut Decoder<'_, '_>, descriptor: &MessageDescriptor, node: &Node) -> Option<DynamicMessage> {
    let Some(entries) = node.entries() else {
        decoder.mismatch(node, "a map", None);
        return None;
    };
    let inner = held(descriptor, 1)?;
    let mut fields = HashMap::with_capacity(entries.len());
    for entry in entries {
        let read = decoder.within(PathStep::Key(entry.key.clone()), |decoder| value(decoder, &inner, &entry.value));
        fields.extend(read.map(|read| (MapKey::String(entry.key.clone()), Value::Message(read))));
    }
    if fields.len() < entries.len() {
        return None;
    }
    build(decoder, descriptor, node, [(1, Value::Map(fields))])
}

fn list_value(decoder: &mut Decoder<'_, '_>, descriptor: &MessageDescriptor, node: &Node) -> Option<DynamicMessage> {
    let node::Value::List(items) = &node.value else {
        decoder.mismatch(node, "a list", None);
        return None;
    };
    let inner = held(descriptor, 1)?;
    let mut values = Vec::with_capacity(items.len());
    for (index, item) in (0_u32..).zip(items) {
        let read = decoder.within(PathStep::Index(index), |decoder| value(decoder, &inner, item));
        values.extend(read.map(Value::Message));
    }
    if values.len() < items.len() {
        return None;
    }
    build(decoder, descriptor, node, [(1, Value::List(values))])
}

/// Reads `google.protobuf.Value`, which takes any value. No field decides here, so YAML 1.2's core schema gives a
/// scalar its type.
fn value(decoder: &mut Decoder<'_, '_>, descriptor: &MessageDescriptor, node: &Node) -> Option<DynamicMessage> {
    let (number, content) = match &node.value {
        node::Value::Wrong => return None,
        node::Value::Null => (1, Value::EnumNumber(0)),
        node::Value::Bool(value) => (4, Value::Bool(*value)),
        node::Value::Text(text) => (3, Value::String(text.clone())),
        node::Value::Number(literal) => (2, Value::F64(number(decoder, node, literal)?)),
        node::Value::Plain(text) => match node::resolve(text) {
            Resolved::Null => (1, Value::EnumNumber(0)),
            Resolved::Bool(value) => (4, Value::Bool(value)),
            Resolved::Number => (2, Value::F64(number(decoder, node, text)?)),
            Resolved::Text => (3, Value::String(text.clone())),
        },
        node::Value::List(_) => (6, Value::Message(list_value(decoder, &held(descriptor, 6)?, node)?)),
        node::Value::Map(_) | node::Value::Blocks(_) => {
            (5, Value::Message(structure(decoder, &held(descriptor, 5)?, node)?))
        }
    };
    build(decoder, descriptor, node, [(number, content)])
}

/// A number that a double holds; integers must be held exactly.
fn number(decoder: &mut Decoder<'_, '_>, node: &Node, literal: &str) -> Option<f64> {
    let value = scalar::float(literal, true).ok().filter(|value| value.is_finite());
    let Some(value) = value else {
        decoder.fault(node.span, format!("{} is not a JSON number", quoted(literal)), None);
        return None;
    };
    let whole = !literal.contains(['.', 'e', 'E']) || literal.starts_with("0x");
    #[allow(clippy::cast_possible_truncation, reason = "the comparison detects a changed value")]
    if whole && scalar::integer(literal, true) != Ok(value as i128) {
        let remedy = "put it in quotes to make it a string";
        decoder.fault(node.span, format!("{literal} has more digits than a double holds"), Some(remedy.into()));
        return None;
    }
    Some(value)
}

/// Reads a message of any type: `@type` and the fields of that message.
fn any(decoder: &mut Decoder<'_, '_>, descriptor: &MessageDescriptor, node: &Node) -> Option<DynamicMessage> {
    let Some(entries) = node.entries() else {
        decoder.mismatch(node, "a map", Some(format!("write {TYPE:?} and the fields of that message")));
        return None;
    };
    if entries.is_empty() {
        return Some(DynamicMessage::new(descriptor.clone()));
    }
    let Some(ty) = node.get(TYPE) else {
        let text = format!("{TYPE:?} is missing");
        decoder.fault(
            node.span,
            text,
            Some(format!("write {TYPE:?}: type.googleapis.com/ and the message's full name")),
        );
        return None;
    };
    let url = decoder.text(ty)?;
    let name = url.rsplit('/').next().unwrap_or_default();
    let bytes = if let Some(bytes) = node.get(BYTES) {
        raw_bytes(decoder, bytes, entries.len() == 2)?
    } else {
        let inner = descriptor.parent_pool().get_message_by_name(name).or_else(|| decoder.types.message_named(name));
        let Some(inner) = inner else {
            let text = format!("the message {} is not known", quoted(name));
            decoder.fault(ty.span, text, Some(format!("give its bytes in base64 as {BYTES:?} instead of its fields")));
            return None;
        };
        let read = match node.get("value").filter(|_| has_own_form(inner.full_name())) {
            Some(value) => decoder.message(&inner, value),
            None => decoder.fields(&inner, entries.iter().filter(|entry| entry.key != TYPE)),
        };
        super::canonical::encode(&read?)
    };
    let fields = [(1, Value::String(url.into_owned())), (2, Value::Bytes(bytes.into()))];
    build(decoder, descriptor, node, fields)
}

/// Makes a `google.protobuf.Any` of an encoded message.
pub(super) fn pack(
    decoder: &mut Decoder<'_, '_>,
    any: &MessageDescriptor,
    node: &Node,
    full_name: &str,
    bytes: Vec<u8>,
) -> Option<DynamicMessage> {
    let url = format!("type.googleapis.com/{full_name}");
    build(decoder, any, node, [(1, Value::String(url)), (2, Value::Bytes(bytes.into()))])
}

/// Reads the content of `@bytes`, which needs `@type` beside it and allows no other key.
fn raw_bytes(decoder: &mut Decoder<'_, '_>, node: &Node, alone: bool) -> Option<Vec<u8>> {
    if !alone {
        decoder.fault(
            node.span,
            format!("{BYTES:?} holds the whole message"),
            Some("leave out the other fields".into()),
        );
        return None;
    }
    match decoder.value(&Kind::Bytes, node)? {
        Value::Bytes(bytes) => Some(bytes.to_vec()),
        _ => None,
    }
}

/// Reports a `@type` that does not name the type's message.
pub(crate) fn wrong_type(decoder: &mut Decoder<'_, '_>, node: &Node, expected: &str) {
    let remedy = names::did_you_mean(&format!("type.googleapis.com/{expected}"));
    decoder.fault(node.span, format!("the data of this type must be a {expected}"), Some(remedy));
}

/// Whether a type URL names the message.
pub(crate) fn names_message(url: &str, descriptor: &MessageDescriptor) -> bool {
    url.rsplit('/').next() == Some(descriptor.full_name())
}

/// Reads data as bytes, the form for data whose fields cannot be printed.
pub(crate) fn data_from_bytes(
    node: &Node,
    bytes: &Node,
    descriptor: Option<&MessageDescriptor>,
    decoder: &mut Decoder<'_, '_>,
) -> Option<Any> {
    let Some(url) = node.get(TYPE) else {
        decoder.fault(node.span, format!("{BYTES:?} needs {TYPE:?} beside it"), None);
        return None;
    };
    let type_url = decoder.text(url)?.into_owned();
    if let Some(descriptor) = descriptor.filter(|descriptor| !names_message(&type_url, descriptor)) {
        wrong_type(decoder, url, descriptor.full_name());
        return None;
    }
    let value = raw_bytes(decoder, bytes, node.entries().is_some_and(|entries| entries.len() == 2))?;
    Some(Any { type_url, value })
}
