//! Fields that a schema marks with `debug_redact`: finds them, and removes their values from texts.
//!
//! # Contract
//! Such fields are shown only to callers who read the resource: never in logs, errors or diffs. [`Redaction`] knows the
//! marked fields of messages at any depth. [`Secrets`] collects their values in the resources that a plugin receives,
//! and removes these values from the texts that the plugin returns. The options of a field are read from its file's
//! bytes, since the library of the descriptors panics on options that do not fit their definition.
//!
//! # Limits
//! Texts are searched for strings, for bytes in UTF-8, base64 and hexadecimal, and for numbers, of at least
//! [`SHORTEST`] bytes; of strings with several lines each line counts. Values that a plugin rephrases, encrypts or cuts
//! up are not found. Beyond [`MOST_VALUES`] values or [`MOST_BYTES`] bytes, and with data that does not decode, texts
//! are not shown at all.
//!
//! # Cost
//! For a message without such a field, at any depth, a look-up of its name; else decoding the data, and a search for
//! each value in each text. One walk over all fields of the pool finds the messages with marked fields.

mod fields;
mod secrets;

pub use fields::{RedactedFields, Redaction};
pub use secrets::{MOST_BYTES, MOST_VALUES, SHORTEST, Secrets};

/// The replacement for a redacted value.
pub const REDACTED: &str = "(redacted)";
