//! A resource of a type with a value in every field, up to a bound, for measurements without a given one.

use mortise_plugin_host::TypeDecl;
use mortise_resource::pb;
use prost::Message as _;
use prost_reflect::{DynamicMessage, FieldDescriptor, Kind, MapKey, MessageDescriptor, Value};

/// Levels of messages within the resource's data.
const MAX_DEPTH: usize = 3;

/// Most fields of the resource's data, those of messages within it included. Fields beyond it are absent.
const MAX_FIELDS: usize = 10_000;

/// Builds the resource, named `sample`.
pub(crate) fn resource(decl: &TypeDecl) -> pb::Resource {
    let mut tenancy = pb::Tenancy::default();
    decl.scope.fill(&mut tenancy);
    let id = pb::Id {
        name: "sample".into(),
        r#type: Some(decl.gvk.to_pb()),
        tenancy: Some(tenancy),
        uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
    };
    let value = message(&decl.message, MAX_DEPTH, &mut { MAX_FIELDS }).encode_to_vec();
    let type_url = format!("type.googleapis.com/{}", decl.message.full_name());
    pb::Resource {
        id: Some(id),
        version: "1".into(),
        generation: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(),
        data: Some(prost_types::Any { type_url, value }),
        ..pb::Resource::default()
    }
}

/// Makes a message with a value in every field. `left` is the number of fields that may still be filled in; a message
/// takes its share before the messages within it do.
fn message(descriptor: &MessageDescriptor, depth: usize, left: &mut usize) -> DynamicMessage {
    let mut made = DynamicMessage::new(descriptor.clone());
    let fields: Vec<FieldDescriptor> = descriptor.fields().take(*left).collect();
    *left -= fields.len();
    for field in fields {
        // A oneof gets its first field.
        let taken = field.containing_oneof().is_some_and(|oneof| oneof.fields().any(|other| made.has_field(&other)));
        if taken {
            continue;
        }
        if field.is_map() {
            let Kind::Message(entry) = field.kind() else { continue };
            if let Some(value) = single(&entry.map_entry_value_field(), depth, left) {
                let key = match entry.map_entry_key_field().kind() {
                    Kind::String => MapKey::String("key".into()),
                    Kind::Bool => MapKey::Bool(true),
                    Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => MapKey::I32(1),
                    Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => MapKey::I64(1),
                    Kind::Uint32 | Kind::Fixed32 => MapKey::U32(1),
                    _ => MapKey::U64(1),
                };
                made.set_field(&field, Value::Map([(key, value)].into()));
            }
        } else if let Some(value) = single(&field, depth, left) {
            made.set_field(&field, if field.is_list() { Value::List(vec![value]) } else { value });
        }
    }
    made
}

/// Makes a single value of a field's kind; `None` for messages that nest too deep.
fn single(field: &FieldDescriptor, depth: usize, left: &mut usize) -> Option<Value> {
    Some(match field.kind() {
        Kind::Double => Value::F64(1.0),
        Kind::Float => Value::F32(1.0),
        Kind::Int32 | Kind::Sint32 | Kind::Sfixed32 => Value::I32(1),
        Kind::Int64 | Kind::Sint64 | Kind::Sfixed64 => Value::I64(1),
        Kind::Uint32 | Kind::Fixed32 => Value::U32(1),
        Kind::Uint64 | Kind::Fixed64 => Value::U64(1),
        Kind::Bool => Value::Bool(true),
        Kind::String => Value::String("sample".into()),
        Kind::Bytes => Value::Bytes(b"sample".as_slice().into()),
        Kind::Enum(enumeration) => Value::EnumNumber(
            enumeration.values().nth(1).or_else(|| enumeration.values().next()).map_or(0, |value| value.number()),
        ),
        Kind::Message(message_type) => Value::Message(message(&message_type, depth.checked_sub(1)?, left)),
    })
}

#[cfg(test)]
mod tests {
    use prost_reflect::{
        DescriptorPool,
        prost_types::{
            DescriptorProto, FieldDescriptorProto, FileDescriptorProto,
            field_descriptor_proto::{Label, Type},
        },
    };

    use super::*;

    /// A message that holds itself in 60 fields, beside a number.
    fn wide() -> MessageDescriptor {
        let field = |number: i32, kind: Type| FieldDescriptorProto {
            name: Some(format!("f{number}")),
            number: Some(number),
            label: Some(Label::Optional.into()),
            r#type: Some(kind.into()),
            type_name: (kind == Type::Message).then(|| ".Wide".to_owned()),
            ..FieldDescriptorProto::default()
        };
        let fields = (1..=60).map(|number| field(number, Type::Message)).chain([field(61, Type::Int32)]);
        let message =
            DescriptorProto { name: Some("Wide".into()), field: fields.collect(), ..DescriptorProto::default() };
        let mut pool = DescriptorPool::new();
        let file = FileDescriptorProto {
            name: Some("wide.proto".into()),
            message_type: vec![message],
            syntax: Some("proto3".into()),
            ..FileDescriptorProto::default()
        };
        pool.add_file_descriptor_proto(file).unwrap();
        pool.get_message_by_name("Wide").unwrap()
    }

    fn fields(message: &DynamicMessage) -> usize {
        let within = |value: &Value| value.as_message().map_or(0, fields);
        message.fields().map(|(_, value)| 1 + within(value)).sum()
    }

    #[test]
    fn a_wide_message_is_filled_in_up_to_a_bound() {
        let made = message(&wide(), MAX_DEPTH, &mut { MAX_FIELDS });
        assert!(fields(&made) <= MAX_FIELDS, "{}", fields(&made));
        assert_eq!(made.fields().count(), 61, "the first level has all its fields");
        assert_eq!(fields(&message(&wide(), 0, &mut { MAX_FIELDS })), 1);
    }
}
