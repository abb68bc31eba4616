//! The state of a queue: a FIFO of distinct keys, each at most once in it and at most once in work, and timers that put
//! keys back into it. It has no clock and no lock: callers provide both (see [`super::shared`]).
//!
//! Keys, timers and content are in one structure, so that a key waits once, runs once, and a run replaces the timers
//! that were set before it: docs/decisions/0021-the-queue-of-a-controller-is-written-here.md.
//!
//! # Rules
//! - A key that waits keeps its place when it is added again, and takes over the newest content.
//! - A key that is added while it is in work runs exactly once more, behind the keys that wait by then, with the newest
//!   content.
//! - A key has one timer. An earlier one stays when a later one is set.
//! - A key whose code broke down is *quarantined*; a key whose run was refused, for example by a quarantined plugin, is
//!   *postponed*. Both keep added content, and do not run before their wait is over.
//! - A run replaces the retry and the resync that were set before it, since it does their work; so a new resync
//!   replaces the old one. A timer that the reconciler asked for stays.
//!
//! # Cost
//! Everything is O(log n) in the number of timers, or constant. A key that only waits for its timer takes about 130
//! bytes, its shared text aside. Bounded by the number of keys: an idle key without a timer and without failures is
//! forgotten.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    time::Duration,
};

use tokio::time::Instant;

use crate::{durations::MAX_TIMER_WAIT, key::Key};

/// The content of an item, carried with its key.
pub(crate) trait Content: Default + Send + 'static {
    /// Takes over newer content of the same key.
    fn merge(&mut self, newer: Self);
}

/// The reason for which a timer was set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimerReason {
    /// The reconciler asked for it.
    Requested,
    /// A wait after a failure.
    Retry,
    /// The resync interval.
    Resync,
    /// The key wakes itself too often.
    Throttled,
}

/// Next step after a run.
#[derive(Debug)]
pub(crate) enum Next<C> {
    /// The end, or the resync reconcile after this time.
    Done(Option<Duration>),
    /// A run at the end of the queue.
    Now(C),
    /// A run after this time.
    After(Duration, C),
    /// A run after this time, because the key keeps asking for itself.
    Throttled(Duration, C),
    /// A run after this time, because the run failed; counts one more failure.
    Retry(Duration, C),
    /// A run after this time and not before, even if the key is added, because the code broke down; counts one more
    /// failure.
    Quarantine(Duration, C),
    /// A run after this time and not before, as if this run had not happened.
    Postponed(Duration, C),
}

/// An item in work.
#[derive(Debug)]
pub(crate) struct Job<C> {
    pub(crate) key: Key,
    pub(crate) content: C,
    /// Failures in a row before this run.
    pub(crate) failures: u32,
    index: u32,
    epoch: u32,
}

/// Work of a queue at a moment.
pub(crate) enum Take<C> {
    /// An item to work on.
    Job(Job<C>),
    /// A wait until this time, or until a key is added.
    Wait(Option<Instant>),
    /// The end: the queue is closed.
    Closed,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EntryState {
    /// Neither waits nor runs; may have a timer.
    Idle,
    Waiting,
    Running,
    /// Runs, and was added again meanwhile.
    RunningAgain,
}

/// A key that does not run before its time.
#[derive(Debug, Clone, Copy)]
struct Hold {
    until: u64,
    /// Whether the code broke down; otherwise the key was postponed.
    quarantined: bool,
}

struct Entry<C> {
    key: Key,
    content: Option<Box<C>>,
    /// Time at which it was added; nanoseconds since the queue was made, as all times in here.
    since: u64,
    timer: Option<(u64, TimerReason)>,
    failures: u32,
    state: EntryState,
    /// Time until which the key does not run, even if it is added.
    held: Option<Hold>,
    /// The key was throttled, and has not run since.
    throttled: bool,
    /// The key's timer fired since it was throttled.
    timer_fired: bool,
}

/// The state of a queue; the module describes its rules.
pub(crate) struct Queue<C> {
    entries: Vec<Option<Entry<C>>>,
    free: Vec<u32>,
    index: HashMap<Key, u32>,
    waiting: VecDeque<u32>,
    timers: BTreeSet<(u64, u32)>,
    running: usize,
    throttled: usize,
    quarantined: usize,
    /// Number of openings: the result of a run from an earlier opening is ignored.
    epoch: u32,
    closed: bool,
    zero: Instant,
}

impl<C: Content> Queue<C> {
    /// Empty and closed.
    pub(crate) fn new(zero: Instant) -> Self {
        Self {
            entries: Vec::new(),
            free: Vec::new(),
            index: HashMap::new(),
            waiting: VecDeque::new(),
            timers: BTreeSet::new(),
            running: 0,
            throttled: 0,
            quarantined: 0,
            epoch: 0,
            closed: true,
            zero,
        }
    }

