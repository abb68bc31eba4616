//! Fair shares for calls: of places, or of bytes of results.
//!
//! # Contract
//! A caller is the holder of a token or, without a token, an address or a local user. Among waiting callers, the one
//! that holds least is next, and callers that hold equally much take turns: a caller with a thousand waiting calls
//! delays another by one call. The same applies to the connections of a caller, and the calls of a connection are
//! served in order. A caller that holds units gets at most half of all units. Callers that have not authenticated get
//! at most three quarters together; the rest is for those that have, and for local users. Only a single share may
//! exceed these bounds, since a larger request could never be served otherwise. Dropping a share gives it back;
//! dropping a waiting call leaves the queue.
//!
//! A share whose client does not read for [`UNREAD_TIME`] gives way to a waiting call if its caller holds more, or its
//! connection if both are of one caller ([`FairPool::press`]). So a crowd that begins answers and reads none of them
//! holds its shares only while nothing else wants them.
//!
//! # No deadlocks
//! Only a caller without a share waits: [`Share::grow`] never does. A caller that needs more gives its share back, and
//! asks for the whole at once.
//!
//! # Cost
//! A lock and some look-ups for each free share, and a channel for each wait. Handing out looks at each waiting caller
//! once, and at each waiting connection of the next one. [`FairPool::press`] looks at each share while calls wait.

use std::{
    cmp::Reverse,
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::{sync::oneshot, time::Instant};

use super::{
    caller::{QueueKey, Source},
    reader::Reader,
};

/// Time without reading after which a share gives way. Clients far away take this long between two windows of bytes.
pub(crate) const UNREAD_TIME: Duration = Duration::from_millis(500);

/// Part of all units that only authenticated and local callers get: one of this number.
const RESERVED_PART: usize = 4;

/// Most waiting callers for which shares are pressed at once.
const PRESSING_CALLERS: usize = 64;

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
    total: usize,
    free: usize,
    /// Units of callers that have not authenticated.
    held_by_strangers: usize,
    held: HashMap<Source, Held>,
    shares: HashMap<u64, Lent>,
    /// Waiting callers; of those that hold equally much, the first is next.
    turns: VecDeque<Queue>,
    waiting: usize,
    next_number: u64,
}

/// The units of a caller.
#[derive(Default)]
struct Held {
    units: usize,
    connections: HashMap<Source, usize>,
}

/// The waiting calls of a caller, by connection. Never empty.
struct Queue {
    holder: Source,
    is_known: bool,
    connections: VecDeque<(Source, VecDeque<Waiter>)>,
}

struct Waiter {
    number: u64,
    units: usize,
    key: QueueKey,
    grant: oneshot::Sender<Share>,
}

/// A share, as the pool sees it.
struct Lent {
    key: QueueKey,
    units: usize,
}

/// Units that a call holds. Dropping it gives them back.
pub(crate) struct Share {
    pool: Arc<Pool>,
    number: u64,
    units: usize,
}

/// A waiting call. Dropping it leaves the queue.
struct Queued<'a> {
    pool: &'a Pool,
    holder: Source,
    connection: Source,
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
        let state = State { total, free: total, ..State::default() };
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
            let number = state.next_number;
            state.next_number += 1;
            let (holder, connection) = (key.holder, key.connection);
            state.enqueue(Waiter { number, units, key, grant });
            Queued { pool: &self.0, holder, connection, number }
        };
        self.0.hand_out();
        let share = granted.await;
        drop(queued);
        // The pool keeps every sender until it has sent.
        share.map_err(|_| NoShare::QueueFull)
    }

    /// Takes units if they are free and no earlier call waits for them.
    pub(crate) fn try_acquire(&self, key: QueueKey, units: usize) -> Option<Share> {
        self.acquire(key, units).now_or_never()?.ok()
    }

    /// Asks shares that are not read to give way, for each waiting caller as many as its next call needs. Returns their
    /// number. To be called again and again, since a share may stop being read while calls wait.
    pub(crate) fn press(&self, now: Instant) -> usize {
        let asked = self.0.state.lock().unread_to_give_way(now);
        // Outside of the lock: a reader wakes its task.
        asked.iter().for_each(|reader| reader.ask());
        asked.len()
    }
}

