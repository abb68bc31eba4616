//! An open watch: first a cursor over the initial content, then the events of the type's hub.
//!
//! A watch holds nothing of the store but the publisher, so a forgotten watch keeps neither the database open nor the
//! directory locked. It holds one page of the initial content, and changed resources that it has yet to deliver.

use std::{
    future::poll_fn,
    task::{Context, Poll, ready},
    vec,
};

use async_trait::async_trait;
use mortise_resource::EncodedResource;

use crate::{
    Cursor as _, StoreError, Watch, WatchEvent,
    engine::read::{cursor::SledCursor, filter::Filter, form::Parsed, hub::HubEvent, publisher::Subscription},
};

/// A watch on the engine.
pub(crate) struct SledWatch {
    /// Cursor over the initial content; `None` once it is delivered.
    snapshot: Option<SledCursor<Parsed>>,
    page: vec::IntoIter<EncodedResource>,
    filter: Filter,
    events: Subscription,
    /// Event behind the deletion of the former GroupVersion.
    replacement: Option<WatchEvent>,
}

impl SledWatch {
    /// Makes a watch that delivers `snapshot`, the end marker, then the events that match the filter.
    pub(crate) fn new(snapshot: SledCursor<Parsed>, filter: Filter, events: Subscription) -> Self {
        Self { snapshot: Some(snapshot), page: Vec::new().into_iter(), filter, events, replacement: None }
    }

    /// Returns the event for the reader, if it matches: for a change of the GroupVersion the deletion of the former
    /// resource first.
    fn take(&mut self, taken: HubEvent) -> Option<WatchEvent> {
        let changes_group_version = taken.changes_group_version();
        let HubEvent { event, before, .. } = taken;
        match &event {
            WatchEvent::Upsert(resource) | WatchEvent::Delete(resource) if self.filter.matches(resource) => {}
            WatchEvent::Upsert(_) | WatchEvent::Delete(_) | WatchEvent::EndOfSnapshot => return None,
        }
        match before.filter(|_| changes_group_version) {
            Some(former) => {
                self.replacement = Some(event);
                Some(WatchEvent::Delete(former))
            }
            None => Some(event),
        }
    }
}

#[async_trait]
impl Watch for SledWatch {
    /// Returns the next event. Safe to cancel: the next call returns an event that was not delivered.
    async fn next(&mut self) -> Result<WatchEvent, StoreError> {
        while let Some(snapshot) = &mut self.snapshot {
            if let Some(resource) = self.page.next() {
                return Ok(WatchEvent::Upsert(resource));
            }
            match snapshot.next().await? {
                Some(page) => self.page = page.into_iter(),
                None => {
                    self.snapshot = None;
                    return Ok(WatchEvent::EndOfSnapshot);
                }
            }
        }
        poll_fn(|cx| self.poll_ready(cx)).await
    }

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<WatchEvent, StoreError>> {
        if let Some(snapshot) = &self.snapshot {
            if let Some(resource) = self.page.next() {
                return Poll::Ready(Ok(WatchEvent::Upsert(resource)));
            }
            if !snapshot.is_at_end() {
                return Poll::Pending;
            }
            self.snapshot = None;
            return Poll::Ready(Ok(WatchEvent::EndOfSnapshot));
        }
        if let Some(event) = self.replacement.take() {
            return Poll::Ready(Ok(event));
        }
        loop {
            let taken = ready!(self.events.poll_next(cx))?;
            if let Some(event) = self.take(taken) {
                return Poll::Ready(Ok(event));
            }
        }
    }
}
