//! The publisher: makes commits visible, in the table, to scans and to watches at once.
//!
//! The commit thread makes a group durable in the write-ahead log, and only then *publishes* it: under the lock of the
//! publisher, it shows the group in the table and hands the changes to scans and watches. So the table shows only
//! durable, published changes.
//!
//! # Why a scan is the exact state of one commit
//! A scan takes time, so the table shows it each key as of another moment. Before its first read it opens a *window*,
//! under the lock; its result is exact for *S*, the last published commit. From then on, each publication notes in the
//! window the state at *S* of each matching key that changes: its state before the first change. The scan goes on in
//! pages, in key order. It reads a page without the lock and then, under the lock, takes the noted states up to the
//! page's last key and moves the window behind it ([`OverwriteWindow::pass`]):
//! - a noted key changed after *S*: the noted state replaces that of the page, which may be newer, or half of each;
//! - any other key did not change between *S* and that moment: the state in the page is right.
//!
//! Keys that the window has passed are delivered already, and no longer noted.
//!
//! A window that no scan passes keeps the content of a query as of its commit ([`PastContent`]): a state read from the
//! table after the window was opened is that of the commit, unless the window has a note of its key by then.
//!
//! A watch subscribes in the critical section in which its window is opened, so its events are exactly those after *S*:
//! no gap, nothing twice.
//!
//! # Cost
//! None for a read. Publishing costs one lookup per change in the watched types, some more where watches have terms
//! ([`type_hubs`](crate::engine::read::type_hubs)), and one comparison per change and open window. A type without
//! watches has no hub. Waiting events are bounded in number and bytes, for each hub and for all
//! ([`hub`](crate::engine::read::hub)); over the common bound, the fullest hub loses its oldest events first. A window
//! holds the states of keys that it has not passed and that changed since it was opened, so, however slow its reader,
//! no more than the scan's result. All windows together have a bound in bytes, too: over it, the largest window is
//! dropped, and its scan fails.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    future::poll_fn,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker, ready},
};

use mortise_resource::EncodedResource;
use parking_lot::Mutex;

use crate::engine::{
    metrics,
    planted::{self, Fault},
    read::{
        filter::Filter,
        hub::{Hub, HubEnd, HubEvent, HubLimits, HubReader},
        published_head::PublishedHead,
        type_hubs::{Terms, TypeHubs},
    },
    tree::{change::Change, keys},
};
use crate::{ListKey, PastContent, Position, StoreError, Term, TypeKey, WatchEvent};

/// States by key as of a window's commit; `None` for keys without a match at that commit.
pub(crate) type States = BTreeMap<Vec<u8>, Option<EncodedResource>>;

/// The publisher of a store.
pub(crate) struct Publisher {
    state: Mutex<State>,
    limits: HubLimits,
    /// Bytes of the events in all hubs.
    bytes: Arc<AtomicUsize>,
    /// Most bytes of events in hubs, and also of states in windows.
    max_bytes: usize,
}

/// Approximate bytes of an event, or of a state in a window, besides its encoding.
const EVENT_OVERHEAD_BYTES: usize = 512;

#[derive(Default)]
struct State {
    types: BTreeSet<TypeKey>,
    hubs: HashMap<TypeKey, TypeHubs>,
    newest: PublishedHead,
    windows: HashMap<u64, WindowStates>,
    next_window: u64,
    /// Bytes of the states in all windows.
    window_bytes: usize,
    closed: bool,
}

/// Events that a subscription requires.
pub(crate) struct SubscribeRequest<'w> {
    pub(crate) type_key: &'w TypeKey,
    /// Terms; the subscription gets at least the events of resources for which all hold, before or after the change.
    pub(crate) terms: &'w [Term],
    /// Whether the subscription needs the state before each change.
    pub(crate) compares: bool,
}

struct WindowStates {
    filter: Filter,
    /// Last key that the scan passed.
    passed: Option<Vec<u8>>,
    states: States,
    /// Keys of the states, in the order of their notes, if nothing passes the window.
    order: Option<Vec<Vec<u8>>>,
    /// Bytes of the states.
    bytes: usize,
    /// Whether the window was dropped to make room for others.
    is_lost: bool,
}

enum Events {
    Open(HubReader),
    Lagged,
    Closed,
}

/// A subscription to the events of a type.
pub(crate) struct Subscription {
    events: Events,
    publisher: Arc<Publisher>,
    type_key: TypeKey,
    /// Terms of its hub; `None` for the hub of all events.
    terms: Option<Terms>,
}

