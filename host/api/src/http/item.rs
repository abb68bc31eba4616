//! A single resource: GET reads, PUT creates or replaces, DELETE deletes.

use axum::{
    http::{HeaderValue, StatusCode, header::WARNING},
    response::{IntoResponse as _, Response},
};
use mortise_resource::{Diagnostic, Error, authorizer::no_permissions, pb};
use mortise_service::Written;

use super::{
    conditions::{Change, Conditions, Freshness, MAX_ATTEMPTS, Requirement, entity_tag},
    error::HttpError,
    json::JSON,
    request::TypeRequest,
};
use crate::call::{run_guarded, span, truncate};

/// Most warnings in an answer, and most bytes of each: clients have small limits for headers.
const MAX_WARNINGS: usize = 10;
const MAX_WARNING_BYTES: usize = 256;

/// GET: reads the resource.
pub(super) async fn read(request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let conditions = Conditions::read(&request.parts.headers)?;
    let caller = request.caller();
    let id = request.id(name);
    let span = span("Read", Some(&id));
    let read =
        run_guarded(span, Box::pin(request.shared.service.read(&caller, pb::ReadRequest { id: Some(id) }))).await?;
    let answer = match conditions.of_read(read.version())? {
        Freshness::Known => StatusCode::NOT_MODIFIED.into_response(),
        Freshness::New => {
            let printed = request.printer().pretty(&read.decode().map_err(Error::from)?);
            ([JSON], printed).into_response()
        }
    };
    Ok(with_tag(answer, read.version()))
}

/// PUT: creates or replaces the resource.
pub(super) async fn write(mut request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let mut received = request.resource(name).await?;
    let version = request.query.version_of_change()?;
    let conditions = Conditions::read(&request.parts.headers)?;
    let caller = request.caller();
    let service = &request.shared.service;
    let id = received.id.clone().unwrap_or_default();
    for _ in 0..MAX_ATTEMPTS {
        // A copy is needed only for another attempt.
        let mut resource = match conditions.needs_read(Change::Write) {
            true => received.clone(),
            false => std::mem::take(&mut received),
        };
        let span = span("Write", Some(&id));
        let requirement = conditions.of_change(Change::Write, service, &caller, &id, &version).await?;
        let written = match requirement {
            Requirement::Absence => {
                let rpc = pb::WriteRequest { resource: Some(resource) };
                run_guarded(span, Box::pin(service.write_new(&caller, rpc))).await
            }
            Requirement::Nothing | Requirement::Version(_) => {
                if let Requirement::Version(version) = requirement {
                    resource.version = version;
                }
                let rpc = pb::WriteRequest { resource: Some(resource) };
                run_guarded(span, Box::pin(service.write(&caller, rpc))).await
            }
        };
        match written.map_err(HttpError::from) {
            Err(error) => conditions.check_failure(Change::Write, error)?,
            Ok(written) => {
                return answer_written(&request, &written);
            }
        }
    }
    Err(conditions.unmet())
}

/// The answer to a change: the resource as stored.
pub(super) fn answer_written(request: &TypeRequest, written: &Written) -> Result<Response, HttpError> {
    let printed = request.printer().pretty(&written.resource.decode().map_err(Error::from)?);
    let answer = with_tag(([JSON], printed).into_response(), written.resource.version());
    Ok(with_warnings(answer, &written.warnings))
}

fn with_tag(mut response: Response, version: &str) -> Response {
    response.headers_mut().extend(entity_tag(version));
    response
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
    let version = request.query.version_of_change()?;
    let conditions = Conditions::read(&request.parts.headers)?;
    let service = &request.shared.service;
    for _ in 0..MAX_ATTEMPTS {
        let version = match conditions.of_change(Change::Deletion, service, &caller, &id, &version).await? {
            Requirement::Version(version) => version,
            Requirement::Nothing => String::new(),
            Requirement::Absence => return Ok(StatusCode::NO_CONTENT.into_response()),
        };
        let span = span("Delete", Some(&id));
        let rpc = pb::DeleteRequest { id: Some(id.clone()), version };
        match run_guarded(span, Box::pin(service.delete_stored(&caller, rpc))).await.map_err(HttpError::from) {
            Err(error) => conditions.check_failure(Change::Deletion, error)?,
            // Nothing was there, for every type, whether it exists or not.
            Ok(None) if !caller.authorizer.has_permissions() => return Err(no_permissions(&*caller.authorizer).into()),
            Ok(None) if conditions.requires_presence() => return Err(conditions.unmet()),
            Ok(deleted) => {
                let warnings = deleted.map(|deleted| deleted.warnings).unwrap_or_default();
                return Ok(with_warnings(StatusCode::NO_CONTENT.into_response(), &warnings));
            }
        }
    }
    Err(conditions.unmet())
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