    /// Lets items be taken. Items that were in work when the queue closed, and never came back, wait again.
    pub(crate) fn open(&mut self, now: Instant) {
        self.closed = false;
        self.epoch = self.epoch.wrapping_add(1);
        let since = self.nanos(now);
        for (index, entry) in (0..).zip(&mut self.entries) {
            if let Some(entry) = entry
                && matches!(entry.state, EntryState::Running | EntryState::RunningAgain)
            {
                entry.state = EntryState::Waiting;
                entry.since = since;
                self.waiting.push_back(index);
            }
        }
        self.running = 0;
    }

    /// Closes the queue: no item is taken from now on; items in work may come back.
    pub(crate) fn close(&mut self) {
        self.closed = true;
    }

    /// Removes all keys.
    pub(crate) fn clear(&mut self) {
        *self = Self { closed: self.closed, epoch: self.epoch.wrapping_add(1), ..Self::new(self.zero) };
    }

    /// Adds a key. Returns whether it waits now and did not before.
    pub(crate) fn add(&mut self, key: &Key, content: C, now: Instant) -> bool {
        let since = self.nanos(now);
        let index = self.find_or_make(key, since);
        let Some(entry) = entry(&mut self.entries, index) else { return false };
        match &mut entry.content {
            Some(older) => older.merge(content),
            none => *none = Some(Box::new(content)),
        }
        match entry.state {
            EntryState::Idle => {
                entry.state = EntryState::Waiting;
                entry.since = since;
                self.waiting.push_back(index);
                true
            }
            EntryState::Running => {
                entry.state = EntryState::RunningAgain;
                entry.since = since;
                false
            }
            EntryState::Waiting | EntryState::RunningAgain => false,
        }
    }

    /// Takes the next item. `throttle` gets its content, and whether its timer fired since it was last throttled, and
    /// returns the time for which the item has to wait.
    pub(crate) fn take(
        &mut self,
        now: Instant,
        mut throttle: impl FnMut(&Key, &mut C, bool) -> Option<Duration>,
    ) -> Take<C> {
        if self.closed {
            return Take::Closed;
        }
        self.queue_due_keys(now);
        let nanos = self.nanos(now);
        while let Some(index) = self.waiting.pop_front() {
            let Some(entry) = entry(&mut self.entries, index) else { continue };
            if let Some(held) = entry.held {
                if held.until > nanos {
                    entry.state = EntryState::Idle;
                    let wait = Duration::from_nanos(held.until - nanos);
                    self.set_timer(index, now, wait, TimerReason::Retry);
                    continue;
                }
                entry.held = None;
                self.quarantined = self.quarantined.saturating_sub(usize::from(held.quarantined));
            }
            let mut content = entry.content.take().unwrap_or_default();
            if let Some(wait) = throttle(&entry.key, &mut content, entry.timer_fired) {
                entry.state = EntryState::Idle;
                entry.content = Some(content);
                entry.timer_fired = false;
                if !std::mem::replace(&mut entry.throttled, true) {
                    self.throttled += 1;
                }
                self.set_timer(index, now, wait, TimerReason::Throttled);
                continue;
            }
            entry.state = EntryState::Running;
            entry.timer_fired = false;
            if std::mem::replace(&mut entry.throttled, false) {
                self.throttled = self.throttled.saturating_sub(1);
            }
            let job =
                Job { key: entry.key.clone(), content: *content, failures: entry.failures, index, epoch: self.epoch };
            if let Some((due, TimerReason::Retry | TimerReason::Resync | TimerReason::Throttled)) = entry.timer {
                entry.timer = None;
                self.timers.remove(&(due, index));
            }
            self.running += 1;
            return Take::Job(job);
        }
        Take::Wait(self.timers.first().map(|(due, _)| self.zero + Duration::from_nanos(*due)))
    }

