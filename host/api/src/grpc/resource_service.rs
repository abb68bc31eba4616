//! The resource API on gRPC. It has no generated server: answers carry resources in their stored bytes
//! ([`super::frames`]).

use std::{convert::Infallible, sync::Arc};

use ::http::{Extensions, HeaderMap, HeaderName, Request, Response};
use futures::{StreamExt as _, TryFutureExt as _};
use http_body_util::StreamBody;
use hyper::body::{Bytes, Frame};
use mortise_resource::{Error, pb};
use mortise_service::{Caller, Events, ResourceService, WatchEvent};
use prost::bytes::BytesMut;
use tonic::{Status, body::Body};
use tracing::Span;

use super::{
    call_context::CallContext,
    frames::{self, receive_message},
    list::list_body,
    status::status,
};
use crate::{
    call::{self, guard_stream, run_guarded, span, type_span},
    recent_messages::RecentMessages,
};

/// The header for strong reads; only the exact value `consistent` counts.
static CONSISTENCY_HEADER: HeaderName = HeaderName::from_static("x-consul-consistency-mode");

/// The header with the compression of messages.
static ENCODING_HEADER: HeaderName = HeaderName::from_static("grpc-encoding");

/// Bytes of events after which a watch sends them; the event that reaches the limit is included.
const WATCH_BATCH_BYTES: usize = 16 << 10;

/// The caller of a request with these headers.
fn caller_in(headers: &HeaderMap, context: CallContext) -> Caller {
    let strong = headers.get(&CONSISTENCY_HEADER).is_some_and(|value| value == "consistent");
    let caller = call::caller(&context.by, strong, context.source).with_reader(Some(context.reader));
    caller.not_older_than(call::at_least(headers))
}

