//! Answers of operations.

use serde_json::{Value, json};

/// Adds the answers to an operation: the successful ones, and the codes of the failures.
pub(super) fn with_responses(mut operation: Value, success: Value, codes: &[&str]) -> Value {
    let mut responses = success;
    if let Some(responses) = responses.as_object_mut() {
        for code in codes {
            responses.insert((*code).to_owned(), json!({ "$ref": format!("#/components/responses/{code}") }));
        }
    }
    if let Some(operation) = operation.as_object_mut() {
        operation.insert("responses".to_owned(), responses);
    }
    operation
}
