//! Fair shares for calls: of places, or of bytes of results.
//!
//! # Contract
//! Calls queue by caller, and callers take turns: a caller with a thousand waiting calls delays another by one call.
//! Within a caller its connections take turns, and the calls of a connection are served in order. A caller that holds
//! units gets at most half of all units; the other half stays free for others, however slowly the caller gives its
//! share back. Only a caller's single share may exceed the half, since a larger request could never be served
//! otherwise. Dropping a share gives it back; dropping a waiting call leaves the queue.
//!
//! A caller is the holder of a token, or, without a token, a connection: the server knows no more about it. Clients
//! behind one address (a proxy, a NAT, a node) are often strangers to each other, and would share one queue by address.
//! A client without a token therefore has as many turns as connections; `max_connections` bounds them. Clients that
//! share a token share its half, too.
//!
//! # No deadlocks
//! Only a caller without a share waits: [`Share::grow`] never does. A caller that needs more gives its share back, and
//! asks for the whole at once.
//!
//! # Cost
//! A lock and a look-up for each free share, and a channel for each wait. Handing out looks at each waiting caller
//! once.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::caller::{QueueKey, Source};

/// Shared units. Cheap to clone.
#[derive(Clone)]
pub(crate) struct FairPool(Arc<Pool>);

struct Pool {
    total: usize,
    max_waiting: usize,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    free: usize,
    held: HashMap<Source, usize>,
    queues: HashMap<Source, VecDeque<Waiter>>,
    /// Waiting callers; the first is next.
    turns: VecDeque<Source>,
    waiting: usize,
    next_waiter: u64,
}

struct Waiter {
    number: u64,
    connection: Source,
    /// Round of the call: a caller's calls of earlier rounds come first, and a round has one call of each connection.
    round: u64,
    units: usize,
    grant: oneshot::Sender<Share>,
}

/// Units that a call holds. Dropping it gives them back.
pub(crate) struct Share {
    pool: Arc<Pool>,
    source: Source,
    units: usize,
}

/// A waiting call. Dropping it leaves the queue.
struct Queued<'a> {
    pool: &'a Pool,
    source: Source,
    number: u64,
}

/// The reason why no share is given, now or ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoShare {
    /// The limit of waiting calls is reached.
    QueueFull,
    /// The request exceeds all units.
    TooMuch,
}

impl FairPool {
    /// Shares `total` units; at most `max_waiting` calls wait for them.
    pub(crate) fn new(total: usize, max_waiting: usize) -> Self {
        let state = State { free: total, ..State::default() };
        Self(Arc::new(Pool { total, max_waiting, state: Mutex::new(state) }))
    }

    /// Returns the number of all units.
    pub(crate) fn total(&self) -> usize {
        self.0.total
    }

    /// Waits for units.
    ///
    /// # Errors
    /// [`NoShare`], at once.
    pub(crate) async fn acquire(&self, key: QueueKey, units: usize) -> Result<Share, NoShare> {
        if units > self.0.total {
            return Err(NoShare::TooMuch);
        }
        let (grant, granted) = oneshot::channel();
        let queued = {
            let mut state = self.0.state.lock();
            if state.waiting >= self.0.max_waiting {
                return Err(NoShare::QueueFull);
            }
            let number = state.next_waiter;
            state.next_waiter += 1;
            let QueueKey { holder: source, connection } = key;
            state.enqueue(source, Waiter { number, connection, round: 0, units, grant });
            Queued { pool: &self.0, source, number }
        };
        self.0.hand_out();
        let share = granted.await;
        drop(queued);
        // The pool keeps every sender until it has sent.
        share.map_err(|_| NoShare::QueueFull)
    }
}

impl FairPool {
    /// Takes units if they are free and no earlier call waits for them.
    pub(crate) fn try_acquire(&self, key: QueueKey, units: usize) -> Option<Share> {
        self.acquire(key, units).now_or_never()?.ok()
    }
}

impl Pool {
    /// Serves waiting callers by turns, as far as the free units reach.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let (waiter, source) = {
                let mut state = self.state.lock();
                let Some(next) = state.next(self.total) else { return };
                next
            };
            // Fails if the receiver is gone, and drops the share outside of the lock, which gives it back.
            drop(waiter.grant.send(Share { pool: self.clone(), source, units: waiter.units }));
        }
    }
}