    /// Puts an item back after its run. Returns whether a worker that waits for a timer has to look again.
    pub(crate) fn finish(&mut self, job: Job<C>, next: Next<C>, now: Instant) -> bool {
        let since = self.nanos(now);
        let index = job.index;
        let first = self.timers.first().copied();
        if job.epoch != self.epoch {
            return false;
        }
        let Some(entry) = entry(&mut self.entries, index) else { return false };
        self.running = self.running.saturating_sub(1);
        let again = entry.state == EntryState::RunningAgain;
        entry.failures = match next {
            Next::Retry(..) | Next::Quarantine(..) => job.failures.saturating_add(1),
            Next::Postponed(..) => job.failures,
            Next::Done(_) | Next::Now(_) | Next::After(..) | Next::Throttled(..) => 0,
        };
        let held = match next {
            Next::Quarantine(wait, _) => Some((wait, true)),
            Next::Postponed(wait, _) => Some((wait, false)),
            _ => None,
        };
        entry.held = held.map(|(wait, quarantined)| Hold { until: since.saturating_add(nanos_of(wait)), quarantined });
        self.quarantined += usize::from(held.is_some_and(|(_, quarantined)| quarantined));
        let (timer, older) = match next {
            Next::Done(resync) => (resync.map(|wait| (wait, TimerReason::Resync)), None),
            Next::Now(content) => (None, Some(content)),
            Next::After(wait, content) => (Some((wait, TimerReason::Requested)), Some(content)),
            Next::Throttled(wait, content) => {
                if !std::mem::replace(&mut entry.throttled, true) {
                    self.throttled += 1;
                }
                (Some((wait, TimerReason::Throttled)), Some(content))
            }
            Next::Retry(wait, content) | Next::Quarantine(wait, content) | Next::Postponed(wait, content) => {
                (Some((wait, TimerReason::Retry)), Some(content))
            }
        };
        let now_again = held.is_none() && (again || (timer.is_none() && older.is_some()));
        if let Some(mut older) = older {
            if let Some(newer) = entry.content.take() {
                older.merge(*newer);
            }
            entry.content = Some(Box::new(older));
        }
        entry.state = if now_again { EntryState::Waiting } else { EntryState::Idle };
        if now_again {
            if !again {
                entry.since = since;
            }
            self.waiting.push_back(index);
        }
        match timer {
            // The run that follows at once does the work of these timers.
            Some((_, TimerReason::Retry | TimerReason::Resync)) if now_again => {}
            Some((wait, why)) => self.set_timer(index, now, wait, why),
            None => {}
        }
        self.forget_if_idle(index);
        now_again || self.timers.first().copied() != first
    }

    /// Number of waiting keys, without keys in work that run once more.
    pub(crate) fn depth(&self) -> usize {
        self.waiting.len()
    }

    /// Time that the first key has been waiting.
    pub(crate) fn oldest(&self, now: Instant) -> Option<Duration> {
        let first = self.waiting.front()?;
        let since = self.entries.get(*first as usize)?.as_ref()?.since;
        Some(Duration::from_nanos(self.nanos(now).saturating_sub(since)))
    }

    /// Number of keys in work.
    pub(crate) fn running(&self) -> usize {
        self.running
    }

    /// Number of keys with a timer.
    pub(crate) fn timers(&self) -> usize {
        self.timers.len()
    }

    /// The number of throttled keys.
    pub(crate) fn throttled(&self) -> usize {
        self.throttled
    }

