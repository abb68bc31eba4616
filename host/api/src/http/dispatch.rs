//! Dispatches requests under `/api` to operations.

use super::{
    Shared,
    accept::Form,
    body, collection,
    descriptors::host_pool,
    error::{ErrorKind, HttpError},
    item,
    query::Query,
    request::TypeRequest,
    route::{Route, Target},
    search, validate, watch, watch_query,
};
use crate::authenticate::Authenticated;
use axum::{
    Extension,
    extract::{Request, State},
    http::{HeaderValue, Method, StatusCode, header::ALLOW},
    response::{IntoResponse as _, Response},
};
use mortise_resource::authorizer::no_permissions;

/// Handles every request under `/api`.
pub(super) async fn api(
    State(shared): State<Shared>,
    Extension(by): Extension<Authenticated>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let (ours, consuls) = (Form::problem_by_default(&parts.headers), Form::text_by_default(&parts.headers));
    let query = Query::from_parts(&parts);
    let within = shared.options.request_timeout;
    let registry = shared.service.types();
    let stranger = (!by.authorizer.has_permissions()).then(|| by.authorizer.clone());
    let Some(Route { kind, target }) = Route::find(&registry, &path) else {
        drop(registry);
        body::drain(body, within).await;
        if let Some(caller) = stranger {
            return HttpError::from(no_permissions(&*caller)).into_response(consuls, &path);
        }
        return no_route(&path).into_response(if query.watch() { ours } else { consuls }, &path);
    };
    let host = match host_pool(&registry) {
        Ok(host) => host,
        Err(fault) => return fault.into_response(consuls, &path),
    };
    drop(registry);
    let request = TypeRequest { shared, kind, host, query, by, parts, body };
    let reads = matches!(request.parts.method, Method::GET | Method::HEAD);
    let watches = reads && request.query.watch();
    let searches = request.query.is_search();
    if reads && let Err(fault) = request.query.check_read() {
        return match stranger {
            None => fault.into_response(if watches || searches { ours } else { consuls }, &path),
            Some(caller) => fault.for_stranger(&*caller).into_response(consuls, &path),
        };
    }
    let (answer, form) = match (target, &request.parts.method) {
        (Target::Collection, _) if watches && searches => (watch_query::collection(request).await, ours),
        (Target::Collection, _) if reads && searches => (search::search(request).await, ours),
        (Target::Collection, _) if watches => (watch::collection(request).await, ours),
        (Target::Item(name), _) if watches => (watch::item(request, name).await, ours),
        (Target::Collection, _) if reads => (collection::list(request).await, consuls),
        (Target::Item(name), _) if reads && request.query.has_projection() => {
            (search::read_part(request, name).await, ours)
        }
        (Target::Item(name), _) if reads => (item::read(request, name).await, consuls),
        (Target::Item(name), &Method::PUT) => (item::write(request, name).await, consuls),
        (Target::Item(name), &Method::DELETE) => (item::delete(request, name).await, consuls),
        (Target::Validate(name), &Method::POST) => (validate::validate(request, name).await, ours),
        (target, _) => {
            body::drain(request.body, within).await;
            match &stranger {
                None => return not_allowed(&target),
                Some(caller) => (Err(no_permissions(&**caller).into()), consuls),
            }
        }
    };
    answer.unwrap_or_else(|fault| match stranger {
        None => fault.into_response(form, &path),
        Some(caller) => fault.for_stranger(&*caller).into_response(consuls, &path),
    })
}

/// The answer to a method that the path does not support; `methods` turns it into the answer to OPTIONS.
fn not_allowed(target: &Target) -> Response {
    let allowed = match target {
        Target::Collection => "GET,HEAD",
        Target::Item(_) => "GET,HEAD,PUT,DELETE",
        Target::Validate(_) => "POST",
    };
    (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, HeaderValue::from_static(allowed))]).into_response()
}

/// Handles every other path.
pub(super) async fn not_found(request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let form = match path.starts_with("/v1/") {
        true => Form::problem_by_default(request.headers()),
        false => Form::text_by_default(request.headers()),
    };
    no_route(&path).into_response(form, &path)
}

fn no_route(path: &str) -> HttpError {
    let why = if path.strip_prefix("/api/").is_some_and(|rest| rest.bytes().any(|b| b.is_ascii_uppercase())) {
        "; write group, version and kind in lower case"
    } else {
        ""
    };
    HttpError::new(
        ErrorKind::NoRoute,
        format!("nothing is served at {path}{why}; GET /v1/types lists the types and their paths"),
    )
}
