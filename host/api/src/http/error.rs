//! Errors of HTTP requests and their forms.
//!
//! Consul's text is `rpc error: code = NotFound desc = …`. A problem object (RFC 9457) has the same code and
//! description, and besides the faults by field, with their place in the body, and the plugin that caused the failure.

use axum::{
    body::Body,
    http::{
        HeaderName, HeaderValue, StatusCode,
        header::{CONTENT_TYPE, RETRY_AFTER},
    },
    response::{IntoResponse as _, Response},
};
use mortise_resource::{
    Code, Diagnostic, Error, Severity,
    authorizer::{Authorizer, no_permissions},
    error::PluginFault,
};
use mortise_text::Position;
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::accept::Form;
pub(super) use super::error_kind::ErrorKind;

/// Most bytes of an error's text; plugins may write more than is useful.
const MAX_TEXT_BYTES: usize = 16_384;

/// Most faults by field, and the longest text of one.
const MAX_VIOLATIONS: usize = 100;
const MAX_VIOLATION: usize = 1_024;

/// Characters that a request's path may contain, but a URI reference may not (RFC 3986).
const PATH_ESCAPES: AsciiSet = CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'<')
    .add(b'>')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// The prefix of the `type` of a problem.
const TYPE_PREFIX: &str = "urn:mortise:problem:";

/// An error of an HTTP request.
#[derive(Debug)]
pub(super) struct HttpError {
    kind: ErrorKind,
    /// Text for Consul's clients; `detail` if empty.
    text: &'static str,
    detail: String,
    violations: Vec<Violation>,
    plugin: Option<Box<PluginFault>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

/// A fault of a field.
#[derive(Debug)]
struct Violation {
    fault: Diagnostic,
    /// The place in the body.
    place: Option<Position>,
}

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        let Error { code, message, violations, plugin, retry_after, resource: _ } = error;
        let retry_after = retry_after.or_else(|| plugin.as_ref().and_then(|fault| fault.retry_after));
        let wait = retry_after.map(|after| (RETRY_AFTER, HeaderValue::from(after.as_millis().div_ceil(1000) as u64)));
        let headers = wait.into_iter().collect();
        let violations = violations.into_iter().map(|fault| Violation { fault, place: None }).collect();
        Self { kind: ErrorKind::Service(code), text: "", detail: message, violations, plugin, headers }
    }
}