impl Pool {
    /// Serves waiting callers, as far as the free units reach.
    fn hand_out(self: &Arc<Self>) {
        loop {
            let (waiter, number) = {
                let mut state = self.state.lock();
                let Some(next) = state.next() else { return };
                next
            };
            // Fails if the receiver is gone, and drops the share outside of the lock, which gives it back.
            drop(waiter.grant.send(Share { pool: self.clone(), number, units: waiter.units }));
        }
    }
}

impl State {
    fn enqueue(&mut self, waiter: Waiter) {
        let QueueKey { holder, connection, is_known, .. } = waiter.key;
        self.waiting += 1;
        let Some(queue) = self.turns.iter_mut().find(|queue| queue.holder == holder) else {
            let connections = [(connection, [waiter].into())].into();
            return self.turns.push_back(Queue { holder, is_known, connections });
        };
        match queue.connections.iter_mut().find(|(other, _)| *other == connection) {
            Some((_, calls)) => calls.push_back(waiter),
            None => queue.connections.push_back((connection, [waiter].into())),
        }
    }

    fn held_by(&self, holder: Source) -> usize {
        self.held.get(&holder).map_or(0, |held| held.units)
    }

    fn held_on(&self, holder: Source, connection: Source) -> usize {
        self.held.get(&holder).and_then(|held| held.connections.get(&connection)).copied().unwrap_or(0)
    }

    /// Units by which the caller would exceed its half.
    fn above_half(&self, holder: Source, units: usize) -> usize {
        match self.held_by(holder) {
            0 => 0,
            held => (held + units).saturating_sub(self.total / 2),
        }
    }

    /// Units by which callers that have not authenticated would exceed their part.
    fn above_part(&self, is_known: bool, units: usize) -> usize {
        let part = self.total - self.total / RESERVED_PART;
        if is_known || units > part { 0 } else { (self.held_by_strangers + units).saturating_sub(part) }
    }

    /// Index of the connection whose call is next: the one that holds least, and of these the first.
    fn next_connection(&self, queue: &Queue) -> usize {
        let connections = queue.connections.iter().enumerate();
        connections.min_by_key(|(_, (connection, _))| self.held_on(queue.holder, *connection)).map_or(0, |(n, _)| n)
    }

    /// Takes the next waiter that can be served, and its units, as a share with a number. Passes over callers at their
    /// bounds. Waits for enough units for a larger request, since large shares would never be served otherwise.
    fn next(&mut self) -> Option<(Waiter, u64)> {
        let mut best: Option<(usize, usize, usize)> = None;
        for (place, queue) in self.turns.iter().enumerate() {
            let held = self.held_by(queue.holder);
            if best.is_some_and(|(least, ..)| least <= held) {
                continue;
            }
            let connection = self.next_connection(queue);
            let units = first_units(queue, connection);
            if self.above_half(queue.holder, units) == 0 && self.above_part(queue.is_known, units) == 0 {
                best = Some((held, place, connection));
            }
        }
        let (_, place, connection) = best?;
        if first_units(self.turns.get(place)?, connection) > self.free {
            return None;
        }
        let mut queue = self.turns.remove(place)?;
        let (source, mut calls) = queue.connections.remove(connection)?;
        let waiter = calls.pop_front()?;
        if !calls.is_empty() {
            queue.connections.push_back((source, calls));
        }
        if !queue.connections.is_empty() {
            self.turns.push_back(queue);
        }
        self.waiting -= 1;
        self.shares.insert(waiter.number, Lent { key: waiter.key.clone(), units: 0 });
        self.lend(waiter.number, waiter.units);
        let number = waiter.number;
        Some((waiter, number))
    }

    /// Adds units to a share.
    fn lend(&mut self, number: u64, units: usize) {
        let Some(share) = self.shares.get_mut(&number) else { return };
        share.units += units;
        self.free -= units;
        if !share.key.is_known {
            self.held_by_strangers += units;
        }
        let held = self.held.entry(share.key.holder).or_default();
        held.units += units;
        *held.connections.entry(share.key.connection).or_default() += units;
    }

    /// Takes units from a share; a share without units is forgotten.
    fn give_back(&mut self, number: u64, units: usize) {
        let Some(share) = self.shares.get_mut(&number) else { return };
        let QueueKey { holder, connection, is_known, .. } = share.key;
        share.units -= units;
        if share.units == 0 {
            self.shares.remove(&number);
        }
        self.free += units;
        if !is_known {
            self.held_by_strangers -= units;
        }
        let Some(held) = self.held.get_mut(&holder) else { return };
        held.units -= units;
        if let Some(on_connection) = held.connections.get_mut(&connection) {
            *on_connection -= units;
            if *on_connection == 0 {
                held.connections.remove(&connection);
            }
        }
        if held.units == 0 {
            self.held.remove(&holder);
        }
    }

