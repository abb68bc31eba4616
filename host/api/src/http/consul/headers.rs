//! Headers of the answers: the index, and the facts by which Consul's clients judge the freshness. There is one server,
//! which is the leader, and each answer is its own.

use axum::{
    body::Bytes,
    http::{HeaderMap, HeaderName, HeaderValue},
    response::{IntoResponse as _, Response},
};
use serde_json::Value;

use super::super::json::JSON;

const INDEX: HeaderName = HeaderName::from_static("x-consul-index");

/// Headers of every answer with an index.
const FRESH: [(HeaderName, HeaderValue); 3] = [
    (HeaderName::from_static("x-consul-knownleader"), HeaderValue::from_static("true")),
    (HeaderName::from_static("x-consul-lastcontact"), HeaderValue::from_static("0")),
    (HeaderName::from_static("x-consul-effective-consistency"), HeaderValue::from_static("leader")),
];

/// An answer with an index.
pub(super) fn indexed(text: Bytes, index: u64) -> Response {
    let mut response = ([JSON], text).into_response();
    let headers: &mut HeaderMap = response.headers_mut();
    headers.insert(INDEX, HeaderValue::from(index));
    headers.extend(FRESH);
    response
}

/// An answer without an index.
pub(super) fn plain(value: &Value) -> Response {
    ([JSON], value.to_string()).into_response()
}
