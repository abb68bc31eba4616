//! The one mapping between messages and text: proto3 JSON, for files, for the command line and for the HTTP API.
//!
//! [`decode`] reads a tree of values with their places, [`encode`] prints; the descriptors give each value its type.
//! Reading takes time in proportion to the text, printing to the message; both nest as deep as [`crate::Limits::depth`]
//! and protobuf's own limit allow.
//!
//! The mapping of prost-reflect (its feature `serde`) loses values and reports faults without places:
//! docs/decisions/0023-one-mapping-between-protobuf-and-json.md.

pub(crate) mod canonical;
pub(crate) mod decode;
pub(crate) mod decoder;
mod embedded;
pub(crate) mod encode;
pub(crate) mod hidden;
pub(crate) mod names;
pub(crate) mod scalar;
pub(crate) mod time;
pub(crate) mod value;
pub(crate) mod wellknown;

pub use names::nearest;

/// Key of the type of a `google.protobuf.Any`.
pub(crate) const TYPE: &str = "@type";
/// Key of a resource's data that JSON cannot express, in answers and bodies of HTTP.
pub(crate) const UNPRINTABLE_DATA_KEY: &str = "unprintableData";
/// Key of the bytes of an `Any` whose type is not known, in base64.
pub(crate) const BYTES: &str = "@bytes";
/// Key of the fields that the descriptor does not know, as protobuf in base64, so that printing loses nothing.
pub(crate) const UNKNOWN: &str = "@unknown";
