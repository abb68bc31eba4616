//! The places for connections of a port: their number, shared by address, and the connections that make room. Uploads
//! of plugins have such places, too, shared by caller.
//!
//! # Contract
//! An address has at most seven eighths of all places. At a bound, a new connection takes the place of another one, the
//! first of these:
//!
//! 1. An idle one, a connection without a running call: of the address with the most connections, the one without a
//!    call for longest, and rather one whose callers have not authenticated. An address gives way only to an address
//!    with at least two connections less, or to itself after [`IDLE_TIME`].
//! 2. A busy one of the address with the most connections, the newest of them, if that address has at least two more
//!    than the new connection's. So no two addresses replace each other in turns.
//! 3. An idle one of an address with one connection more.
//! 4. Where callers have credentials: the newest of the connections that have had [`IDLE_TIME`] to authenticate and
//!    have not, once these have more than three quarters of all places. So a caller with credentials gets in beside any
//!    number of addresses without.
//!
//! Busy connections with authenticated callers stay while they have no more than a quarter of all places. Without such
//! a connection the new one is refused.
//!
//! The owner of a place ends the connection that has to leave ([`Usage::poll_leave`]), a busy one with its calls
//! ([`Usage::ends_calls`]); its place is free at once. At most [`MAX_LEAVING`] connections are on their way out.
//!
//! # Cost
//! A lock and two look-ups for each connection, and about 200 bytes; at a bound, a few looks at every connection of the
//! port.

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

/// Part of all places, one of this number, that connections without an authenticated caller hold only for as long as
/// they may authenticate. Busy connections with one keep as many.
const KNOWN_PART: usize = 4;

/// Most connections that have to leave and have not yet.
const MAX_LEAVING: usize = 64;

/// The places of a port.
pub(crate) struct Places {
    limit: usize,
    /// Whether callers have credentials, so that a part of the places is for those.
    has_reserve: bool,
    state: Mutex<State>,
    idle_replaced: metrics::Counter,
    busy_replaced: metrics::Counter,
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
    since: Instant,
    usage: Arc<Usage>,
}

/// A connection that needs room.
struct Newcomer {
    address: Source,
    /// Connections of its address.
    own: usize,
    now: Instant,
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
    ends_calls: AtomicBool,
    waker: AtomicWaker,
}

/// A running call of a connection.
pub(crate) struct RunningCall(Arc<Usage>);

impl Places {
    /// Makes free places; their name is a label of the metrics.
    pub(crate) fn new(name: &'static str, limit: usize) -> Arc<Self> {
        Self::with_reserve(name, limit, false)
    }

    /// Makes free places; with `has_reserve`, a part of them is for callers with credentials.
    pub(crate) fn with_reserve(name: &'static str, limit: usize, has_reserve: bool) -> Arc<Self> {
        let idle_replaced = metrics::counter!("mortise_idle_replaced_total", "place" => name);
        let busy_replaced = metrics::counter!("mortise_busy_replaced_total", "place" => name);
        Arc::new(Self { limit, has_reserve, state: Mutex::default(), idle_replaced, busy_replaced })
    }

    /// Takes a place for a connection from an address; `None` if every place is in use.
    pub(crate) fn take(self: &Arc<Self>, address: Source, now: Instant) -> Option<Place> {
        let mut state = self.state.lock();
        let own = state.held(address);
        let has_too_many = own >= self.limit - self.limit / RESERVED_PART;
        if has_too_many || state.open.len() >= self.limit {
            let newcomer = Newcomer { address, own, now };
            if state.leaving >= MAX_LEAVING {
                return None;
            }
            let number = match has_too_many {
                true => state.idle_to_leave(&newcomer, None)?,
                false => self.to_leave(&state, &newcomer)?,
            };
            let evicted = state.remove(number)?;
            let ends_calls = !evicted.usage.is_idle();
            state.leaving += 1;
            if ends_calls { &self.busy_replaced } else { &self.idle_replaced }.increment(1);
            evicted.usage.leave(ends_calls);
        }
        let number = state.next;
        state.next += 1;
        *state.addresses.entry(address).or_default() += 1;
        let usage = Arc::new(Usage::new(now));
        state.open.insert(number, Open { address, since: now, usage: usage.clone() });
        drop(state);
        Some(Place { places: self.clone(), number, usage })
    }

