//! The resource API on gRPC. It has no generated server: answers carry resources in their stored bytes
//! ([`super::frames`]).

use ::http::{Extensions, HeaderMap, Request, Response};
use futures::{TryFutureExt as _, stream};
use http_body_util::StreamBody;
use hyper::body::Frame;
use mortise_resource::{Error, pb};
use mortise_service::{Caller, Events, ResourceService, Source};
use prost::bytes::BytesMut;
use tonic::{Status, body::Body, transport::server::TcpConnectInfo};
use tracing::Span;

use super::{
    frames::{self, received},
    list::list_body,
    status::status,
};
use crate::{
    authenticate::Authenticated,
    call::{self, guarded, span, span_of_type},
};

/// The header for strong reads; only the exact value `consistent` counts.
const CONSISTENCY: &str = "x-consul-consistency-mode";

/// The header with the compression of messages.
const ENCODING: &str = "grpc-encoding";

/// Bytes of events after which a watch sends them; the event that reaches the limit is included.
const BATCH: usize = 16 << 10;

/// The caller of a request, authenticated by the layer around all calls.
///
/// # Errors
/// `Internal`: the layer did not run.
pub(super) fn caller(headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, Status> {
    let by = extensions.get::<Authenticated>().ok_or_else(|| Status::internal("the call was not authenticated"))?;
    let strong = headers.get(CONSISTENCY).is_some_and(|value| value == "consistent");
    let connection = extensions.get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr);
    Ok(call::caller(by, strong, Source::from_key(connection)))
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
    pub(super) async fn answer(self, service: ResourceService, request: Request<Body>, limit: usize) -> Response<Body> {
        self.answered(service, request, limit).await.unwrap_or_else(Status::into_http)
    }

    async fn answered(
        self,
        service: ResourceService,
        request: Request<Body>,
        limit: usize,
    ) -> Result<Response<Body>, Status> {
        let (parts, body) = request.into_parts();
        refuse_compressed(&parts.headers)?;
        let caller = caller(&parts.headers, &parts.extensions)?;
        Ok(match self {
            Self::Read => {
                let request: pb::ReadRequest = received(body, limit).await?;
                let span = span("Read", request.id.as_ref());
                let resource = guard(span, service.read_encoded(&caller, request)).await?;
                frames::one(frames::of_resource(&resource))
            }
            Self::Write => {
                let request: pb::WriteRequest = received(body, limit).await?;
                let span = span("Write", id_of(request.resource.as_ref()));
                let written = guard(span, service.write_encoded(&caller, request)).await?;
                frames::one(frames::of_written(written))
            }
            Self::WriteStatus => {
                let request: pb::WriteStatusRequest = received(body, limit).await?;
                let span = span("WriteStatus", request.id.as_ref());
                let resource = guard(span, service.write_status_encoded(&caller, request)).await?;
                frames::one(frames::of_resource(&resource))
            }
            Self::List => {
                let request: pb::ListRequest = received(body, limit).await?;
                let span = span_of_type("List", request.r#type.as_ref());
                frames::response(list_body(guard(span, service.list_encoded(&caller, request)).await?)?)
            }
            Self::ListByOwner => {
                let request: pb::ListByOwnerRequest = received(body, limit).await?;
                let span = span("ListByOwner", request.owner.as_ref());
                frames::response(list_body(guard(span, service.list_by_owner_encoded(&caller, request)).await?)?)
            }
            Self::Delete => {
                let request: pb::DeleteRequest = received(body, limit).await?;
                let span = span("Delete", request.id.as_ref());
                frames::one(frames::framed(&guard(span, service.delete(&caller, request)).await?))
            }
            Self::WatchList => {
                let request: pb::WatchListRequest = received(body, limit).await?;
                let span = span_of_type("WatchList", request.r#type.as_ref());
                frames::response(watch_body(guard(span, service.watch_list(&caller, request)).await?))
            }
            Self::MutateAndValidate => {
                let request: pb::MutateAndValidateRequest = received(body, limit).await?;
                let span = span("MutateAndValidate", id_of(request.resource.as_ref()));
                frames::one(frames::framed(&guard(span, service.mutate_and_validate(&caller, request)).await?))
            }
        })
    }
}

/// Boxes a call at once: an `async fn` would hold it for its whole run, and so would every layer on the way here.
fn guard<T>(span: Span, call: impl Future<Output = Result<T, Error>>) -> impl Future<Output = Result<T, Status>> {
    guarded(span, Box::pin(call)).map_err(status)
}

/// Rejects compressed requests, in the words of the generated servers; the server supports no encodings.
fn refuse_compressed(headers: &HeaderMap) -> Result<(), Status> {
    match headers.get(ENCODING).map(|encoding| encoding.to_str().unwrap_or("?")) {
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

/// The progress of the answer to a WatchList.
enum Watching {
    Open(Box<Events>),
    /// Ended; the client has not received the status yet.
    Ended(Status),
}

/// The answer to a WatchList. Pending events are sent together.
fn watch_body(events: Events) -> Body {
    Body::new(StreamBody::new(stream::unfold(Some(Watching::Open(Box::new(events))), async |watching| {
        let mut events = match watching? {
            Watching::Open(events) => events,
            Watching::Ended(status) => return Some((frames::ended(&status), None)),
        };
        let mut out = BytesMut::new();
        let taking = events.next_ready(|event| {
            frames::put_event(&mut out, &event);
            out.len() < BATCH
        });
        let taken = guard(Span::none(), taking).await;
        Some(match (taken, out.is_empty()) {
            (Ok(()), _) => (Ok(Frame::data(out.freeze())), Some(Watching::Open(events))),
            (Err(status), false) => (Ok(Frame::data(out.freeze())), Some(Watching::Ended(status))),
            (Err(status), true) => (frames::ended(&status), None),
        })
    })))
}
