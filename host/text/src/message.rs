//! A single message as proto3 JSON: a resource's data or owner, as in the HTTP API.
//!
//! The mapping (`data`), the bounds and the diagnostics are those of files. Every diagnostic has a path here, even for
//! a text that is not JSON and for a repeated key, since clients of the HTTP API mark fields by their paths.

use std::sync::Arc;

use mortise_resource::{FieldPath, PathStep, pb};
use prost_reflect::{DynamicMessage, Kind, MessageDescriptor};
use prost_types::Any;

use crate::{
    Diagnostics, Format, Limits, OneType, Source, Types,
    data::{BYTES, canonical, decoder::Decoder, encode, names, wellknown},
    diagnostic::DiagnosticSink,
    envelope,
    limits::Budget,
    location::{Lines, Position},
    node::{Node, Value},
    parse::read_nodes,
    print::json::{self, Indent},
    read,
};

/// Reads a message. Paths begin with `root`.
///
/// # Errors
/// The faults of the text, up to the bound of `limits`.
pub fn message_from_json(
    text: &str,
    root: &str,
    descriptor: &MessageDescriptor,
    limits: &Limits,
) -> Result<DynamicMessage, Diagnostics> {
    let types = OneType(descriptor.clone());
    read_json(text, FieldPath::field(root), descriptor, &types, limits, |decoder, node| {
        decoder.message(descriptor, node)
    })
}

/// Reads the request of an RPC. Paths begin at the message, and the data of its resources has the form that it has in
/// the HTTP API: without `@type`, which is accepted, too.
///
/// # Errors
/// The faults of the text, up to the bound of `limits`.
pub fn request_from_json(
    text: &str,
    descriptor: &MessageDescriptor,
    types: &dyn Types,
    limits: &Limits,
) -> Result<DynamicMessage, Diagnostics> {
    read_json(text, FieldPath::default(), descriptor, types, limits, |decoder, node| {
        decoder.embeds_resources = true;
        decoder.message(descriptor, node)
    })
}

/// Prints the answer of an RPC, with keys in alphabetical order, and with the data of its resources as in the HTTP API;
/// `None` if it has no form in JSON.
#[must_use]
pub fn answer_to_json(message: &DynamicMessage, types: &dyn Types, indent: Indent) -> Option<String> {
    encode::answer_tree(message, types).map(|tree| json::write(&tree.sorted(), indent))
}

/// Reads the data of a resource: a message, or `@type` and `@bytes`, the form for data that JSON cannot express.
/// Entries of maps are encoded in order.
///
/// # Errors
/// The faults of the text, up to the bound of `limits`.
pub fn data_from_json(text: &str, descriptor: &MessageDescriptor, limits: &Limits) -> Result<Any, Diagnostics> {
    let types = OneType(descriptor.clone());
    read_json(text, FieldPath::field("data"), descriptor, &types, limits, |decoder, node| match node.get(BYTES) {
        Some(bytes) => wellknown::data_from_bytes(node, bytes, Some(descriptor), decoder),
        None => decoder.message(descriptor, node).map(|message| Any {
            type_url: format!("type.googleapis.com/{}", descriptor.full_name()),
            value: canonical::encode(&message),
        }),
    })
}

/// Reads a resource without an id from a single YAML document: `data`, `metadata`, `owner` and `meta`. Other keys are
/// ignored.
///
/// # Errors
/// The faults of the text, up to the bound of `limits`.
pub fn unnamed_from_yaml(text: &str, data: &MessageDescriptor, limits: &Limits) -> Result<pb::Resource, Diagnostics> {
    let (nodes, mut sink) = read_nodes(Source { name: "-", text }, Position::START, Format::Yaml, limits);
    let types = OneType(data.clone());
    let mut read = None;
    if sink.count() == 0 {
        match nodes.as_slice() {
            [node] => read = envelope::read_unnamed(node, &mut Decoder::new(&types, &mut sink)),
            [] => sink.add(Default::default(), &FieldPath::default(), "the text has no document", None),
            [_, second, ..] => {
                let remedy = Some("send one resource in each request".to_owned());
                sink.add(second.span, &FieldPath::default(), "the text has more than one document", remedy);
            }
        }
    }
    sink.finish()?;
    read.ok_or_else(Diagnostics::default)
}