impl State {
    fn enqueue(&mut self, source: Source, mut waiter: Waiter) {
        let queue = self.queues.entry(source).or_default();
        if queue.is_empty() {
            self.turns.push_back(source);
        }
        let earlier = queue.iter().rev().find(|other| other.connection == waiter.connection);
        let current = queue.front().map_or(0, |first| first.round);
        waiter.round = earlier.map_or(current, |earlier| earlier.round + 1);
        let place = queue.partition_point(|other| other.round <= waiter.round);
        queue.insert(place, waiter);
        self.waiting += 1;
    }

    /// Whether a caller may hold more units and leave the other half to others.
    fn may_hold(&self, source: Source, units: usize, total: usize) -> bool {
        let held = self.held.get(&source).copied().unwrap_or(0);
        held == 0 || held + units <= total / 2
    }

    /// Takes the next waiter that can be served, and its units. Passes over a caller that holds its half. Waits for
    /// enough units for a larger request, since large shares would never be served otherwise.
    fn next(&mut self, total: usize) -> Option<(Waiter, Source)> {
        for _ in 0..self.turns.len() {
            let source = self.turns.pop_front()?;
            let units = self.queues.get(&source).and_then(|queue| queue.front()).map_or(0, |waiter| waiter.units);
            if !self.may_hold(source, units, total) {
                self.turns.push_back(source);
                continue;
            }
            if units > self.free {
                self.turns.push_front(source);
                return None;
            }
            let queue = self.queues.get_mut(&source)?;
            let waiter = queue.pop_front()?;
            if queue.is_empty() {
                self.queues.remove(&source);
            } else {
                self.turns.push_back(source);
            }
            self.waiting -= 1;
            self.free -= units;
            *self.held.entry(source).or_default() += units;
            return Some((waiter, source));
        }
        None
    }

    fn give_back(&mut self, source: Source, units: usize) {
        self.free += units;
        if let Some(held) = self.held.get_mut(&source) {
            *held -= units;
            if *held == 0 {
                self.held.remove(&source);
            }
        }
    }
}

impl Share {
    /// Returns the number of held units.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Takes more units if they are free, no call waits, and the caller stays below its half or has only this share.
    /// Never waits.
    pub(crate) fn grow(&mut self, units: usize) -> bool {
        let mut state = self.pool.state.lock();
        let alone = state.held.get(&self.source).is_none_or(|held| *held == self.units);
        let leaves_half = alone || state.may_hold(self.source, units, self.pool.total);
        if state.waiting > 0 || units > state.free || !leaves_half {
            return false;
        }
        state.free -= units;
        *state.held.entry(self.source).or_default() += units;
        self.units += units;
        true
    }

