//! A hub: the buffer of a type's events for its watches, bounded in events and bytes.
//!
//! An event stays until every watch from before it has taken it, or until it is pushed out. A watch has lagged when an
//! event that it has not taken is pushed out. So a type's buffer keeps its bounds, however many watches are slow or
//! never polled; the publisher bounds all types together.
//!
//! Cost: taking an event, or waiting for one, is a lock, with a copy of two pointers or of the task's waker; dropping a
//! watch visits each event that it has not taken. tokio's `Notify` would take its own lock four times for each event
//! and watch: to wait, at both polls, and to wake.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Waker},
};

use mortise_resource::EncodedResource;
use parking_lot::Mutex;

use crate::WatchEvent;

/// Bounds of one hub.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HubLimits {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// A buffer of events.
pub(crate) struct Hub {
    state: Mutex<State>,
    /// Bytes of all hubs of the store.
    total: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Number of the first waiting event; events are numbered from 0.
    first: u64,
    /// Number of the first waiting event that readers may not take yet.
    hidden: u64,
    bytes: usize,
    /// A place for each reader, with its task's waker while it waits.
    wakers: Vec<Option<Waker>>,
    /// Places without a reader.
    free: Vec<usize>,
    readers: usize,
    /// Number of readers that want the state before each change.
    comparing: usize,
    closed: bool,
}

/// A change as watches receive it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HubEvent {
    /// Event for watchers.
    pub(crate) event: WatchEvent,
    /// Sequence of the commit.
    pub(crate) sequence: u64,
    /// Number of the batch, the same in each of its events.
    pub(crate) commit: u64,
    /// Whether the hub has another event of the same batch behind this one.
    pub(crate) more: bool,
    /// State before an upsert; only for readers that [compare](Hub::subscribe), and where the GroupVersion changed.
    pub(crate) before: Option<EncodedResource>,
}

impl HubEvent {
    /// Whether the event replaces a resource of another GroupVersion.
    pub(crate) fn changes_group_version(&self) -> bool {
        match (&self.event, &self.before) {
            (WatchEvent::Upsert(now), Some(before)) => now.id().group_version != before.id().group_version,
            _ => false,
        }
    }
}

/// An event, with the number of watches that have not taken it.
struct Waiting {
    event: HubEvent,
    bytes: usize,
    readers: usize,
}

/// Reason for the end of a reader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HubEnd {
    /// An event was pushed out before the reader took it.
    Lagged,
    Closed,
}

/// A reader of a hub. Dropping it releases the events that it has not taken.
pub(crate) struct HubReader {
    hub: Arc<Hub>,
    next: u64,
    /// Place of its waker.
    place: usize,
    compares: bool,
}

impl State {
    fn end(&self) -> u64 {
        self.first + self.waiting.len() as u64
    }

    /// Takes the event with a number, if readers may have it.
    fn take(&mut self, number: u64, total: &AtomicUsize) -> Option<Result<HubEvent, HubEnd>> {
        let Some(ahead) = number.checked_sub(self.first) else { return Some(Err(HubEnd::Lagged)) };
        let ahead = usize::try_from(ahead).ok().filter(|_| number < self.hidden);
        let Some(waiting) = ahead.and_then(|ahead| self.waiting.get_mut(ahead)) else {
            return self.closed.then_some(Err(HubEnd::Closed));
        };
        let mut event = waiting.event.clone();
        waiting.readers -= 1;
        let behind = ahead.and_then(|ahead| self.waiting.get(ahead + 1));
        event.more = behind.is_some_and(|behind| behind.event.commit == event.commit);
        self.drop_taken(total);
        Some(Ok(event))
    }

    /// Keeps the waker of a reader that waits. Returns the one that it replaces, to be dropped without the lock: a
    /// waker may own the task, and the task readers of this hub.
    fn set_waker(&mut self, place: usize, waker: &Waker) -> Option<Waker> {
        let place = self.wakers.get_mut(place)?;
        if place.as_ref().is_some_and(|known| known.will_wake(waker)) {
            return None;
        }
        place.replace(waker.clone())
    }

