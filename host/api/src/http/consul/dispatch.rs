//! Dispatches requests on Consul's paths.

use std::time::Duration;

use axum::{
    Extension,
    body::Body,
    extract::{Request, State},
    http::{Method, StatusCode, header::ALLOW, request::Parts},
    response::{IntoResponse as _, Response},
};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::{
    super::{
        Shared,
        accept::Form,
        body, dispatch,
        error::{ErrorKind, HttpError},
        query::Query,
    },
    headers::{indexed, plain},
    parameters::Parameters,
    question::{Question, Subject},
    refused::refusal,
};
use crate::{
    authenticate::Authenticated,
    call::{call_span, run_guarded},
};

/// Methods of the read paths.
const READS: &str = "GET,HEAD";

/// Handles every path below `/v1/` that is not one of Mortise's own.
pub(in super::super) async fn consul(
    State(shared): State<Shared>,
    Extension(by): Extension<Authenticated>,
    request: Request,
) -> Response {
    let path = request.uri().path().to_owned();
    if !super::has_path(&path) {
        return dispatch::not_found(State(shared), Some(Extension(by)), request).await;
    }
    let (parts, body) = request.into_parts();
    let within: Duration = shared.options.request_timeout;
    body::drain(body, within).await;
    let decoded: Vec<String> = elements(&path);
    let elements: Vec<&str> = decoded.iter().map(String::as_str).collect();
    let fixed = fixed(&shared, &elements);
    let subject = Subject::of_path(&elements);
    if let ["catalog", "service" | "node" | "node-services"] | ["health", "service" | "checks" | "node" | "state"] =
        elements.as_slice()
    {
        let what = format!("Missing name: write {}/NAME", path.trim_end_matches('/'));
        return HttpError::new(ErrorKind::Head, what).into_response(Form::Text, &path);
    }
    if fixed.is_none() && subject.is_none() {
        return match refusal(&path) {
            Some(text) => HttpError::new(ErrorKind::Unsupported, text).into_response(Form::Text, &path),
            None => {
                let request = Request::from_parts(parts, Body::empty());
                dispatch::not_found(State(shared), Some(Extension(by)), request).await
            }
        };
    }
    if !matches!(parts.method, Method::GET | Method::HEAD) {
        return (StatusCode::METHOD_NOT_ALLOWED, [(ALLOW, READS)]).into_response();
    }
    let answered = match (fixed, subject) {
        (Some(value), _) => Parameters::read(&parts.uri, &shared.consul.facts.datacenter).map(|_| plain(&value)),
        (None, Some(subject)) => ask(&shared, &by, &parts, subject).await,
        // Handled above.
        (None, None) => Err(HttpError::new(ErrorKind::NoRoute, path.clone())),
    };
    answered.unwrap_or_else(|fault| fault.into_response(Form::Text, &path))
}

/// The elements of a path below `/v1/`. Bytes that are not UTF-8 become characters that no name has.
fn elements(path: &str) -> Vec<String> {
    let below = path.strip_prefix("/v1/").unwrap_or_default().trim_end_matches('/');
    below.split('/').map(|element| percent_decode_str(element).decode_utf8_lossy().into_owned()).collect()
}

/// The answer of a path that has one answer.
fn fixed(shared: &Shared, elements: &[&str]) -> Option<Value> {
    let facts = &shared.consul.facts;
    Some(match elements {
        ["status", "leader"] => facts.leader(),
        ["status", "peers"] => facts.peers(),
        ["agent", "self"] => facts.own(),
        ["catalog", "datacenters"] => facts.datacenters(),
        _ => return None,
    })
}

/// Answers a question, at once or after its next change.
async fn ask(shared: &Shared, by: &Authenticated, parts: &Parts, subject: Subject) -> Result<Response, HttpError> {
    let consul = &shared.consul;
    let parameters = Parameters::read(&parts.uri, &consul.facts.datacenter)?;
    let caller = Query::from_parts(parts).caller(parts, by);
    let question = Question::new(subject, &parameters, &caller);
    consul.check_filter(&question).map_err(|fault| HttpError::new(ErrorKind::Head, fault.to_string()))?;
    let answering = async {
        let computed = consul.compute(&caller, &question).await?;
        // A client with an index from elsewhere learns of it at once.
        if parameters.index == 0 || parameters.index != computed.answer.index {
            return Ok(computed.answer);
        }
        let _place = consul.blocked.places.take(&caller)?;
        consul.next_answer(&caller, question, computed, parameters.wait_by_chance()).await
    };
    let answer = run_guarded(call_span("Consul"), Box::pin(answering)).await?;
    Ok(indexed(answer.text, answer.index))
}
