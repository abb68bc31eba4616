//! An open watch: the rest of its snapshot, then the events of its type's hub.
//!
//! It holds nothing of the store but the publisher, so a watch that a caller forgot keeps neither the database open nor the
//! directory locked. Its snapshot stands encoded in memory until it is read: a watch costs what it has yet to deliver.

use std::{sync::Arc, vec};

use async_trait::async_trait;
use tokio::sync::broadcast::{Receiver, error::RecvError};

use crate::engine::{
    metrics,
    read::{filter::Filter, publisher::Publisher, walk::Match},
    tree::table::Decoder,
};
use crate::{Query, StoreError, TypeKey, Watch, WatchEvent};

/// A watch on the engine.
pub(crate) struct SledWatch {
    decoder: Decoder,
    snapshot: vec::IntoIter<Match>,
    in_snapshot: bool,
    filter: Filter,
    /// Gone once the watch is dead.
    events: Option<Receiver<WatchEvent>>,
    hub: Hub,
    lagged: bool,
}

/// The share of a watch in its type's hub.
struct Hub {
    publisher: Arc<Publisher>,
    type_key: TypeKey,
}

impl SledWatch {
    /// Delivers the snapshot, the end marker, then those of `events` that the query asks for.
    pub(crate) fn new(
        publisher: Arc<Publisher>,
        decoder: Decoder,
        query: &Query,
        snapshot: Vec<Match>,
        events: Receiver<WatchEvent>,
    ) -> Self {
        Self {
            decoder,
            snapshot: snapshot.into_iter(),
            in_snapshot: true,
            filter: Filter::Query(query.clone()),
            events: Some(events),
            hub: Hub { publisher, type_key: query.type_key.clone() },
            lagged: false,
        }
    }

    fn end(&mut self, lagged: bool) -> StoreError {
        self.events = None;
        self.snapshot = Vec::new().into_iter();
        self.in_snapshot = false;
        self.lagged = lagged;
        if lagged { StoreError::WatchLagged { bound: self.hub.publisher.watch_buffer() } } else { StoreError::Closed }
    }
}

#[async_trait]
impl Watch for SledWatch {
    /// Safe to cancel: an event that was not returned is returned by the next call.
    async fn next(&mut self) -> Result<WatchEvent, StoreError> {
        if self.in_snapshot {
            if let Some(item) = self.snapshot.next() {
                return item.into_shared(&self.decoder).map(WatchEvent::Upsert);
            }
            self.in_snapshot = false;
            self.snapshot = Vec::new().into_iter();
            return Ok(WatchEvent::EndOfSnapshot);
        }
        loop {
            let Some(events) = &mut self.events else { return Err(self.end(self.lagged)) };
            match events.recv().await {
                Ok(event) => match &event {
                    WatchEvent::Upsert(resource) | WatchEvent::Delete(resource) if self.filter.matches(resource) => {
                        return Ok(event);
                    }
                    _ => {}
                },
                Err(RecvError::Lagged(_)) => {
                    metrics::watch_lagged();
                    return Err(self.end(true));
                }
                Err(RecvError::Closed) => return Err(self.end(false)),
            }
        }
    }
}

impl Drop for SledWatch {
    fn drop(&mut self) {
        // The receiver first: the hub goes when nobody is left who receives.
        self.events = None;
        self.hub.publisher.unwatch(&self.hub.type_key);
    }
}