    /// Throttled keys, at most `bound`. Walks through every key.
    pub(crate) fn throttled_keys(&self, bound: usize) -> Vec<Key> {
        if self.throttled == 0 {
            return Vec::new();
        }
        self.entries.iter().flatten().filter(|e| e.throttled).map(|e| e.key.clone()).take(bound).collect()
    }

    /// The number of keys that are quarantined.
    pub(crate) fn quarantined(&self) -> usize {
        self.quarantined
    }

    /// Keys that are quarantined, at most `bound`, with the time until each is tried again. Walks through every key.
    pub(crate) fn quarantined_keys(&self, bound: usize, now: Instant) -> Vec<(Key, Duration)> {
        if self.quarantined == 0 {
            return Vec::new();
        }
        let nanos = self.nanos(now);
        let quarantined = |entry: &Entry<C>| {
            let held = entry.held.filter(|held| held.quarantined)?;
            Some((entry.key.clone(), Duration::from_nanos(held.until.saturating_sub(nanos))))
        };
        self.entries.iter().flatten().filter_map(quarantined).take(bound).collect()
    }

    /// Lets every key that is quarantined or postponed run again: the code that broke down has been replaced.
    pub(crate) fn release(&mut self, now: Instant) {
        let since = self.nanos(now);
        for (index, entry) in (0..).zip(&mut self.entries) {
            let Some(entry) = entry else { continue };
            if entry.held.take().is_some() && entry.state == EntryState::Idle {
                entry.state = EntryState::Waiting;
                entry.since = since;
                self.waiting.push_back(index);
            }
        }
        self.quarantined = 0;
    }

    /// Number of known keys.
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Puts every due key into the queue.
    fn queue_due_keys(&mut self, now: Instant) {
        let nanos = self.nanos(now);
        while let Some(&(due, index)) = self.timers.first()
            && due <= nanos
        {
            self.timers.pop_first();
            let Some(entry) = entry(&mut self.entries, index) else { continue };
            entry.timer = None;
            entry.timer_fired = true;
            match entry.state {
                EntryState::Idle => {
                    entry.state = EntryState::Waiting;
                    entry.since = nanos;
                    self.waiting.push_back(index);
                }
                EntryState::Running => entry.state = EntryState::RunningAgain,
                EntryState::Waiting | EntryState::RunningAgain => {}
            }
        }
    }

    fn set_timer(&mut self, index: u32, now: Instant, wait: Duration, why: TimerReason) {
        let due = self.nanos(now.checked_add(wait).unwrap_or(now + MAX_TIMER_WAIT));
        let Some(entry) = entry(&mut self.entries, index) else { return };
        if let Some((before, _)) = entry.timer {
            if before <= due {
                return;
            }
            self.timers.remove(&(before, index));
        }
        entry.timer = Some((due, why));
        self.timers.insert((due, index));
    }

    fn find_or_make(&mut self, key: &Key, since: u64) -> u32 {
        if let Some(index) = self.index.get(key) {
            return *index;
        }
        let entry = Entry {
            key: key.clone(),
            content: None,
            since,
            timer: None,
            failures: 0,
            state: EntryState::Idle,
            held: None,
            throttled: false,
            timer_fired: false,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.entries.push(None);
            // More than u32::MAX keys do not fit into memory.
            u32::try_from(self.entries.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(slot) = self.entries.get_mut(index as usize) {
            *slot = Some(entry);
        }
        self.index.insert(key.clone(), index);
        index
    }

    fn forget_if_idle(&mut self, index: u32) {
        if let Some(slot) = self.entries.get_mut(index as usize)
            && let Some(entry) = slot
            && entry.state == EntryState::Idle
            && entry.timer.is_none()
        {
            self.index.remove(&entry.key);
            *slot = None;
            self.free.push(index);
        }
    }

    fn nanos(&self, instant: Instant) -> u64 {
        nanos_of(instant.saturating_duration_since(self.zero))
    }
}

fn nanos_of(length: Duration) -> u64 {
    u64::try_from(length.as_nanos()).unwrap_or(u64::MAX)
}

fn entry<C>(entries: &mut [Option<Entry<C>>], index: u32) -> Option<&mut Entry<C>> {
    entries.get_mut(index as usize)?.as_mut()
}
