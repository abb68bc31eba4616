//! An open watch: a cursor over its snapshot, then the events of its type's hub.
//!
//! It holds nothing of the store but the publisher, so a watch that a caller forgot keeps neither the database open nor
//! the directory locked. Of its snapshot it holds one page, and what changed that it has yet to deliver.

use std::vec;

use async_trait::async_trait;
use mortise_resource::EncodedResource;

use crate::{
    Cursor as _, StoreError, Watch, WatchEvent,
    engine::read::{filter::Filter, hub::HubEvent, publisher::Subscription, scan::SledCursor},
};

/// A watch on the engine.
pub(crate) struct SledWatch {
    /// Gone once the snapshot is delivered.
    snapshot: Option<SledCursor>,
    page: vec::IntoIter<EncodedResource>,
    filter: Filter,
    events: Subscription,
}

impl SledWatch {
    /// Delivers the snapshot, the end marker, then those of `events` that match the filter.
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
    /// Safe to cancel: an event that was not returned is returned by the next call.
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
