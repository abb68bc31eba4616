//! Dispatches requests under `/api` to operations.

use super::{
    Shared,
    accept::Form,
    body, collection, create,
    descriptors::host_pool,
    error::{ErrorKind, HttpError},
    item,
    media::{ACCEPT_PATCH, PATCH_FORMATS},
    nearest, patch,
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
use mortise_service::registry::Registry;

/// Handles every request under `/api`.
pub(super) async fn api(
    State(shared): State<Shared>,
    Extension(by): Extension<Authenticated>,
    request: Request,
) -> Response {
    let (parts, body) = request.into_parts();
    let path = parts.uri.path().to_owned();
    let (ours, consuls) = (Form::of_ours(&parts.headers), Form::of_consul(&parts.headers));
    let query = Query::from_parts(&parts);
    let within = shared.options.request_timeout;
    let registry = shared.service.types();
    let stranger = (!by.authorizer.has_permissions()).then(|| by.authorizer.clone());
    let Some(Route { kind, target }) = Route::find(&registry, &path) else {
        let fault = no_route(&path, Some(&registry));
        drop(registry);
        body::drain(body, within).await;
        if let Some(caller) = stranger {
            return HttpError::from(no_permissions(&*caller)).into_response(consuls, &path);
        }
        return fault.into_response(if query.watch() { ours } else { consuls }, &path);
    };
    let host = match host_pool(&registry) {
        Ok(host) => host,
        Err(fault) => return fault.into_response(consuls, &path),
    };
    drop(registry);
    let request = TypeRequest { shared, kind, host, query, by, parts, body };
    let reads = matches!(request.parts.method, Method::GET | Method::HEAD);
    // A watch by its path is the same as one by its parameter.
    let (by_path, target) = match target {
        Target::Watch(None) if reads => (true, Target::Collection),
        Target::Watch(Some(name)) if reads => (true, Target::Item(name)),
        target => (false, target),
    };
    let watches = reads && (by_path || request.query.watch());
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
        (Target::Collection, &Method::POST) => (create::create(request).await, ours),
        (Target::Item(name), &Method::PUT) => (item::write(request, name).await, consuls),
        (Target::Item(name), &Method::PATCH) => (patch::patch(request, name).await, ours),
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
        Target::Collection => "GET,HEAD,POST",
        Target::Watch(_) => "GET,HEAD",
        Target::Item(_) => "GET,HEAD,PUT,PATCH,DELETE",
        Target::Validate(_) => "POST",
    };
    let patches = matches!(target, Target::Item(_));
    let mut refused = (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, HeaderValue::from_static(allowed))]).into_response();
    refused.headers_mut().extend(patches.then(|| (ACCEPT_PATCH, HeaderValue::from_static(PATCH_FORMATS))));
    refused
}

/// Handles every other path.
pub(super) async fn not_found(
    State(shared): State<Shared>,
    by: Option<Extension<Authenticated>>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    let form = Form::at_path(&path, request.headers());
    body::drain(request.into_body(), shared.options.request_timeout).await;
    // A caller without permissions learns of no type.
    let knows = shared.options.api && by.is_some_and(|Extension(by)| by.authorizer.has_permissions());
    let registry = knows.then(|| shared.service.types());
    no_route(&path, registry.as_deref()).into_response(form, &path)
}

/// The error of a path without a route.
fn no_route(path: &str, registry: Option<&Registry>) -> HttpError {
    let why = if path.strip_prefix("/api/").is_some_and(|rest| rest.bytes().any(|b| b.is_ascii_uppercase())) {
        "; write group, version and kind in lower case"
    } else {
        ""
    };
    let near = registry.map(|registry| nearest::paths(registry, path)).unwrap_or_default();
    let near = match near.split_last() {
        None => String::new(),
        Some((only, [])) => format!("; did you mean {only}?"),
        Some((last, others)) => format!("; did you mean {} or {last}?", others.join(", ")),
    };
    let detail = format!("nothing is served at {path}{why}{near}");
    let next = if near.is_empty() { "; " } else { " " };
    HttpError::new(ErrorKind::NoRoute, format!("{detail}{next}GET /v1/types lists the types and their paths"))
}
