//! `/v1/session`: signs the page in and out.

use axum::{
    extract::{Request, State},
    http::{
        Method, StatusCode,
        header::{ALLOW, SET_COOKIE},
    },
    response::{IntoResponse as _, Response},
};
use http_body_util::{BodyExt as _, Limited};
use mortise_resource::{Code, Error, authorizer::Authorizer as _};
use serde::Deserialize;
use serde_json::json;
use tokio::time::timeout;

use super::{
    super::{
        Shared,
        accept::Form,
        body,
        error::{ErrorKind, HttpError},
        json::{JSON, pretty},
    },
    sessions::is_of_page,
};

/// Largest body of a sign-in, bytes.
const MAX_BODY_BYTES: usize = 4 << 10;

/// Body of a sign-in.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SignIn {
    token: String,
}

/// GET tells who the session is, POST signs in, DELETE signs out.
pub(in crate::http) async fn session(State(shared): State<Shared>, request: Request) -> Response {
    let (form, path) = (Form::of_ours(request.headers()), request.uri().path().to_owned());
    let answered = match *request.method() {
        Method::GET | Method::HEAD => show(&shared, &request),
        Method::POST => sign_in(&shared, request).await,
        Method::DELETE => sign_out(&shared, request).await,
        _ => {
            body::drain(request.into_body(), shared.options.request_timeout).await;
            return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, "GET,HEAD,POST,DELETE")]).into_response();
        }
    };
    answered.unwrap_or_else(|fault| fault.into_response(form, &path))
}

fn show(shared: &Shared, request: &Request) -> Result<Response, HttpError> {
    let Some(access) = shared.service.access() else { return Ok(shown("", false)) };
    match shared.sessions.token(&Method::GET, request.headers())? {
        None => Ok(shown("", false)),
        Some(token) => {
            let identity = access.identity_for_secret(&token)?;
            Ok(shown(identity.caller(), true))
        }
    }
}

fn shown(accessor: &str, is_signed_in: bool) -> Response {
    ([JSON], pretty(&json!({ "accessor_id": accessor, "signed_in": is_signed_in }))).into_response()
}

async fn sign_in(shared: &Shared, request: Request) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    let within = shared.options.request_timeout;
    if !is_of_page(&parts.headers) {
        body::drain(body, within).await;
        return Err(not_of_page());
    }
    let read = timeout(within, Limited::new(body, MAX_BODY_BYTES).collect()).await;
    let read = read.map_err(|_| HttpError::new(ErrorKind::TooSlow, "the body did not arrive in time"))?;
    let too_large = |_| HttpError::new(ErrorKind::TooLarge, format!("the body has more than {MAX_BODY_BYTES} bytes"));
    let read = read.map_err(too_large)?.to_bytes();
    let wrong = |_| HttpError::new(ErrorKind::Body, "the body is not {\"token\": \"…\"}");
    let SignIn { token } = serde_json::from_slice(&read).map_err(wrong)?;
    let Some(access) = shared.service.access() else { return Ok(StatusCode::NO_CONTENT.into_response()) };
    if token.is_empty() {
        return Err(Error::new(Code::Unauthenticated, "the token is empty; give the secret of a token").into());
    }
    access.identity_for_secret(&token)?;
    Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, shared.sessions.begin(&token)?)]).into_response())
}

async fn sign_out(shared: &Shared, request: Request) -> Result<Response, HttpError> {
    let (parts, body) = request.into_parts();
    body::drain(body, shared.options.request_timeout).await;
    match is_of_page(&parts.headers) {
        true => Ok((StatusCode::NO_CONTENT, [(SET_COOKIE, shared.sessions.end(&parts.headers))]).into_response()),
        false => Err(not_of_page()),
    }
}

fn not_of_page() -> HttpError {
    Error::denied("signing in and out needs the header X-Mortise-UI: 1; programs use a token instead").into()
}
