//! The events of one type on their way to its watches: one buffer for all of them, bounded in events and bytes.
//!
//! An event stays until every watch that was open when it came has taken it, or until it is pushed out. A watch before
//! which an event was pushed out has lagged. So however many watches are read slowly or not at all, and whether they
//! are polled or not, a type holds no more than its bounds; the publisher bounds all types together.
//!
//! Cost: taking an event is a lock and a copy of two pointers; dropping a watch looks at each event that it has not
//! taken.

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use mortise_resource::EncodedResource;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::WatchEvent;

/// How much of events may wait in one hub.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HubLimits {
    pub(crate) events: usize,
    pub(crate) bytes: usize,
}

/// A buffer of events.
pub(crate) struct Hub {
    state: Mutex<State>,
    changed: Notify,
    /// Bytes of all hubs of the store.
    total: Arc<AtomicUsize>,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Waiting>,
    /// The number of the first event that waits; events are numbered from 0.
    first: u64,
    bytes: usize,
    readers: usize,
    /// How many of them want to know what was before.
    comparing: usize,
    closed: bool,
}

/// A change as it goes to watches.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HubEvent {
    /// What watchers see.
    pub(crate) event: WatchEvent,
    /// The commit.
    pub(crate) sequence: u64,
    /// What was there before an upsert; known to readers that [compare](Hub::subscribe) only.
    pub(crate) before: Option<EncodedResource>,
}

/// An event, and how many watches have yet to take it.
struct Waiting {
    event: HubEvent,
    bytes: usize,
    readers: usize,
}

/// Why there is no next event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HubEnd {
    /// It was pushed out.
    Lagged,
    Closed,
}

/// A place in a hub. Dropping it gives up what was not taken.
pub(crate) struct HubReader {
    hub: Arc<Hub>,
    next: u64,
    compares: bool,
}

impl State {
    fn end(&self) -> u64 {
        self.first + self.waiting.len() as u64
    }

    /// Drops the first event. False when there is none.
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
    /// An empty hub, which adds what it holds to `total`.
    pub(crate) fn new(total: Arc<AtomicUsize>) -> Self {
        Self { state: Mutex::default(), changed: Notify::new(), total }
    }

    /// A place behind the last event, for a reader that wants to know what was before each, or does not.
    pub(crate) fn subscribe(self: &Arc<Self>, compares: bool) -> HubReader {
        let mut state = self.state.lock();
        state.readers += 1;
        state.comparing += usize::from(compares);
        HubReader { hub: self.clone(), next: state.end(), compares }
    }

    /// Adds an event of so many bytes, and pushes out the oldest ones that do not fit. What was before it is kept if
    /// somebody wants to know.
    pub(crate) fn send(&self, mut event: HubEvent, mut bytes: usize, limits: HubLimits) {
        let mut state = self.state.lock();
        let readers = state.readers;
        if readers == 0 {
            return;
        }
        event.before = event.before.filter(|_| state.comparing > 0);
        bytes += event.before.as_ref().map_or(0, |before| before.bytes().len());
        state.waiting.push_back(Waiting { event, bytes, readers });
        state.bytes += bytes;
        self.total.fetch_add(bytes, Ordering::Relaxed);
        while state.waiting.len() > limits.events || (state.bytes > limits.bytes && state.waiting.len() > 1) {
            state.drop_first(&self.total);
        }
        drop(state);
        self.changed.notify_waiters();
    }

    /// Pushes the oldest event out. False when none waits.
    pub(crate) fn push_out(&self) -> bool {
        self.state.lock().drop_first(&self.total)
    }

    /// Bytes of the events that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.state.lock().bytes
    }

    /// How many watches read here.
    pub(crate) fn readers(&self) -> usize {
        self.state.lock().readers
    }

    /// Ends every watch once it has taken what waits.
    pub(crate) fn close(&self) {
        self.state.lock().closed = true;
        self.changed.notify_waiters();
    }
}

impl HubReader {
    /// The next event. Safe to cancel.
    ///
    /// # Errors
    /// [`HubEnd`].
    pub(crate) async fn next(&mut self) -> Result<HubEvent, HubEnd> {
        let hub = self.hub.clone();
        loop {
            let mut changed = std::pin::pin!(hub.changed.notified());
            // Before the look, so that an event between the two is not slept through.
            changed.as_mut().enable();
            if let Some(taken) = self.take() {
                return taken;
            }
            changed.await;
        }
    }

    /// The next event, if it is there.
    pub(crate) fn take(&mut self) -> Option<Result<HubEvent, HubEnd>> {
        let mut state = self.hub.state.lock();
        let Some(ahead) = self.next.checked_sub(state.first) else { return Some(Err(HubEnd::Lagged)) };
        let Some(waiting) = usize::try_from(ahead).ok().and_then(|ahead| state.waiting.get_mut(ahead)) else {
            return state.closed.then_some(Err(HubEnd::Closed));
        };
        let event = waiting.event.clone();
        waiting.readers -= 1;
        self.next += 1;
        state.drop_taken(&self.hub.total);
        Some(Ok(event))
    }

