//! What the options of fields say, read from the bytes of their files: descriptors lose extensions that they were not
//! built with, `google.api.field_behavior` among them, and their library panics on options that do not fit.

use std::collections::HashMap;

use prost::Message;
use prost_reflect::{DescriptorPool, FieldDescriptor};

/// What a field's options say, as far as it matters here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "they are the options'")]
pub struct FieldOptions {
    /// `deprecated`.
    pub deprecated: bool,
    /// `debug_redact`.
    pub debug_redact: bool,
    /// `google.api.field_behavior` holds `REQUIRED`.
    pub required: bool,
    /// The same of `OUTPUT_ONLY`.
    pub output_only: bool,
    /// The same of `IMMUTABLE`.
    pub immutable: bool,
    /// The same of `UNORDERED_LIST`.
    pub unordered: bool,
}

/// Numbers of `google.api.FieldBehavior`.
const REQUIRED: i32 = 2;
const OUTPUT_ONLY: i32 = 3;
const IMMUTABLE: i32 = 5;
const UNORDERED_LIST: i32 = 6;

/// The options of every field of a pool that has any.
#[derive(Debug, Default)]
pub struct Options(HashMap<String, HashMap<u32, FieldOptions>>);

impl Options {
    /// Of a pool's messages.
    #[must_use]
    pub fn of(pool: &DescriptorPool) -> Self {
        let mut found = HashMap::new();
        for file in pool.files() {
            // Cannot fail: the pool was built of it.
            let Ok(bytes) = File::decode(file.encode_to_vec().as_slice()) else { continue };
            for message in &bytes.messages {
                collect(file.package_name(), message, &mut found);
            }
        }
        Self(found)
    }

    /// Of a field.
    #[must_use]
    pub fn field(&self, field: &FieldDescriptor) -> FieldOptions {
        let of_message = self.0.get(field.parent_message().full_name());
        of_message.and_then(|fields| fields.get(&field.number())).copied().unwrap_or_default()
    }
}

fn collect(parent: &str, message: &Declared, found: &mut HashMap<String, HashMap<u32, FieldOptions>>) {
    let name = if parent.is_empty() { message.name.clone() } else { format!("{parent}.{}", message.name) };
    // Decoding bounds the depth.
    for nested in &message.nested {
        collect(&name, nested, found);
    }
    let fields = message.fields.iter().filter_map(|field| {
        let said = field.options.as_ref()?;
        let behaves = |number| said.field_behavior.contains(&number);
        let options = FieldOptions {
            deprecated: said.deprecated,
            debug_redact: said.debug_redact,
            required: behaves(REQUIRED),
            output_only: behaves(OUTPUT_ONLY),
            immutable: behaves(IMMUTABLE),
            unordered: behaves(UNORDERED_LIST),
        };
        Some((u32::try_from(field.number).ok()?, options))
    });
    let fields: HashMap<_, _> = fields.collect();
    if !fields.is_empty() {
        found.insert(name, fields);
    }
}

/// Of `google.protobuf.FileDescriptorProto`, what is looked at here.
#[derive(Clone, PartialEq, Message)]
struct File {
    #[prost(message, repeated, tag = "4")]
    messages: Vec<Declared>,
}

/// The same of `DescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct Declared {
    #[prost(string, tag = "1")]
    name: String,
    #[prost(message, repeated, tag = "2")]
    fields: Vec<Field>,
    #[prost(message, repeated, tag = "3")]
    nested: Vec<Declared>,
}

/// The same of `FieldDescriptorProto`.
#[derive(Clone, PartialEq, Message)]
struct Field {
    #[prost(int32, tag = "3")]
    number: i32,
    #[prost(message, optional, tag = "8")]
    options: Option<RawOptions>,
}

/// The same of `FieldOptions`.
#[derive(Clone, PartialEq, Message)]
struct RawOptions {
    #[prost(bool, tag = "3")]
    deprecated: bool,
    #[prost(bool, tag = "16")]
    debug_redact: bool,
    #[prost(int32, repeated, tag = "1052")]
    field_behavior: Vec<i32>,
}
