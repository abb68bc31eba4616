//! Recognises the caller of each request, and checks what its path asks for, before every route but `/healthz` and
//! `/readyz`, which say nothing.

use axum::{
    extract::{Request, State},
    http::{HeaderValue, StatusCode, header::WWW_AUTHENTICATE},
    middleware::Next,
    response::Response,
};

use super::{Shared, accept::Form, body, error::HttpError, query::Query};
use crate::{
    authenticate::{Authenticated, Peer, Requirement},
    peer::PeerCertificate,
};

/// The middleware. Behind it every request has an [`Authenticated`].
pub(super) async fn guard(State(shared): State<Shared>, mut request: Request, next: Next) -> Response {
    let path = request.uri().path();
    if matches!(path, "/healthz" | "/readyz") {
        return next.run(request).await;
    }
    let query = Query::of_uri(request.uri());
    let peer = Peer { certificate: request.extensions().get::<PeerCertificate>(), local: None };
    let known = Authenticated::of(shared.service.access(), query.token(), request.headers(), peer);
    let allowed = known.and_then(|by| by.check(Requirement::of_http(path)).map(|()| by));
    match allowed {
        Ok(by) => {
            request.extensions_mut().insert(by);
            next.run(request).await
        }
        Err(error) => {
            let path = path.to_owned();
            let form = match path.starts_with("/v1/") {
                true => Form::on_ours(request.headers()),
                false => Form::on_consuls_routes(request.headers()),
            };
            body::drain(request.into_body(), shared.options.request_timeout).await;
            let mut response = HttpError::from(error).into_response(form, &path);
            if response.status() == StatusCode::UNAUTHORIZED {
                response.headers_mut().insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
            }
            response
        }
    }
}
