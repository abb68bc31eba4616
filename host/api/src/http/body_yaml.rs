//! Parses YAML bodies: the keys of JSON bodies, in the YAML of resource files.

use mortise_resource::pb;
use mortise_text::{Limits, Position, unnamed_from_yaml};
use prost_reflect::MessageDescriptor;

use super::{
    body_json::{BAD_FORMAT_TEXT, BAD_SCHEMA_TEXT},
    error::HttpError,
};

/// Parses a body as a resource without an id. `values` is the number of values that it may have, with aliases expanded.
///
/// # Errors
/// 400, in Consul's words, with the path, the line and the column of each fault.
pub(super) fn resource(message: &MessageDescriptor, body: &[u8], values: usize) -> Result<pb::Resource, HttpError> {
    let text = std::str::from_utf8(body)
        .map_err(|e| HttpError::body(BAD_FORMAT_TEXT, String::new(), format!("the body is not UTF-8: {e}")))?;
    let limits = Limits { bytes: text.len(), values: values.min(text.len()), documents: 1, ..Limits::default() };
    unnamed_from_yaml(text, message, &limits).map_err(|found| {
        let is_data = found.diagnostics.first().is_some_and(|fault| fault.path.starts_with("data"));
        let text = if is_data { BAD_SCHEMA_TEXT } else { BAD_FORMAT_TEXT };
        HttpError::diagnostics(text, found, Position { line: 1, column: 1 })
    })
}
