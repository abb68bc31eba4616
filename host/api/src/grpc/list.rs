//! List and ListByOwner on gRPC: answers that are encoded already, and sent piece by piece, so that they are in memory
//! once and what was sent is let go.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use ::http::{HeaderMap, HeaderValue, Request, Response, header::CONTENT_TYPE};
use hyper::body::{Body as HttpBody, Bytes, Frame};
use mortise_resource::pb;
use mortise_service::{EncodedList, ResourceService};
use prost::Message;
use tonic::{
    Status,
    body::Body,
    codec::{Codec as _, Streaming},
    metadata::GRPC_CONTENT_TYPE,
};
use tonic_prost::ProstCodec;

use super::{resource_service::caller, status::answer};
use crate::call::{span, span_of_type};

/// The methods that are answered so.
#[derive(Debug, Clone, Copy)]
pub(super) enum ListMethod {
    List,
    ListByOwner,
}

impl ListMethod {
    /// The method of a path, if it is one of these.
    pub(super) fn of(path: &str) -> Option<Self> {
        match path.strip_prefix("/hashicorp.consul.resource.ResourceService/")? {
            "List" => Some(Self::List),
            "ListByOwner" => Some(Self::ListByOwner),
            _ => None,
        }
    }

    /// Answers a call. A request has at most `limit` bytes.
    pub(super) async fn answer(self, service: ResourceService, request: Request<Body>, limit: usize) -> Response<Body> {
        self.listed(service, request, limit).await.unwrap_or_else(Status::into_http)
    }

    async fn listed(
        self,
        service: ResourceService,
        request: Request<Body>,
        limit: usize,
    ) -> Result<Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        let caller = caller(&parts.headers, &parts.extensions)?;
        let list = match self {
            Self::List => {
                let message: pb::ListRequest = received(body, limit).await?;
                let span = span_of_type("List", message.r#type.as_ref());
                answer(span, Box::pin(service.list_encoded(&caller, message))).await?
            }
            Self::ListByOwner => {
                let message: pb::ListByOwnerRequest = received(body, limit).await?;
                let span = span("ListByOwner", message.owner.as_ref());
                answer(span, Box::pin(service.list_by_owner_encoded(&caller, message))).await?
            }
        };
        let list = list.into_inner();
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
}

/// The only message of a request.
pub(super) async fn received<M: Message + Default + 'static>(body: Body, limit: usize) -> Result<M, Status> {
    let decoder = ProstCodec::<pb::ListResponse, M>::default().decoder();
    let mut messages = Streaming::new_request(decoder, body, None, Some(limit));
    messages.message().await?.ok_or_else(|| Status::internal("Missing request message."))
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
