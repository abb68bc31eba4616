//! Encodes messages so that the same content gives the same bytes: entries of maps are sorted by key, so that applying
//! a file twice sends the same bytes twice.
//!
//! Encodes only; `mortise_resource::wire` reads.
//!
//! A field without presence is left out if it has its default, which is the zero whose bits are all zero.
//! `prost-reflect` compares by value and loses `-0.0`; [`present_fields`] and [`alone`] keep its sign.

use std::borrow::Cow;

use mortise_resource::wire::put_bytes;
use prost::{Message, encoding};
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, ReflectMessage, Value};

/// Encodes a message: known fields by number, then extensions, then fields that its descriptor does not know.
pub(crate) fn encode(message: &DynamicMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (field, value) in present_fields(message) {
        match value.as_ref() {
            Value::Map(map) => {
                let mut entries: Vec<(&MapKey, &Value)> = map.iter().collect();
                entries.sort_by(|(a, _), (b, _)| order(a, b));
                for (key, value) in entries {
                    put_bytes(field.number(), &entry(&field, key, value), &mut bytes);
                }
            }
            Value::List(items) if matches!(field.kind(), Kind::Message(_)) && !field.is_group() => {
                for item in items.iter().filter_map(Value::as_message) {
                    put_bytes(field.number(), &encode(item), &mut bytes);
                }
            }
            Value::Message(inner) if !field.is_group() => put_bytes(field.number(), &encode(inner), &mut bytes),
            value => bytes.extend(alone(&message.descriptor(), &field, value)),
        }
    }
    bytes.extend(undeclared_fields(message));
    bytes
}

/// The set fields of a message by number, `-0.0` in fields without presence included.
pub(crate) fn present_fields(message: &DynamicMessage) -> Vec<(FieldDescriptor, Cow<'_, Value>)> {
    let mut present: Vec<_> = message.fields().map(|(field, value)| (field, Cow::Borrowed(value))).collect();
    for field in message.descriptor().fields() {
        if matches!(field.kind(), Kind::Float | Kind::Double) && !field.supports_presence() && !field.is_list() {
            let value = message.get_field(&field);
            if is_negative_zero(&value) {
                present.push((field, value));
            }
        }
    }
    present.sort_by_key(|(field, _)| field.number());
    present
}

fn is_negative_zero(value: &Value) -> bool {
    match value {
        Value::F32(value) => value.to_bits() == (-0.0_f32).to_bits(),
        Value::F64(value) => value.to_bits() == (-0.0_f64).to_bits(),
        _ => false,
    }
}

/// The part of a message beyond the fields of its descriptor: extensions and unknown fields.
pub(crate) fn undeclared_fields(message: &DynamicMessage) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (extension, value) in message.extensions() {
        let mut entry = DynamicMessage::new(message.descriptor());
        entry.set_extension(&extension, value.clone());
        bytes.extend(entry.encode_to_vec());
    }
    for unknown in message.unknown_fields() {
        unknown.encode(&mut bytes);
    }
    bytes
}

/// Encodes a field by itself; fields without maps in them have only one encoding.
fn alone(descriptor: &MessageDescriptor, field: &FieldDescriptor, value: &Value) -> Vec<u8> {
    if is_negative_zero(value) {
        let mut bytes = Vec::new();
        match value {
            Value::F32(value) => encoding::float::encode(field.number(), value, &mut bytes),
            Value::F64(value) => encoding::double::encode(field.number(), value, &mut bytes),
            _ => {}
        }
        return bytes;
    }
    let mut entry = DynamicMessage::new(descriptor.clone());
    match entry.try_set_field(field, value.clone()) {
        Ok(()) => entry.encode_to_vec(),
        // The value came from this field, so it fits.
        Err(_) => Vec::new(),
    }
}

fn entry(field: &FieldDescriptor, key: &MapKey, value: &Value) -> Vec<u8> {
    let Kind::Message(descriptor) = field.kind() else { return Vec::new() };
    let (key_field, value_field) = (descriptor.map_entry_key_field(), descriptor.map_entry_value_field());
    let mut bytes = alone(&descriptor, &key_field, &Value::from(key.clone()));
    match value {
        Value::Message(inner) => put_bytes(value_field.number(), &encode(inner), &mut bytes),
        value => bytes.extend(alone(&descriptor, &value_field, value)),
    }
    bytes
}

/// The order of map keys: strings by bytes, numbers by size, false before true.
pub(crate) fn order(a: &MapKey, b: &MapKey) -> std::cmp::Ordering {
    match (a, b) {
        (MapKey::Bool(a), MapKey::Bool(b)) => a.cmp(b),
        (MapKey::I32(a), MapKey::I32(b)) => a.cmp(b),
        (MapKey::I64(a), MapKey::I64(b)) => a.cmp(b),
        (MapKey::U32(a), MapKey::U32(b)) => a.cmp(b),
        (MapKey::U64(a), MapKey::U64(b)) => a.cmp(b),
        (MapKey::String(a), MapKey::String(b)) => a.cmp(b),
        // Keys of one map are of one kind.
        _ => std::cmp::Ordering::Equal,
    }
}
