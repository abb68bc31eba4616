//! Finishes every answer: OPTIONS, headers for caches and browsers, and the count of requests.

use axum::{
    extract::Request,
    http::{
        HeaderValue, Method, StatusCode,
        header::{ALLOW, CACHE_CONTROL, X_CONTENT_TYPE_OPTIONS},
    },
    middleware::Next,
    response::{IntoResponse as _, Response},
};

/// The middleware around every route.
pub(super) async fn finish(request: Request, next: Next) -> Response {
    let route = route(request.uri().path());
    let options = request.method() == Method::OPTIONS;
    let server_wide = options && request.uri().path() == "*";
    let mut response = if server_wide {
        (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET,HEAD,PUT,DELETE,POST")]).into_response()
    } else {
        next.run(request).await
    };
    if response.status() == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = response.headers().get(ALLOW).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let allowed = format!("{},OPTIONS", allowed).replace(',', ", ");
        if options {
            response = StatusCode::NO_CONTENT.into_response();
        }
        if let Ok(value) = HeaderValue::try_from(allowed) {
            response.headers_mut().insert(ALLOW, value);
        }
    }
    let headers = response.headers_mut();
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    let code = response.status().as_u16().to_string();
    metrics::counter!("mortise_http_requests_total", "route" => route, "code" => code).increment(1);
    response
}

/// The metric label of a path: one of a fixed few.
fn route(path: &str) -> &'static str {
    match path {
        "/healthz" => "/healthz",
        "/readyz" => "/readyz",
        "/metrics" => "/metrics",
        "/v1/openapi.json" => "/v1/openapi.json",
        _ if path == "/v1/types" || path.starts_with("/v1/types/") => "/v1/types",
        _ if path.starts_with("/api/") => "/api",
        _ => "(none)",
    }
}