    /// Chooses the connection that makes room in a full port.
    fn to_leave(&self, state: &State, newcomer: &Newcomer) -> Option<u64> {
        let idle = |less| state.idle_to_leave(newcomer, Some(less));
        idle(2)
            .or_else(|| self.busy_to_leave(state, newcomer))
            .or_else(|| idle(1))
            .or_else(|| self.stranger_to_leave(state, newcomer))
    }

    /// Chooses the newest busy connection of the largest address.
    fn busy_to_leave(&self, state: &State, newcomer: &Newcomer) -> Option<u64> {
        let keeps_known = state.known() <= self.limit / KNOWN_PART;
        let candidates = state.open.iter().filter_map(|(number, open)| {
            let held = state.held(open.address);
            let gives_way = held >= newcomer.own + 2 && !(keeps_known && open.is_known());
            gives_way.then_some(((held, !open.is_known(), open.since), *number))
        });
        candidates.max_by_key(|(order, _)| *order).map(|(_, number)| number)
    }

    /// Chooses the newest connection that has not authenticated in its time, if the reserve has such connections.
    fn stranger_to_leave(&self, state: &State, newcomer: &Newcomer) -> Option<u64> {
        if !self.has_reserve || state.open.len() - state.known() <= self.limit - self.limit / KNOWN_PART {
            return None;
        }
        let strangers = || state.open.iter().filter(|(_, open)| !open.is_known());
        let own = strangers().filter(|(_, open)| open.address == newcomer.address).count();
        let late = strangers().filter(|(_, open)| {
            newcomer.now.saturating_duration_since(open.since) >= IDLE_TIME && state.held(open.address) > own
        });
        late.max_by_key(|(_, open)| open.since).map(|(number, _)| *number)
    }
}

impl Open {
    /// Whether a caller on the connection has authenticated.
    fn is_known(&self) -> bool {
        self.usage.has_known_caller.load(Ordering::Relaxed)
    }
}

impl State {
    fn held(&self, address: Source) -> usize {
        self.addresses.get(&address).copied().unwrap_or(0)
    }

    /// Returns the number of connections with an authenticated caller.
    fn known(&self) -> usize {
        self.open.values().filter(|open| open.is_known()).count()
    }

    /// Chooses the idle connection that makes room: of the newcomer's own address, or of one that has `more`
    /// connections more.
    fn idle_to_leave(&self, newcomer: &Newcomer, more: Option<usize>) -> Option<u64> {
        let candidates = self.open.iter().filter_map(|(number, open)| {
            let idle = open.usage.idle_for(newcomer.now)?;
            let held = self.held(open.address);
            let gives_way = match open.address == newcomer.address {
                true => idle >= IDLE_TIME,
                false => more.is_some_and(|more| held >= newcomer.own + more),
            };
            gives_way.then_some(((held, !open.is_known(), idle), *number))
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
            ends_calls: AtomicBool::new(false),
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

    /// Whether several calls run.
    pub(crate) fn has_several_calls(&self) -> bool {
        self.running.load(Ordering::Relaxed) > 1
    }

    /// Returns the time since the last call; `None` while one runs.
    pub(crate) fn idle_for(&self, now: Instant) -> Option<Duration> {
        self.is_idle().then(|| now.saturating_duration_since(*self.idle_since.lock()))
    }

    fn leave(&self, ends_calls: bool) {
        self.ends_calls.store(ends_calls, Ordering::Relaxed);
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

    /// Whether the connection that has to leave ends with its calls at once.
    pub(crate) fn ends_calls(&self) -> bool {
        self.ends_calls.load(Ordering::Relaxed)
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
mod tests;
