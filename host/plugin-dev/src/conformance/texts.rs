//! Resources that a stranger may send: odd texts in place of a resource's own, and fields of a newer descriptor.

use mortise_plugin_host::TypeDecl;
use mortise_resource::pb;
use prost::Message as _;
use prost_reflect::{DynamicMessage, Kind, Value};

/// Length of the long text, bytes.
const LONG_TEXT_BYTES: usize = 64 << 10;

/// An unknown field as it is encoded: number 536870911, the largest; a varint with the value 1.
const UNKNOWN_FIELD: [u8; 6] = [0xf8, 0xff, 0xff, 0xff, 0x0f, 0x01];

/// Names of the odd resources, and these.
pub(super) fn odd(decl: &TypeDecl, resource: &pb::Resource) -> Vec<(&'static str, pb::Resource)> {
    let long = "x".repeat(LONG_TEXT_BYTES);
    let texts = [
        ("empty texts", ""),
        ("a text of four-byte characters", "\u{1F600}\u{1D518}"),
        ("a text with a zero byte and control characters", "a\0b\u{1}\r\n\u{7f}"),
        ("a text that is written from right to left", "\u{202E}\u{5D0}\u{200F}"),
        ("a text of 64 KiB", long.as_str()),
    ];
    let mut all: Vec<_> =
        texts.into_iter().filter_map(|(name, text)| Some((name, with_texts(decl, resource, text)?))).collect();
    all.push(("no data", pb::Resource { data: None, ..resource.clone() }));
    let mut empty = resource.clone();
    if let Some(data) = &mut empty.data {
        data.value.clear();
    }
    all.push(("empty data", empty));
    all
}

/// Returns the resource with this text in each text field of its data; `None` without one.
fn with_texts(decl: &TypeDecl, resource: &pb::Resource, text: &str) -> Option<pb::Resource> {
    let mut changed = resource.clone();
    let data = changed.data.as_mut()?;
    let mut message = DynamicMessage::decode(decl.message.clone(), data.value.as_slice()).ok()?;
    let fields: Vec<_> =
        decl.message.fields().filter(|field| field.kind() == Kind::String && !field.is_map()).collect();
    for field in &fields {
        let value = Value::String(text.to_owned());
        message.set_field(field, if field.is_list() { Value::List(vec![value]) } else { value });
    }
    data.value = message.encode_to_vec();
    (!fields.is_empty()).then_some(changed)
}

/// Returns the resource with a field in its data that its descriptor does not have.
pub(super) fn with_unknown_field(resource: &pb::Resource) -> pb::Resource {
    let mut changed = resource.clone();
    if let Some(data) = &mut changed.data {
        data.value.extend(UNKNOWN_FIELD);
    }
    changed
}

/// Returns true if the data of a resource still has that field.
pub(super) fn has_unknown_field(resource: &pb::Resource) -> bool {
    let Some(data) = &resource.data else { return false };
    data.value.windows(UNKNOWN_FIELD.len()).any(|bytes| bytes == UNKNOWN_FIELD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_unknown_field_is_one_of_protobuf() {
        let empty = prost_types::Any { type_url: String::new(), value: Vec::new() };
        let resource = with_unknown_field(&pb::Resource { data: Some(empty), ..pb::Resource::default() });
        assert!(has_unknown_field(&resource) && !has_unknown_field(&pb::Resource::default()));
        let descriptor = prost_reflect::DescriptorPool::global().get_message_by_name("google.protobuf.Empty").unwrap();
        let message = DynamicMessage::decode(descriptor, resource.data.unwrap().value.as_slice()).unwrap();
        let numbers: Vec<_> = message.unknown_fields().map(|field| field.number()).collect();
        assert_eq!(numbers, [536_870_911]);
    }
}