/// The caller of a request to a service, authenticated by the layer around all calls.
///
/// # Errors
/// `Internal`: the layer did not run.
pub(super) fn caller(headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, Status> {
    let context = extensions.get::<CallContext>().cloned();
    Ok(caller_in(headers, context.ok_or_else(|| Status::internal("the call was not authenticated"))?))
}

pub(super) fn caller_of<T>(request: &tonic::Request<T>) -> Result<Caller, Status> {
    caller(request.metadata().as_ref(), request.extensions())
}

fn id_of(resource: Option<&pb::Resource>) -> Option<&pb::Id> {
    resource.and_then(|resource| resource.id.as_ref())
}

/// The methods of the service.
#[derive(Debug, Clone, Copy)]
pub(super) enum ResourceMethod {
    Read,
    Write,
    WriteStatus,
    List,
    ListByOwner,
    Delete,
    WatchList,
    MutateAndValidate,
}

impl ResourceMethod {
    /// The method of a path; `None` for paths of other services.
    pub(super) fn of(path: &str) -> Option<Self> {
        Some(match path.strip_prefix("/hashicorp.consul.resource.ResourceService/")? {
            "Read" => Self::Read,
            "Write" => Self::Write,
            "WriteStatus" => Self::WriteStatus,
            "List" => Self::List,
            "ListByOwner" => Self::ListByOwner,
            "Delete" => Self::Delete,
            "WatchList" => Self::WatchList,
            "MutateAndValidate" => Self::MutateAndValidate,
            _ => return None,
        })
    }

    /// Answers a call. A request may have at most `limit` bytes.
    pub(super) async fn answer(
        self,
        service: ResourceService,
        request: Request<Body>,
        context: CallContext,
        limit: usize,
        recent: Arc<RecentEvents>,
    ) -> Response<Body> {
        self.answered(service, request, context, limit, recent).await.unwrap_or_else(Status::into_http)
    }

    async fn answered(
        self,
        service: ResourceService,
        request: Request<Body>,
        context: CallContext,
        limit: usize,
        recent: Arc<RecentEvents>,
    ) -> Result<Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        refuse_compressed(&parts.headers)?;
        let caller = caller_in(&parts.headers, context);
        // The rest of the head is not needed while the call waits.
        drop(parts);
        Ok(match self {
            Self::Read => {
                let request: pb::ReadRequest = receive_message(body, limit).await?;
                let span = span("Read", request.id.as_ref());
                let resource = guard(span, service.read(&caller, request)).await?;
                frames::single_message(frames::resource_frame(&resource))
            }
            Self::Write => {
                let request: pb::WriteRequest = receive_message(body, limit).await?;
                let span = span("Write", id_of(request.resource.as_ref()));
                let written = guard(span, service.write(&caller, request)).await?;
                frames::single_message(frames::write_frame(written))
            }
            Self::WriteStatus => {
                let request: pb::WriteStatusRequest = receive_message(body, limit).await?;
                let span = span("WriteStatus", request.id.as_ref());
                let resource = guard(span, service.write_status(&caller, request)).await?;
                frames::single_message(frames::resource_frame(&resource))
            }
            Self::List => {
                let request: pb::ListRequest = receive_message(body, limit).await?;
                let span = type_span("List", request.r#type.as_ref());
                frames::response(list_body(guard(span, service.list(&caller, request)).await?)?)
            }
            Self::ListByOwner => {
                let request: pb::ListByOwnerRequest = receive_message(body, limit).await?;
                let span = span("ListByOwner", request.owner.as_ref());
                frames::response(list_body(guard(span, service.list(&caller, request)).await?)?)
            }
            Self::Delete => {
                let request: pb::DeleteRequest = receive_message(body, limit).await?;
                let span = span("Delete", request.id.as_ref());
                frames::single_message(frames::framed(&guard(span, service.delete(&caller, request)).await?))
            }
            Self::WatchList => {
                let request: pb::WatchListRequest = receive_message(body, limit).await?;
                let span = type_span("WatchList", request.r#type.as_ref());
                frames::response(watch_body(guard(span, service.watch_list(&caller, request)).await?, recent))
            }
            Self::MutateAndValidate => {
                let request: pb::MutateAndValidateRequest = receive_message(body, limit).await?;
                let span = span("MutateAndValidate", id_of(request.resource.as_ref()));
                frames::single_message(frames::framed(
                    &guard(span, service.mutate_and_validate(&caller, request)).await?,
                ))
            }
        })
    }
}

/// Boxes a call at once: an `async fn` would hold it for its whole run, and so would every layer on the way here.
fn guard<T>(span: Span, call: impl Future<Output = Result<T, Error>>) -> impl Future<Output = Result<T, Status>> {
    run_guarded(span, Box::pin(call)).map_err(status)
}

/// Rejects compressed requests, in the words of the generated servers; the server supports no encodings.
fn refuse_compressed(headers: &HeaderMap) -> Result<(), Status> {
    match headers.get(&ENCODING_HEADER).map(|encoding| encoding.to_str().unwrap_or("?")) {
        None | Some("identity") => Ok(()),
        Some(other) => {
            let what = format!("Content is compressed with `{other}` which isn't supported");
            let mut status = Status::unimplemented(what);
            status
                .metadata_mut()
                .insert("grpc-accept-encoding", tonic::metadata::MetadataValue::from_static("identity"));
            Err(status)
        }
    }
}

/// The framed messages of recent events; those of deletions have the form `true`.
pub(super) type RecentEvents = RecentMessages<bool, Bytes>;

/// The framed message of an event.
fn recent_message(recent: &RecentEvents, event: &WatchEvent) -> Bytes {
    let frame = || {
        let mut out = BytesMut::new();
        frames::put_event(&mut out, event);
        Ok::<_, Infallible>(out.freeze())
    };
    let message = match event {
        WatchEvent::Upsert(resource) => recent.message(resource, false, frame),
        WatchEvent::Delete(resource) => recent.message(resource, true, frame),
        WatchEvent::EndOfSnapshot => frame(),
    };
    message.unwrap_or_else(|never| match never {})
}

/// Answers to WatchLists without a connection, whose cost `mortise-bench` counts. They share messages as the answers of
/// one server do.
#[derive(Default)]
pub struct WatchAnswers(Arc<RecentEvents>);

impl WatchAnswers {
    /// Makes the answer of a watch: frames of messages, and trailers after the end of the watch.
    pub fn body(&self, events: Events) -> Body {
        watch_body(events, self.0.clone())
    }
}

/// The answer to a WatchList. Pending events are sent together; the message of a single one is shared with the other
/// watches that send it.
fn watch_body(mut events: Events, recent: Arc<RecentEvents>) -> Body {
    let frames = async_stream::stream! {
        let (last, error) = loop {
            let (mut first, mut out) = (None, BytesMut::new());
            let taking = events.next_ready(|event| {
                match &first {
                    // Nothing else may be ready.
                    None => {
                        let more = frames::event_bytes(&event) < WATCH_BATCH_BYTES;
                        first = Some(event);
                        return more;
                    }
                    Some(before) if out.is_empty() => frames::put_event(&mut out, before),
                    Some(_) => {}
                }
                frames::put_event(&mut out, &event);
                out.len() < WATCH_BATCH_BYTES
            });
            let taken = taking.await;
            let data = match first {
                Some(event) if out.is_empty() => Some(recent_message(&recent, &event)),
                Some(_) => Some(out.freeze()),
                None => None,
            };
            match (taken, data) {
                (Ok(()), Some(data)) => yield Ok(Frame::data(data)),
                (Ok(()), None) => {}
                (Err(error), data) => break (data, error),
            }
        };
        // The client may read its end late.
        drop(events);
        if let Some(data) = last {
            yield Ok(Frame::data(data));
        }
        yield frames::trailers(&status(error));
    };
    Body::new(StreamBody::new(
        guard_stream(frames).map(|frame| frame.unwrap_or_else(|error| frames::trailers(&status(error)))),
    ))
}
