//! Errors in gRPC's form: code, message, and details for programs.
//!
//! Faults by field travel twice: as `google.rpc.BadRequest`, which clients of every language know, and each as a
//! `mortise.v1.Diagnostic`, which also has its explanation and its severity. Warnings beside errors are no violations,
//! so they travel as diagnostics alone.
//!
//! Details travel in trailers, for which clients have small limits (often 8 KiB in all), so message and details are
//! cut.

use std::collections::HashMap;

use mortise_resource::{Code, Diagnostic, Error, Severity, error::PluginFault};
use prost::Message as _;
use tonic::{Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use tracing::Span;

use crate::call::{run_guarded, truncate};

/// Longest message, bytes.
const MAX_MESSAGE_BYTES: usize = 2_048;

/// Most violations that travel as details, the longest text of one, and the longest explanation.
const MAX_VIOLATIONS: usize = 10;
const MAX_VIOLATION_BYTES: usize = 256;
const MAX_EXPLANATION_BYTES: usize = 1_024;

/// Most bytes of the texts of all violations, before base64.
const MAX_VIOLATIONS_BYTES: usize = 4_096;

/// The type of a diagnostic among details.
const DIAGNOSTIC_TYPE_URL: &str = "type.googleapis.com/mortise.v1.Diagnostic";

/// The `domain` of error details.
const DOMAIN: &str = "mortise";

/// The `reason` of error details about a plugin.
const PLUGIN_FAULT: &str = "PLUGIN_FAULT";

/// Trailer with the milliseconds after which a client with a retry policy tries again.
const PUSHBACK_KEY: &str = "grpc-retry-pushback-ms";

/// Converts an error of the service to a gRPC status.
pub(crate) fn status(error: Error) -> Status {
    let code = code(error.code);
    let message = truncate(&error.message, MAX_MESSAGE_BYTES);
    if error.violations.is_empty() && error.plugin.is_none() && error.retry_after.is_none() && error.resource.is_none()
    {
        return Status::new(code, message);
    }
    let mut details = ErrorDetails::new();
    let diagnostics = bounded(&error.violations);
    for one in diagnostics.iter().filter(|one| one.severity() != Severity::Warning) {
        details.add_bad_request_violation(&*one.path, &*one.summary);
    }
    if error.retry_after.is_some() {
        details.set_retry_info(error.retry_after);
    }
    if let Some(name) = error.resource {
        details.set_resource_info("", name, "", "");
    }
    if let Some(fault) = error.plugin {
        if fault.retry_after.is_some() {
            details.set_retry_info(fault.retry_after);
        }
        let metadata = HashMap::from([
            ("plugin".to_owned(), fault.plugin),
            ("version".to_owned(), fault.version),
            ("hook".to_owned(), fault.hook),
            ("kind".to_owned(), fault.kind),
        ]);
        details.set_error_info(PLUGIN_FAULT, DOMAIN, metadata);
    }
    let pushback = details.retry_info().and_then(|info| info.retry_delay);
    let mut status = with_diagnostics(Status::with_error_details(code, message, details), &diagnostics);
    if let Some(wait) = pushback {
        // Rounded up: a client that comes back a moment too early is refused again.
        let wait_ms = u64::try_from(wait.as_nanos().div_ceil(1_000_000)).unwrap_or(u64::MAX);
        status.metadata_mut().insert(PUSHBACK_KEY, wait_ms.into());
    }
    status
}

/// The reverse of [`status`]: the error that a status carries, as far as its details have room for it.
pub(crate) fn error_of(status: &Status) -> Error {
    let mut error = Error::new(code_of(status.code()), status.message());
    let details = tonic_types::Status::decode(status.details()).unwrap_or_default().details;
    let diagnostics = details.iter().filter(|any| any.type_url == DIAGNOSTIC_TYPE_URL);
    error.violations = diagnostics.filter_map(|any| Diagnostic::decode(any.value.as_slice()).ok()).collect();
    error.retry_after = status.get_details_retry_info().and_then(|info| info.retry_delay);
    error.resource = status.get_details_resource_info().map(|info| info.resource_name);
    error.plugin = status.get_details_error_info().filter(|info| info.reason == PLUGIN_FAULT).map(|mut info| {
        let mut text = |key: &str| info.metadata.remove(key).unwrap_or_default();
        Box::new(PluginFault {
            plugin: text("plugin"),
            version: text("version"),
            hook: text("hook"),
            kind: text("kind"),
            retry_after: error.retry_after,
        })
    });
    error
}

/// Cuts diagnostics to what fits into trailers: first the explanations, then the last ones.
fn bounded(violations: &[Diagnostic]) -> Vec<Diagnostic> {
    let mut room = MAX_VIOLATIONS_BYTES;
    let mut fitting = Vec::new();
    for one in violations.iter().take(MAX_VIOLATIONS) {
        let (path, summary) = (truncate(&one.path, MAX_VIOLATION_BYTES), truncate(&one.summary, MAX_VIOLATION_BYTES));
        // Both travel twice.
        let Some(left) = room.checked_sub(2 * (path.len() + summary.len())) else { break };
        let detail = truncate(&one.detail, MAX_EXPLANATION_BYTES.min(left));
        room = left.saturating_sub(detail.len());
        fitting.push(Diagnostic { severity: one.severity, path, summary, detail });
    }
    fitting
}

/// Adds diagnostics to the details of a status.
fn with_diagnostics(status: Status, diagnostics: &[Diagnostic]) -> Status {
    let Ok(mut all) = tonic_types::Status::decode(status.details()) else { return status };
    all.details.extend(
        diagnostics
            .iter()
            .map(|one| prost_types::Any { type_url: DIAGNOSTIC_TYPE_URL.to_owned(), value: one.encode_to_vec() }),
    );
    Status::with_details(status.code(), status.message(), all.encode_to_vec().into())
}

/// Runs and answers a call; see [`guarded`].
pub(crate) async fn answer<T>(span: Span, call: impl Future<Output = Result<T, Error>>) -> Result<Response<T>, Status> {
    run_guarded(span, call).await.map(Response::new).map_err(status)
}

fn code(code: Code) -> tonic::Code {
    match code {
        Code::InvalidArgument => tonic::Code::InvalidArgument,
        Code::DeadlineExceeded => tonic::Code::DeadlineExceeded,
        Code::NotFound => tonic::Code::NotFound,
        Code::PermissionDenied => tonic::Code::PermissionDenied,
        Code::ResourceExhausted => tonic::Code::ResourceExhausted,
        Code::FailedPrecondition => tonic::Code::FailedPrecondition,
        Code::AlreadyExists => tonic::Code::AlreadyExists,
        Code::Aborted => tonic::Code::Aborted,
        Code::Unimplemented => tonic::Code::Unimplemented,
        Code::Internal => tonic::Code::Internal,
        Code::Unavailable => tonic::Code::Unavailable,
        Code::Unauthenticated => tonic::Code::Unauthenticated,
    }
}

/// The nearest code of the service. gRPC's library refuses a message over a limit as OutOfRange.
fn code_of(code: tonic::Code) -> Code {
    match code {
        tonic::Code::InvalidArgument => Code::InvalidArgument,
        tonic::Code::DeadlineExceeded => Code::DeadlineExceeded,
        tonic::Code::NotFound => Code::NotFound,
        tonic::Code::PermissionDenied => Code::PermissionDenied,
        tonic::Code::ResourceExhausted | tonic::Code::OutOfRange => Code::ResourceExhausted,
        tonic::Code::FailedPrecondition => Code::FailedPrecondition,
        tonic::Code::AlreadyExists => Code::AlreadyExists,
        tonic::Code::Aborted | tonic::Code::Cancelled => Code::Aborted,
        tonic::Code::Unimplemented => Code::Unimplemented,
        tonic::Code::Unavailable => Code::Unavailable,
        tonic::Code::Unauthenticated => Code::Unauthenticated,
        tonic::Code::Ok | tonic::Code::Unknown | tonic::Code::Internal | tonic::Code::DataLoss => Code::Internal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_is_the_same_behind_its_status() {
        let fault = PluginFault {
            plugin: "demo".to_owned(),
            version: "1".to_owned(),
            hook: "validate".to_owned(),
            kind: "trap".to_owned(),
            retry_after: Some(std::time::Duration::from_secs(2)),
        };
        let plain = Error::not_found("nothing is there");
        let full = Error {
            violations: vec![diagnostic(Severity::Error, 9), diagnostic(Severity::Warning, 9)],
            retry_after: fault.retry_after,
            plugin: Some(Box::new(fault)),
            ..Error::invalid("no")
        };
        for error in [plain, full] {
            assert_eq!(error_of(&status(error.clone())), error);
        }
    }

    fn diagnostic(severity: Severity, bytes: usize) -> Diagnostic {
        let text = |letter: &str| letter.repeat(bytes);
        Diagnostic { severity: severity.into(), path: text("p"), summary: text("s"), detail: text("d") }
    }

    fn sent(status: &Status) -> Vec<Diagnostic> {
        let details = tonic_types::Status::decode(status.details()).unwrap().details;
        let diagnostics = details.iter().filter(|any| any.type_url == DIAGNOSTIC_TYPE_URL);
        diagnostics.map(|any| Diagnostic::decode(any.value.as_slice()).unwrap()).collect()
    }

    #[test]
    fn faults_travel_with_explanation_and_severity_beside_the_details_that_every_client_knows() {
        let error = || Error { violations: vec![diagnostic(Severity::Error, 9)], ..Error::invalid("no") };
        let one = status(error());
        assert_eq!(sent(&one), error().violations);
        assert_eq!(one.get_details_bad_request().unwrap().field_violations.len(), 1);
        let mut both = error();
        both.violations.insert(0, diagnostic(Severity::Warning, 9));
        let shown = status(both.clone());
        assert_eq!(sent(&shown), both.violations);
        assert_eq!(
            shown.get_details_bad_request().unwrap().field_violations.len(),
            1,
            "warnings are left out of BadRequest"
        );
        let waiting = status(Error { retry_after: Some(std::time::Duration::from_secs(1)), ..error() });
        assert!(waiting.get_details_retry_info().is_some());
        assert_eq!(waiting.metadata().get(PUSHBACK_KEY).unwrap(), "1000");
        assert!(one.metadata().is_empty());
        assert_eq!(sent(&waiting).len(), 1);
    }

    #[test]
    fn details_of_any_size_fit_into_the_trailers_of_clients() {
        for (count, bytes) in [(1, 100_000), (10, 100_000), (1_000, 300), (1_000, 30), (3, 200)] {
            let violations = vec![diagnostic(Severity::Error, bytes); count];
            let shown = status(Error { violations, ..Error::invalid("no") });
            let size = shown.details().len();
            assert!(size <= 6 << 10, "{count} of {bytes}: {size}");
            let found = sent(&shown);
            assert!(!found.is_empty() && found.len() <= MAX_VIOLATIONS);
            assert_eq!(found.len(), shown.get_details_bad_request().unwrap().field_violations.len());
        }
    }
}
