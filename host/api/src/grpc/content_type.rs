//! Answers requests of the gRPC port that are not gRPC in HTTP's words, as the protocol prescribes: a method other than
//! POST with 405, another content type with 415. `application/grpc-web` is another protocol, and no codec but `proto`
//! is served.
//!
//! This keeps web pages away. With TLS a browser speaks HTTP/2 to the port, and a page may send requests to another
//! origin without a CORS preflight only with one of three content types; gRPC's is not among them. tonic itself would
//! decode a message of any content type.

use std::task::{Context, Poll};

use ::http::{
    HeaderMap, HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, CONTENT_TYPE},
};
use futures::future::{Either, Ready, ready};
use tonic::{body::Body, metadata::GRPC_CONTENT_TYPE};
use tower::{Layer, Service};

/// The answer to such a client.
pub(super) const NOT_GRPC_TEXT: &str = "this port speaks gRPC over HTTP/2 (POST, content type application/grpc); JSON over HTTP is on the port of http_addr\n";

/// Whether the content type of a request is gRPC's, with protobuf messages.
pub(crate) fn is_grpc(headers: &HeaderMap) -> bool {
    let Some(found) = headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes) else { return false };
    let essence = found.split(|byte| *byte == b';').next().unwrap_or_default().trim_ascii();
    let (known, subtype) = essence.split_at(essence.len().min(GRPC_CONTENT_TYPE.len()));
    known.eq_ignore_ascii_case(GRPC_CONTENT_TYPE.as_bytes()) && matches!(subtype, b"" | b"+proto")
}

/// Passes only gRPC requests.
#[derive(Clone, Copy)]
pub(crate) struct ContentTypeLayer;

impl<S> Layer<S> for ContentTypeLayer {
    type Service = ContentTypeService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ContentTypeService(inner)
    }
}

/// Passes only gRPC requests to a service.
#[derive(Clone)]
pub(crate) struct ContentTypeService<S>(S);

impl<S, B> Service<Request<B>> for ContentTypeService<S>
where
    S: Service<Request<B>, Response = Response<Body>>,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Either<S::Future, Ready<Result<Response<Body>, S::Error>>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let status = match (request.method(), is_grpc(request.headers())) {
            (&Method::POST, true) => return Either::Left(self.0.call(request)),
            (&Method::POST, false) => StatusCode::UNSUPPORTED_MEDIA_TYPE,
            _ => StatusCode::METHOD_NOT_ALLOWED,
        };
        let mut response = Response::new(Body::new(NOT_GRPC_TEXT.to_owned()));
        *response.status_mut() = status;
        if status == StatusCode::METHOD_NOT_ALLOWED {
            response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST"));
        }
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        Either::Right(ready(Ok(response)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_grpc_with_protobuf_messages_is_served() {
        let is = |value: &str| is_grpc(&HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_str(value).unwrap())]));
        for served in
            ["application/grpc", "application/grpc+proto", "Application/GRPC", "application/grpc; charset=utf-8"]
        {
            assert!(is(served), "{served}");
        }
        for other in [
            "application/grpc-web",
            "application/grpc-web+proto",
            "application/grpc-web-text",
            "application/grpc+json",
            "application/grpcx",
            "application/grp",
            "text/plain",
            "",
        ] {
            assert!(!is(other), "{other}");
        }
        assert!(!is_grpc(&HeaderMap::new()));
    }
}
