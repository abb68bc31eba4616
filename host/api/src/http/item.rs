//! A single resource: GET reads, PUT creates or replaces, DELETE deletes.

use axum::{
    http::{HeaderValue, StatusCode, header::WARNING},
    response::{IntoResponse as _, Response},
};
use mortise_resource::{Diagnostic, Error, authorizer::no_permissions, pb};

use super::{error::HttpError, json::JSON, request::TypeRequest};
use crate::call::{run_guarded, span, truncate};

/// Most warnings in an answer, and most bytes of each: clients have small limits for headers.
const MAX_WARNINGS: usize = 10;
const MAX_WARNING_BYTES: usize = 256;

/// GET: reads the resource.
pub(super) async fn read(request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let caller = request.caller();
    let id = request.id(name);
    let span = span("Read", Some(&id));
    let read =
        run_guarded(span, Box::pin(request.shared.service.read(&caller, pb::ReadRequest { id: Some(id) }))).await?;
    let printed = request.printer().pretty(&read.decode().map_err(Error::from)?);
    Ok(([JSON], printed).into_response())
}

/// PUT: creates or replaces the resource.
pub(super) async fn write(mut request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let mut resource = request.resource(name).await?;
    resource.version = request.query.version();
    let caller = request.caller();
    let span = span("Write", resource.id.as_ref());
    let rpc = pb::WriteRequest { resource: Some(resource) };
    let written = run_guarded(span, Box::pin(request.shared.service.write(&caller, rpc))).await?;
    let printed = request.printer().pretty(&written.resource.decode().map_err(Error::from)?);
    Ok(with_warnings(([JSON], printed).into_response(), &written.warnings))
}

fn with_warnings(mut response: Response, warnings: &[Diagnostic]) -> Response {
    for warning in warnings.iter().take(MAX_WARNINGS).filter_map(warning) {
        response.headers_mut().append(WARNING, warning);
    }
    response
}

/// DELETE: deletes the resource.
pub(super) async fn delete(request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let caller = request.caller();
    let id = request.id(name);
    let span = span("Delete", Some(&id));
    let rpc = pb::DeleteRequest { id: Some(id), version: request.query.version() };
    match run_guarded(span, Box::pin(request.shared.service.delete_stored(&caller, rpc))).await? {
        // Nothing was there, for every type, whether it exists or not.
        None if !caller.authorizer.has_permissions() => Err(no_permissions(&*caller.authorizer).into()),
        deleted => {
            let warnings = deleted.map(|deleted| deleted.warnings).unwrap_or_default();
            Ok(with_warnings(StatusCode::NO_CONTENT.into_response(), &warnings))
        }
    }
}

/// A warning of validation as a header with code 299, which clients of Kubernetes know. Characters that a header cannot
/// carry become question marks.
fn warning(diagnostic: &Diagnostic) -> Option<HeaderValue> {
    let text = if diagnostic.path.is_empty() {
        diagnostic.summary.clone()
    } else {
        format!("{}: {}", diagnostic.path, diagnostic.summary)
    };
    let safe = |c: char| if c == ' ' || c.is_ascii_graphic() { c } else { '?' };
    let quoted: String = truncate(&text, MAX_WARNING_BYTES)
        .replace('…', "...")
        .chars()
        .map(safe)
        .flat_map(|c| matches!(c, '"' | '\\').then_some('\\').into_iter().chain([c]))
        .collect();
    HeaderValue::try_from(format!("299 mortise \"{quoted}\"")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn warnings_fit_into_headers() {
        let header = |path: &str, summary: &str| {
            let diagnostic = Diagnostic { path: path.into(), summary: summary.into(), ..Diagnostic::default() };
            warning(&diagnostic).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(header("data.name", "is odd"), "299 mortise \"data.name: is odd\"");
        assert_eq!(header("", "a \"b\" \\ ü\r\nx: y"), "299 mortise \"a \\\"b\\\" \\\\ ???x: y\"");
        assert!(header("", &"é".repeat(1000)).len() < 300);
    }
}
