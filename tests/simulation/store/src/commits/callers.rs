//! The callers of the store: writers, watchers, and readers of kept contents.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    task::{Context, Poll, Waker},
};

use mortise_resource::{EncodedResource, pb};
use shuttle::future::block_on;
use tokio::sync::oneshot;

use super::{
    model::{NAMES, Store, key, type_key, version},
    record::{Content, End, Event, Record, Seen, Watched},
};
use crate::{
    PastContent as _, Query, StoreError, Term, WatchEvent,
    dice::{below, one_in},
    engine::read::{
        filter::{Filter, with_place},
        hub::HubEvent,
        publisher::{OverwriteWindow, SubscribeRequest, Subscription},
    },
};

/// Callers of a store, and their common record.
pub(super) struct Callers {
    store: Arc<Store>,
    /// A plain lock: only locks of the store are steps.
    record: Mutex<Record>,
}

fn name() -> &'static str {
    NAMES.get(below(NAMES.len())).copied().unwrap_or_default()
}

fn query(prefix: &str) -> Query {
    let tenancy = pb::Tenancy { partition: "*".to_owned(), namespace: "*".to_owned() };
    Query { type_key: type_key(), tenancy, name_prefix: prefix.to_owned() }
}

impl Callers {
    /// Makes callers without observations.
    pub(super) fn new(store: Arc<Store>) -> Self {
        Self { store, record: Mutex::default() }
    }

    /// Takes the record.
    pub(super) fn record(&self) -> Record {
        std::mem::take(&mut self.record.lock().unwrap())
    }

    /// Reads a resource after a commit that the caller knows. Returns the newest commit that it knows then.
    fn read(&self, name: &'static str, known: u64) -> u64 {
        let version = self.store.read(name);
        self.record.lock().unwrap().reads.push(Seen { name, known, version });
        known.max(version.unwrap_or_default())
    }

    /// Commits some batches, and reads after each answer.
    pub(super) fn write(&self) {
        for _ in 0..1 + below(3) {
            let batch: Vec<_> = (0..1 + below(2)).map(|_| (name(), !one_in(3))).collect();
            let (answer, answered) = oneshot::channel();
            if block_on(self.store.queue.push((batch.clone(), answer))).is_err() {
                return;
            }
            if one_in(4) {
                continue;
            }
            let known = block_on(answered).unwrap_or_else(|_| panic!("an accepted batch without an answer"));
            assert!(self.store.publisher.newest() >= known, "answered before it was published");
            for (name, _) in batch {
                let known = self.read(name, known);
                self.read(name, known);
            }
        }
    }

    /// Watches until the end, or for a while and then once more.
    pub(super) fn watch(&self) {
        if self.watch_once() == Some(End::Left) && one_in(2) {
            self.watch_once();
        }
    }

    /// Opens a watch, and takes its events. `None` when the store is closed.
    fn watch_once(&self) -> Option<End> {
        let (prefix, compares, has_terms) = (if one_in(2) { "a" } else { "" }, one_in(2), one_in(2));
        let terms: Vec<Term> = if has_terms { with_place(&[], &query(prefix)) } else { Vec::new() };
        let has_terms = !terms.is_empty();
        let filter = Filter::Query(query(prefix));
        let type_key = type_key();
        let request = SubscribeRequest { type_key: &type_key, terms: &terms, compares };
        let opened = if one_in(4) {
            self.store.publisher.follow(&request).map(|(subscription, position)| (None, subscription, position))
        } else {
            let opened = self.store.publisher.subscribe(filter.clone(), &request);
            opened.map(|(window, subscription, position)| (Some(window), subscription, position))
        };
        let (window, subscription, position) = opened.ok()?;
        let snapshot = window.and_then(|window| self.scan(&filter, &window));
        let watched = Watched {
            prefix,
            has_terms,
            compares,
            position: position.sequence,
            snapshot,
            events: Vec::new(),
            newest: Vec::new(),
            end: End::Left,
        };
        let watched = self.follow(subscription, watched);
        let end = watched.end;
        self.record.lock().unwrap().watches.push(watched);
        Some(end)
    }

