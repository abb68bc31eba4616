//! Errors of HTTP requests and their forms.
//!
//! Consul's form is text, `rpc error: code = NotFound desc = …`, with five status codes. The other forms have more
//! status codes, chosen by the reactions of HTTP clients; a problem object (RFC 9457) also has the faults by field, and
//! the plugin that caused the failure.

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
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::accept::Form;

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

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ErrorKind {
    /// An error of the service.
    Service(Code),
    /// The path does not exist.
    NoRoute,
    /// The body is not JSON of the right shape, or its data is not of the type.
    Body,
    /// The format of the body is not supported.
    MediaType,
    /// The body is too large.
    TooLarge,
    /// The body did not arrive in time.
    TooSlow,
    /// A parameter or a header is not understood.
    Head,
    /// A condition of the request does not hold.
    Precondition,
    /// Other requests use up the memory that this one needs.
    Busy,
    /// The host in the request is not one of this server's.
    UnknownHost,
    /// The request comes from a web page of another origin.
    CrossOrigin,
}

/// An error of an HTTP request.
#[derive(Debug)]
pub(super) struct HttpError {
    kind: ErrorKind,
    /// Text for Consul's clients; `detail` if empty.
    text: &'static str,
    detail: String,
    violations: Vec<Diagnostic>,
    plugin: Option<Box<PluginFault>>,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl From<Error> for HttpError {
    fn from(error: Error) -> Self {
        let Error { code, message, violations, plugin, retry_after, resource: _ } = error;
        let retry_after = retry_after.or_else(|| plugin.as_ref().and_then(|fault| fault.retry_after));
        let wait = retry_after.map(|after| (RETRY_AFTER, HeaderValue::from(after.as_millis().div_ceil(1000) as u64)));
        let headers = wait.into_iter().collect();
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
        let violation = Diagnostic { severity: Severity::Error.into(), path, summary, detail: String::new() };
        Self { text, violations: vec![violation], ..Self::new(ErrorKind::Body, detail) }
    }

    /// Makes the error of a malformed part of a body: Consul's text, and every finding.
    pub(super) fn diagnostics(text: &'static str, found: mortise_text::Diagnostics) -> Self {
        let violations = found.diagnostics.into_iter().map(|diagnostic| Diagnostic {
            severity: Severity::Error.into(),
            path: diagnostic.path,
            summary: diagnostic.message,
            detail: diagnostic.remedy.unwrap_or_default(),
        });
        let violations: Vec<_> = violations.collect();
        let first = violations
            .first()
            .map(|violation| format!(": {}: {}", violation.path, violation.summary))
            .unwrap_or_default();
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
            Form::Consul if self.is_rate_limited() => StatusCode::TOO_MANY_REQUESTS,
            Form::Consul => self.kind.consul_status(),
            Form::Text | Form::Problem => self.kind.status(),
        };
        let (media, body) = match form {
            Form::Problem => ("application/problem+json", self.problem(path).to_string()),
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
        let (name, title) = self.kind.name();
        let mut problem = Map::from_iter([
            ("type".to_owned(), json!(format!("{TYPE_PREFIX}{name}"))),
            ("title".to_owned(), json!(title)),
            ("status".to_owned(), json!(self.kind.status().as_u16())),
            ("detail".to_owned(), json!(truncate(&self.detail, MAX_TEXT_BYTES))),
            ("instance".to_owned(), json!(utf8_percent_encode(path, &PATH_ESCAPES).to_string())),
        ]);
        if !self.violations.is_empty() {
            let violations = self.violations.iter().take(MAX_VIOLATIONS).map(diagnostic).collect::<Vec<_>>();
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

impl ErrorKind {
    fn consul_status(self) -> StatusCode {
        match self {
            Self::Service(
                Code::InvalidArgument
                | Code::NotFound
                | Code::PermissionDenied
                | Code::Unauthenticated
                | Code::Aborted
                | Code::Internal,
            ) => self.status(),
            Self::Service(_) => StatusCode::INTERNAL_SERVER_ERROR,
            _ => self.status(),
        }
    }

    fn status(self) -> StatusCode {
        match self {
            Self::Service(Code::InvalidArgument) | Self::Body | Self::Head => StatusCode::BAD_REQUEST,
            Self::Service(Code::PermissionDenied) | Self::UnknownHost | Self::CrossOrigin => StatusCode::FORBIDDEN,
            Self::Service(Code::NotFound) | Self::NoRoute => StatusCode::NOT_FOUND,
            Self::Service(Code::Aborted | Code::FailedPrecondition | Code::AlreadyExists) => StatusCode::CONFLICT,
            Self::Service(Code::ResourceExhausted) => StatusCode::TOO_MANY_REQUESTS,
            Self::Service(Code::Unimplemented) => StatusCode::NOT_IMPLEMENTED,
            Self::Service(Code::Internal) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Service(Code::Unavailable) | Self::Busy => StatusCode::SERVICE_UNAVAILABLE,
            Self::Service(Code::DeadlineExceeded) => StatusCode::GATEWAY_TIMEOUT,
            Self::Service(Code::Unauthenticated) => StatusCode::UNAUTHORIZED,
            Self::MediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            Self::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Self::TooSlow => StatusCode::REQUEST_TIMEOUT,
            Self::Precondition => StatusCode::PRECONDITION_FAILED,
        }
    }

    /// The name in a problem's `type`, and the title.
    fn name(self) -> (&'static str, &'static str) {
        match self {
            Self::Service(Code::InvalidArgument) | Self::Head => ("invalid-argument", "The request is invalid"),
            Self::Service(Code::PermissionDenied) => ("permission-denied", "The caller lacks permission"),
            Self::Service(Code::NotFound) => ("not-found", "The requested object does not exist"),
            Self::Service(Code::AlreadyExists) => ("already-exists", "The object exists already"),
            Self::Service(Code::Aborted) => ("aborted", "A concurrent change came first; read again and retry"),
            Self::Service(Code::FailedPrecondition) => {
                ("failed-precondition", "The server is not in a state that allows this")
            }
            Self::Service(Code::ResourceExhausted) => ("resource-exhausted", "A limit was reached"),
            Self::Service(Code::Unimplemented) => ("unimplemented", "The server does not support this"),
            Self::Service(Code::Internal) => ("internal", "An internal error"),
            Self::Service(Code::Unavailable) | Self::Busy => ("unavailable", "Not available now; try again later"),
            Self::Service(Code::DeadlineExceeded) => ("deadline-exceeded", "A deadline passed"),
            Self::Service(Code::Unauthenticated) => ("unauthenticated", "The token is unknown"),
            Self::NoRoute => ("no-route", "Nothing is served at the path"),
            Self::Body => ("malformed-body", "The body is malformed"),
            Self::MediaType => ("unsupported-media-type", "The format of the body is not supported"),
            Self::TooLarge => ("body-too-large", "The body is too large"),
            Self::TooSlow => ("request-timeout", "The body did not arrive in time"),
            Self::Precondition => ("precondition-failed", "A condition of the request does not hold"),
            Self::UnknownHost => ("unknown-host", "The host is not a name of this server"),
            Self::CrossOrigin => ("cross-origin", "Web pages of other origins may not use this API"),
        }
    }
}

pub(super) use crate::call::truncate;
