//! Answers requests of the gRPC port that are not gRPC with 415, as the protocol prescribes.
//!
//! This keeps web pages away. With TLS a browser speaks HTTP/2 to the port, and a page may send requests to another
//! origin without a CORS preflight only with one of three content types; gRPC's is not among them. tonic itself would
//! decode a message of any content type.

use std::task::{Context, Poll};

use ::http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use futures::future::{Either, Ready, ready};
use tonic::{body::Body, metadata::GRPC_CONTENT_TYPE};
use tower::{Layer, Service};

/// The answer to such a client.
const NOT_GRPC_TEXT: &str =
    "this port speaks gRPC (content type application/grpc); JSON over HTTP is on the port of http_addr\n";

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
        let known = GRPC_CONTENT_TYPE;
        let is_grpc =
            request.headers().get(CONTENT_TYPE).is_some_and(|found| found.as_bytes().starts_with(known.as_bytes()));
        if is_grpc {
            return Either::Left(self.0.call(request));
        }
        let mut response = Response::new(Body::new(NOT_GRPC_TEXT.to_owned()));
        *response.status_mut() = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        Either::Right(ready(Ok(response)))
    }
}
