//! Parses JSON bodies.
//!
//! A body is an object with `data` (the type's message as proto3 JSON), `metadata` (a map of strings), `owner` (an id
//! as proto3 JSON) and `meta` (labels and the like, as proto3 JSON). Other keys are ignored, so that an answer of the
//! server can be written back.

use std::{collections::BTreeMap, fmt};

use mortise_resource::{FieldPath, PathStep, pb};
use mortise_text::{Limits, Position, Types, data_from_json, encode_message, message_from_json, request_from_json};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, Visitor},
};
use serde_json::value::RawValue;
use serde_path_to_error::{Path, Segment};

use super::{descriptors::no_host_message, error::HttpError};

/// Consul's text for a body that is not JSON or has the wrong shape.
pub(super) const BAD_FORMAT_TEXT: &str = "Request body format is invalid";

/// Consul's text for data that is absent or not of the type.
pub(super) const BAD_SCHEMA_TEXT: &str = "Request body didn't follow the resource schema";

/// The known keys of a body.
#[derive(Deserialize)]
struct BodyFields<'a> {
    #[serde(default, deserialize_with = "metadata")]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default, borrow)]
    data: Option<&'a RawValue>,
    #[serde(default, borrow, rename = "unprintableData")]
    unprintable_data: Option<&'a RawValue>,
    #[serde(default, borrow)]
    owner: Option<&'a RawValue>,
    #[serde(default, borrow)]
    meta: Option<&'a RawValue>,
}

/// Reads metadata other than null; rejects repeated keys.
fn metadata<'de, D: Deserializer<'de>>(from: D) -> Result<Option<BTreeMap<String, String>>, D::Error> {
    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = Option<BTreeMap<String, String>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a map")
        }

        fn visit_unit<E>(self) -> Result<Self::Value, E> {
            Ok(None)
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut entries = BTreeMap::new();
            while let Some((key, value)) = map.next_entry::<String, String>()? {
                if entries.insert(key.clone(), value).is_some() {
                    return Err(A::Error::custom(format!("the key {key:?} occurs twice; remove one")));
                }
            }
            Ok(Some(entries))
        }
    }
    from.deserialize_any(Entries)
}

/// Parses a body as a resource without an id. `values` is the number of values that it may have.
///
/// # Errors
/// 400, in Consul's words, with the path and the place of the fault.
pub(super) fn resource(
    host: &DescriptorPool,
    message: &MessageDescriptor,
    body: &[u8],
    values: usize,
) -> Result<pb::Resource, HttpError> {
    let malformed = |path: &str, e: String| HttpError::body(BAD_FORMAT_TEXT, path.to_owned(), e);
    // serde also reads a struct from a list, but a list is not a body.
    if !matches!(body.trim_ascii_start().first(), Some(b'{' | b'n')) {
        return Err(malformed("", "the body is not a JSON object".to_owned()));
    }
    let mut from = serde_json::Deserializer::from_slice(body);
    let fields = serde_path_to_error::deserialize::<_, Option<BodyFields<'_>>>(&mut from)
        .map_err(|e| at_fault(malformed(&plain_path(e.path()), e.inner().to_string()), e.inner()))?;
    from.end().map_err(|e| at_fault(malformed("", e.to_string()), &e))?;
    let Some(fields) = fields else {
        return Err(HttpError::body(BAD_SCHEMA_TEXT, "data".into(), "is required".into()));
    };

    let owner = part(host, "hashicorp.consul.resource.ID", "owner", fields.owner, body, values)?;
    let meta = part(host, "goten.types.Meta", "meta", fields.meta, body, values)?.map(Box::new);
    let data = match fields.data.or(fields.unprintable_data).map(RawValue::get) {
        None | Some("null") => return Err(HttpError::body(BAD_SCHEMA_TEXT, "data".into(), "is required".into())),
        Some(text) => data_from_json(text, message, &limits(text, values))
            .map_err(|diagnostics| HttpError::diagnostics(BAD_SCHEMA_TEXT, diagnostics, start(body, text)))?,
    };
    Ok(pb::Resource {
        owner,
        metadata: fields.metadata.unwrap_or_default(),
        data: Some(data),
        meta,
        ..pb::Resource::default()
    })
}

/// Parses a body as the request of an RPC; returns it encoded. An empty body is an empty message.
///
/// # Errors
/// 400, with the path and the place of the fault.
pub(super) fn message(
    message: &MessageDescriptor,
    types: &dyn Types,
    body: &[u8],
    values: usize,
) -> Result<Vec<u8>, HttpError> {
    let text = str::from_utf8(body)
        .map_err(|e| HttpError::body(BAD_FORMAT_TEXT, String::new(), format!("it is not UTF-8: {e}")))?;
    let text = if text.trim_ascii().is_empty() { "{}" } else { text };
    let read = request_from_json(text, message, types, &limits(text, values))
        .map_err(|diagnostics| HttpError::diagnostics(BAD_FORMAT_TEXT, diagnostics, Position { line: 1, column: 1 }))?;
    Ok(encode_message(&read))
}

/// Reads a part of a body as one of the host's messages; `None` if it is absent or null.
fn part<T: prost::Message + Default>(
    host: &DescriptorPool,
    message: &str,
    key: &str,
    value: Option<&RawValue>,
    body: &[u8],
    values: usize,
) -> Result<Option<T>, HttpError> {
    let Some(text) = value.map(RawValue::get).filter(|text| *text != "null") else { return Ok(None) };
    let message = host.get_message_by_name(message).ok_or_else(no_host_message)?;
    let read = message_from_json(text, key, &message, &limits(text, values))
        .map_err(|diagnostics| HttpError::diagnostics(BAD_FORMAT_TEXT, diagnostics, start(body, text)))?;
    let read = read.transcode_to().map_err(|e| HttpError::body(BAD_FORMAT_TEXT, key.to_owned(), e.to_string()))?;
    Ok(Some(read))
}

/// Adds the place of a fault in the JSON.
fn at_fault(error: HttpError, fault: &serde_json::Error) -> HttpError {
    if fault.line() == 0 { error } else { error.with_place(fault.line(), fault.column().max(1)) }
}

/// The place of a part of the body, which borrows from it.
fn start(body: &[u8], part: &str) -> Position {
    let offset = (part.as_ptr() as usize).saturating_sub(body.as_ptr() as usize);
    let before = String::from_utf8_lossy(body.get(..offset).unwrap_or_default());
    let last = before.rsplit('\n').next().unwrap_or_default();
    Position { line: before.matches('\n').count() + 1, column: last.chars().count() + 1 }
}

/// Limits for a part of a body.
fn limits(text: &str, values: usize) -> Limits {
    Limits { bytes: text.len(), values: values.min(text.len()), ..Limits::default() }
}

/// A path in the body's JSON as text.
fn plain_path(path: &Path) -> String {
    let steps = path.iter().filter_map(|segment| match segment {
        Segment::Seq { index } => Some(PathStep::Index(u32::try_from(*index).unwrap_or(u32::MAX))),
        Segment::Map { key } => Some(PathStep::Field(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    });
    FieldPath(steps.collect()).to_string()
}
