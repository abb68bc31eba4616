//! Resources within other messages, as in requests of RPCs: their data has the form that it has in the HTTP API, without
//! the `@type` that the type of the id implies. [`super::encode`] prints them.

use mortise_resource::{PathStep, pb, types::gvk};
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, Value};

use crate::{
    data::{BYTES, TYPE, UNPRINTABLE_DATA_KEY, canonical, decoder::Decoder, wellknown},
    node::{Entry, Node},
};

/// The message of a resource.
const RESOURCE_MESSAGE: &str = "hashicorp.consul.resource.Resource";

/// The field with the data.
pub(super) const DATA_FIELD: &str = "data";

/// The field that repeats the data and the meta, and is not printed.
pub(super) const REFERENCES_FIELD: &str = "references";

/// Returns true for a message that is a resource.
pub(super) fn is_resource(descriptor: &MessageDescriptor) -> bool {
    descriptor.full_name() == RESOURCE_MESSAGE
}

/// The type of a resource; `None` if it has none.
pub(super) fn type_of(resource: &DynamicMessage) -> Option<pb::Type> {
    let id = resource.get_field_by_name("id")?;
    id.as_message()?.transcode_to::<pb::Id>().ok()?.r#type
}

/// Reads a resource; `None` after faults.
pub(super) fn read(
    decoder: &mut Decoder<'_, '_>,
    descriptor: &MessageDescriptor,
    node: &Node,
) -> Option<DynamicMessage> {
    let Some(entries) = node.entries() else {
        decoder.mismatch(node, "a map", Some("write the fields of a resource".to_owned()));
        return None;
    };
    let is_data = |entry: &&Entry| entry.key == DATA_FIELD || entry.key == UNPRINTABLE_DATA_KEY;
    let mut resource = decoder.fields(descriptor, entries.iter().filter(|entry| !is_data(entry)))?;
    let mut all = entries.iter().filter(is_data).filter(|entry| !entry.value.is_null());
    let (Some(entry), other) = (all.next(), all.next()) else { return Some(resource) };
    let data = decoder.within(PathStep::Field(DATA_FIELD.to_owned()), |decoder| {
        if let Some(other) = other {
            let text = format!("`{}` and `{}` exclude each other", entry.key, other.key);
            decoder.fault(other.key_span, text, Some("leave one of them out".to_owned()));
            return None;
        }
        data(decoder, &resource, &entry.value)
    })?;
    resource.try_set_field_by_name(DATA_FIELD, Value::Message(data)).ok()?;
    Some(resource)
}

/// Reads the data: `@type` and the fields or bytes of that message, or the fields of the message of the resource's type.
fn data(decoder: &mut Decoder<'_, '_>, resource: &DynamicMessage, node: &Node) -> Option<DynamicMessage> {
    let Kind::Message(any) = resource.descriptor().get_field_by_name(DATA_FIELD)?.kind() else { return None };
    if node.get(TYPE).is_some() || node.get(BYTES).is_some() {
        return decoder.message(&any, node);
    }
    let ty = type_of(resource);
    let Some(known) = ty.as_ref().and_then(|ty| decoder.types.message(ty)) else {
        let (text, remedy) = match ty {
            Some(ty) => (format!("the type {} is not registered", gvk(&ty)), None),
            None => ("the resource has no type".to_owned(), Some("write it as id.type".to_owned())),
        };
        decoder.fault(node.span, text, remedy);
        return None;
    };
    let read = decoder.message(&known, node)?;
    wellknown::pack(decoder, &any, node, known.full_name(), canonical::encode(&read))
}
