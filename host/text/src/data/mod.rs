//! Data between text and messages: proto3's JSON mapping, with the descriptors saying what each value is.

pub(crate) mod decode;
pub(crate) mod encode;
pub(crate) mod names;
pub(crate) mod scalar;
pub(crate) mod time;
pub(crate) mod value;
pub(crate) mod wellknown;
pub(crate) mod wire;

/// Key under which the type of a `google.protobuf.Any` stands.
pub(crate) const TYPE: &str = "@type";
/// Key under which the bytes of an `Any` stand whose type is not known, in base64.
pub(crate) const BYTES: &str = "@bytes";
/// Key under which fields stand that the descriptor does not know, as protobuf in base64, so that printing loses nothing.
pub(crate) const UNKNOWN: &str = "@unknown";