    /// Returns the wakers of the waiting readers, which have to wait again.
    fn take_wakers(&mut self) -> Vec<Waker> {
        self.wakers.iter_mut().filter_map(Option::take).collect()
    }

    /// Drops the first event. False without an event.
    fn drop_first(&mut self, total: &AtomicUsize) -> bool {
        let Some(gone) = self.waiting.pop_front() else { return false };
        self.first += 1;
        self.bytes -= gone.bytes;
        total.fetch_sub(gone.bytes, Ordering::Relaxed);
        true
    }

    /// Drops the events that every watch has taken.
    fn drop_taken(&mut self, total: &AtomicUsize) {
        while self.waiting.front().is_some_and(|first| first.readers == 0) {
            self.drop_first(total);
        }
    }
}

impl Hub {
    /// Makes an empty hub, which adds its bytes to `total`.
    pub(crate) fn new(total: Arc<AtomicUsize>) -> Self {
        Self { state: Mutex::default(), total }
    }

    /// Makes a reader behind the last event; `compares` asks for the state before each change.
    pub(crate) fn subscribe(self: &Arc<Self>, compares: bool) -> HubReader {
        let mut state = self.state.lock();
        state.readers += 1;
        state.comparing += usize::from(compares);
        let place = state.free.pop().unwrap_or_else(|| {
            state.wakers.push(None);
            state.wakers.len() - 1
        });
        HubReader { hub: self.clone(), next: state.end(), place, compares }
    }

    /// Adds an event of `bytes` bytes, hidden until [`Hub::reveal`], and pushes out the oldest ones that do not fit.
    /// Keeps the state before it only if a reader compares, or if the GroupVersion changed. Returns whether it is the
    /// first hidden one.
    pub(crate) fn send(&self, mut event: HubEvent, mut bytes: usize, limits: HubLimits) -> bool {
        let mut state = self.state.lock();
        let readers = state.readers;
        if readers == 0 {
            return false;
        }
        let is_first = state.hidden == state.end();
        if state.comparing == 0 && !event.changes_group_version() {
            event.before = None;
        }
        bytes += event.before.as_ref().map_or(0, |before| before.bytes().len());
        state.waiting.push_back(Waiting { event, bytes, readers });
        state.bytes += bytes;
        self.total.fetch_add(bytes, Ordering::Relaxed);
        while state.waiting.len() > limits.events || (state.bytes > limits.bytes && state.waiting.len() > 1) {
            state.drop_first(&self.total);
        }
        is_first
    }

    /// Shows the hidden events to the readers, all at once, so that no reader sees a part of a batch as all of it.
    /// Returns the wakers of those that wait.
    #[must_use]
    pub(crate) fn reveal(&self) -> Vec<Waker> {
        let mut state = self.state.lock();
        state.hidden = state.end();
        state.take_wakers()
    }

    /// Pushes out the oldest event. False without an event.
    pub(crate) fn evict_oldest(&self) -> bool {
        self.state.lock().drop_first(&self.total)
    }

    /// Returns the bytes of the waiting events.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// Returns the number of readers.
    pub(crate) fn readers(&self) -> usize {
        self.state.lock().readers
    }

    /// Ends every watch once it has taken the waiting events. Returns the wakers of those that wait.
    #[must_use]
    pub(crate) fn close(&self) -> Vec<Waker> {
        let mut state = self.state.lock();
        state.closed = true;
        state.take_wakers()
    }
}

impl HubReader {
    /// Returns the next event if one is waiting; otherwise the task is woken at the next one.
    ///
    /// # Errors
    /// [`HubEnd`].
    pub(crate) fn poll_next(&mut self, cx: &Context<'_>) -> Poll<Result<HubEvent, HubEnd>> {
        let mut state = self.hub.state.lock();
        let Some(taken) = state.take(self.next, &self.hub.total) else {
            let former = state.set_waker(self.place, cx.waker());
            drop(state);
            drop(former);
            return Poll::Pending;
        };
        self.next += u64::from(taken.is_ok());
        Poll::Ready(taken)
    }

