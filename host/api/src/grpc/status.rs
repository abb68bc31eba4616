//! Errors in gRPC's form: code, message, and details for programs.
//!
//! Details travel in trailers, for which clients have small limits (often 8 KiB in all), so message and details are
//! cut.

use std::collections::HashMap;

use mortise_resource::{Code, Error};
use tonic::{Response, Status};
use tonic_types::{ErrorDetails, StatusExt as _};
use tracing::Span;

use crate::call::{run_guarded, truncate};

/// Longest message, bytes.
const MAX_MESSAGE_BYTES: usize = 2_048;

/// Most violations that travel as details, and the longest text of one.
const MAX_VIOLATIONS: usize = 10;
const MAX_VIOLATION_BYTES: usize = 256;

/// The `domain` of error details.
const DOMAIN: &str = "mortise";

/// Converts an error of the service to a gRPC status.
pub(crate) fn status(error: Error) -> Status {
    let code = code(error.code);
    let message = truncate(&error.message, MAX_MESSAGE_BYTES);
    if error.violations.is_empty() && error.plugin.is_none() && error.retry_after.is_none() && error.resource.is_none()
    {
        return Status::new(code, message);
    }
    let mut details = ErrorDetails::new();
    for violation in error.violations.iter().take(MAX_VIOLATIONS) {
        details.add_bad_request_violation(
            truncate(&violation.path, MAX_VIOLATION_BYTES),
            truncate(&violation.summary, MAX_VIOLATION_BYTES),
        );
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
        details.set_error_info("PLUGIN_FAULT", DOMAIN, metadata);
    }
    Status::with_error_details(code, message, details)
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
