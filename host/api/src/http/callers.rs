//! Recognises the caller of each request, and checks the requirement of its path, in front of every route except
//! `/healthz` and `/readyz`, which reveal nothing.

use std::sync::Arc;

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE},
    middleware::Next,
    response::Response,
};
use mortise_resource::Error;
use mortise_service::{Origin, Remote, Surface};

use super::{Shared, accept::Form, body, error::HttpError, query::Query, rpc};
use crate::{
    authenticate::{Authenticated, Peer, REQUEST_ID_HEADER, Requirement, origin, unknown_caller},
    peer::PeerCertificate,
    places::Usage,
};

/// The middleware. Every request behind it has an [`Authenticated`].
pub(super) async fn guard(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if matches!(path, "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let query = Query::from_uri(request.uri());
    let (headers, extensions) = (request.headers(), request.extensions());
    let peer = Peer { certificate: extensions.get::<PeerCertificate>(), local: None };
    let remote = extensions.get::<Remote>().copied().unwrap_or(Remote::Unknown);
    let origin = origin(Surface::Http, remote, headers);
    let known = session(&shared, &request).and_then(|session| {
        let token = query.token().or(session.as_deref());
        Authenticated::of(shared.service.access(), token, headers, peer, origin.clone())
    });
    let by = known.as_ref().map_or_else(|_| unknown_caller(), |by| by.authorizer.clone());
    let path = path.to_owned();
    // The service records requests below `/api/` itself, once their caller is known, and the layer of gRPC those of RPCs.
    let rpc = rpc::recorded(&shared.service.types(), request.method(), &path).filter(|_| shared.options.api);
    let has_records = rpc.is_some() || path.starts_with("/api/");
    let allowed = known.and_then(|by| by.check(Requirement::for_http(&path)).map(|()| by));
    let allowed = match (has_records, allowed) {
        (true, Ok(by)) => Ok(by),
        (_, allowed) => {
            let method = rpc.map_or_else(|| format!("{} {path}", request.method()), str::to_owned).into();
            match shared.service.begin_call(&by, Some(&origin), method, false).await {
                Ok(call) => call.end(allowed).await,
                Err(error) => Err(error),
            }
        }
    };
    match allowed {
        Ok(by) => {
            if by.authorizer.is_authenticated()
                && let Some(connection) = request.extensions().get::<Arc<Usage>>()
            {
                connection.note_known_caller();
            }
            request.extensions_mut().insert(by);
            let mut response = next.run(request).await;
            add_request_id(&mut response, &origin);
            response
        }
        Err(error) => {
            let form = Form::at_path(&path, request.headers());
            body::drain(request.into_body(), shared.options.request_timeout).await;
            let mut response = HttpError::from(error).into_response(form, &path);
            if response.status() == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            add_request_id(&mut response, &origin);
            response
        }
    }
}

/// Returns the token of the page's session, for requests that have no other credentials.
#[cfg(feature = "ui")]
fn session(shared: &Shared, request: &Request) -> Result<Option<Arc<str>>, Error> {
    let path = request.uri().path();
    let is_for_strangers = path == "/" || path == "/ui" || path.starts_with("/ui/") || path == "/v1/session";
    let has_token =
        crate::authenticate::has_token(request.headers()) || Query::from_uri(request.uri()).token().is_some();
    match is_for_strangers || has_token || shared.service.access().is_none() {
        true => Ok(None),
        false => shared.sessions.token(request.method(), request.headers()),
    }
}

#[cfg(not(feature = "ui"))]
fn session(_: &Shared, _: &Request) -> Result<Option<Arc<str>>, Error> {
    Ok(None)
}

/// Adds the request's number to a failed answer; records of the request have the same number.
fn add_request_id(response: &mut Response, origin: &Origin) {
    let failed = response.status().is_client_error() || response.status().is_server_error();
    if let (true, Ok(number)) = (failed, HeaderValue::from_str(origin.request())) {
        response.headers_mut().insert(&REQUEST_ID_HEADER, number);
    }
}
