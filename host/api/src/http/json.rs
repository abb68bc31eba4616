//! Resources as JSON, in Consul's form: proto3 JSON with keys in alphabetical order, indented by two blanks, and data
//! without the `@type` that its type implies.
//!
//! Data that proto3 JSON has no form for (a time out of range, an `Any` of an unknown message; a gRPC client may store
//! these) is printed as its type and its bytes in base64, so that it does not spoil a list.

use std::ops::RangeInclusive;

use axum::http::{HeaderName, HeaderValue, header::CONTENT_TYPE};
use base64::{Engine as _, prelude::BASE64_STANDARD};
use mortise_resource::{Error, FieldPath, PathStep, pb};
use prost::Message as _;
use prost_reflect::{
    DescriptorPool, DeserializeOptions, DynamicMessage, Kind, MessageDescriptor, ReflectMessage as _, SerializeOptions,
};
use serde_json::{Value, json};
use serde_path_to_error::{Path, Segment};

use super::{error::HttpError, strict};

/// The form of every answer that is a resource.
pub(super) const JSON: (HeaderName, HeaderValue) = (CONTENT_TYPE, HeaderValue::from_static("application/json"));

/// The message of every resource.
pub(super) const RESOURCE: &str = "hashicorp.consul.resource.Resource";

/// The descriptors that a resource of one type is printed with. They do not hold on to a plugin.
#[derive(Clone)]
pub(super) struct Printer {
    resource: MessageDescriptor,
    data: MessageDescriptor,
}

/// The host's own descriptors lack a message; cannot be, in a build that passes its tests.
pub(super) fn no_host_message() -> HttpError {
    Error::internal("the host's own descriptors are not whole").into()
}

