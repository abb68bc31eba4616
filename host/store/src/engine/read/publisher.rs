//! The point where commits become visible, and everything that must change together with it.
//!
//! The commit thread makes a group durable in the write-ahead log, and only then *publishes* it: under the lock of the publisher, it
//! shows the group in the table and hands the changes to scans and watches. So what the table shows is durable and published.
//!
//! # Why a scan is the exact state of one commit
//! A scan takes time, so the table shows it each key as of another moment. It opens a *window* before its first look:
//! from then on publishing notes in it the newest state of every matching key that changes. When the scan is through, it
//! closes the window under the lock; the commit S published last is what it will be exact for:
//! - a key in the window: its newest state is noted;
//! - any other key did not change between the first look and S: what the table showed is its state.
//!
//! A watch subscribes in the same critical section, so its events are exactly those after S: no gap, nothing twice.
//!
//! # Cost
//! Nothing for a read. Publishing costs one lookup per change in the watched types, and one comparison per change and
//! open scan. A type that nobody watches has no hub.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use mortise_resource::pb;
use parking_lot::Mutex;
use tokio::sync::broadcast;

use crate::engine::{commit::commit_group::Change, read::filter::Filter};
use crate::{StoreError, TypeKey, WatchEvent};

/// Newest states by key, `None` where there is nothing that matches any more.
pub(crate) type States = BTreeMap<Vec<u8>, Option<Arc<pb::Resource>>>;

/// Who has to hear of what is published.
pub(crate) struct Publisher {
    state: Mutex<State>,
    watch_buffer: usize,
}

#[derive(Default)]
struct State {
    types: BTreeSet<TypeKey>,
    hubs: HashMap<TypeKey, broadcast::Sender<WatchEvent>>,
    windows: HashMap<u64, WindowChanges>,
    next_window: u64,
    closed: bool,
}

struct WindowChanges {
    filter: Filter,
    states: States,
}

/// A window that is open. Dropping it closes it.
pub(crate) struct Window {
    publisher: Arc<Publisher>,
    number: u64,
}

impl Publisher {
    /// Of a store that holds resources of these types.
    pub(crate) fn new(types: BTreeSet<TypeKey>, watch_buffer: usize) -> Self {
        let state = State { types, ..State::default() };
        Self { state: Mutex::new(state), watch_buffer }
    }

    /// How many events a watch may be behind.
    pub(crate) fn watch_buffer(&self) -> usize {
        self.watch_buffer
    }

    /// Publishes a group, which is durable: `show` makes the table show it.
    pub(crate) fn publish(&self, changes: &[Change], show: impl FnOnce()) {
        let mut state = self.state.lock();
        // Before the events: whoever has seen an event must not read what was before it.
        show();
        let State { types, hubs, windows, .. } = &mut *state;
        for change in changes {
            if change.now.is_some() && !types.contains(&change.type_key) {
                types.insert(change.type_key.clone());
            }
            for window in windows.values_mut() {
                window.note(change);
            }
            if change.is_event
                && let Some(hub) = hubs.get(&change.type_key)
                && let Some(event) = event(change)
            {
                // Nobody listening is no fault: a watch that ended removes its hub.
                hub.send(event).ok();
            }
        }
    }

    /// Forgets types of which no resource is left.
    pub(crate) fn forget(&self, gone: &[TypeKey]) {
        if !gone.is_empty() {
            let mut state = self.state.lock();
            state.types.retain(|type_key| !gone.contains(type_key));
        }
    }

    /// The types of which resources are stored.
    pub(crate) fn types(&self) -> Vec<TypeKey> {
        self.state.lock().types.iter().cloned().collect()
    }

    /// Starts noting what changes among the resources that match.
    pub(crate) fn open_window(self: &Arc<Self>, filter: Filter) -> Window {
        let mut state = self.state.lock();
        let number = state.next_window;
        state.next_window += 1;
        state.windows.insert(number, WindowChanges { filter, states: States::new() });
        Window { publisher: self.clone(), number }
    }

    /// Ends every watch, and refuses new ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        state.hubs.clear();
    }

    /// Forgets the hub of a type when its last watch is gone.
    pub(crate) fn unwatch(&self, type_key: &TypeKey) {
        let mut state = self.state.lock();
        if state.hubs.get(type_key).is_some_and(|hub| hub.receiver_count() == 0) {
            state.hubs.remove(type_key);
        }
    }

    #[cfg(test)]
    pub(crate) fn hubs_and_windows(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.hubs.len(), state.windows.len())
    }
}

impl Window {
    /// Closes the window: the states that override what the scan saw, and, when a type is given, its events from here.
    pub(crate) fn close(
        self,
        watch: Option<&TypeKey>,
    ) -> Result<(States, Option<broadcast::Receiver<WatchEvent>>), StoreError> {
        let mut state = self.publisher.state.lock();
        let states = state.windows.remove(&self.number).map(|noted| noted.states).unwrap_or_default();
        let Some(type_key) = watch else { return Ok((states, None)) };
        if state.closed {
            return Err(StoreError::Closed);
        }
        let hub = state
            .hubs
            .entry(type_key.clone())
            .or_insert_with(|| broadcast::Sender::new(self.publisher.watch_buffer))
            .subscribe();
        Ok((states, Some(hub)))
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        self.publisher.state.lock().windows.remove(&self.number);
    }
}

impl WindowChanges {
    fn note(&mut self, change: &Change) {
        let asked_for = |resource: &&Arc<pb::Resource>| self.filter.matches(resource);
        let now = change.now.as_ref().filter(asked_for).cloned();
        if now.is_some() || change.prior.as_ref().filter(asked_for).is_some() {
            self.states.insert(change.key.clone(), now);
        }
    }
}

fn event(change: &Change) -> Option<WatchEvent> {
    match (&change.now, &change.prior) {
        (Some(now), _) => Some(WatchEvent::Upsert(now.clone())),
        (None, Some(prior)) => Some(WatchEvent::Delete(prior.clone())),
        (None, None) => None,
    }
}
