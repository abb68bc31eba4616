//! The events of a watch: a snapshot, its end, then every change, in commit order.
//!
//! # Limits
//! A watch begins in the store once it has one of the places for snapshots (`service.concurrent_watch_snapshots`); from
//! then on the store notes the changes for it. The place is free again after the snapshot. One page of a snapshot is in
//! memory; resources after the first [`FOREGROUND_RESOURCES`] are read on threads of low priority. Events wait in a
//! buffer of the store that is bounded in events and bytes. A reader that falls further behind gets `Aborted` and
//! starts again; it never misses an event unnoticed.
//!
//! Each event is authorized at its delivery, with the type as registered then; events that are ready at once are
//! delivered together. When the caller's permissions change, the watch ends: with Unauthenticated without a valid
//! token, with PermissionDenied if the caller may no longer list, and otherwise with Aborted, since the events so far
//! may show too much or too little.
//!
//! # Cost
//! Changes in other tenancies, and of names without the prefix, do not wake a watch. A change that the caller may not
//! read, of another GroupVersion, or of another name than the [only](Events::only) one, is evaluated in vain: the
//! caller pays for the time, and beyond a share of a processor its watches get changes later ([`WatchPace`]). An event
//! that is delivered costs no share: its reader sets the pace.

use std::time::{Duration, Instant};

use mortise_plugin_host::processor_time;
use mortise_resource::{EncodedResource, Error, IdRef, pb};
use mortise_store::{ListKey, Query, StoreError, Watch, WatchEvent};

use super::{
    open_watch::OpenWatch,
    pools::{FOREGROUND_RESOURCES, Lists, YIELD_INTERVAL_CHANGES},
    watch_pace::WatchPace,
};
use crate::{
    call::{QueueKey, Share, store_fault::ended},
    planted,
    rules::RequestHooks,
};

/// Processor time of waking a watch, which the watch itself cannot measure.
const WAKE_TIME: Duration = Duration::from_micros(5);

/// An open watch of a client. Dropping it closes it.
pub struct Events {
    lists: Lists,
    state: WatchState,
    open: OpenWatch,
    pace: WatchPace,
    /// The only name that is shown.
    only: Option<String>,
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
        Self { lists: lists.clone(), state: WatchState::Queued(query, after), open, pace, only: None }
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
    async fn next(&mut self, lists: &Lists, queue_key: QueueKey) -> Result<WatchEvent, Error> {
        if let Self::Queued(query, after) = self {
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

    /// Returns the next event, if one is ready.
    fn ready(&mut self) -> Result<Option<WatchEvent>, Error> {
        match self {
            Self::Snapshot { watch, seen, .. } => {
                *seen += 1;
                watch.ready()
            }
            Self::Live(watch) => watch.ready(),
            Self::Queued(..) | Self::Ended => Ok(None),
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
        let mut next = None;
        self.next_ready(|event| {
            next = Some(event);
            false
        })
        .await?;
        let event = match next {
            Some(WatchEvent::Upsert(resource)) => Some(Event::Upsert(Upsert { resource: Some(resource.decode()?) })),
            Some(WatchEvent::Delete(resource)) => Some(Event::Delete(Delete { resource: Some(resource.decode()?) })),
            Some(WatchEvent::EndOfSnapshot) => Some(Event::EndOfSnapshot(EndOfSnapshot {})),
            None => None,
        };
        Ok(pb::WatchEvent { event })
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
            let is_live = matches!(self.state, WatchState::Live(_));
            let (begun, worked_before) = (Instant::now(), processor_time());
            let registry = self.lists.core.types();
            if is_live && planted::skips(&registry) {
                continue;
            }
            let kind = registry.resolve_type(self.open.wanted())?;
            let mut hooks = RequestHooks::new(kind.clone(), self.open.caller());
            let mut looked_at = 1;
            while let Some(event) = next {
                let more = match shown(&mut hooks, self.only.as_deref(), event).await? {
                    None => true,
                    Some(event) => {
                        if let WatchEvent::EndOfSnapshot = event {
                            self.state.end_snapshot();
                        }
                        handed_over = true;
                        each(event)
                    }
                };
                next = if more && looked_at < YIELD_INTERVAL_CHANGES { self.state.ready()? } else { None };
                looked_at += 1;
            }
            drop(hooks);
            if is_live && !handed_over {
                // A hook may have moved the watch to another thread, whose time says nothing; others may have the
                // processor.
                let worked = processor_time().saturating_sub(worked_before).min(begun.elapsed());
                self.open.until(self.pace.turn()).await?.pay(WAKE_TIME + worked);
            }
        }
        Ok(())
    }

    /// Waits for the next event, readable or not.
    async fn awaited(&mut self) -> Result<WatchEvent, Error> {
        let queue_key = self.open.caller().queue_key();
        loop {
            // In this order: a change of access precedes the events behind it, however many are ready.
            tokio::select! {
                biased;
                change = self.open.access_change() => self.open.judge(change).await?,
                event = self.state.next(&self.lists, queue_key.clone()) => return event,
            }
        }
    }
}

/// Returns the readable part of an event: the resource in its type's schema version.
async fn shown(hooks: &mut RequestHooks, only: Option<&str>, event: WatchEvent) -> Result<Option<WatchEvent>, Error> {
    let (resource, event): (_, fn(EncodedResource) -> WatchEvent) = match event {
        WatchEvent::EndOfSnapshot => return Ok(Some(event)),
        WatchEvent::Upsert(resource) => (resource, WatchEvent::Upsert),
        WatchEvent::Delete(resource) => (resource, WatchEvent::Delete),
    };
    if !resource.has_type(&hooks.kind.gvk) || only.is_some_and(|name| name != resource.name()) {
        return Ok(None);
    }
    let stored = resource.clone();
    let resource = hooks.upgraded(resource).await.map_err(|e| {
        let IdRef { partition, namespace, name, .. } = stored.id();
        e.with_resource(partition, namespace, name)
    })?;
    Ok(hooks.may_read(&resource).await?.then(|| event(resource)))
}

#[cfg(test)]
#[path = "events_tests.rs"]
mod tests;