/// An open window of a scan. Dropping it closes it.
pub(crate) struct OverwriteWindow {
    publisher: Arc<Publisher>,
    number: u64,
}

/// A window that nothing passes, and the position of its commit.
pub(crate) struct SledPast {
    window: OverwriteWindow,
    position: Position,
}

impl Publisher {
    /// Makes the publisher of a store with resources of these types.
    pub(crate) fn new(types: BTreeSet<TypeKey>, newest: PublishedHead, limits: HubLimits, max_bytes: usize) -> Self {
        let state = State { types, newest, ..State::default() };
        Self { state: Mutex::new(state), limits, bytes: Arc::default(), max_bytes }
    }

    /// Returns the sequence of the last published event; 0 before the first.
    pub(crate) fn newest(&self) -> u64 {
        self.state.lock().newest.sequence
    }

    /// Sets the sequence of the last event, whose resource is unknown.
    pub(crate) fn set_newest(&self, sequence: u64) {
        self.state.lock().newest = PublishedHead { sequence, carried: None };
    }

    /// Publishes a durable group: `show` makes the table show it.
    pub(crate) fn publish(&self, changes: &[Change], show: impl FnOnce()) {
        let mut state = self.state.lock();
        // Before the events: a reader that has seen an event must not read an older state.
        let deferred = planted::show_or_defer(show);
        let State { types, hubs, windows, newest, window_bytes, .. } = &mut *state;
        let hubs = &*hubs;
        let mut touched = Vec::new();
        for change in planted::order(changes) {
            if change.now.is_some() && !types.contains(&change.type_key) {
                types.insert(change.type_key.clone());
            }
            for window in windows.values_mut() {
                *window_bytes += window.note(change);
            }
            while *window_bytes > self.max_bytes
                && let Some(fullest) = windows.values_mut().max_by_key(|window| window.bytes)
                && fullest.bytes > 0
            {
                *window_bytes -= fullest.drop_states();
                metrics::scan_aborted();
            }
            if change.is_event
                && !planted::happens(Fault::LostEvent)
                && let Some(hubs) = hubs.get(&change.type_key)
                && let Some(event) = event(change)
            {
                let bytes = change.payload().len() + EVENT_OVERHEAD_BYTES;
                hubs.send_to_matching(change, |hub| {
                    if hub.send(event.clone(), bytes, self.limits) {
                        touched.push(hub);
                    }
                });
            }
        }
        let mut woken: Vec<_> = touched.into_iter().flat_map(Hub::reveal).collect();
        if let Some(show) = deferred {
            woken.drain(..).for_each(Waker::wake);
            show();
        }
        if let Some(last) = changes.iter().rfind(|change| change.is_event) {
            *newest = PublishedHead { sequence: last.seq, carried: last.now.as_ref().or(last.prior.as_ref()).cloned() };
        }
        while self.bytes.load(Ordering::Relaxed) > self.max_bytes {
            let fullest = hubs.values().flat_map(TypeHubs::each).max_by_key(|hub| hub.bytes());
            if !fullest.is_some_and(|hub| hub.evict_oldest()) {
                break;
            }
        }
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    /// Removes types without resources.
    pub(crate) fn forget(&self, gone: &[TypeKey]) {
        if !gone.is_empty() {
            let mut state = self.state.lock();
            state.types.retain(|type_key| !gone.contains(type_key));
        }
    }

    /// Returns the types with stored resources.
    pub(crate) fn types(&self) -> Vec<TypeKey> {
        self.state.lock().types.iter().cloned().collect()
    }

    /// Opens a window for the resources that match.
    pub(crate) fn open_window(self: &Arc<Self>, filter: Filter) -> OverwriteWindow {
        self.window(&mut self.state.lock(), filter)
    }

    /// Opens a window that nothing passes.
    pub(crate) fn keep(self: &Arc<Self>, filter: Filter) -> SledPast {
        let mut state = self.state.lock();
        let window = self.window(&mut state, filter);
        if let Some(kept) = state.windows.get_mut(&window.number) {
            kept.order = Some(Vec::new());
        }
        SledPast { window, position: state.newest.position() }
    }

    /// Opens a window, and subscribes to the events of a type from the same commit on, whose position is returned, too.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub(crate) fn subscribe(
        self: &Arc<Self>,
        filter: Filter,
        wanted: &SubscribeRequest<'_>,
    ) -> Result<(OverwriteWindow, Subscription, Position), StoreError> {
        let mut state = self.state.lock();
        let subscription = self.subscription(&mut state, wanted)?;
        let position = state.newest.position();
        Ok((self.window(&mut state, filter), subscription, position))
    }

