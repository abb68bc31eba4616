//! Content of a field in an encoded message, by the field's path: the host's work for mappers and indexes.

use mortise_resource::{
    pb,
    wire::{Cursor, Field, Value},
};
use prost::{Message, encoding::encode_varint};
use prost_reflect::{DescriptorPool, DynamicMessage};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    field_descriptor_proto::{Label, Type},
};

/// Ids that a field refers to.
pub(super) fn references(files: &FileDescriptorSet, message: &str, path: &str, data: &[u8]) -> Vec<pb::Id> {
    let id = |(field, bytes): (&FieldDescriptorProto, Vec<u8>)| match field.type_name() {
        ".hashicorp.consul.resource.ID" => pb::Id::decode(bytes.as_slice()).ok(),
        ".hashicorp.consul.resource.Reference" => {
            let pb::Reference { r#type, tenancy, name, .. } = pb::Reference::decode(bytes.as_slice()).ok()?;
            Some(pb::Id { uid: String::new(), name, r#type, tenancy })
        }
        _ => None,
    };
    let ids = find(files, message, path, data).into_iter().filter_map(id);
    ids.filter(|id| id.r#type.is_some() && !id.name.is_empty()).collect()
}

/// Values of a field, as text, the entries of a map of string to string as `key=value`. Empty texts are left out; so
/// are unset fields, if the message tracks presence.
pub(super) fn values(files: &FileDescriptorSet, message: &str, path: &str, data: &[u8]) -> Vec<String> {
    let mut texts = Vec::new();
    for (field, bytes) in find(files, message, path, data) {
        if field.r#type() == Type::Message {
            texts.extend(map_entry(&bytes));
        } else if field.r#type() == Type::String {
            texts.extend(String::from_utf8(bytes).ok().filter(|text| !text.is_empty()));
        } else {
            // A number, or several packed ones.
            let mut rest = Cursor::new(&bytes);
            while let Ok(number) = rest.varint() {
                texts.push(number_as_text(files, field, number));
            }
        }
    }
    texts
}

/// Text of an entry in a map of string to string: a message of two fields.
fn map_entry(bytes: &[u8]) -> Option<String> {
    let text = |number| {
        let field = Cursor::new(bytes).map_while(Result::ok).find(|field| field.number == number)?;
        String::from_utf8(content(&field)).ok()
    };
    Some(format!("{}={}", text(1).unwrap_or_default(), text(2).unwrap_or_default()))
}

fn number_as_text(files: &FileDescriptorSet, field: &FieldDescriptorProto, number: u64) -> String {
    match field.r#type() {
        Type::Bool => (number != 0).to_string(),
        Type::Uint32 | Type::Uint64 => number.to_string(),
        Type::Enum => {
            let found = named_enum(files, field.type_name());
            let values = found.map(|one| one.value.as_slice()).unwrap_or_default();
            let named = values.iter().find(|value| u64::try_from(value.number()) == Ok(number));
            named.map_or_else(|| number.to_string(), |value| value.name().to_owned())
        }
        _ => number.cast_signed().to_string(),
    }
}

/// Every occurrence of the field at the end of the path, without its key and length.
fn find<'f>(
    files: &'f FileDescriptorSet,
    message: &str,
    path: &str,
    data: &[u8],
) -> Vec<(&'f FieldDescriptorProto, Vec<u8>)> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let Some(field) = named_message(files, message).and_then(|one| one.field.iter().find(|one| one.name() == first))
    else {
        return Vec::new();
    };
    let number = u32::try_from(field.number()).unwrap_or_default();
    let found = Cursor::new(data).map_while(Result::ok).filter(|found| found.number == number);
    let found = found.map(|found| content(&found));
    match rest {
        None => {
            let mut found = found.map(|bytes| (field, bytes)).collect::<Vec<_>>();
            if found.is_empty() && is_zero_when_absent(field) {
                found.push((field, vec![0]));
            }
            found
        }
        Some(rest) => {
            let inner = field.type_name().trim_start_matches('.');
            found.flat_map(|bytes| find(files, inner, rest, &bytes)).collect()
        }
    }
}

/// Whether an absent number means zero.
fn is_zero_when_absent(field: &FieldDescriptorProto) -> bool {
    let is_number = !matches!(field.r#type(), Type::String | Type::Bytes | Type::Message | Type::Group);
    is_number && field.label() != Label::Repeated && field.oneof_index.is_none()
}

/// Bytes of a field without its key and, if it has one, its length.
fn content(field: &Field<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    match field.value {
        Value::Varint(number) => encode_varint(number, &mut out),
        Value::Fixed64(bytes) => out.extend(bytes),
        Value::Fixed32(bytes) => out.extend(bytes),
        Value::Bytes(bytes) => out.extend(bytes),
        Value::Group => {}
    }
    out
}

/// Whether a field has different values in the data of two resources: a path of names joined by dots. Data that does not
/// decode counts as empty.
pub(super) fn differ(files: &FileDescriptorSet, message: &str, path: &str, before: &[u8], after: &[u8]) -> bool {
    let pool = DescriptorPool::from_file_descriptor_set(files.clone()).unwrap_or_default();
    let Some(message) = pool.get_message_by_name(message) else { return false };
    let value = |data: &[u8]| {
        let decoded = DynamicMessage::decode(message.clone(), data);
        value_at(&decoded.unwrap_or_else(|_| DynamicMessage::new(message.clone())), path)
    };
    value(before) != value(after)
}

/// Value of a field; an absent message on the way means the default.
fn value_at(message: &DynamicMessage, path: &str) -> Option<prost_reflect::Value> {
    let (first, rest) = path.split_once('.').map_or((path, None), |(first, rest)| (first, Some(rest)));
    let value = message.get_field_by_name(first)?;
    match rest {
        None => Some(value.into_owned()),
        Some(rest) => value_at(value.as_message()?, rest),
    }
}

fn named_message<'f>(files: &'f FileDescriptorSet, name: &str) -> Option<&'f DescriptorProto> {
    let found = |file: &'f prost_types::FileDescriptorProto| {
        let inner = name.strip_prefix(file.package())?.strip_prefix('.')?;
        file.message_type.iter().find(|one| one.name() == inner)
    };
    files.file.iter().find_map(found)
}

fn named_enum<'f>(files: &'f FileDescriptorSet, name: &str) -> Option<&'f EnumDescriptorProto> {
    let found = |file: &'f prost_types::FileDescriptorProto| {
        let inner = name.trim_start_matches('.').strip_prefix(file.package())?.strip_prefix('.')?;
        file.enum_type.iter().find(|one| one.name() == inner)
    };
    files.file.iter().find_map(found)
}
