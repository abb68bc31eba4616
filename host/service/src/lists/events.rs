//! The events of a watch: a snapshot, its end, then every change, in commit order.
//!
//! # Limits
//! A watch begins in the store once it has one of the places for snapshots (`service.concurrent_watch_snapshots`); from
//! then on the store notes the changes for it. The place is free again after the snapshot. One page of a snapshot is in
//! memory; resources after the first [`FOREGROUND_RESOURCES`] are read on threads of low priority. Events wait in a
//! buffer of the store that is bounded in events and bytes. A reader that falls further behind gets `Aborted` and
//! starts again; it never misses an event unnoticed.
//!
//! Each event is authorized with the type as registered at its delivery; watches of callers with the same permissions
//! share the decision of rules ([`RecentDecisions`]). Events that are ready at once are delivered together. When the
//! caller's permissions change, the watch ends: with Unauthenticated without a valid token, with PermissionDenied if
//! the caller may no longer list, and otherwise with Aborted, since the events so far may show too much or too little.
//!
//! # Cost
//! Changes in other tenancies, and of names without the prefix, do not wake a watch. A change that the caller may not
//! read, of another GroupVersion, or of another name than the [only](Events::only) one, is evaluated in vain: the
//! caller pays for the time, and beyond a share of a processor its watches get changes later ([`WatchPace`]). An event
//! that is delivered costs no share: its reader sets the pace.