    /// Subscribes to the events of a type from now on; also returns the position of the last earlier event.
    ///
    /// # Errors
    /// [`StoreError::Closed`].
    pub(crate) fn follow(
        self: &Arc<Self>,
        wanted: &SubscribeRequest<'_>,
    ) -> Result<(Subscription, Position), StoreError> {
        let mut state = self.state.lock();
        let subscription = self.subscription(&mut state, wanted)?;
        Ok((subscription, state.newest.position()))
    }

    fn subscription(
        self: &Arc<Self>,
        state: &mut State,
        wanted: &SubscribeRequest<'_>,
    ) -> Result<Subscription, StoreError> {
        if state.closed {
            return Err(StoreError::Closed);
        }
        let SubscribeRequest { type_key, terms, compares } = wanted;
        let hubs = state.hubs.entry((*type_key).clone()).or_default();
        let terms = hubs.admitted(terms);
        let hub = hubs.hub(terms.as_ref(), || Arc::new(Hub::new(self.bytes.clone())));
        let events = Events::Open(hub.subscribe(*compares));
        Ok(Subscription { events, publisher: self.clone(), type_key: (*type_key).clone(), terms })
    }

    fn window(self: &Arc<Self>, state: &mut State, filter: Filter) -> OverwriteWindow {
        let number = state.next_window;
        state.next_window += 1;
        let changes =
            WindowStates { filter, passed: None, states: States::new(), order: None, bytes: 0, is_lost: false };
        state.windows.insert(number, changes);
        OverwriteWindow { publisher: self.clone(), number }
    }

    /// Ends every watch, and refuses new ones.
    pub(crate) fn close(&self) {
        let mut state = self.state.lock();
        state.closed = true;
        let closed: Vec<_> = state.hubs.drain().collect();
        let woken: Vec<_> = closed.iter().flat_map(|(_, hubs)| hubs.each()).flat_map(|hub| hub.close()).collect();
        drop(state);
        woken.into_iter().for_each(Waker::wake);
    }

    #[cfg(test)]
    pub(crate) fn waiting_bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    #[cfg(test)]
    pub(crate) fn window_bytes(&self) -> usize {
        self.state.lock().window_bytes
    }

    #[cfg(test)]
    pub(crate) fn hubs_and_windows(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.hubs.values().flat_map(TypeHubs::each).count(), state.windows.len())
    }
}

impl OverwriteWindow {
    /// Moves the window behind `last`, the last key of a page that was read; `None` at the end of the scan. Returns the
    /// states that replace those of the page.
    ///
    /// # Errors
    /// [`StoreError::ScanAborted`].
    pub(crate) fn pass(&self, last: Option<&[u8]>) -> Result<States, StoreError> {
        let mut state = self.publisher.state.lock();
        let State { windows, window_bytes, .. } = &mut *state;
        let Some(window) = windows.get_mut(&self.number) else { return Ok(States::new()) };
        if window.is_lost {
            return Err(StoreError::ScanAborted { bytes: self.publisher.max_bytes });
        }
        let left = match last {
            None => States::new(),
            Some(last) => {
                window.passed = Some(last.to_vec());
                // From the first key after `last`.
                window.states.split_off([last, &[0]].concat().as_slice())
            }
        };
        let passed = std::mem::replace(&mut window.states, left);
        let bytes: usize = passed.iter().map(|(key, state)| state_bytes(key, state.as_ref())).sum();
        window.bytes -= bytes;
        *window_bytes -= bytes;
        Ok(passed)
    }
}

impl PastContent for SledPast {
    fn position(&self) -> Position {
        self.position
    }

    fn overwritten(&self, known: usize) -> Result<Vec<(ListKey, Option<EncodedResource>)>, StoreError> {
        let publisher = &self.window.publisher;
        let state = publisher.state.lock();
        let Some(window) = state.windows.get(&self.window.number).filter(|window| !window.is_lost) else {
            return Err(StoreError::ScanAborted { bytes: publisher.max_bytes });
        };
        let keys = window.order.as_deref().and_then(|order| order.get(known..)).unwrap_or_default();
        // Changes have keys of resources, which all have a place.
        let noted = |key: &Vec<u8>| Some((keys::resource_list_key(key)?, window.states.get(key).cloned().flatten()));
        Ok(keys.iter().filter_map(noted).collect())
    }
}

