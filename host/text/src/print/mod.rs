//! Resources as YAML and JSON, in a form that reads back as the same resource.

pub(crate) mod json;
pub(crate) mod yaml;

use mortise_resource::{goten::Meta, pb, resource_meta::client_part};
use prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};

use crate::{
    Types,
    data::{encode, hidden::RedactedValues},
    document::{meta_descriptor, status_descriptor},
    tree::Tree,
};

/// A resource, id first; the data in the order of its fields. It has only the client's part of the meta, unless the
/// types ask for all of it. It leaves out the records of references, which repeat the data and the meta.
///
/// With `hidden`, numbers replace the values of redacted fields.
pub(crate) fn resource(resource: &pb::Resource, types: &dyn Types, hidden: Option<&RedactedValues>) -> Tree {
    let pb::Resource { id, owner, version, generation, metadata, status, data, schema_version, meta, references: _ } =
        resource;
    let mut entries = Vec::new();
    let mut put = |key: &str, value: Tree| entries.push((key.to_owned(), value));
    if let Some(id) = id {
        put("id", self::id(id));
    }
    if let Some(owner) = owner {
        put("owner", self::id(owner));
    }
    if !version.is_empty() {
        put("version", Tree::Text(version.clone()));
    }
    if !generation.is_empty() {
        put("generation", Tree::Text(generation.clone()));
    }
    if !metadata.is_empty() {
        let pairs = metadata.iter().map(|(key, value)| (key.clone(), Tree::Text(value.clone())));
        put("metadata", Tree::Map(pairs.collect()));
    }
    let part = |meta: &Meta| if types.prints_whole_meta() { meta.clone() } else { client_part(meta) };
    let meta = meta.as_deref().map(part).filter(|meta| *meta != Meta::default());
    if let Some(meta) = meta.and_then(|meta| message_tree(meta_descriptor(), &meta, types)) {
        put("meta", meta);
    }
    if let Some(data) = data {
        put("data", encode::data(data, id.as_ref().and_then(|id| id.r#type.as_ref()), types, hidden));
    }
    if *schema_version > 0 {
        put("schemaVersion", Tree::Int(i64::from(*schema_version)));
    }
    let statuses: Vec<_> = status
        .iter()
        .filter_map(|(key, status)| Some((key.clone(), message_tree(status_descriptor(), status, types)?)))
        .collect();
    if !statuses.is_empty() {
        put("status", Tree::Map(statuses));
    }
    Tree::Map(entries)
}

fn id(id: &pb::Id) -> Tree {
    let mut entries = Vec::new();
    if let Some(pb::Type { group, group_version, kind }) = &id.r#type {
        entries.push(("type", strings([("group", group), ("groupVersion", group_version), ("kind", kind)])));
    }
    if let Some(pb::Tenancy { partition, namespace }) = &id.tenancy {
        entries.push(("tenancy", strings([("partition", partition), ("namespace", namespace)])));
    }
    if !id.name.is_empty() {
        entries.push(("name", Tree::Text(id.name.clone())));
    }
    if !id.uid.is_empty() {
        entries.push(("uid", Tree::Text(id.uid.clone())));
    }
    Tree::Map(entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn strings<const N: usize>(entries: [(&str, &String); N]) -> Tree {
    let set = entries.into_iter().filter(|(_, text)| !text.is_empty());
    Tree::Map(set.map(|(key, text)| (key.to_owned(), Tree::Text(text.clone()))).collect())
}

/// Prints a message of the resource crate.
fn message_tree(descriptor: Option<MessageDescriptor>, message: &impl Message, types: &dyn Types) -> Option<Tree> {
    let message = DynamicMessage::decode(descriptor?, message.encode_to_vec().as_slice()).ok()?;
    encode::message_tree(&message, types)
}