use std::{
    future::poll_fn,
    sync::{Arc, Weak},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use mortise_plugin_host::processor_time;
use mortise_resource::{EncodedResource, Error, IdRef, pb};
use mortise_store::{ListKey, Query, StoreError, Watch, WatchEvent};

use super::{
    open_watch::OpenWatch,
    pools::{FOREGROUND_RESOURCES, Lists, YIELD_INTERVAL_CHANGES},
    recent_decisions::RecentDecisions,
    watch_pace::WatchPace,
};
use crate::{
    call::{Caller, Share, store_fault::ended},
    planted,
    registry::{Registry, ResourceType},
    rules::{RequestHooks, upgrade::is_older},
};

/// Processor time of waking a watch, which the watch itself cannot measure. The first change that a watch evaluates in
/// vain after one that it has delivered costs no more.
const WAKE_TIME: Duration = Duration::from_micros(5);

/// An open watch of a client. Dropping it closes it.
pub struct Events {
    lists: Lists,
    state: WatchState,
    open: OpenWatch,
    pace: WatchPace,
    /// The only name that is shown.
    only: Option<String>,
    /// Whether the last wake-up showed nothing.
    skipped: bool,
    known: KnownType,
}

/// The type as registered at the last event. Weak, since an idle watch must not keep a replaced plugin.
#[derive(Default)]
struct KnownType {
    registry: Weak<Registry>,
    kind: Weak<ResourceType>,
}

/// The progress of a watch.
enum WatchState {
    /// Waits for a place; begins behind this resource.
    Queued(Query, Option<ListKey>),
    Snapshot {
        watch: Box<dyn Watch>,
        /// Resources read so far.
        seen: usize,
        _place: Share,
    },
    Live(Box<dyn Watch>),
    Ended,
}

impl Events {
    /// Begins a watch behind a place. The store is asked at the first wait for an event.
    pub(crate) fn new(lists: &Lists, query: Query, after: Option<ListKey>, open: OpenWatch) -> Self {
        let pace = lists.pace(open.caller());
        let (lists, state, known) = (lists.clone(), WatchState::Queued(query, after), KnownType::default());
        Self { lists, state, open, pace, only: None, skipped: false, known }
    }

    /// Skips the resources with other names that the prefix of the request admits.
    #[must_use]
    pub fn only(mut self, name: String) -> Self {
        self.only = Some(name);
        self
    }
}

impl WatchState {
    /// Waits for the next event. Safe to cancel.
    async fn next(&mut self, lists: &Lists, caller: &Caller) -> Result<WatchEvent, Error> {
        if let Self::Queued(query, after) = self {
            let queue_key = caller.queue_key();
            let place = lists.snapshots.acquire(queue_key, 1).await.map_err(|e| lists.no_room(e))?;
            let watch = lists.core.backend.watch_list(query, after.as_ref()).await.map_err(|e| ended(&e))?;
            *self = Self::Snapshot { watch, seen: 0, _place: place };
        }
        match self {
            Self::Snapshot { watch, seen, .. } => {
                let event = match *seen < FOREGROUND_RESOURCES {
                    true => watch.next().await,
                    false => lists.low_priority.blocking(watch.next()).await,
                };
                *seen += 1;
                event
            }
            Self::Live(watch) => watch.next().await,
            Self::Queued(..) | Self::Ended => Err(StoreError::Closed),
        }
        .map_err(|e| ended(&e))
    }

    /// Returns the next event if one is ready. A live watch wakes the task at the next one.
    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<WatchEvent, Error>> {
        match self {
            Self::Snapshot { watch, seen, .. } => {
                *seen += 1;
                watch.poll_ready(cx)
            }
            Self::Live(watch) => watch.poll_ready(cx),
            Self::Queued(..) | Self::Ended => Poll::Pending,
        }
        .map_err(|e| ended(&e))
    }

    /// Gives back the place after the snapshot.
    fn end_snapshot(&mut self) {
        *self = match std::mem::replace(self, Self::Ended) {
            Self::Snapshot { watch, .. } => Self::Live(watch),
            other => other,
        };
    }
}

impl Events {
    /// Waits for the next readable event.
    ///
    /// # Errors
    /// `Aborted`: the reader starts again with an empty state. Any other error ends the watch, too. An error about a
    /// single resource names it, and another watch may begin behind it.
    pub async fn next(&mut self) -> Result<pb::WatchEvent, Error> {
        use pb::watch_event::{Delete, EndOfSnapshot, Event, Upsert};
        let event = match self.next_encoded().await? {
            WatchEvent::Upsert(resource) => Event::Upsert(Upsert { resource: Some(resource.decode()?) }),
            WatchEvent::Delete(resource) => Event::Delete(Delete { resource: Some(resource.decode()?) }),
            WatchEvent::EndOfSnapshot => Event::EndOfSnapshot(EndOfSnapshot {}),
        };
        Ok(pb::WatchEvent { event: Some(event) })
    }

    /// Waits as [`Events::next`], and returns the resource in its stored bytes.
    ///
    /// # Errors
    /// Those of [`Events::next`].
    pub async fn next_encoded(&mut self) -> Result<WatchEvent, Error> {
        loop {
            let mut next = None;
            self.next_ready(|event| {
                next = Some(event);
                false
            })
            .await?;
            if let Some(event) = next {
                return Ok(event);
            }
        }
    }

    /// Waits as [`Events::next`], and then passes on the other ready events until `each` returns false. The type as
    /// registered at the first of them applies to all.
    ///
    /// # Errors
    /// Those of [`Events::next`]. The events passed on before an error count.
    pub async fn next_ready(&mut self, mut each: impl FnMut(WatchEvent) -> bool) -> Result<(), Error> {
        let mut handed_over = false;
        while !handed_over {
            let mut next = Some(self.awaited().await?);
            // A system call: only for a watch whose last change was evaluated in vain.
            let worked_before = self.skipped.then(|| (Instant::now(), processor_time()));
            let is_live = matches!(self.state, WatchState::Live(_));
            if is_live && planted::skips(&self.lists.core.registry.load()) {
                continue;
            }
            let kind = &self.registered()?;
            let shows_all = RequestHooks::reads_all(kind, self.open.caller());
            let mut hooks = None;
            let mut looked_at = 1;
            while let Some(event) = next {
                let shown = match is_shown_as_stored(kind, shows_all, self.only.as_deref(), &event) {
                    true => Some(event),
                    false => {
                        let hooks = hooks.get_or_insert_with(|| RequestHooks::new(kind.clone(), self.open.caller()));
                        // No other watch has the bytes that a snapshot reads.
                        let recent = is_live.then_some(&*self.lists.recent);
                        shown(hooks, recent, self.only.as_deref(), event).await?
                    }
                };
                let more = match shown {
                    None => true,
                    Some(event) => {
                        if let WatchEvent::EndOfSnapshot = event {
                            self.state.end_snapshot();
                        }
                        handed_over = true;
                        each(event)
                    }
                };
                next = match more && looked_at < YIELD_INTERVAL_CHANGES {
                    true => match poll_fn(|cx| Poll::Ready(self.state.poll_ready(cx))).await {
                        Poll::Ready(event) => Some(event?),
                        Poll::Pending => None,
                    },
                    false => None,
                };
                looked_at += 1;
            }
            drop(hooks);
            self.skipped = !handed_over && matches!(self.state, WatchState::Live(_));
            if self.skipped {
                // A hook may have moved the watch to another thread, whose time says nothing; others may have the
                // processor.
                let worked = worked_before.map_or(Duration::ZERO, |(begun, before)| {
                    processor_time().saturating_sub(before).min(begun.elapsed())
                });
                self.open.until(self.pace.turn()).await?.pay(WAKE_TIME + worked);
            }
        }
        Ok(())
    }

    /// Returns the type as registered now.
    fn registered(&mut self) -> Result<Arc<ResourceType>, Error> {
        let registry = self.lists.core.types();
        if self.known.registry.as_ptr() == Arc::as_ptr(&registry)
            && let Some(kind) = self.known.kind.upgrade()
        {
            return Ok(kind);
        }
        let kind = registry.resolve_type(self.open.wanted())?.clone();
        self.known = KnownType { registry: Arc::downgrade(&registry), kind: Arc::downgrade(&kind) };
        Ok(kind)
    }

    /// Waits for the next event, readable or not.
    async fn awaited(&mut self) -> Result<WatchEvent, Error> {
        loop {
            // A change of access precedes the events behind it, however many are ready.
            let change = match &mut self.state {
                WatchState::Live(watch) => {
                    let next = poll_fn(|cx| match self.open.poll_access_change(cx) {
                        Poll::Ready(change) => Poll::Ready(Err(change)),
                        Poll::Pending => watch.poll_ready(cx).map(Ok),
                    });
                    match next.await {
                        Ok(event) => return event.map_err(|e| ended(&e)),
                        Err(change) => change,
                    }
                }
                state => {
                    let caller = self.open.caller().clone();
                    tokio::select! {
                        biased;
                        change = self.open.access_change() => change,
                        event = state.next(&self.lists, &caller) => return event,
                    }
                }
            };
            self.open.judge(change).await?;
        }
    }
}

/// Whether a watch shows an event as it is: no hook and no rule decides about it, and its data is of the type's schema
/// version. For such events, which most are, nothing is made.
fn is_shown_as_stored(kind: &ResourceType, shows_all: bool, only: Option<&str>, event: &WatchEvent) -> bool {
    match event {
        WatchEvent::EndOfSnapshot => true,
        WatchEvent::Upsert(resource) | WatchEvent::Delete(resource) => {
            shows_all
                && resource.has_type(&kind.gvk)
                && !is_older(kind, resource.schema_version())
                && only.is_none_or(|name| name == resource.name())
        }
    }
}

/// Returns the readable part of an event: the resource in its type's schema version.
async fn shown(
    hooks: &mut RequestHooks,
    recent: Option<&RecentDecisions>,
    only: Option<&str>,
    event: WatchEvent,
) -> Result<Option<WatchEvent>, Error> {
    let (resource, event): (_, fn(EncodedResource) -> WatchEvent) = match event {
        WatchEvent::EndOfSnapshot => return Ok(Some(event)),
        WatchEvent::Upsert(resource) => (resource, WatchEvent::Upsert),
        WatchEvent::Delete(resource) => (resource, WatchEvent::Delete),
    };
    if !resource.has_type(&hooks.kind.gvk) || only.is_some_and(|name| name != resource.name()) {
        return Ok(None);
    }
    let recent = recent.filter(|_| !is_older(&hooks.kind, resource.schema_version()));
    let stored = resource.clone();
    // Each resource has a request's fuel and time, its upgrade included.
    hooks.next_item();
    let resource = hooks.upgraded(resource).await.map_err(|e| {
        let IdRef { partition, namespace, name, .. } = stored.id();
        e.with_resource(partition, namespace, name)
    })?;
    let may_read = match recent {
        Some(recent) => recent.may_read(hooks, &resource).await?,
        None => hooks.may_read(&resource).await?,
    };
    Ok(may_read.then(|| event(resource)))
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