impl HttpError {
    /// Makes an error from a sentence.
    pub(super) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self { kind, text: "", detail: detail.into(), violations: Vec::new(), plugin: None, headers: Vec::new() }
    }

    /// Makes the error of a malformed body: Consul's text, the fault, and its path.
    pub(super) fn body(text: &'static str, path: String, summary: String) -> Self {
        let detail = match path.as_str() {
            "" => format!("{text}: {summary}"),
            path => format!("{text}: {path}: {summary}"),
        };
        Self { text, ..Self::new(ErrorKind::Body, detail) }.with_violation(path, summary)
    }

    /// Sets the line and the column of the last fault, counted from 1.
    pub(super) fn with_place(mut self, line: usize, column: usize) -> Self {
        if let Some(violation) = self.violations.last_mut() {
            violation.place = Some(Position { line, column });
        }
        self
    }

    /// Adds a fault of a field.
    pub(super) fn with_violation(mut self, path: String, summary: String) -> Self {
        let fault = Diagnostic { severity: Severity::Error.into(), path, summary, detail: String::new() };
        self.violations.push(Violation { fault, place: None });
        self
    }

    /// Removes the places of the faults, for a text that the client did not send.
    pub(super) fn without_places(mut self) -> Self {
        self.violations.iter_mut().for_each(|violation| violation.place = None);
        self
    }

    /// The error as the service records it.
    pub(super) fn to_service_error(&self) -> Error {
        let code = match self.kind {
            ErrorKind::Service(code) => code,
            ErrorKind::Precondition | ErrorKind::Patch => Code::FailedPrecondition,
            _ => Code::InvalidArgument,
        };
        Error::new(code, self.detail.clone())
    }

    /// Makes the error of a malformed part of a body: Consul's text, and every finding. `start` is the place of the
    /// part in the body.
    pub(super) fn diagnostics(text: &'static str, found: mortise_text::Diagnostics, start: Position) -> Self {
        let violations = found.diagnostics.into_iter().map(|diagnostic| {
            let Position { line, column } = diagnostic.place.position;
            let column = if line > 1 { column } else { start.column + column - 1 };
            let fault = Diagnostic {
                severity: Severity::Error.into(),
                path: diagnostic.path,
                summary: diagnostic.message,
                detail: diagnostic.remedy.unwrap_or_default(),
            };
            Violation { fault, place: Some(Position { line: start.line + line - 1, column }) }
        });
        let violations: Vec<_> = violations.collect();
        let first = violations.first().map(|violation| match violation.fault.path.as_str() {
            "" => format!(": {}", violation.fault.summary),
            path => format!(": {path}: {}", violation.fault.summary),
        });
        let first = first.unwrap_or_default();
        Self { text, violations, ..Self::new(ErrorKind::Body, format!("{text}{first}")) }
    }

    /// Turns an error by which a caller without permissions could tell existing types from others into the refusal that
    /// it gets for both.
    pub(super) fn for_stranger(self, caller: &dyn Authorizer) -> Self {
        match self.kind {
            // The service has done so with its other errors.
            ErrorKind::Service(code) if code != Code::NotFound => self,
            _ => no_permissions(caller).into(),
        }
    }

    /// Returns whether another change came first.
    pub(super) fn is_conflict(&self) -> bool {
        self.kind == ErrorKind::Service(Code::Aborted)
    }

    /// Adds a header.
    pub(super) fn with_header(mut self, name: HeaderName, value: &'static str) -> Self {
        self.headers.push((name, HeaderValue::from_static(value)));
        self
    }

    /// The answer to a request for `path`.
    pub(super) fn into_response(self, form: Form, path: &str) -> Response {
        let status = match form {
            // Consul's HTTP server answers 429 to its rate limits, too.
            Form::Consul | Form::ConsulProblem if self.is_rate_limited() => StatusCode::TOO_MANY_REQUESTS,
            Form::Consul | Form::ConsulProblem => self.kind.consul_status(),
            Form::Text | Form::Problem => self.kind.status(),
        };
        let (media, body) = match form {
            Form::Problem | Form::ConsulProblem => {
                ("application/problem+json", self.problem_with(status, path).to_string())
            }
            Form::Consul | Form::Text => ("text/plain; charset=utf-8", self.text()),
        };
        let mut response = (status, Body::from(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(media));
        headers.extend(self.headers);
        response
    }

    /// Whether the error is a temporary refusal, by a limit of rates.
    fn is_rate_limited(&self) -> bool {
        let waits = self.headers.iter().any(|(name, _)| name == RETRY_AFTER);
        self.kind == ErrorKind::Service(Code::ResourceExhausted) && self.plugin.is_none() && waits
    }

    fn text(&self) -> String {
        match self.kind {
            ErrorKind::Service(code) => {
                format!("rpc error: code = {code:?} desc = {}", truncate(&self.detail, MAX_TEXT_BYTES))
            }
            ErrorKind::Body => self.text.to_owned(),
            _ => truncate(&self.detail, MAX_TEXT_BYTES),
        }
    }

    /// Builds the problem object.
    pub(super) fn problem(&self, path: &str) -> Value {
        self.problem_with(self.kind.status(), path)
    }

    fn problem_with(&self, status: StatusCode, path: &str) -> Value {
        let (name, title) = self.kind.name();
        let mut problem = Map::from_iter([
            ("type".to_owned(), json!(format!("{TYPE_PREFIX}{name}"))),
            ("title".to_owned(), json!(title)),
            ("status".to_owned(), json!(status.as_u16())),
            ("detail".to_owned(), json!(truncate(&self.detail, MAX_TEXT_BYTES))),
            ("instance".to_owned(), json!(utf8_percent_encode(path, &PATH_ESCAPES).to_string())),
        ]);
        if let ErrorKind::Service(code) = self.kind {
            problem.insert("code".to_owned(), json!(format!("{code:?}")));
        }
        if !self.violations.is_empty() {
            let violations = self.violations.iter().take(MAX_VIOLATIONS).map(violation).collect::<Vec<_>>();
            problem.insert("violations".to_owned(), Value::Array(violations));
        }
        if let Some(fault) = &self.plugin {
            let mut blamed = json!({
                "plugin": fault.plugin, "version": fault.version, "hook": fault.hook, "kind": fault.kind,
            });
            if let (Some(after), Some(blamed)) = (fault.retry_after, blamed.as_object_mut()) {
                blamed.insert("retry_after_ms".to_owned(), json!(after.as_millis() as u64));
            }
            problem.insert("plugin".to_owned(), blamed);
        }
        Value::Object(problem)
    }
}

/// A fault in JSON, with its place in the body if that is known.
fn violation(violation: &Violation) -> Value {
    let mut object = diagnostic(&violation.fault);
    if let (Some(Position { line, column }), Some(object)) = (violation.place, object.as_object_mut()) {
        object.insert("line".to_owned(), json!(line));
        object.insert("column".to_owned(), json!(column));
    }
    object
}

/// A diagnostic in JSON, for a problem or a list of warnings.
pub(super) fn diagnostic(diagnostic: &Diagnostic) -> Value {
    let mut object = json!({ "path": truncate(&diagnostic.path, MAX_VIOLATION), "summary": truncate(&diagnostic.summary, MAX_VIOLATION) });
    if let Some(object) = object.as_object_mut() {
        if !diagnostic.detail.is_empty() {
            object.insert("detail".to_owned(), json!(truncate(&diagnostic.detail, MAX_VIOLATION)));
        }
        if diagnostic.severity() == Severity::Warning {
            object.insert("severity".to_owned(), json!("warning"));
        }
    }
    object
}

pub(super) use crate::call::truncate;
