//! An open watch: first a cursor over the initial content, then the events of the type's hub.
//!
//! A watch holds nothing of the store but the publisher, so a forgotten watch keeps neither the database open nor the
//! directory locked. It holds one page of the initial content, and changed resources that it has yet to deliver.

use std::vec;

use async_trait::async_trait;
use mortise_resource::EncodedResource;

use crate::{
    Cursor as _, StoreError, Watch, WatchEvent,
    engine::read::{filter::Filter, hub::HubEvent, publisher::Subscription, scan::SledCursor},
};

/// A watch on the engine.
pub(crate) struct SledWatch {
    /// Cursor over the initial content; `None` once it is delivered.
    snapshot: Option<SledCursor>,
    page: vec::IntoIter<EncodedResource>,
    filter: Filter,
    events: Subscription,
}

impl SledWatch {
    /// Makes a watch that delivers `snapshot`, the end marker, then the events that match the filter.
    pub(crate) fn new(snapshot: SledCursor, filter: Filter, events: Subscription) -> Self {
        Self { snapshot: Some(snapshot), page: Vec::new().into_iter(), filter, events }
    }

    fn is_wanted(&self, event: &WatchEvent) -> bool {
        match event {
            WatchEvent::Upsert(resource) | WatchEvent::Delete(resource) => self.filter.matches(resource),
            WatchEvent::EndOfSnapshot => false,
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
        loop {
            let event = self.events.next().await?.event;
            if self.is_wanted(&event) {
                return Ok(event);
            }
        }
    }

    fn ready(&mut self) -> Result<Option<WatchEvent>, StoreError> {
        if let Some(snapshot) = &self.snapshot {
            if let Some(resource) = self.page.next() {
                return Ok(Some(WatchEvent::Upsert(resource)));
            }
            if !snapshot.is_at_end() {
                return Ok(None);
            }
            self.snapshot = None;
            return Ok(Some(WatchEvent::EndOfSnapshot));
        }
        while let Some(HubEvent { event, .. }) = self.events.ready()? {
            if self.is_wanted(&event) {
                return Ok(Some(event));
            }
        }
        Ok(None)
    }
}
