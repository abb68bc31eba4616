//! The faults by field among the details of a failed call.

use mortise_resource::{Diagnostic, Severity};
use prost::Message as _;
use tonic::Status;
use tonic_types::StatusExt as _;

/// Full name of a diagnostic's message.
const DIAGNOSTIC_NAME: &str = "mortise.v1.Diagnostic";

/// Returns the diagnostics of a failed call; those of a server that sends none are made from its violations.
#[must_use]
pub fn diagnostics_of(status: &Status) -> Vec<Diagnostic> {
    let details = tonic_types::Status::decode(status.details()).unwrap_or_default().details;
    let named = details.iter().filter(|any| any.type_url.rsplit('/').next() == Some(DIAGNOSTIC_NAME));
    let found: Vec<_> = named.filter_map(|any| Diagnostic::decode(any.value.as_slice()).ok()).collect();
    if !found.is_empty() {
        return found;
    }
    let violations = status.get_details_bad_request().map(|found| found.field_violations).unwrap_or_default();
    violations
        .into_iter()
        .map(|one| Diagnostic {
            severity: Severity::Error.into(),
            path: one.field,
            summary: one.description,
            detail: String::new(),
        })
        .collect()
}
