//! The places for connections of a port: their number, shared by address, and idle connections that make room. Uploads
//! of plugins have such places, too, shared by caller.
//!
//! # Contract
//! An address has at most seven eighths of all places. At a bound, a new connection takes the place of an idle one, a
//! connection without a running call: of the address with the most connections, the one without a call for longest, and
//! rather one whose callers have not authenticated. An address gives way only to an address with fewer connections, or
//! to itself after [`IDLE_TIME`]. Without such a connection the new one is refused.
//!
//! The owner of a place ends the connection that has to leave ([`Usage::poll_leave`]); its place is free at once. At
//! most [`MAX_LEAVING`] connections are on their way out.
//!
//! # Cost
//! A lock and two look-ups for each connection, and about 200 bytes; at a bound, a look at every connection of the port.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use futures::task::AtomicWaker;
use mortise_service::Source;
use parking_lot::Mutex;
use tokio::time::Instant;

/// Time without a call after which a connection gives way to one of the same address. Without it, clients that connect
/// again at once would replace each other for ever.
const IDLE_TIME: Duration = Duration::from_secs(1);

/// Part of all places that one address leaves to others: one of this number. Watches over HTTP take three quarters of
/// the places, so an address that has them all still gets answers to its other requests.
const RESERVED_PART: usize = 8;

/// Most connections that have to leave and have not yet.
const MAX_LEAVING: usize = 64;

/// The places of a port.
pub(crate) struct Places {
    limit: usize,
    state: Mutex<State>,
    evicted: metrics::Counter,
}

#[derive(Default)]
struct State {
    open: HashMap<u64, Open>,
    /// Connections by address.
    addresses: HashMap<Source, usize>,
    leaving: usize,
    next: u64,
}

struct Open {
    address: Source,
    usage: Arc<Usage>,
}

/// A connection's place. Dropping it gives it back.
pub(crate) struct Place {
    places: Arc<Places>,
    number: u64,
    /// The calls of the connection.
    pub(crate) usage: Arc<Usage>,
}

/// The calls of a connection.
#[derive(Debug)]
pub(crate) struct Usage {
    running: AtomicUsize,
    /// Begin of the connection, or end of its last call.
    idle_since: Mutex<Instant>,
    has_known_caller: AtomicBool,
    has_to_leave: AtomicBool,
    waker: AtomicWaker,
}

/// A running call of a connection.
pub(crate) struct RunningCall(Arc<Usage>);

impl Places {
    /// Makes free places; their name is a label of the metrics.
    pub(crate) fn new(name: &'static str, limit: usize) -> Arc<Self> {
        let evicted = metrics::counter!("mortise_idle_replaced_total", "place" => name);
        Arc::new(Self { limit, state: Mutex::default(), evicted })
    }

    /// Takes a place for a connection from an address; `None` if every place is in use.
    pub(crate) fn take(self: &Arc<Self>, address: Source, now: Instant) -> Option<Place> {
        let mut state = self.state.lock();
        let own = state.addresses.get(&address).copied().unwrap_or(0);
        if own >= self.limit - self.limit / RESERVED_PART || state.open.len() >= self.limit {
            let is_full = state.open.len() >= self.limit;
            let number = state.to_leave(address, own, is_full, now)?;
            let evicted = state.remove(number)?;
            state.leaving += 1;
            self.evicted.increment(1);
            evicted.usage.leave();
        }
        let number = state.next;
        state.next += 1;
        *state.addresses.entry(address).or_default() += 1;
        let usage = Arc::new(Usage::new(now));
        state.open.insert(number, Open { address, usage: usage.clone() });
        drop(state);
        Some(Place { places: self.clone(), number, usage })
    }
}

impl State {
    /// The connection that makes room for one from `address`, which has `own` connections.
    fn to_leave(&self, address: Source, own: usize, is_full: bool, now: Instant) -> Option<u64> {
        if self.leaving >= MAX_LEAVING {
            return None;
        }
        let candidates = self.open.iter().filter_map(|(number, open)| {
            let idle = open.usage.idle_for(now)?;
            let held = self.addresses.get(&open.address).copied().unwrap_or(0);
            let gives_way = match open.address == address {
                true => idle >= IDLE_TIME,
                false => is_full && held > own,
            };
            let is_stranger = !open.usage.has_known_caller.load(Ordering::Relaxed);
            gives_way.then_some(((held, is_stranger, idle), *number))
        });
        candidates.max_by_key(|(order, _)| *order).map(|(_, number)| number)
    }

    fn remove(&mut self, number: u64) -> Option<Open> {
        let open = self.open.remove(&number)?;
        if let Some(count) = self.addresses.get_mut(&open.address) {
            *count -= 1;
            if *count == 0 {
                self.addresses.remove(&open.address);
            }
        }
        Some(open)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut state = self.places.state.lock();
        if state.remove(self.number).is_none() {
            state.leaving -= 1;
        }
    }
}

