//! The pace of watches that evaluate changes: the processor time that the watches of one caller may use.
//!
//! # Contract
//! A watch whose query names no value that the store can look up evaluates every change of its type. Its caller pays
//! for the time: the watches of a caller take turns, one at a time, first come, first served. A pause after each turn
//! keeps them at 1/[`SHARE`] of a processor, and the watches of all waiting callers together at half of the processors.
//! After a rest the turns of [`CREDIT`] have no pause, so a few watches never wait. A waiting watch gets its changes
//! later, and has lagged if too many come meanwhile. Writers and other callers do not wait for it.
//!
//! # Cost
//! Two locks for each turn, and memory for each caller with open watches.

use std::{
    collections::HashMap,
    sync::{
        Arc, Weak,
        atomic::{AtomicU32, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use parking_lot::Mutex;
use tokio::{
    sync::OwnedMutexGuard,
    time::{Instant, sleep_until},
};

use crate::call::Source;

/// Part of a processor for the watches of a caller, as a divisor.
const SHARE: u32 = 4;
/// Processor time that the watches of a caller may use at once, after a rest.
const CREDIT: Duration = Duration::from_millis(2);
/// Time of a turn after which a watch waits for its next one.
const LONG_TURN: Duration = Duration::from_millis(1);
/// Longest time that a turn counts, so that a stalled thread does not cost its caller more.
const MAX_TURN: Duration = Duration::from_millis(50);

/// The paces of all callers. Cheap to clone.
#[derive(Clone)]
pub(super) struct WatchPaces(Arc<Paces>);

struct Paces {
    processors: u32,
    accounts: Mutex<HashMap<Source, Weak<Account>>>,
    /// Number of callers with waiting watches.
    waiting: AtomicU32,
}

/// The time that the watches of a caller have used.
struct Account {
    paces: Arc<Paces>,
    caller: Source,
    /// Start of the next turn; the watch whose turn it is holds the lock.
    next: Arc<tokio::sync::Mutex<Instant>>,
    /// Waiting watches.
    waiting: AtomicU32,
}

/// The pace of one watch.
pub(crate) struct WatchPace(Arc<Account>);

/// A turn of a watch. Dropping it ends it, and counts its time.
pub(crate) struct WatchTurn {
    next: OwnedMutexGuard<Instant>,
    start: Instant,
    /// Divisor of a processor.
    spread: u32,
    /// Start of the work, by the machine's clock, also where tests pause that of tokio.
    begun: std::time::Instant,
    /// Time used before the turn.
    owed: Duration,
}

/// A watch that waits. Dropping it ends the wait.
struct Waiting<'a>(&'a Account);

impl Default for WatchPaces {
    fn default() -> Self {
        Self::new(available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)))
    }
}

impl WatchPaces {
    fn new(processors: u32) -> Self {
        Self(Arc::new(Paces { processors, accounts: Mutex::default(), waiting: AtomicU32::new(0) }))
    }

    /// Makes the pace of a watch of a caller.
    pub(super) fn watch(&self, caller: Source) -> WatchPace {
        let mut accounts = self.0.accounts.lock();
        WatchPace(accounts.get(&caller).and_then(Weak::upgrade).unwrap_or_else(|| {
            let now = Instant::now();
            let next = now.checked_sub(CREDIT * SHARE).unwrap_or(now);
            let next = Arc::new(tokio::sync::Mutex::new(next));
            let account = Arc::new(Account { paces: self.0.clone(), caller, next, waiting: AtomicU32::new(0) });
            accounts.insert(caller, Arc::downgrade(&account));
            account
        }))
    }
}

impl WatchPace {
    /// Waits for the caller's share of the processors. Safe to cancel.
    pub(crate) async fn turn(&self) -> WatchTurn {
        let Self(account) = self;
        let (spread, now) = (account.paces.spread(), Instant::now());
        let since = now.checked_sub(CREDIT * spread).unwrap_or(now);
        let free = account.next.clone().try_lock_owned().ok().filter(|next| **next <= now);
        let (next, start) = match free {
            Some(next) => {
                let start = since.max(*next);
                (next, start)
            }
            None => {
                metrics::counter!("mortise_watches_paced_total").increment(1);
                let _waiting = Waiting::new(account);
                let next = account.next.clone().lock_owned().await;
                let start = since.max(*next);
                sleep_until(start).await;
                (next, start)
            }
        };
        WatchTurn { next, start, spread, begun: std::time::Instant::now(), owed: Duration::ZERO }
    }
}

