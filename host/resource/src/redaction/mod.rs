//! Fields that a schema marks with `debug_redact`: which they are, and what they hold, taken out of texts.
//!
//! # Contract
//! Such fields are shown to those who read the resource, and to nobody else: not in logs, errors or diffs.
//! [`Redaction`] says which fields are meant, of messages however deep. [`Secrets`] collects what they hold in the
//! resources that a plugin is handed, and takes it out of the texts that come back. Which options a field has is read
//! from its file's bytes: the library of the descriptors panics on options that do not fit their definition.
//!
//! # Limits
//! Texts are searched for strings, for bytes in UTF-8, base64 and hexadecimal, and for numbers, of at least
//! [`SHORTEST`] bytes; of strings with several lines each line counts. What a plugin says in other words, encrypted or
//! cut up, is not found. Beyond [`MOST_VALUES`] values or [`MOST_BYTES`] bytes, and with data that does not decode, texts
//! are not shown at all.
//!
//! # Cost
//! For a message without such a field, however deep, a look-up of its name; else decoding the data, and a search for each
//! value in each text. What messages hold is found once, by a walk over all fields of the pool.

mod fields;
mod secrets;

pub use fields::{RedactedFields, Redaction};
pub use secrets::{MOST_BYTES, MOST_VALUES, SHORTEST, Secrets};

/// What stands where something is not shown.
pub const REDACTED: &str = "(redacted)";