/// Encodes a message in the way of this crate: entries of maps in order, and `-0.0` with its sign.
#[must_use]
pub fn encode_message(message: &DynamicMessage) -> Vec<u8> {
    canonical::encode(message)
}

/// Prints the data of a resource on one line; `None` if it is not an instance of the message, or has no form in JSON.
#[must_use]
pub fn data_to_json(data: &Any, descriptor: &MessageDescriptor) -> Option<String> {
    let message = DynamicMessage::decode(descriptor.clone(), data.value.as_slice()).ok()?;
    encode::message_tree(&message, &OneType(descriptor.clone())).map(|tree| json::write(&tree, Indent::Compact))
}

fn read_json<T>(
    text: &str,
    root: FieldPath,
    descriptor: &MessageDescriptor,
    types: &dyn Types,
    limits: &Limits,
    decode: impl FnOnce(&mut Decoder<'_, '_>, &Node) -> Option<T>,
) -> Result<T, Diagnostics> {
    let lines = Arc::new(Lines::new(text, Position::START));
    let mut sink = DiagnosticSink::new("-", Format::Json, lines, limits.diagnostics);
    let nodes = read::json::read(text, &mut sink, &mut Budget::new(limits));
    sink.fill_in_paths(|offset| path_at(offset, text, &root, descriptor, nodes.first()));
    let mut decoder = Decoder::new(types, &mut sink);
    decoder.path = root;
    let read = match nodes.as_slice() {
        [node] => decode(&mut decoder, node),
        _ => None,
    };
    let path = decoder.path.clone();
    let at_fault = sink.count() > 0;
    match read {
        Some(read) if !at_fault => Ok(read),
        // A value that was not read has a fault; this message covers a decoder that reports none.
        _ => {
            if !at_fault {
                sink.add(Default::default(), &path, "this is not a single value", None);
            }
            sink.finish()?;
            Err(Diagnostics::default())
        }
    }
}

/// The path of the value at an offset, in the names of protobuf.
fn path_at(
    offset: usize,
    text: &str,
    root: &FieldPath,
    descriptor: &MessageDescriptor,
    node: Option<&Node>,
) -> FieldPath {
    let mut path = root.clone();
    let mut below = ValueKind::Message(descriptor.clone());
    let mut next = node;
    while let Some(node) = next.take() {
        match &node.value {
            Value::Map(entries) => {
                let found =
                    entries.iter().find(|entry| entry.value.span.start <= offset && offset < entry.value.span.end);
                // A repeated key is not among the entries.
                let refused = || serde_json::Deserializer::from_str(text.get(offset..)?).into_iter().next()?.ok();
                let (key, value) = match found {
                    Some(entry) => (entry.key.clone(), Some(&entry.value)),
                    None => match refused() {
                        Some(key) => (key, None),
                        None => break,
                    },
                };
                let (step, inner) = below.entry(key);
                path.0.push(step);
                (below, next) = (inner, value);
            }
            Value::List(items) => {
                let found = (0_u32..).zip(items).find(|(_, item)| item.span.start <= offset && offset < item.span.end);
                if let Some((index, item)) = found {
                    path.0.push(PathStep::Index(index));
                    next = Some(item);
                }
            }
            _ => {}
        }
    }
    path
}

/// Kind of a value by its descriptor.
enum ValueKind {
    Message(MessageDescriptor),
    /// The entries of a map, by the message of its values.
    Map(Option<MessageDescriptor>),
    Other,
}

impl ValueKind {
    /// The step to an entry, and the kind of its value.
    fn entry(&self, key: String) -> (PathStep, Self) {
        let message = |message: Option<MessageDescriptor>| message.map_or(Self::Other, Self::Message);
        match self {
            Self::Message(descriptor) => match names::find_field(descriptor, &key, Format::Json) {
                Some(field) => {
                    let inner = match field.kind() {
                        Kind::Message(entry) if field.is_map() => {
                            Self::Map(entry.map_entry_value_field().kind().as_message().cloned())
                        }
                        kind => message(kind.as_message().cloned()),
                    };
                    (PathStep::Field(field.name().to_owned()), inner)
                }
                None => (PathStep::Field(key), Self::Other),
            },
            Self::Map(value) => (PathStep::Key(key), message(value.clone())),
            Self::Other => (PathStep::Field(key), Self::Other),
        }
    }
}
