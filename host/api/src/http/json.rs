//! Resources as JSON, in Consul's form: proto3 JSON with keys in alphabetical order, indented by two blanks, and data
//! without the `@type` that its type implies.
//!
//! Data that proto3 JSON has no form for (a time out of range, an `Any` of an unknown message; a gRPC client may store
//! these) is printed as its type and its bytes in base64, so that it does not spoil a list.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use mortise_resource::{Error, FieldPath, PathStep, pb};
use prost::Message as _;
use prost_reflect::{DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, SerializeOptions};
use serde_json::{Value, json};
use serde_path_to_error::{Path, Segment};

use super::fault::Fault;

/// The message of every resource.
pub(super) const RESOURCE: &str = "hashicorp.consul.resource.Resource";

/// The descriptors that a resource of one type is printed with. They do not hold on to a plugin.
#[derive(Clone)]
pub(super) struct Printer {
    resource: MessageDescriptor,
    data: MessageDescriptor,
}

/// The host's own descriptors lack a message; cannot be, in a build that passes its tests.
pub(super) fn no_host_message() -> Fault {
    Error::internal("the host's own descriptors are not whole").into()
}

impl Printer {
    /// For resources with data of that message.
    ///
    /// # Errors
    /// None in a build that passes its tests.
    pub(super) fn new(host: &DescriptorPool, data: &MessageDescriptor) -> Result<Self, Fault> {
        let resource = host.get_message_by_name(RESOURCE).ok_or_else(no_host_message)?;
        Ok(Self { resource, data: data.clone() })
    }

    /// The resource as a tree.
    pub(super) fn value(&self, mut resource: pb::Resource) -> Value {
        let data = resource.data.take();
        let mut printed = DynamicMessage::decode(self.resource.clone(), resource.encode_to_vec().as_slice())
            .ok()
            .and_then(|message| print(&message))
            .unwrap_or_else(|| json!({}));
        if let (Some(data), Some(object)) = (data, printed.as_object_mut()) {
            object.insert("data".to_owned(), self.data(&data));
        }
        printed.sort_all_objects();
        printed
    }

    fn data(&self, data: &prost_types::Any) -> Value {
        DynamicMessage::decode(self.data.clone(), data.value.as_slice())
            .ok()
            .and_then(|m| print(&m))
            .unwrap_or_else(|| json!({ "@type": data.type_url, "@base64": BASE64_STANDARD.encode(&data.value) }))
    }

    /// The resource, indented.
    pub(super) fn pretty(&self, resource: pb::Resource) -> String {
        pretty(&self.value(resource))
    }
}

/// A tree, indented by two blanks.
pub(super) fn pretty(value: &Value) -> String {
    format!("{value:#}")
}

fn print(message: &DynamicMessage) -> Option<Value> {
    let options = SerializeOptions::new().skip_default_fields(true).stringify_64_bit_integers(true);
    message.serialize_with_options(serde_json::value::Serializer, &options).ok()
}

/// Reads proto3 JSON. Unknown fields are refused.
///
/// # Errors
/// Where, from `root` down in the names of protobuf, and what.
pub(super) fn parse(message: &MessageDescriptor, root: &str, text: &str) -> Result<DynamicMessage, (String, String)> {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let mut from = serde_json::Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    let tracked = serde_path_to_error::Deserializer::new(&mut from, &mut track);
    DynamicMessage::deserialize_with_options(message.clone(), tracked, &options).map_err(|e| {
        let what = without_place(&e);
        let path = proto_path(message, root, &track.path());
        // A name that is not known is not on the way yet.
        let unknown = what.strip_prefix("unrecognized field name '").and_then(|rest| rest.strip_suffix('\''));
        (unknown.map_or_else(|| path.clone(), |name| format!("{path}.{name}")), what)
    })
}

/// What is wrong, without line and column: those count from the beginning of a part.
fn without_place(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let place = format!(" at line {} column {}", error.line(), error.column());
    text.strip_suffix(&place).unwrap_or(&text).to_owned()
}

/// A path of JSON in the names of protobuf, which hooks and the service use in theirs.
fn proto_path(message: &MessageDescriptor, root: &str, path: &Path) -> String {
    let mut steps = vec![PathStep::Field(root.to_owned())];
    let mut within = Some(message.clone());
    let mut in_map = false;
    for segment in path {
        match segment {
            Segment::Seq { index } => steps.push(PathStep::Index(u32::try_from(*index).unwrap_or(u32::MAX))),
            Segment::Map { key } if in_map => {
                in_map = false;
                steps.push(PathStep::Key(key.clone()));
            }
            Segment::Map { key } => {
                let field =
                    within.as_ref().and_then(|m| m.get_field_by_json_name(key).or_else(|| m.get_field_by_name(key)));
                steps.push(PathStep::Field(field.as_ref().map_or_else(|| key.clone(), |f| f.name().to_owned())));
                in_map = field.as_ref().is_some_and(prost_reflect::FieldDescriptor::is_map);
                within = match field.map(|f| f.kind()) {
                    Some(Kind::Message(inner)) if in_map => match inner.map_entry_value_field().kind() {
                        Kind::Message(value) => Some(value),
                        _ => None,
                    },
                    Some(Kind::Message(inner)) => Some(inner),
                    _ => None,
                };
            }
            Segment::Enum { .. } | Segment::Unknown => {}
        }
    }
    FieldPath(steps).to_string()
}

/// A path of JSON as it is.
pub(super) fn plain_path(path: &Path) -> String {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(PathStep::Index(u32::try_from(*index).unwrap_or(u32::MAX))),
        Segment::Map { key } => Some(PathStep::Field(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    FieldPath(steps.collect()).to_string()
}