    /// Takes events.
    fn follow(&self, mut subscription: Subscription, mut watched: Watched) -> Watched {
        let leaves = one_in(4).then(|| below(3));
        while leaves != Some(watched.events.len()) {
            let next = match below(3) {
                0 => subscription.ready().transpose(),
                // A poll of a task that is gone by the time of the event.
                1 => match subscription.poll_next(&Context::from_waker(Waker::noop())) {
                    Poll::Ready(event) => Some(event),
                    Poll::Pending => None,
                },
                _ => None,
            };
            if next.is_none()
                && one_in(3)
                && let Some(newest) = subscription.newest()
            {
                watched.newest.push((watched.events.len(), newest.sequence));
            }
            match next.unwrap_or_else(|| block_on(subscription.next())) {
                Ok(event) => {
                    let event = observed(&event);
                    if let Some(name) = NAMES.into_iter().find(|name| *name == event.name) {
                        self.read(name, event.sequence);
                    }
                    watched.events.push(event);
                }
                Err(error) => {
                    watched.end = match error {
                        StoreError::WatchLagged { .. } => End::Lagged,
                        StoreError::Closed => End::Closed,
                        other => panic!("{other}"),
                    };
                    return watched;
                }
            }
        }
        watched
    }

    /// Reads the content as of the commit of a window, in pages. `None` if the window was dropped.
    fn scan(&self, filter: &Filter, window: &OverwriteWindow) -> Option<Content> {
        let (mut content, mut last, limit) = (Content::new(), key(""), 1 + below(2));
        loop {
            let mut page = self.page(&mut last, limit);
            let ended = page.len() < limit;
            let Ok(states) = window.pass((!ended).then_some(last.as_slice())) else {
                self.record.lock().unwrap().aborted += 1;
                return None;
            };
            page.retain(|_, found| filter.matches(found));
            for (key, state) in states {
                match state {
                    Some(state) => page.insert(key, state),
                    None => page.remove(&key),
                };
            }
            content.extend(page.values().map(|found| (found.name().to_owned(), version(found))));
            if ended {
                return Some(content);
            }
        }
    }

    /// Reads up to `limit` resources behind a key, which moves behind them; each as of another moment.
    fn page(&self, last: &mut Vec<u8>, limit: usize) -> BTreeMap<Vec<u8>, EncodedResource> {
        let mut page = BTreeMap::new();
        while page.len() < limit
            && let Some((key, found)) = self.store.read_behind(last)
        {
            last.clone_from(&key);
            page.insert(key, found);
        }
        page
    }

    /// Keeps the content of a commit while the store goes on, and reads it later.
    pub(super) fn keep(&self) {
        let filter = Filter::Query(query(""));
        let kept = self.store.publisher.keep(filter);
        let mut content: Content = self
            .page(&mut key(""), usize::MAX)
            .values()
            .map(|found| (found.name().to_owned(), version(found)))
            .collect();
        let mut known = 0;
        for _ in 0..2 {
            let Ok(overwritten) = kept.overwritten(known) else {
                self.record.lock().unwrap().aborted += 1;
                return;
            };
            known += overwritten.len();
            for (place, state) in overwritten {
                match state {
                    Some(state) => content.insert(place.name, version(&state)),
                    None => content.remove(&place.name),
                };
            }
            self.record.lock().unwrap().contents.push((kept.position().sequence, content.clone()));
        }
    }
}

fn observed(event: &HubEvent) -> Event {
    let (resource, now) = match &event.event {
        WatchEvent::Upsert(resource) => (resource, Some(version(resource))),
        WatchEvent::Delete(resource) => (resource, None),
        other => panic!("{other:?}"),
    };
    Event {
        sequence: event.sequence,
        commit: event.commit,
        more: event.more,
        name: resource.name().to_owned(),
        now,
        before: event.before.as_ref().map(version),
    }
}
