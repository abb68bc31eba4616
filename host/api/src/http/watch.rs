//! `GET …?watch`: WatchList as server-sent events.
//!
//! First an `upsert` for each present resource, then `end-of-snapshot` once, then `upsert` and `delete`, in the order
//! of commits. Data is the resource as JSON on one line, `id` its version. A stream cannot be resumed: a client that
//! reconnects, and says so by `Last-Event-ID`, gets a `reset` and a snapshot. If the server ends a stream, the last
//! event is `closed`, with a problem object: `error` is the name of a browser's own event. Comments keep the connection
//! alive meanwhile.
//!
//! A watch of an item is a watch of the names with its name as prefix; events of other names are dropped. It needs the
//! permissions of a list, and counts against `service.max_watches` like every watch. A resource is printed once for all
//! watches.

use std::{convert::Infallible, sync::Arc};

use axum::{
    http::{HeaderName, HeaderValue},
    response::{
        IntoResponse as _, Response,
        sse::{Event as SseEvent, KeepAlive, Sse},
    },
};
use futures::{Stream, stream};
use mortise_resource::{Code, Error, pb, types};
use mortise_service::{Events, WatchEvent};
use prost_reflect::MessageDescriptor;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Span;

use super::{Shared, error::HttpError, json::Printer, request::TypeRequest};
use crate::{
    call::{run_guarded, type_span},
    planted::{self, Fault},
};

/// Watches a collection.
pub(super) async fn collection(request: TypeRequest) -> Result<Response, HttpError> {
    let (tenancy, prefix) = (request.query.tenancy(), request.query.name_prefix());
    open(request, tenancy, prefix, None).await
}

/// Watches a resource, which need not exist yet.
pub(super) async fn item(request: TypeRequest, name: String) -> Result<Response, HttpError> {
    let mut id = request.id(name);
    // The rules of Read: a valid name, and no wildcards as units.
    types::check_id("id", &mut id)?;
    let tenancy = id.tenancy.unwrap_or_default();
    request.kind.scope.check("resource", &request.kind.gvk.to_string(), &tenancy)?;
    open(request, tenancy, id.name.clone(), Some(id.name)).await
}

async fn open(
    request: TypeRequest,
    tenancy: pb::Tenancy,
    prefix: String,
    only: Option<String>,
) -> Result<Response, HttpError> {
    let caller = request.caller();
    let permit = permit(&request.shared)?;
    let wanted = request.kind.gvk.to_pb();
    let rpc =
        pb::WatchListRequest { r#type: Some(wanted.clone()), tenancy: Some(tenancy), name_prefix: prefix, after: None };
    let span = type_span("WatchList", rpc.r#type.as_ref());
    let mut events = run_guarded(span, Box::pin(request.shared.service.watch_list(&caller, rpc))).await?;
    if let Some(name) = only {
        events = events.only(name);
    }
    let keep_alive = KeepAlive::new().interval(request.shared.options.keep_alive).text("alive");
    let open = OpenWatch {
        events,
        wanted,
        data: request.kind.schema.message().clone(),
        shared: request.shared,
        path: request.parts.uri.path().to_owned(),
        _permit: permit,
    };
    // A client that comes back still has the state of the earlier stream.
    let is_back = request.parts.headers.contains_key(LAST_EVENT_ID) && !planted::happens(Fault::ResetMissing);
    let reset = is_back.then(|| Ok(reset()));
    let events = futures::StreamExt::chain(stream::iter(reset), open.stream());
    Ok(unbuffered(Sse::new(events).keep_alive(keep_alive).into_response()))
}

/// The header with the last event that a reconnecting client has.
pub(super) const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// The event after which a client forgets its state.
pub(super) fn reset() -> SseEvent {
    SseEvent::default().event("reset").data("{}")
}

/// Asks proxies such as nginx to pass events on at once.
pub(super) fn unbuffered(mut response: Response) -> Response {
    let name = HeaderName::from_static("x-accel-buffering");
    response.headers_mut().insert(name, HeaderValue::from_static("no"));
    response
}

/// Takes a place among the watches over HTTP.
pub(super) fn permit(shared: &Shared) -> Result<OwnedSemaphorePermit, Error> {
    shared.watches.clone().try_acquire_owned().map_err(|_| {
        let most = shared.options.max_watches();
        let what = format!("{most} watches are open over HTTP already (three quarters of http.max_connections)");
        Error::new(Code::ResourceExhausted, what)
    })
}

/// The last event of a watch that the server ends.
pub(super) fn ended(shared: &Shared, path: &str, error: Error) -> SseEvent {
    let error = if *shared.ready.borrow() {
        error
    } else {
        Error::new(Code::Unavailable, "the server is stopping; connect again")
    };
    SseEvent::default().event("closed").data(HttpError::from(error).problem(path).to_string())
}

/// An open watch.
struct OpenWatch {
    events: Events,
    wanted: pb::Type,
    /// Message of the type's data.
    data: MessageDescriptor,
    shared: Shared,
    path: String,
    _permit: OwnedSemaphorePermit,
}

impl OpenWatch {
    fn stream(self) -> impl Stream<Item = Result<SseEvent, Infallible>> {
        stream::unfold(Some(self), async |open| {
            let mut open = open?;
            match open.next().await {
                Ok(event) => Some((Ok(event), Some(open))),
                Err(_) if planted::happens(Fault::ClosedMissing) => None,
                Err(error) => Some((Ok(ended(&open.shared, &open.path, error)), None)),
            }
        })
    }

    async fn next(&mut self) -> Result<SseEvent, Error> {
        let event = run_guarded(Span::none(), Box::pin(self.events.next_encoded())).await?;
        let (name, resource) = match &event {
            WatchEvent::Upsert(resource) => ("upsert", resource),
            WatchEvent::Delete(resource) => ("delete", resource),
            WatchEvent::EndOfSnapshot => return Ok(SseEvent::default().event("end-of-snapshot").data("{}")),
        };
        // The type may have another message by now.
        if let Some(kind) = self.shared.service.types().get(&self.wanted) {
            self.data = kind.schema.message().clone();
        }
        let print = || Ok::<_, Error>(Arc::from(Printer::new(&self.data).compact(&resource.decode()?)));
        let text = self.shared.recent_texts.message(resource, self.data.clone(), print)?;
        Ok(SseEvent::default().event(name).id(resource.version()).data(text))
    }
}