    /// Returns the next event, if one is waiting.
    pub(crate) fn take(&mut self) -> Option<Result<HubEvent, HubEnd>> {
        let taken = self.hub.state.lock().take(self.next, &self.hub.total)?;
        self.next += u64::from(taken.is_ok());
        Some(taken)
    }

    /// Whether the reader has taken every event so far.
    pub(crate) fn is_at_end(&self) -> bool {
        self.next == self.hub.state.lock().end()
    }
}

impl Drop for HubReader {
    fn drop(&mut self) {
        let mut state = self.hub.state.lock();
        state.readers -= 1;
        state.comparing -= usize::from(self.compares);
        let waker = state.wakers.get_mut(self.place).and_then(Option::take);
        state.free.push(self.place);
        let taken = usize::try_from(self.next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        state.waiting.iter_mut().skip(taken).for_each(|waiting| waiting.readers -= 1);
        state.drop_taken(&self.hub.total);
        drop(state);
        drop(waker);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.total.fetch_sub(self.state.get_mut().bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
#[cfg(not(simulation))]
mod tests {
    use mortise_resource::pb;

    use super::*;

    impl HubReader {
        /// Waits for the next event.
        async fn next(&mut self) -> Result<HubEvent, HubEnd> {
            std::future::poll_fn(|cx| self.poll_next(cx)).await
        }
    }

    const LIMITS: HubLimits = HubLimits { events: 4, bytes: 100 };

    fn hub() -> (Arc<Hub>, Arc<AtomicUsize>) {
        let total = Arc::new(AtomicUsize::new(0));
        (Arc::new(Hub::new(total.clone())), total)
    }

    fn send(hub: &Hub, event: HubEvent, bytes: usize, limits: HubLimits) {
        hub.send(event, bytes, limits);
        hub.reveal().into_iter().for_each(Waker::wake);
    }

    /// A reader that takes events as they are sent would pass on a part of a batch.
    #[tokio::test]
    async fn a_batch_is_shown_whole_and_each_event_says_whether_more_follow() {
        let (hub, _) = hub();
        let mut reader = hub.subscribe(false);
        let part = |n: usize, commit: u64| HubEvent { commit, ..event(n) };
        assert!(hub.send(part(1, 7), 10, LIMITS) && !hub.send(part(2, 7), 10, LIMITS));
        assert_eq!(reader.take(), None, "hidden");
        hub.send(part(3, 8), 10, LIMITS);
        assert!(hub.reveal().is_empty(), "no reader waits");
        let seen: Vec<_> = std::iter::from_fn(|| reader.take()).map(|taken| taken.unwrap().more).collect();
        assert_eq!(seen, [true, false, false]);
        for n in 4..9 {
            hub.send(part(n, 9), 10, LIMITS);
        }
        assert_eq!(reader.take(), Some(Err(HubEnd::Lagged)), "a batch that does not fit");
    }

    fn resource(version: usize) -> EncodedResource {
        let resource = pb::Resource { version: version.to_string(), ..pb::Resource::default() };
        EncodedResource::encode(&resource).unwrap()
    }

    fn event(version: usize) -> HubEvent {
        HubEvent {
            event: WatchEvent::Upsert(resource(version)),
            sequence: version as u64,
            commit: version as u64,
            more: false,
            before: None,
        }
    }

    #[tokio::test]
    async fn prior_states_are_kept_for_comparing_readers_and_counted() {
        let (hub, total) = hub();
        let before = resource(1_000);
        let compared = || HubEvent { before: Some(before.clone()), ..event(1_001) };
        let mut plain = hub.subscribe(false);
        send(&hub, compared(), 10, LIMITS);
        assert_eq!((plain.next().await, total.load(Ordering::Relaxed)), (Ok(event(1_001)), 0));
        let mut comparing = hub.subscribe(true);
        send(&hub, compared(), 10, LIMITS);
        assert_eq!(total.load(Ordering::Relaxed), 10 + before.bytes().len());
        assert!(!comparing.is_at_end());
        assert_eq!(comparing.next().await, Ok(compared()));
        assert!(comparing.is_at_end() && !plain.is_at_end());
        drop(comparing);
        assert_eq!(plain.next().await, Ok(compared()));
        send(&hub, compared(), 10, LIMITS);
        assert_eq!(plain.next().await, Ok(event(1_001)), "no reader compares any more");
    }

    #[tokio::test]
    async fn events_go_once_all_have_taken_them() {
        let (hub, total) = hub();
        send(&hub, event(0), 10, LIMITS);
        assert_eq!(total.load(Ordering::Relaxed), 0, "no reader");
        let (mut a, mut b) = (hub.subscribe(false), hub.subscribe(false));
        for n in 1..=3 {
            send(&hub, event(n), 10, LIMITS);
        }
        for n in 1..=3 {
            assert_eq!(a.next().await, Ok(event(n)));
        }
        assert_eq!((hub.bytes(), total.load(Ordering::Relaxed)), (30, 30));
        assert_eq!(b.next().await, Ok(event(1)));
        assert_eq!(total.load(Ordering::Relaxed), 20);
        let late = hub.subscribe(false);
        drop(b);
        assert_eq!(total.load(Ordering::Relaxed), 0, "its last events are dropped with it");
        send(&hub, event(4), 10, LIMITS);
        assert_eq!(a.next().await, Ok(event(4)));
        assert_eq!(total.load(Ordering::Relaxed), 10);
        drop(late);
        assert_eq!(total.load(Ordering::Relaxed), 0);
        assert!(hub.close().is_empty(), "no reader waits");
        assert_eq!(a.next().await, Err(HubEnd::Closed));
    }

    #[tokio::test]
    async fn lagging_readers_get_an_error_and_hold_no_more_than_the_bounds() {
        let (hub, total) = hub();
        for (bytes, fits) in [(10, 4), (40, 2), (1_000, 1)] {
            let (mut slow, mut quick) = (hub.subscribe(false), hub.subscribe(false));
            for n in 0..10 {
                send(&hub, event(n), bytes, LIMITS);
                assert_eq!(quick.next().await, Ok(event(n)));
                assert!(total.load(Ordering::Relaxed) <= fits * bytes);
            }
            assert_eq!(total.load(Ordering::Relaxed), fits * bytes);
            assert_eq!(slow.next().await, Err(HubEnd::Lagged));
            assert_eq!(slow.next().await, Err(HubEnd::Lagged));
            drop(slow);
            assert_eq!(total.load(Ordering::Relaxed), 0);
        }
        let mut pushed = hub.subscribe(false);
        send(&hub, event(0), 10, LIMITS);
        assert!(hub.evict_oldest() && !hub.evict_oldest());
        assert_eq!(pushed.next().await, Err(HubEnd::Lagged));
    }

    #[tokio::test]
    async fn waiting_readers_are_woken() {
        let (hub, _) = hub();
        let mut reader = hub.subscribe(false);
        let taking = tokio::spawn(async move { (reader.next().await, reader.next().await) });
        tokio::task::yield_now().await;
        send(&hub, event(1), 1, LIMITS);
        tokio::task::yield_now().await;
        hub.close().into_iter().for_each(Waker::wake);
        assert_eq!(taking.await.unwrap(), (Ok(event(1)), Err(HubEnd::Closed)));
    }

    /// A reader whose place was another's before, and one that waits in another task than before, are woken.
    #[tokio::test]
    async fn places_of_wakers_are_used_again_by_the_reader_that_has_them() {
        let (hub, _) = hub();
        let gone = hub.subscribe(false);
        let mut kept = hub.subscribe(false);
        assert!(kept.poll_next(&Context::from_waker(Waker::noop())).is_pending());
        drop(gone);
        let mut late = hub.subscribe(false);
        assert_eq!(hub.state.lock().wakers.len(), 2);
        let kept = tokio::spawn(async move { kept.next().await });
        let late = tokio::spawn(async move { late.next().await });
        tokio::task::yield_now().await;
        send(&hub, event(1), 1, LIMITS);
        assert_eq!((kept.await.unwrap(), late.await.unwrap()), (Ok(event(1)), Ok(event(1))));
        let state = hub.state.lock();
        assert_eq!((state.free.len(), state.wakers.iter().flatten().count()), (2, 0));
    }
}