impl WatchTurn {
    /// Whether the turn has taken long enough for others to have theirs.
    pub(crate) fn is_over(&self) -> bool {
        self.begun.elapsed() >= LONG_TURN
    }

    /// Ends the turn, and counts time that the watch used before it.
    pub(crate) fn pay(mut self, owed: Duration) {
        self.owed = owed;
    }
}

impl Drop for WatchTurn {
    fn drop(&mut self) {
        *self.next = self.start + (self.begun.elapsed() + self.owed).min(MAX_TURN) * self.spread;
    }
}

impl Paces {
    /// Returns the divisor of a processor for each caller.
    fn spread(&self) -> u32 {
        SHARE.max(self.waiting.load(Ordering::Relaxed).saturating_mul(2) / self.processors)
    }
}

impl<'a> Waiting<'a> {
    fn new(account: &'a Account) -> Self {
        if account.waiting.fetch_add(1, Ordering::Relaxed) == 0 {
            account.paces.waiting.fetch_add(1, Ordering::Relaxed);
        }
        Self(account)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.0.waiting.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.0.paces.waiting.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Account {
    fn drop(&mut self) {
        let mut accounts = self.paces.accounts.lock();
        // Another account of the caller may have been made since the last watch of this one ended.
        if accounts.get(&self.caller).is_some_and(|known| known.strong_count() == 0) {
            accounts.remove(&self.caller);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs `turns` turns of 1 ms for each of `watches` watches of a caller, and returns the time that passed.
    async fn crowd(paces: &WatchPaces, caller: u64, watches: usize, turns: usize) -> Duration {
        let begun = Instant::now();
        let _account = paces.watch(Source::from_key(caller));
        let watches = (0..watches).map(|_| async {
            let pace = paces.watch(Source::from_key(caller));
            for _ in 0..turns {
                pace.turn().await.pay(Duration::from_millis(1));
            }
        });
        futures::future::join_all(watches).await;
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_watches_uses_a_quarter_of_a_processor_whatever_their_number() {
        for (watches, turns) in [(1, 1_000), (100, 10), (1_000, 1)] {
            let share = 1.0 / crowd(&WatchPaces::new(2), 1, watches, turns).await.as_secs_f64();
            println!("{watches} watches: {share}");
            assert!((0.15..=0.26).contains(&share), "{watches} watches: {share}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_few_turns_never_wait_and_a_crowd_does_not_delay_another_caller() {
        let paces = WatchPaces::new(2);
        assert_eq!(crowd(&paces, 1, 2, 1).await, Duration::ZERO);
        let honest = async {
            let mut waited = Duration::ZERO;
            for _ in 0..20 {
                tokio::time::sleep(Duration::from_millis(50)).await;
                waited += crowd(&paces, 3, 1, 1).await;
            }
            waited
        };
        let (busy, honest) = tokio::join!(crowd(&paces, 2, 100, 20), honest);
        assert!(busy > Duration::from_secs(7), "{busy:?}");
        assert_eq!(honest, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn many_crowds_use_half_of_the_processors_together() {
        let paces = WatchPaces::new(2);
        let passed = futures::future::join_all((0..20).map(|caller| crowd(&paces, caller, 10, 10))).await;
        let share = 2.0 / passed.into_iter().max().unwrap().as_secs_f64();
        println!("{share}");
        assert!((0.6..=1.1).contains(&share), "{share} of a processor");
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_of_callers_whose_watches_ended_or_gave_up() {
        let paces = WatchPaces::new(2);
        let first = paces.watch(Source::from_key(1));
        for _ in 0..100 {
            first.turn().await.pay(Duration::from_millis(10));
        }
        let second = paces.watch(Source::from_key(1));
        assert!(futures::FutureExt::now_or_never(second.turn()).is_none(), "the caller has used its share");
        assert_eq!(paces.0.waiting.load(Ordering::Relaxed), 0, "the wait was given up");
        drop(first);
        assert_eq!(paces.0.accounts.lock().len(), 1);
        drop(second);
        assert_eq!(paces.0.accounts.lock().len(), 0);
    }
}
