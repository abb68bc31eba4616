//! List on gRPC: an answer that is encoded already, and sent piece by piece, so that it is in memory once and what was
//! sent is let go.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use ::http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use mortise_resource::pb;
use mortise_service::{EncodedList, ResourceService};
use tonic::{
    Status,
    body::Body,
    codec::{Codec as _, Streaming},
    metadata::GRPC_CONTENT_TYPE,
};
use tonic_prost::ProstCodec;

use super::{resource_service::caller, status::answer};
use crate::call::span_of_type;

/// The path of the method.
pub(super) const PATH: &str = "/hashicorp.consul.resource.ResourceService/List";

/// Answers a call. A request has at most `limit` bytes.
pub(super) async fn list(service: ResourceService, request: Request<Body>, limit: usize) -> Response<Body> {
    listed(service, request, limit).await.unwrap_or_else(Status::into_http)
}

async fn listed(service: ResourceService, request: Request<Body>, limit: usize) -> Result<Response<Body>, Status> {
    let (parts, body) = request.into_parts();
    let decoder = ProstCodec::<pb::ListResponse, pb::ListRequest>::default().decoder();
    let mut messages = Streaming::new_request(decoder, body, None, Some(limit));
    let message = messages.message().await?.ok_or_else(|| Status::internal("Missing request message."))?;
    drop(messages);
    let caller = caller(&parts.headers, &parts.extensions);
    let span = span_of_type("List", message.r#type.as_ref());
    let listing = Box::pin(service.list_encoded(&caller, message));
    let list = answer(span, listing).await?.into_inner();
    let Ok(length) = u32::try_from(list.bytes()) else {
        return Err(Status::resource_exhausted(
            "the list has more than 4 GiB; list fewer with a name_prefix, or watch",
        ));
    };
    let mut prefix = Vec::with_capacity(5);
    // Not compressed, and so many bytes.
    prefix.push(0);
    prefix.extend_from_slice(&length.to_be_bytes());
    let mut response = Response::new(Body::new(ListBody { next: Next::Prefix(prefix.into()), list }));
    response.headers_mut().insert(CONTENT_TYPE, GRPC_CONTENT_TYPE);
    Ok(response)
}

/// A list as the body of an answer.
struct ListBody {
    next: Next,
    list: EncodedList,
}

enum Next {
    Prefix(Bytes),
    Piece,
    End,
}

impl HttpBody for ListBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let (frame, next) = match std::mem::replace(&mut self.next, Next::End) {
            Next::Prefix(prefix) => (Frame::data(prefix), Next::Piece),
            Next::Piece => match self.list.next_piece() {
                Some(piece) => (Frame::data(piece), Next::Piece),
                None => {
                    let ok = (Status::GRPC_STATUS, HeaderValue::from_static("0"));
                    let trailers = HeaderMap::from_iter([ok]);
                    (Frame::trailers(trailers), Next::End)
                }
            },
            Next::End => return Poll::Ready(None),
        };
        self.next = next;
        Poll::Ready(Some(Ok(frame)))
    }
}