    /// Whether it has taken everything that came.
    pub(crate) fn is_at_end(&self) -> bool {
        self.next == self.hub.state.lock().end()
    }
}

impl Drop for HubReader {
    fn drop(&mut self) {
        let mut state = self.hub.state.lock();
        state.readers -= 1;
        state.comparing -= usize::from(self.compares);
        let taken = usize::try_from(self.next.saturating_sub(state.first)).unwrap_or(usize::MAX);
        state.waiting.iter_mut().skip(taken).for_each(|waiting| waiting.readers -= 1);
        state.drop_taken(&self.hub.total);
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.total.fetch_sub(self.state.get_mut().bytes, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use mortise_resource::pb;

    use super::*;

    const LIMITS: HubLimits = HubLimits { events: 4, bytes: 100 };

    fn hub() -> (Arc<Hub>, Arc<AtomicUsize>) {
        let total = Arc::new(AtomicUsize::new(0));
        (Arc::new(Hub::new(total.clone())), total)
    }

    fn resource(version: usize) -> EncodedResource {
        let resource = pb::Resource { version: version.to_string(), ..pb::Resource::default() };
        EncodedResource::of(&resource).unwrap()
    }

    fn event(version: usize) -> HubEvent {
        HubEvent { event: WatchEvent::Upsert(resource(version)), sequence: version as u64, before: None }
    }

    #[tokio::test]
    async fn what_was_before_is_kept_for_who_wants_to_know_and_counts() {
        let (hub, total) = hub();
        let before = resource(1_000);
        let compared = || HubEvent { before: Some(before.clone()), ..event(1_001) };
        let mut plain = hub.subscribe(false);
        hub.send(compared(), 10, LIMITS);
        assert_eq!((plain.next().await, total.load(Ordering::Relaxed)), (Ok(event(1_001)), 0));
        let mut comparing = hub.subscribe(true);
        hub.send(compared(), 10, LIMITS);
        assert_eq!(total.load(Ordering::Relaxed), 10 + before.bytes().len());
        assert!(!comparing.is_at_end());
        assert_eq!(comparing.next().await, Ok(compared()));
        assert!(comparing.is_at_end() && !plain.is_at_end());
        drop(comparing);
        assert_eq!(plain.next().await, Ok(compared()));
        hub.send(compared(), 10, LIMITS);
        assert_eq!(plain.next().await, Ok(event(1_001)), "nobody compares any more");
    }

    #[tokio::test]
    async fn events_go_once_all_have_taken_them() {
        let (hub, total) = hub();
        hub.send(event(0), 10, LIMITS);
        assert_eq!(total.load(Ordering::Relaxed), 0, "nobody listens");
        let (mut a, mut b) = (hub.subscribe(false), hub.subscribe(false));
        for n in 1..=3 {
            hub.send(event(n), 10, LIMITS);
        }
        for n in 1..=3 {
            assert_eq!(a.next().await, Ok(event(n)));
        }
        assert_eq!((hub.bytes(), total.load(Ordering::Relaxed)), (30, 30));
        assert_eq!(b.next().await, Ok(event(1)));
        assert_eq!(total.load(Ordering::Relaxed), 20);
        let late = hub.subscribe(false);
        drop(b);
        assert_eq!(total.load(Ordering::Relaxed), 0, "what only it had yet to take");
        hub.send(event(4), 10, LIMITS);
        assert_eq!(a.next().await, Ok(event(4)));
        assert_eq!(total.load(Ordering::Relaxed), 10);
        drop(late);
        assert_eq!(total.load(Ordering::Relaxed), 0);
        hub.close();
        assert_eq!(a.next().await, Err(HubEnd::Closed));
    }

    #[tokio::test]
    async fn who_lags_is_told_and_holds_no_more_than_the_bounds() {
        let (hub, total) = hub();
        for (bytes, fits) in [(10, 4), (40, 2), (1_000, 1)] {
            let (mut slow, mut quick) = (hub.subscribe(false), hub.subscribe(false));
            for n in 0..10 {
                hub.send(event(n), bytes, LIMITS);
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
        hub.send(event(0), 10, LIMITS);
        assert!(hub.push_out() && !hub.push_out());
        assert_eq!(pushed.next().await, Err(HubEnd::Lagged));
    }

    #[tokio::test]
    async fn who_waits_is_woken() {
        let (hub, _) = hub();
        let mut reader = hub.subscribe(false);
        let taking = tokio::spawn(async move { (reader.next().await, reader.next().await) });
        tokio::task::yield_now().await;
        hub.send(event(1), 1, LIMITS);
        tokio::task::yield_now().await;
        hub.close();
        assert_eq!(taking.await.unwrap(), (Ok(event(1)), Err(HubEnd::Closed)));
    }
}
