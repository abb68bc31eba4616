//! Answers requests of the gRPC port that are no gRPC: 415, as the protocol has it.
//!
//! This keeps pages in browsers away. With TLS a browser speaks HTTP/2 to the port, and what a page may send to another
//! origin without asking there first (CORS) has one of three content types, none of them gRPC's. tonic decodes a
//! message whatever its content type is.

use std::task::{Context, Poll};

use ::http::{HeaderValue, Request, Response, StatusCode, header::CONTENT_TYPE};
use futures::future::{Either, Ready, ready};
use tonic::{body::Body, metadata::GRPC_CONTENT_TYPE};
use tower::{Layer, Service};

/// What such a client is told.
const NOT_GRPC_TEXT: &str =
    "this port speaks gRPC (content type application/grpc); JSON over HTTP is on the port of http_addr\n";

/// Lets gRPC through.
#[derive(Clone, Copy)]
pub(crate) struct ContentTypeLayer;

impl<S> Layer<S> for ContentTypeLayer {
    type Service = ContentTypeService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        ContentTypeService(inner)
    }
}

/// Lets gRPC through to a service.
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
