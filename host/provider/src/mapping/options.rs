//! Options of fields, read from the bytes of their files: descriptors lose extensions that they were not built with,
//! `google.api.field_behavior` among them, and their library panics on malformed options.

use std::collections::HashMap;

use mortise_resource::descriptors;
use prost::Message;
use prost_reflect::{DescriptorPool, FieldDescriptor};

/// The options of a field that matter to the provider.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "the options are independent flags")]
pub struct FieldOptions {
    /// `deprecated`.
    pub deprecated: bool,
    /// `debug_redact`.
    pub debug_redact: bool,
    /// `google.api.field_behavior` holds `REQUIRED`.
    pub required: bool,
    /// `google.api.field_behavior` holds `OUTPUT_ONLY`.
    pub output_only: bool,
    /// `google.api.field_behavior` holds `INPUT_ONLY`.
    pub input_only: bool,
    /// `google.api.field_behavior` holds `IMMUTABLE`.
    pub immutable: bool,
    /// `google.api.field_behavior` holds `UNORDERED_LIST`.
    pub unordered: bool,
}

/// Numbers of `google.api.FieldBehavior`.
const REQUIRED: i32 = 2;
const OUTPUT_ONLY: i32 = 3;
const INPUT_ONLY: i32 = 4;
const IMMUTABLE: i32 = 5;
const UNORDERED_LIST: i32 = 6;

/// The options of the fields of a pool; fields without options are left out.
#[derive(Debug, Default)]
pub struct Options(HashMap<String, HashMap<u32, FieldOptions>>);

impl Options {
    /// Reads the options of a pool's messages.
    #[must_use]
    pub fn of(pool: &DescriptorPool) -> Self {
        let declared = pool.files().flat_map(|file| descriptors::field_options::<RawOptions>(&file.encode_to_vec()));
        let read = |fields: HashMap<u32, RawOptions>| {
            fields.iter().map(|(number, options)| (*number, options.into())).collect()
        };
        Self(declared.map(|(message, fields)| (message, read(fields))).collect())
    }

    /// The options of a field.
    #[must_use]
    pub fn field(&self, field: &FieldDescriptor) -> FieldOptions {
        let of_message = self.0.get(field.parent_message().full_name());
        of_message.and_then(|fields| fields.get(&field.number())).copied().unwrap_or_default()
    }
}

impl From<&RawOptions> for FieldOptions {
    fn from(options: &RawOptions) -> Self {
        let behaves = |number| options.field_behavior.contains(&number);
        Self {
            deprecated: options.deprecated,
            debug_redact: options.debug_redact,
            required: behaves(REQUIRED),
            output_only: behaves(OUTPUT_ONLY),
            input_only: behaves(INPUT_ONLY),
            immutable: behaves(IMMUTABLE),
            unordered: behaves(UNORDERED_LIST),
        }
    }
}

/// The fields of `google.protobuf.FieldOptions` that are read here.
#[derive(Clone, PartialEq, Message)]
struct RawOptions {
    #[prost(bool, tag = "3")]
    deprecated: bool,
    #[prost(bool, tag = "16")]
    debug_redact: bool,
    #[prost(int32, repeated, tag = "1052")]
    field_behavior: Vec<i32>,
}
