//! Calls from within the server: the HTTP port makes its RPCs here, of the services of the gRPC port and within the same
//! layer ([`super::calls`]), which checks their requirements, records them and bounds them.
//!
//! # Contract
//! The caller comes with the call, as [`KnownCaller`] among the extensions of its request. A peer on the network cannot
//! send extensions, which are no part of HTTP; nothing but this file makes a [`KnownCaller`].
//!
//! # Cost
//! A message is framed without a copy. One of an answer is copied into the buffer of the decoder.

use ::http::{HeaderMap, Method, Request, StatusCode, Uri, Version, header::CONTENT_TYPE};
use futures::{Stream, StreamExt as _, stream};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use mortise_service::Source;
use prost::bytes::{Buf as _, BytesMut};
use tonic::{
    Code, Status,
    body::Body,
    codec::{DecodeBuf, Decoder, Streaming},
    metadata::GRPC_CONTENT_TYPE,
    service::Routes,
};
use tower::{Layer as _, Service as _};

use super::{
    call_context::KnownCaller,
    calls::{Calls, CallsService},
    frames::{PREFIX_BYTES, prefix},
};
use crate::authenticate::Authenticated;

/// The services of the gRPC port, for calls from within the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct InProcess(CallsService<Routes>);

impl InProcess {
    /// Makes calls of these services, within the layer of `calls`.
    pub(crate) fn new(calls: &Calls, routes: Routes) -> Self {
        Self(calls.layer().layer(routes))
    }

    /// Calls a method. `path` is such as `/mortise.v1.PluginService/Logs`, and `messages` are those of the request,
    /// encoded; an error among them ends the call.
    ///
    /// # Errors
    /// The status of a call that failed before its answer began.
    pub(crate) async fn call(
        &self,
        path: Uri,
        headers: HeaderMap,
        (by, source): (Authenticated, Source),
        messages: impl Stream<Item = Result<Bytes, Status>> + Send + 'static,
    ) -> Result<Answers, Status> {
        let frames = messages.flat_map(|message| stream::iter(framed(message)));
        let mut request = Request::new(Body::new(StreamBody::new(frames)));
        *request.method_mut() = Method::POST;
        *request.version_mut() = Version::HTTP_2;
        *request.uri_mut() = path;
        *request.headers_mut() = headers;
        request.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
        request.extensions_mut().insert(KnownCaller { by, source });
        let mut service = self.0.clone();
        let response = match std::future::poll_fn(|cx| service.poll_ready(cx)).await {
            Ok(()) => service.call(request).await,
            Err(never) => match never {},
        };
        let response = match response {
            Ok(response) => response,
            Err(never) => match never {},
        };
        match Status::from_header_map(response.headers()) {
            Some(status) if status.code() != Code::Ok => Err(status),
            _ => {
                // The services bound their answers.
                let all = Some(usize::MAX);
                let body = response.into_body();
                Ok(Answers(Streaming::new_response(Whole, body, StatusCode::OK, None, all)))
            }
        }
    }
}

/// A message as the frames of a body.
fn framed(message: Result<Bytes, Status>) -> Vec<Result<Frame<Bytes>, Status>> {
    match message {
        Ok(message) => {
            let mut head = BytesMut::with_capacity(PREFIX_BYTES);
            prefix(&mut head, message.len());
            [head.freeze(), message].into_iter().filter(|part| !part.is_empty()).map(Frame::data).map(Ok).collect()
        }
        Err(status) => vec![Err(status)],
    }
}

/// The messages of an answer, encoded.
pub(crate) struct Answers(Streaming<Bytes>);

impl Answers {
    /// Returns the next message; `None` at the end of a complete answer.
    ///
    /// # Errors
    /// The status by which the server ended the answer.
    pub(crate) async fn next(&mut self) -> Result<Option<Bytes>, Status> {
        self.0.message().await
    }

    /// Returns the message of an answer that has just one.
    ///
    /// # Errors
    /// The status of a failed call; `Internal` without a message.
    pub(crate) async fn only(mut self) -> Result<Bytes, Status> {
        let message = self.next().await?;
        // The status comes behind the message.
        self.next().await?;
        message.ok_or_else(|| Status::internal("the answer's message was lost"))
    }
}

/// Takes messages as they are.
struct Whole;

impl Decoder for Whole {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}
