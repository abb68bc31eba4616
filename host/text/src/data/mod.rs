//! The one mapping between messages and text: proto3 JSON, for files, for the command line and for the HTTP API.
//!
//! [`decode`] reads a tree of values that remember their places, [`encode`] prints; the descriptors say what each value
//! is. Reading takes time in proportion to the text, printing to the message; both nest as deep as
//! [`crate::Limits::depth`] and protobuf's own limit allow.
//!
//! prost-reflect has a mapping of its own, behind its feature `serde`, which is not used:
//!
//! - Its faults have no place, it stops at the first, and it knows neither YAML's scalars nor HCL's names.
//! - It takes a field that occurs twice, under two spellings too, and keeps one of the two. A whole number with a
//!   point, an exponent or more than 64 bits goes through floating point and may become another; a leap second is cut.
//! - It prints wrapped NaN and infinities as null and times out of range as other times, leaves out unknown fields,
//!   fails for the whole message at an `Any` that it does not know, follows `Any` in `Any` to any depth, and does not
//!   order maps.

pub(crate) mod decode;
pub(crate) mod decoder;
pub(crate) mod encode;
pub(crate) mod hidden;
pub(crate) mod names;
pub(crate) mod scalar;
pub(crate) mod time;
pub(crate) mod value;
pub(crate) mod wellknown;
pub(crate) mod wire;

/// Key of the type of a `google.protobuf.Any`.
pub(crate) const TYPE: &str = "@type";
/// Key of the bytes of an `Any` whose type is not known, in base64.
pub(crate) const BYTES: &str = "@bytes";
/// Key of the fields that the descriptor does not know, as protobuf in base64, so that printing loses nothing.
pub(crate) const UNKNOWN: &str = "@unknown";