    /// Lists readers of shares whose end lets waiting calls begin.
    fn unread_to_give_way(&self, now: Instant) -> Vec<Arc<Reader>> {
        if self.waiting == 0 {
            return Vec::new();
        }
        let is_unread = |reader: &&Arc<Reader>| reader.unread_for(now).is_some_and(|time| time >= UNREAD_TIME);
        let unread =
            self.shares.values().filter_map(|share| Some((share, share.key.reader.as_ref().filter(is_unread)?)));
        let mut unread: Vec<_> = unread.collect();
        unread.sort_by_key(|(Lent { key, .. }, reader)| {
            let held = (self.held_by(key.holder), self.held_on(key.holder, key.connection));
            Reverse((held, reader.unread_for(now)))
        });
        let mut asked = Vec::new();
        for queue in self.turns.iter().take(PRESSING_CALLERS) {
            let connection = self.next_connection(queue);
            let units = first_units(queue, connection);
            let Some((connection, _)) = queue.connections.get(connection) else { continue };
            let own = (self.held_by(queue.holder), self.held_on(queue.holder, *connection));
            // Units that must come back: of this caller, of callers that have not authenticated, of any.
            let mut missing = [
                self.above_half(queue.holder, units),
                self.above_part(queue.is_known, units),
                units.saturating_sub(self.free),
            ];
            let mut chosen = Vec::new();
            for (place, (Lent { key, units }, _)) in unread.iter().enumerate() {
                let is_own = key.holder == queue.holder;
                let helps = [is_own, !key.is_known, true];
                let gives_way = match is_own {
                    true => self.held_on(key.holder, key.connection) > own.1,
                    false if key.is_known => queue.is_known && self.held_by(key.holder) > own.0,
                    false => queue.is_known || self.held_by(key.holder) > own.0,
                };
                if gives_way && missing.iter().zip(helps).any(|(missing, helps)| helps && *missing > 0) {
                    chosen.push(place);
                    for (missing, helps) in missing.iter_mut().zip(helps) {
                        *missing -= if helps { (*units).min(*missing) } else { 0 };
                    }
                }
            }
            if missing == [0; 3] {
                // From the last one, so that the earlier places stay.
                asked.extend(chosen.into_iter().rev().map(|place| unread.remove(place).1.clone()));
            }
        }
        asked
    }
}

/// Units of the first waiting call of a connection.
fn first_units(queue: &Queue, connection: usize) -> usize {
    let first = queue.connections.get(connection).and_then(|(_, calls)| calls.front());
    first.map_or(0, |waiter| waiter.units)
}

impl Share {
    /// Returns the number of held units.
    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Takes more units if they are free, no call waits, and the caller stays within its bounds or has only this share.
    /// Never waits.
    pub(crate) fn grow(&mut self, units: usize) -> bool {
        let mut state = self.pool.state.lock();
        let Some(key) = state.shares.get(&self.number).map(|share| share.key.clone()) else { return false };
        let is_alone = state.held_by(key.holder) == self.units;
        let within =
            (is_alone || state.above_half(key.holder, units) == 0) && state.above_part(key.is_known, units) == 0;
        if state.waiting > 0 || units > state.free || !within {
            return false;
        }
        state.lend(self.number, units);
        self.units += units;
        true
    }

    /// Gives back the units above `units`.
    pub(crate) fn shrink(&mut self, units: usize) {
        let back = self.units.saturating_sub(units);
        self.units -= back;
        self.pool.state.lock().give_back(self.number, back);
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
        let Some(place) = state.turns.iter().position(|queue| queue.holder == self.holder) else { return };
        let Some(queue) = state.turns.get_mut(place) else { return };
        let Some(index) = queue.connections.iter().position(|(source, _)| *source == self.connection) else { return };
        let Some((_, calls)) = queue.connections.get_mut(index) else { return };
        let before = calls.len();
        calls.retain(|waiter| waiter.number != self.number);
        let gone = before - calls.len();
        if calls.is_empty() {
            queue.connections.remove(index);
        }
        if queue.connections.is_empty() {
            state.turns.remove(place);
        }
        state.waiting -= gone;
    }
}

#[cfg(test)]
mod tests;
