//! Parts that calls on both transports share: the caller, the span, and the containment of panics.

use std::panic::AssertUnwindSafe;

use futures::{FutureExt as _, Stream, StreamExt as _, TryStreamExt as _};
use http::{HeaderMap, HeaderName};
use mortise_resource::{Error, pb, types::gvk};
use mortise_service::{AT_LEAST_HEADER, Caller, Consistency, Source};
use tracing::{Instrument as _, Span};

use crate::authenticate::Authenticated;

/// The caller of an authenticated request.
pub(crate) fn caller(by: &Authenticated, strong: bool, source: Source) -> Caller {
    let consistency = if strong { Consistency::Consistent } else { Consistency::Eventual };
    Caller::new(by.authorizer.clone(), consistency).with_source(source).from(Some(by.origin.clone()))
}

/// The version that an answer must not be older than, as the client wrote it. A value that is not text is refused as a
/// version.
pub(crate) fn at_least(headers: &HeaderMap) -> Option<&str> {
    static NAME: HeaderName = HeaderName::from_static(AT_LEAST_HEADER);
    headers.get(&NAME).map(|value| value.to_str().unwrap_or("?"))
}

/// The span of a call about a resource. While disabled, as by default, it costs one load and reads no field.
pub(crate) fn span(method: &'static str, id: Option<&pb::Id>) -> Span {
    let kind = || id.and_then(|id| id.r#type.as_ref()).map(gvk);
    tracing::debug_span!(
        target: "mortise::span", "rpc", method, r#type = kind(), name = id.map(|id| id.name.as_str())
    )
}

/// The span of a call about a type.
pub(crate) fn type_span(method: &'static str, kind: Option<&pb::Type>) -> Span {
    tracing::debug_span!(target: "mortise::span", "rpc", method, r#type = kind.map(gvk))
}

/// The span of any other call.
pub(crate) fn call_span(method: &'static str) -> Span {
    tracing::debug_span!(target: "mortise::span", "rpc", method)
}

/// Runs a call. A panic, which is a defect of the server, must not end the connection. Calls of the resource API take
/// thousands of bytes, so they come in a box: otherwise every layer on the way here would hold them twice.
///
/// # Errors
/// Those of the call; `Internal` for a panic.
pub(crate) async fn run_guarded<T>(span: Span, call: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    AssertUnwindSafe(call.instrument(span)).catch_unwind().await.unwrap_or_else(|_| Err(panicked()))
}

/// Runs a stream. A panic, which is a defect of the server, ends it with an error. Unlike [`run_guarded`] for each
/// item, this moves no future.
pub(crate) fn guard_stream<T>(items: impl Stream<Item = T>) -> impl Stream<Item = Result<T, Error>> {
    AssertUnwindSafe(items).catch_unwind().map_err(|_| panicked())
}

fn panicked() -> Error {
    Error::internal("grpc: panic serving request")
}

/// The longest prefix of a text within `max` bytes.
pub(crate) fn truncate(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    let end = (0..=max).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_at_a_character() {
        let cut = truncate(&"é".repeat(2_000), 101);
        assert_eq!(cut.chars().count(), 51);
        assert!(cut.ends_with('…'));
    }
}