impl Usage {
    fn new(now: Instant) -> Self {
        Self {
            running: AtomicUsize::new(0),
            idle_since: Mutex::new(now),
            has_known_caller: AtomicBool::new(false),
            has_to_leave: AtomicBool::new(false),
            waker: AtomicWaker::new(),
        }
    }

    /// Counts a call until it ends.
    pub(crate) fn begin_call(self: &Arc<Self>) -> RunningCall {
        self.running.fetch_add(1, Ordering::AcqRel);
        RunningCall(self.clone())
    }

    /// Notes that the connection is in use, without a call.
    pub(crate) fn touch(&self) {
        *self.idle_since.lock() = Instant::now();
    }

    /// Notes that a caller on the connection has authenticated.
    pub(crate) fn note_known_caller(&self) {
        self.has_known_caller.store(true, Ordering::Relaxed);
    }

    /// Whether no call runs.
    pub(crate) fn is_idle(&self) -> bool {
        self.running.load(Ordering::Acquire) == 0
    }

    fn idle_for(&self, now: Instant) -> Option<Duration> {
        self.is_idle().then(|| now.saturating_duration_since(*self.idle_since.lock()))
    }

    fn leave(&self) {
        self.has_to_leave.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Resolves once the connection has to leave. Only the last caller is woken.
    pub(crate) fn poll_leave(&self, cx: &Context<'_>) -> Poll<()> {
        if self.has_to_leave.load(Ordering::Acquire) {
            return Poll::Ready(());
        }
        self.waker.register(cx.waker());
        if self.has_to_leave.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
    }

    /// Resolves once the connection has to leave.
    pub(crate) async fn has_to_leave(&self) {
        std::future::poll_fn(|cx| self.poll_leave(cx)).await;
    }
}

impl Drop for RunningCall {
    fn drop(&mut self) {
        self.0.touch();
        self.0.running.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes places for connections, each a millisecond after the one before.
    fn taken(places: &Arc<Places>, addresses: &[&str], begun: Instant) -> Vec<Option<Place>> {
        let take = |(n, address): (usize, &&str)| {
            places.take(Source::from_key(*address), begun + Duration::from_millis(n as u64))
        };
        addresses.iter().enumerate().map(take).collect()
    }

    fn has_left(place: Option<&Place>) -> bool {
        place.unwrap().usage.has_to_leave.load(Ordering::Relaxed)
    }

    #[test]
    fn an_idle_connection_of_the_largest_address_makes_room() {
        let (places, now) = (Places::new("test", 6), Instant::now() + IDLE_TIME * 10);
        let held = taken(&places, &["b", "crowd", "crowd", "crowd", "crowd", "b"], now - IDLE_TIME * 9);
        let busy = held[1].as_ref().unwrap().usage.begin_call();
        held[2].as_ref().unwrap().usage.note_known_caller();
        let left = || held.iter().map(|place| has_left(place.as_ref())).collect::<Vec<_>>();
        let honest = places.take(Source::from_key("honest"), now).expect("an idle one gives way");
        assert_eq!(left(), [false, false, false, true, false, false], "a stranger, idle for longest");
        let second = places.take(Source::from_key("honest"), now).expect("another one");
        assert_eq!(left(), [false, false, false, true, true, false]);
        let itself = places.take(Source::from_key("b"), now).expect("a third one, at its own expense");
        assert_eq!(left(), [true, false, false, true, true, false]);
        drop(busy);
        drop((honest, second, itself, held));
        assert!(places.state.lock().addresses.is_empty());
        assert_eq!(places.state.lock().leaving, 0, "all have left");
    }

    #[test]
    fn an_address_does_not_replace_its_own_connections_at_once() {
        let (places, begun) = (Places::new("test", 2), Instant::now());
        let held = taken(&places, &["a", "a"], begun);
        assert!(places.take(Source::from_key("a"), begun + IDLE_TIME / 2).is_none());
        assert!(places.take(Source::from_key("a"), begun + IDLE_TIME * 2).is_some());
        assert!(has_left(held[0].as_ref()));
    }

    #[test]
    fn an_address_leaves_a_part_to_others_and_busy_connections_stay() {
        let (places, later) = (Places::new("test", 8), Instant::now() + IDLE_TIME * 10);
        let held = taken(&places, &["crowd"; 7], later - IDLE_TIME * 9);
        let busy: Vec<_> = held.iter().flatten().map(|place| place.usage.begin_call()).collect();
        assert!(places.take(Source::from_key("crowd"), later).is_none(), "the rest is for other addresses");
        let honest = places.take(Source::from_key("honest"), later).expect("a place is left");
        let second = honest.usage.begin_call();
        assert!(places.take(Source::from_key("other"), later).is_none(), "every connection is busy");
        drop((busy, second));
        assert!(places.take(Source::from_key("other"), later).is_some());
    }
}