    /// Gives back the units above `units`.
    pub(crate) fn shrink(&mut self, units: usize) {
        let back = self.units.saturating_sub(units);
        self.units -= back;
        self.pool.state.lock().give_back(self.source, back);
        self.pool.hand_out();
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

impl Drop for Queued<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.state.lock();
        let Some(queue) = state.queues.get_mut(&self.source) else { return };
        let before = queue.len();
        queue.retain(|waiter| waiter.number != self.number);
        let (gone, empty) = (before - queue.len(), queue.is_empty());
        state.waiting -= gone;
        if empty {
            state.queues.remove(&self.source);
            let source = self.source;
            state.turns.retain(|waiting| *waiting != source);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const A: QueueKey = key(1, 1);
    const B: QueueKey = key(2, 2);
    const C: QueueKey = key(3, 3);

    const fn key(holder: u64, connection: u64) -> QueueKey {
        QueueKey { holder: Source::of_number(holder), connection: Source::of_number(connection) }
    }

    async fn now(pool: &FairPool, key: QueueKey, units: usize) -> Option<Share> {
        timeout(Duration::from_millis(20), pool.acquire(key, units)).await.ok()?.ok()
    }

    #[tokio::test]
    async fn one_caller_leaves_half_to_others() {
        let pool = FairPool::new(8, 100);
        let whole = now(&pool, A, 8).await.expect("who has nothing may take all");
        assert!(now(&pool, B, 1).await.is_none());
        drop(whole);
        let mut mine = Vec::new();
        while let Some(share) = now(&pool, A, 1).await {
            mine.push(share);
        }
        assert_eq!(mine.len(), 4);
        let theirs = now(&pool, B, 4).await.expect("the other half");
        assert!(now(&pool, C, 1).await.is_none());
        drop(theirs);
        assert!(now(&pool, C, 4).await.is_some());
    }

    /// Returns the order in which calls are served that arrived one after the other, with a number of places.
    async fn served(places: usize, keys: &[QueueKey]) -> Vec<usize> {
        let pool = FairPool::new(places, 100);
        let held = pool.acquire(C, places).await.unwrap();
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut waiting = Vec::new();
        for (n, key) in keys.iter().copied().enumerate() {
            let (pool, order) = (pool.clone(), order.clone());
            waiting.push(tokio::spawn(async move {
                let share = pool.acquire(key, 1).await.unwrap();
                order.lock().push(n);
                drop(share);
            }));
            tokio::task::yield_now().await;
        }
        drop(held);
        for one in waiting {
            one.await.unwrap();
        }
        let order = order.lock();
        order.clone()
    }

    #[tokio::test]
    async fn callers_take_turns() {
        for places in [1, 4] {
            assert_eq!(served(places, &[A, A, A, A, B]).await, [0, 4, 1, 2, 3], "{places}");
        }
    }

    #[tokio::test]
    async fn many_connections_of_one_caller_have_one_turn_and_take_turns_in_it() {
        let [first, second] = [key(1, 4), key(1, 5)];
        assert_eq!(served(1, &[A, first, second, B]).await, [0, 3, 1, 2]);
        assert_eq!(served(1, &[first, first, first, second, second]).await, [0, 3, 1, 4, 2]);
        let pool = FairPool::new(8, 100);
        let mine = [now(&pool, A, 2).await, now(&pool, first, 2).await, now(&pool, second, 1).await];
        assert_eq!(mine.map(|share| share.is_some()), [true, true, false], "they have one half together");
    }

    #[tokio::test]
    async fn shares_grow_only_while_nobody_waits_and_come_back() {
        let pool = FairPool::new(10, 2);
        assert_eq!(pool.acquire(A, 11).await.err(), Some(NoShare::TooMuch));
        let mut share = pool.acquire(A, 2).await.unwrap();
        assert!(share.grow(7) && !share.grow(2));
        assert_eq!(share.units(), 9);
        let large = tokio::spawn({
            let pool = pool.clone();
            async move { pool.acquire(B, 5).await.map(|share| share.units()) }
        });
        tokio::task::yield_now().await;
        assert!(!share.grow(1), "B waits");
        assert!(now(&pool, C, 1).await.is_none(), "B is first");
        share.shrink(5);
        assert_eq!(large.await.unwrap(), Ok(5));
        drop(share);
        assert!(now(&pool, C, 10).await.is_some(), "who gave up waiting holds nothing");
    }

    #[tokio::test]
    async fn shares_that_grow_leave_half_to_others_too() {
        let pool = FairPool::new(10, 2);
        let (mut first, second) = (pool.acquire(A, 2).await.unwrap(), pool.acquire(A, 2).await.unwrap());
        assert!(first.grow(1) && !first.grow(1), "A has its half");
        assert!(now(&pool, B, 5).await.is_some(), "the other half");
        drop(second);
        assert!(first.grow(7), "it is all that A has");
    }

    #[tokio::test]
    async fn who_does_not_wait_leaves_no_trace() {
        let pool = FairPool::new(4, 1);
        let held = pool.try_acquire(A, 3).unwrap();
        assert!(pool.try_acquire(B, 2).is_none() && pool.try_acquire(B, 5).is_none());
        assert!(pool.try_acquire(C, 1).is_some(), "nobody waits");
        drop(held);
        assert!(now(&pool, B, 4).await.is_some());
    }

    #[tokio::test]
    async fn the_queue_is_bounded_and_forgets_who_left() {
        let pool = FairPool::new(1, 2);
        let held = pool.acquire(A, 1).await.unwrap();
        {
            let (first, second) = (pool.acquire(B, 1), pool.acquire(C, 1));
            tokio::pin!(first, second);
            assert!(futures::poll!(first.as_mut()).is_pending() && futures::poll!(second.as_mut()).is_pending());
            assert_eq!(pool.acquire(B, 1).now_or_never().expect("at once").err(), Some(NoShare::QueueFull));
        }
        let waiting = pool.acquire(B, 1);
        tokio::pin!(waiting);
        assert!(futures::poll!(waiting.as_mut()).is_pending());
        drop(held);
        assert_eq!(waiting.await.unwrap().units(), 1);
    }
}
