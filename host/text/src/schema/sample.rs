//! A sample of a message in YAML: every field with its type, its comment and a value that is valid.
//!
//! Each field is written once. The first field of a `oneof` is set, and the others are comments. A message within
//! itself, or after [`MAX_LINES`], or deeper than [`MAX_DEPTH`] is left empty.

use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::comments::Commented as _;

/// Approximate bound of a sample's lines: messages within messages can multiply without end.
pub(crate) const MAX_LINES: usize = 2_000;

/// Most messages within each other, the outermost included; each takes stack.
const MAX_DEPTH: usize = 32;

/// A commented sample in YAML, to be put under `data`.
#[must_use]
pub fn sample(message: &MessageDescriptor) -> String {
    let mut sample = Sample { lines: Vec::new(), open: vec![message.full_name().to_owned()] };
    for line in message.comment().lines() {
        sample.lines.push(format!("# {line}").trim_end().to_owned());
    }
    if message.fields().len() == 0 {
        sample.lines.push("{}".to_owned());
    }
    sample.fields(message, 0, false);
    sample.lines.push(String::new());
    sample.lines.join("\n")
}

struct Sample {
    lines: Vec<String>,
    /// The messages that enclose a line.
    open: Vec<String>,
}

/// A value, or the message to write in its place.
enum SampleValue {
    Here(&'static str),
    Owned(String),
    Message(MessageDescriptor),
}

impl Sample {
    /// Writes every field of a message. `commented_out` makes comments of all lines.
    fn fields(&mut self, message: &MessageDescriptor, indent: usize, commented_out: bool) {
        for field in message.fields() {
            let oneof = field.containing_oneof().filter(|oneof| !oneof.is_synthetic());
            let later = oneof.as_ref().is_some_and(|o| o.fields().next().is_some_and(|first| first != field));
            self.field(&field, indent, commented_out || later);
        }
    }

    fn field(&mut self, field: &FieldDescriptor, indent: usize, commented_out: bool) {
        for line in field.comment().lines() {
            self.line(indent, commented_out, &format!("# {line}"));
        }
        self.line(indent, commented_out, &format!("# {}", describe_field(field)));
        let name = quoted(field.json_name());
        match (field.kind(), field.is_map(), field.is_list()) {
            (Kind::Message(entry), true, _) => {
                let key = match entry.map_entry_key_field().kind() {
                    Kind::String => "key",
                    Kind::Bool => "\"true\"",
                    _ => "\"0\"",
                };
                match self.sample_value(&entry.map_entry_value_field().kind()) {
                    None => self.line(indent, commented_out, &format!("{name}: {{}}")),
                    Some(shown) => {
                        self.line(indent, commented_out, &format!("{name}:"));
                        self.entry(key, shown, indent + 2, commented_out);
                    }
                }
            }
            (kind, _, true) => match self.sample_value(&kind) {
                None => self.line(indent, commented_out, &format!("{name}: []")),
                Some(shown) => {
                    self.line(indent, commented_out, &format!("{name}:"));
                    self.element(shown, indent + 2, commented_out);
                }
            },
            (kind, ..) => match self.sample_value(&kind) {
                None => self.line(indent, commented_out, &format!("{name}: {{}}")),
                Some(shown) => self.entry(&name, shown, indent, commented_out),
            },
        }
    }

    /// The sample of a value; `None` for a message that is open already, or beyond the bounds.
    fn sample_value(&self, kind: &Kind) -> Option<SampleValue> {
        let value = match kind {
            Kind::Bool => SampleValue::Here("false"),
            Kind::String | Kind::Bytes => SampleValue::Here("\"\""),
            Kind::Double | Kind::Float => SampleValue::Here("0.0"),
            Kind::Enum(enumeration) if enumeration.full_name() == "google.protobuf.NullValue" => {
                SampleValue::Here("null")
            }
            Kind::Enum(enumeration) => SampleValue::Owned(quoted(enumeration.default_value().name())),
            Kind::Message(message) => match well_known(message.full_name()) {
                Some(value) => SampleValue::Here(value),
                None if message.fields().len() == 0 => SampleValue::Here("{}"),
                None if self.open.iter().any(|open| open == message.full_name()) => return None,
                None if self.lines.len() >= MAX_LINES || self.open.len() >= MAX_DEPTH => return None,
                None => SampleValue::Message(message.clone()),
            },
            _ => SampleValue::Here("0"),
        };
        Some(value)
    }

