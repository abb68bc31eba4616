//! Finishes every answer: OPTIONS, headers for caches and browsers, and the count of requests.

use std::time::Instant;

use axum::{
    extract::{Request, State},
    http::{
        HeaderValue, Method, StatusCode,
        header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS},
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};

use super::{
    accept::Form,
    consul,
    error::{ErrorKind, HttpError, truncate},
};
use crate::observability::requests::HttpCounts;

/// Most bytes of a method's name in an error.
const MAX_METHOD_BYTES: usize = 32;

/// The middleware around every route.
pub(super) async fn finish(State(counts): State<HttpCounts>, request: Request, next: Next) -> Response {
    let begun = Instant::now();
    let route = route(request.uri().path());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let form = Form::at_path(&path, request.headers());
    let options = method == Method::OPTIONS;
    let server_wide = options && path == "*";
    let mut response = if server_wide {
        (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET,HEAD,PUT,PATCH,DELETE,POST")]).into_response()
    } else {
        next.run(request).await
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = response.headers().get(ALLOW).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let allowed = format!("{},OPTIONS", allowed).replace(',', ", ");
        let mut headers = std::mem::take(response.headers_mut());
        response = match options {
            true => StatusCode::NO_CONTENT.into_response(),
            false => HttpError::new(ErrorKind::Method, refusal(&method, &path, &allowed)).into_response(form, &path),
        };
        // The other headers, such as those for pages of listed origins, belong to this answer, too.
        headers.remove(CONTENT_TYPE);
        headers.remove(CONTENT_LENGTH);
        response.headers_mut().extend(headers);
        if let Ok(value) = HeaderValue::try_from(allowed) {
            response.headers_mut().insert(ALLOW, value);
        }
    }
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    counts.answered(route, response.status().as_u16(), begun.elapsed());
    let code = response.status().as_u16().to_string();
    metrics::counter!("mortise_http_requests_total", "route" => route, "code" => code).increment(1);
    response
}

/// The text of a refused method: the methods of the path, and the next step.
fn refusal(method: &Method, path: &str, allowed: &str) -> String {
    let method = truncate(method.as_str(), MAX_METHOD_BYTES);
    let step = match method.as_str() {
        "PUT" | "PATCH" | "DELETE" if path.starts_with("/api/") && !allowed.contains("DELETE") => {
            "; a change names its resource: PUT, PATCH or DELETE /api/GROUP/VERSION/KIND/NAME"
        }
        "POST" if path.starts_with("/api/") => {
            "; PUT creates or replaces, and POST to the collection creates with a generated name"
        }
        _ => "",
    };
    format!("{path} does not have the method {method}; it has {allowed}{step}")
}

/// The metric label of a path: one of a fixed few.
fn route(path: &str) -> &'static str {
    match path {
        "/" => "/",
        "/healthz" => "/healthz",
        "/readyz" => "/readyz",
        "/metrics" => "/metrics",
        "/v1/openapi.json" => "/v1/openapi.json",
        "/v1/version" => "/v1/version",
        "/v1/session" => "/v1/session",
        _ if path == "/ui" || path.starts_with("/ui/") => "/ui",
        _ if path.starts_with("/v1/openapi/") => "/v1/openapi.json",
        _ if path == "/v1/types" || path.starts_with("/v1/types/") => "/v1/types",
        _ if path.starts_with("/api/") => "/api",
        _ if path == "/rpc" || path.starts_with("/rpc/") => "/rpc",
        _ if consul::has_path(path) => "(consul)",
        _ => "(none)",
    }
}