impl Printer {
    /// For resources with data of that message.
    ///
    /// # Errors
    /// None in a build that passes its tests.
    pub(super) fn new(host: &DescriptorPool, data: &MessageDescriptor) -> Result<Self, HttpError> {
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

/// How deep messages may stand in each other, those in an `Any` included. As protobuf's own limit, which ends at each `Any`.
const DEPTH: usize = 100;

fn print(message: &DynamicMessage) -> Option<Value> {
    if !has_form(message, DEPTH) {
        return None;
    }
    let options = SerializeOptions::new().skip_default_fields(true).stringify_64_bit_integers(true);
    // By way of text, which knows that 0.1 of a `float` is not 0.10000000149011612.
    let mut text = Vec::new();
    message.serialize_with_options(&mut serde_json::Serializer::new(&mut text), &options).ok()?;
    serde_json::from_slice(&text).ok()
}

/// From the year 1 to the year 9999.
const TIMESTAMP_SECONDS: RangeInclusive<i64> = -62_135_596_800..=253_402_300_799;
/// Ten thousand years.
const DURATION_SECONDS: i64 = 315_576_000_000;

/// A field's whole number.
fn whole(message: &DynamicMessage, number: u32) -> i64 {
    let value = message.get_field_by_number(number);
    value.and_then(|value| value.as_i64().or_else(|| value.as_i32().map(i64::from))).unwrap_or_default()
}

/// Whether a message can be printed without loss: it stands in no more than so many others, also where an `Any` holds it
/// (whoever prints goes down by calls), none of its wrapped numbers is NaN or infinite, which would be printed as null, and its
/// times are in range, which would be printed as others.
fn has_form(message: &DynamicMessage, left: usize) -> bool {
    let Some(left) = left.checked_sub(1) else { return false };
    match message.descriptor().full_name() {
        "google.protobuf.Any" => {
            let (url, value) = (message.get_field_by_number(1), message.get_field_by_number(2));
            let name = url.as_ref().and_then(|url| url.as_str()?.rsplit('/').next()).unwrap_or_default();
            let inner = message.descriptor().parent_pool().get_message_by_name(name);
            let (Some(inner), Some(bytes)) = (inner, value.as_ref().and_then(|value| value.as_bytes())) else {
                return true;
            };
            // What does not decode is not printed, either.
            DynamicMessage::decode(inner, bytes.clone()).map_or(true, |inner| has_form(&inner, left))
        }
        "google.protobuf.Timestamp" => {
            let (seconds, nanos) = (whole(message, 1), whole(message, 2));
            TIMESTAMP_SECONDS.contains(&seconds) && (0..1_000_000_000).contains(&nanos)
        }
        "google.protobuf.Duration" => {
            let (seconds, nanos) = (whole(message, 1), whole(message, 2));
            let one_sign = seconds == 0 || nanos == 0 || (seconds < 0) == (nanos < 0);
            one_sign && seconds.abs() <= DURATION_SECONDS && nanos.abs() < 1_000_000_000
        }
        "google.protobuf.FloatValue" | "google.protobuf.DoubleValue" => {
            message.fields().all(|(_, value)| match value {
                prost_reflect::Value::F32(number) => number.is_finite(),
                prost_reflect::Value::F64(number) => number.is_finite(),
                _ => true,
            })
        }
        _ => message.fields().all(|(_, value)| has_value_form(value, left)),
    }
}

fn has_value_form(value: &prost_reflect::Value, left: usize) -> bool {
    match value {
        prost_reflect::Value::Message(inner) => has_form(inner, left),
        prost_reflect::Value::List(values) => values.iter().all(|value| has_value_form(value, left)),
        prost_reflect::Value::Map(entries) => entries.values().all(|value| has_value_form(value, left)),
        _ => true,
    }
}

/// Reads proto3 JSON. Unknown fields are refused, and whatever would not be stored as it stands.
///
/// # Errors
/// Where, from `root` down in the names of protobuf, and what.
pub(super) fn parse(message: &MessageDescriptor, root: &str, text: &str) -> Result<DynamicMessage, (String, String)> {
    let options = DeserializeOptions::new().deny_unknown_fields(true);
    let parsed =
        tracked(message, root, text, |from| DynamicMessage::deserialize_with_options(message.clone(), from, &options))?;
    tracked(message, root, text, |from| strict::check(message, from))?;
    Ok(parsed)
}

/// Where the reader of a text is, for its faults.
type Tracked<'r, 'de> =
    serde_path_to_error::Deserializer<'r, 'r, &'r mut serde_json::Deserializer<serde_json::de::StrRead<'de>>>;

/// Lets `read` have the text, and says where it found a fault.
fn tracked<T>(
    message: &MessageDescriptor,
    root: &str,
    text: &str,
    read: impl FnOnce(Tracked<'_, '_>) -> serde_json::Result<T>,
) -> Result<T, (String, String)> {
    let mut from = serde_json::Deserializer::from_str(text);
    let mut track = serde_path_to_error::Track::new();
    read(serde_path_to_error::Deserializer::new(&mut from, &mut track)).map_err(|e| {
        let what = without_place(&e);
        let path = proto_path(message, root, &track.path());
        // Names that are refused are not on the way yet.
        let refused =
            ["unrecognized field name", strict::DUPLICATE].into_iter().find_map(|begin| what.strip_prefix(begin));
        let name = refused.and_then(|rest| rest.strip_prefix(" '")?.strip_suffix('\''));
        (name.map_or_else(|| path.clone(), |name| format!("{path}.{name}")), what)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn any(of: &str, value: Vec<u8>) -> prost_types::Any {
        prost_types::Any { type_url: format!("type.googleapis.com/google.protobuf.{of}"), value }
    }

    /// Prints data of a well-known type.
    fn printed(of: &str, value: &[u8]) -> Value {
        let name = format!("google.protobuf.{of}");
        let message = DescriptorPool::global().get_message_by_name(&name).unwrap();
        let printer = Printer { resource: message.clone(), data: message };
        printer.data(&any(of, value.to_vec()))
    }

    /// An `Any` in an `Any`: each begins a message of its own, so protobuf's limit of 100 levels never ends it.
    #[test]
    fn nested_any_is_printed_as_bytes_before_it_is_too_deep() {
        let nested = |levels: usize| {
            let mut inner = any("FloatValue", 0.1_f32.encode_to_vec());
            for _ in 0..levels {
                inner = any("Any", inner.encode_to_vec());
            }
            inner.encode_to_vec()
        };
        assert_eq!(
            printed("Any", &nested(0)),
            json!({ "@type": "type.googleapis.com/google.protobuf.FloatValue", "value": 0.1 })
        );
        assert!(printed("Any", &nested(50)).get("@base64").is_none());
        for levels in [100, 3_000] {
            assert!(printed("Any", &nested(levels)).get("@base64").is_some(), "{levels}");
        }
    }

    #[test]
    fn floats_have_as_many_digits_as_they_need() {
        assert_eq!(printed("FloatValue", &0.1_f32.encode_to_vec()).to_string(), "0.1");
        assert_eq!(printed("DoubleValue", &0.1_f64.encode_to_vec()).to_string(), "0.1");
        assert_eq!(printed("FloatValue", &f32::MAX.encode_to_vec()).to_string(), "3.4028235e+38");
    }

    /// They would be printed as null, which says that there is none.
    #[test]
    fn wrapped_numbers_that_are_none_are_printed_as_bytes() {
        for number in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            let bytes = number.encode_to_vec();
            assert_eq!(printed("DoubleValue", &bytes)["@base64"], BASE64_STANDARD.encode(&bytes), "{number}");
            let nested = any("DoubleValue", bytes).encode_to_vec();
            assert!(printed("Any", &nested).get("@base64").is_some(), "{number}");
        }
        assert!(printed("FloatValue", &f32::NAN.encode_to_vec()).get("@base64").is_some());
    }

    #[test]
    fn times_out_of_range_are_printed_as_bytes() {
        let time = |seconds, nanos| prost_types::Timestamp { seconds, nanos }.encode_to_vec();
        let span = |seconds, nanos| prost_types::Duration { seconds, nanos }.encode_to_vec();
        assert_eq!(printed("Timestamp", &time(0, 999_999_999)), json!("1970-01-01T00:00:00.999999999Z"));
        assert_eq!(printed("Duration", &span(-1, -500_000_000)), json!("-1.500s"));
        for (of, bytes) in [
            ("Timestamp", time(0, 1_000_000_000)),
            ("Timestamp", time(0, -1)),
            ("Timestamp", time(253_402_300_800, 0)),
            ("Duration", span(1, -1)),
            ("Duration", span(0, 1_000_000_000)),
            ("Duration", span(315_576_000_001, 0)),
        ] {
            assert_eq!(printed(of, &bytes)["@base64"], BASE64_STANDARD.encode(&bytes), "{of}");
        }
    }

    /// Each would be stored as something else.
    #[test]
    fn values_that_would_not_be_stored_as_they_stand_are_refused() {
        let value = |of: &str| DescriptorPool::global().get_message_by_name(&format!("google.protobuf.{of}")).unwrap();
        for (of, text, taken) in [
            ("Int64Value", "9223372036854775807", true),
            ("Int64Value", "\"-9223372036854775808\"", true),
            ("Int64Value", "1e3", true),
            ("Int64Value", "-9223372036854775809", false),
            ("Int64Value", "9007199254740993.0", false),
            ("Int64Value", "9223372036854775806.0", false),
            ("UInt64Value", "18446744073709551615", true),
            ("UInt64Value", "18446744073709551616", false),
            ("FloatValue", "\"1e38\"", true),
            ("FloatValue", "\"Infinity\"", true),
            ("FloatValue", "\"1e39\"", false),
            ("DoubleValue", "\"1e39\"", true),
            ("DoubleValue", "\"-1e309\"", false),
            ("Timestamp", "\"2024-06-30T12:30:59.999999999Z\"", true),
            ("Timestamp", "\"2024-06-30T12:30:60Z\"", false),
            ("Timestamp", "\"2024-06-30T12:30:05.9999999999Z\"", false),
        ] {
            assert_eq!(parse(&value(of), "data", text).is_ok(), taken, "{of} {text}");
        }
        let resource = DescriptorPool::decode(mortise_resource::DESCRIPTORS).unwrap();
        let resource = resource.get_message_by_name(RESOURCE).unwrap();
        let status = r#"{"status":{"a":{"updatedAt":"2024-06-30T12:30:60Z"}}}"#;
        assert_eq!(parse(&resource, "data", status).unwrap_err().0, "data.status[\"a\"].updated_at");
    }

    #[test]
    fn no_field_may_stand_twice_in_whatever_spelling() {
        let pool = mortise_resource::DESCRIPTORS;
        let pool = DescriptorPool::decode(pool).unwrap();
        let resource = pool.get_message_by_name(RESOURCE).unwrap();
        let refused = |text: &str| parse(&resource, "data", text).unwrap_err();
        for (text, path, name) in [
            (r#"{"version":"1","version":"1"}"#, "data.version", "version"),
            (r#"{"version":null,"version":"1"}"#, "data.version", "version"),
            (r#"{"id":{"uid":"1"},"owner":{"uid":"a","uid":"b"}}"#, "data.owner.uid", "uid"),
            (
                r#"{"status":{"a":{"observedGeneration":"1","observed_generation":"1"}}}"#,
                "data.status[\"a\"].observed_generation",
                "observed_generation",
            ),
            (
                r#"{"status":{"a":{"conditions":[{},{"type":"t","type":"t"}]}}}"#,
                "data.status[\"a\"].conditions[1].type",
                "type",
            ),
            (r#"{"metadata":{"a":"1","b":"2","a":"3"}}"#, "data.metadata.a", "a"),
        ] {
            assert_eq!(refused(text), (path.to_owned(), format!("duplicate field name '{name}'")), "{text}");
        }
        assert!(
            parse(
                &resource,
                "data",
                r#"{"metadata":{"version":"1"},"version":"1","owner":{"uid":"1"},"id":{"uid":"1"}}"#
            )
            .is_ok()
        );
    }
}