impl Subscription {
    /// Returns the next event of the type.
    ///
    /// # Errors
    /// [`StoreError::WatchLagged`], [`StoreError::Closed`]; the same one in all later calls.
    pub(crate) async fn next(&mut self) -> Result<HubEvent, StoreError> {
        poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Returns the next event of the type if one is waiting; otherwise the task is woken at the next one.
    ///
    /// # Errors
    /// As [`Subscription::next`].
    pub(crate) fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Result<HubEvent, StoreError>> {
        if let Events::Open(events) = &mut self.events {
            match ready!(events.poll_next(cx)) {
                Ok(event) => return Poll::Ready(Ok(event)),
                Err(end) => self.end(end),
            }
        }
        Poll::Ready(Err(self.fault()))
    }

    /// Returns the next event of the type, if one is waiting.
    ///
    /// # Errors
    /// As [`Subscription::next`].
    pub(crate) fn ready(&mut self) -> Result<Option<HubEvent>, StoreError> {
        if let Events::Open(events) = &mut self.events {
            match events.take().transpose() {
                Ok(event) => return Ok(event),
                Err(end) => self.end(end),
            }
        }
        Err(self.fault())
    }

    /// Returns the newest position of the store, if every earlier event was taken.
    pub(crate) fn newest(&self) -> Option<Position> {
        let state = self.publisher.state.lock();
        match &self.events {
            Events::Open(events) => events.is_at_end().then(|| state.newest.position()),
            Events::Lagged | Events::Closed => None,
        }
    }

    fn end(&mut self, end: HubEnd) {
        self.events = match end {
            HubEnd::Lagged => {
                metrics::watch_lagged();
                Events::Lagged
            }
            HubEnd::Closed => Events::Closed,
        };
    }

    fn fault(&self) -> StoreError {
        match self.events {
            Events::Lagged => {
                StoreError::WatchLagged { bound: self.publisher.limits.events, bytes: self.publisher.limits.bytes }
            }
            Events::Open(_) | Events::Closed => StoreError::Closed,
        }
    }
}

impl Drop for Subscription {
    /// Removes the hub after its last subscription.
    fn drop(&mut self) {
        self.events = Events::Closed;
        let mut state = self.publisher.state.lock();
        if state.hubs.get_mut(&self.type_key).is_some_and(|hubs| hubs.remove_unread(self.terms.as_ref())) {
            state.hubs.remove(&self.type_key);
        }
    }
}

impl Drop for OverwriteWindow {
    fn drop(&mut self) {
        let mut state = self.publisher.state.lock();
        let closed = state.windows.remove(&self.number);
        state.window_bytes -= closed.map_or(0, |window| window.bytes);
    }
}

impl WindowStates {
    /// Notes the state before a change; returns the added bytes.
    fn note(&mut self, change: &Change) -> usize {
        let is_passed = self.passed.as_ref().is_some_and(|passed| change.key <= *passed);
        if self.is_lost || is_passed || self.states.contains_key(&change.key) {
            return 0;
        }
        let matching = |resource: &&EncodedResource| self.filter.matches(resource);
        let prior = change.prior.as_ref().filter(matching).cloned();
        if prior.is_some() || change.now.as_ref().filter(matching).is_some() {
            let mut bytes = state_bytes(&change.key, prior.as_ref());
            if let Some(order) = &mut self.order {
                order.push(change.key.clone());
                bytes += change.key.len();
            }
            self.states.insert(change.key.clone(), prior);
            self.bytes += bytes;
            return bytes;
        }
        0
    }

    /// Drops all states; returns their bytes.
    fn drop_states(&mut self) -> usize {
        self.is_lost = true;
        self.states = States::new();
        self.order = None;
        std::mem::take(&mut self.bytes)
    }
}

fn state_bytes(key: &[u8], state: Option<&EncodedResource>) -> usize {
    key.len() + state.map_or(0, |resource| resource.bytes().len()) + EVENT_OVERHEAD_BYTES
}

fn event(change: &Change) -> Option<HubEvent> {
    let (event, before) = match (&change.now, &change.prior) {
        (Some(now), before) => (WatchEvent::Upsert(now.clone()), before.clone()),
        (None, Some(prior)) => (WatchEvent::Delete(prior.clone()), None),
        (None, None) => return None,
    };
    Some(HubEvent { event, sequence: change.seq, commit: change.commit, more: false, before })
}
