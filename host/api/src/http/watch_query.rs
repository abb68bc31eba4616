//! `GET …?watch` with a filter, a selector, fields or a view: WatchResources for all matching resources, as server-sent
//! events.
//!
//! First an `upsert` for each match, then `end-of-snapshot` once, then `upsert` for each written match, and `delete`,
//! with the id alone, for resources that no longer match. The last event of a consistent set has the resume token as
//! its `id`, so that a client can continue there after reconnecting: browsers send it back as `Last-Event-ID` on their
//! own, other clients may use `resume_token`. `reset` means that this is impossible: the client forgets its state, and
//! a snapshot follows. If the server ends a stream, the last event is `closed`, with a problem object.

use std::{collections::VecDeque, convert::Infallible};

use axum::response::{
    IntoResponse as _, Response,
    sse::{Event as SseEvent, KeepAlive, Sse},
};
use futures::{Stream, stream};
use mortise_resource::{
    Error,
    data::{
        WatchResourcesRequest, WatchResourcesResponse,
        resource_change::{ChangeType, Current, Removed},
    },
    goten::WatchType,
    pb,
};
use mortise_service::ResourcesChanges;
use tokio::sync::OwnedSemaphorePermit;
use tracing::Span;

use super::{Shared, error::HttpError, json::Printer, request::TypeRequest, watch};
use crate::{
    call::{run_guarded, type_span},
    planted::{self, Fault},
};

/// Watches the matching resources.
pub(super) async fn collection(request: TypeRequest) -> Result<Response, HttpError> {
    let caller = request.caller();
    let permit = watch::permit(&request.shared)?;
    let wanted = request.kind.gvk.to_pb();
    let mut resume_token = resume_token(&request);
    if planted::happens(Fault::PositionIgnored) {
        resume_token.clear();
    }
    let is_resumed = !resume_token.is_empty();
    let search = request.query.search(wanted.clone())?;
    let rpc = WatchResourcesRequest::from_search(search, WatchType::Stateless, resume_token);
    let span = type_span("watch.WatchResources", rpc.resource_type.as_ref());
    let changes = run_guarded(span, Box::pin(request.shared.service.watch_resources(&caller, rpc))).await?;
    let keep_alive = KeepAlive::new().interval(request.shared.options.keep_alive).text("alive");
    let open = OpenWatch {
        changes,
        wanted,
        whole_meta: request.query.has_projection(),
        printer: request.printer(),
        shared: request.shared,
        path: request.parts.uri.path().to_owned(),
        is_current: is_resumed,
        events: VecDeque::new(),
        _permit: permit,
    };
    Ok(watch::unbuffered(Sse::new(open.stream()).keep_alive(keep_alive).into_response()))
}

/// The end of an earlier stream; the header wins, since a browser keeps the address from its first request.
fn resume_token(request: &TypeRequest) -> String {
    let last = request.parts.headers.get(watch::LAST_EVENT_ID).and_then(|id| id.to_str().ok());
    last.filter(|id| !id.is_empty()).map_or_else(|| request.query.resume_token(), str::to_owned)
}

/// An open watch.
struct OpenWatch {
    changes: ResourcesChanges,
    wanted: pb::Type,
    whole_meta: bool,
    printer: Printer,
    shared: Shared,
    path: String,
    /// Whether the events are changes rather than the snapshot.
    is_current: bool,
    /// Pending events of the last message.
    events: VecDeque<SseEvent>,
    _permit: OwnedSemaphorePermit,
}

impl OpenWatch {
    fn stream(self) -> impl Stream<Item = Result<SseEvent, Infallible>> {
        stream::unfold(Some(self), async |open| {
            let mut open = open?;
            loop {
                if let Some(event) = open.events.pop_front() {
                    return Some((Ok(event), Some(open)));
                }
                match run_guarded(Span::none(), Box::pin(open.changes.next())).await {
                    Ok(message) => open.take(message),
                    Err(error) => return Some((Ok(open.ended(error)), None)),
                }
            }
        })
    }

    /// Makes events from a message. The token goes with the last event, or with an event of its own.
    fn take(&mut self, message: WatchResourcesResponse) {
        // The type may have another message by now.
        if let Some(kind) = self.shared.service.types().get(&self.wanted) {
            self.printer = Printer::new(kind.schema.message()).with_whole_meta(self.whole_meta);
        }
        let mut events = Vec::new();
        if message.is_hard_reset || message.is_soft_reset {
            self.is_current = false;
            events.push(("reset", "{}".to_owned()));
        }
        for change in message.changes {
            let event = match change.change_type {
                Some(ChangeType::Current(Current { resource })) => {
                    ("upsert", self.printer.compact(&resource.unwrap_or_default()))
                }
                Some(ChangeType::Removed(Removed { name: id, .. })) => {
                    ("delete", self.printer.id_alone(id.unwrap_or_default()))
                }
                Some(ChangeType::Added(_) | ChangeType::Modified(_)) | None => continue,
            };
            events.push(event);
        }
        if message.is_current && !std::mem::replace(&mut self.is_current, true) {
            events.push(("end-of-snapshot", "{}".to_owned()));
        }
        if events.is_empty() && !message.resume_token.is_empty() {
            events.push(("current", "{}".to_owned()));
        }
        let last = events.len().saturating_sub(1);
        self.events = events
            .into_iter()
            .enumerate()
            .map(|(index, (name, data))| {
                let event = SseEvent::default().event(name).data(data);
                match index == last && message.is_current {
                    true => event.id(&message.resume_token),
                    false => event,
                }
            })
            .collect();
    }

    fn ended(&self, error: Error) -> SseEvent {
        watch::ended(&self.shared, &self.path, error)
    }
}