    fn entry(&mut self, name: &str, shown: SampleValue, indent: usize, commented_out: bool) {
        match shown {
            SampleValue::Here(value) => self.line(indent, commented_out, &format!("{name}: {value}")),
            SampleValue::Owned(value) => self.line(indent, commented_out, &format!("{name}: {value}")),
            SampleValue::Message(message) => {
                self.line(indent, commented_out, &format!("{name}:"));
                self.within(&message, indent + 2, commented_out);
            }
        }
    }

    fn element(&mut self, shown: SampleValue, indent: usize, commented_out: bool) {
        match shown {
            SampleValue::Here(value) => self.line(indent, commented_out, &format!("- {value}")),
            SampleValue::Owned(value) => self.line(indent, commented_out, &format!("- {value}")),
            SampleValue::Message(message) => {
                self.line(indent, commented_out, "-");
                self.within(&message, indent + 2, commented_out);
            }
        }
    }

    fn within(&mut self, message: &MessageDescriptor, indent: usize, commented_out: bool) {
        self.open.push(message.full_name().to_owned());
        self.fields(message, indent, commented_out);
        self.open.pop();
    }

    fn line(&mut self, indent: usize, commented_out: bool, text: &str) {
        let sign = if commented_out && !text.starts_with('#') { "# " } else { "" };
        self.lines.push(format!("{}{sign}{text}", " ".repeat(indent)).trim_end().to_owned());
    }
}

/// Describes a field: its type, the values of an enum, and its `oneof`.
fn describe_field(field: &FieldDescriptor) -> String {
    let kind = field.kind();
    let mut text = match &kind {
        Kind::Message(entry) if field.is_map() => {
            let (key, value) = (entry.map_entry_key_field().kind(), entry.map_entry_value_field().kind());
            format!("map<{}, {}>{}", called(&key), called(&value), values(&value))
        }
        kind if field.is_list() => format!("list of {}{}", called(kind), values(kind)),
        kind => format!("{}{}", called(kind), values(kind)),
    };
    if let Some(oneof) = field.containing_oneof().filter(|oneof| !oneof.is_synthetic()) {
        let names: Vec<_> = oneof.fields().map(|f| f.json_name().to_owned()).collect();
        text.push_str(&format!("; at most one of {}", names.join(", ")));
    }
    if field.field_descriptor_proto().options.as_ref().is_some_and(|options| options.deprecated()) {
        text.push_str("; deprecated");
    }
    text
}

fn values(kind: &Kind) -> String {
    let Kind::Enum(enumeration) = kind else { return String::new() };
    let names: Vec<_> = enumeration.values().map(|value| value.name().to_owned()).collect();
    format!(": {}", names.join(", "))
}

fn called(kind: &Kind) -> String {
    match kind {
        Kind::Message(message) => message.full_name().to_owned(),
        Kind::Enum(enumeration) => enumeration.full_name().to_owned(),
        Kind::Bytes => "bytes, as base64".to_owned(),
        scalar => format!("{scalar:?}").to_lowercase(),
    }
}

fn well_known(name: &str) -> Option<&'static str> {
    Some(match name.strip_prefix("google.protobuf.")? {
        "Timestamp" => "\"1970-01-01T00:00:00Z\"",
        "Duration" => "0s",
        "FieldMask" | "StringValue" | "BytesValue" => "\"\"",
        "Struct" | "Empty" => "{}",
        // An empty `Any` has no message to name.
        "Value" | "Any" => "null",
        "ListValue" => "[]",
        "BoolValue" => "false",
        "FloatValue" | "DoubleValue" => "0.0",
        "Int32Value" | "Int64Value" | "UInt32Value" | "UInt64Value" => "0",
        _ => return None,
    })
}

/// Quotes a name unless every version of YAML reads it as a string.
fn quoted(name: &str) -> String {
    const WORDS: [&str; 10] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan"];
    let plain = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        && !WORDS.contains(&name.to_ascii_lowercase().as_str());
    if plain { name.to_owned() } else { format!("{name:?}") }
}
