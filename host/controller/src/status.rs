//! What can be seen of a controller from outside.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    key::Key,
    meter::Meter,
    ring::{Note, Ring},
};

/// What a controller is doing.
///
/// ```text
/// WaitingForLease → Initializing → Priming → Running → Stopping ─→ BackingOff → (lease still held) Initializing
///        ↑                                                │  ├───→ WaitingForLease   lease lost
///        └──────────────── resume ──────── Paused ←───────┘  └───→ Stopped
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Another server runs it, or nobody may yet.
    WaitingForLease,
    /// Its initializer runs.
    Initializing,
    /// It reads what is there; nothing is reconciled yet.
    Priming,
    /// It works.
    Running,
    /// A run is ending: reconciles that began may end.
    Stopping,
    /// Somebody paused it.
    Paused {
        /// Why, in the words of who did.
        reason: String,
    },
    /// Its last run ended too soon.
    BackingOff {
        /// When the next one begins.
        until: Instant,
        /// Why the last one ended.
        error: String,
    },
    /// It was removed, or the process is shutting down.
    Stopped,
}

/// A controller as seen at one moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// Its name.
    pub name: Arc<str>,
    /// The definition, in Consul's words.
    pub definition: String,
    /// What it is doing.
    pub state: State,
    /// Resources that wait to be reconciled.
    pub queue_depth: usize,
    /// How long the first of them has been waiting.
    pub oldest: Option<Duration>,
    /// Resources that are being reconciled.
    pub in_progress: usize,
    /// Resources that will be reconciled at a time that is set: retries, requests of the reconciler, resyncs.
    pub scheduled: usize,
    /// Resources that wait because they keep waking themselves.
    pub throttled: usize,
    /// Some of these, at most 16.
    pub throttled_keys: Vec<Key>,
    /// Events that wait for mappers, or are retried by them.
    pub mapper_queue_depth: usize,
    /// Reconciles that ended, in whatever way.
    pub reconciles: u64,
    /// Those that failed.
    pub errors: u64,
    /// Those after which the reconciler wanted to see the resource again.
    pub requeues: u64,
    /// How often a resource was held back because it kept waking itself.
    pub self_wakes: u64,
    /// Mappings that failed.
    pub mapper_errors: u64,
    /// Results of mappers that were left out, being of another type or incomplete.
    pub mapper_skipped: u64,
    /// Resources that an index failed on; they are cached, but not found through it.
    pub index_errors: u64,
    /// Runs that ended with an error.
    pub restarts: u64,
    /// Why the last such run ended.
    pub last_error: Option<String>,
    /// The last error of each of the 256 resources that failed last, the newest first.
    pub failures: Vec<Note>,
    /// Resources that were put off with a reason, 256 at most, the newest first.
    pub deferred: Vec<Note>,
}

/// The place of notes about reconciles.
pub(crate) const RECONCILE: &str = "reconcile";

/// Where a controller writes down what happens to it.
pub(crate) struct Board {
    state: Mutex<State>,
    pub(crate) meter: Meter,
    pub(crate) reconciles: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) requeues: AtomicU64,
    pub(crate) self_wakes: AtomicU64,
    mapper_errors: AtomicU64,
    pub(crate) mapper_skipped: AtomicU64,
    index_errors: AtomicU64,
    restarts: AtomicU64,
    last_error: Mutex<Option<String>>,
    failures: Mutex<Ring>,
    deferred: Mutex<Ring>,
    /// Whether there may be anything in `deferred`: saves a lock for each reconcile.
    any_deferred: AtomicBool,
    reconcile: Arc<str>,
}

impl Board {
    pub(crate) fn new(meter: Meter) -> Self {
        Self {
            state: Mutex::new(State::WaitingForLease),
            meter,
            reconciles: AtomicU64::new(0),
            errors: AtomicU64::new(0),
            requeues: AtomicU64::new(0),
            self_wakes: AtomicU64::new(0),
            mapper_errors: AtomicU64::new(0),
            mapper_skipped: AtomicU64::new(0),
            index_errors: AtomicU64::new(0),
            restarts: AtomicU64::new(0),
            last_error: Mutex::new(None),
            failures: Mutex::default(),
            deferred: Mutex::default(),
            any_deferred: AtomicBool::new(false),
            reconcile: RECONCILE.into(),
        }
    }

    pub(crate) fn set(&self, state: State) {
        let running = if state == State::Running { 1.0 } else { 0.0 };
        *self.state.lock() = state;
        self.meter.running.set(running);
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// A reconcile failed.
    pub(crate) fn failed(&self, key: &Key, message: String) {
        count(&self.errors);
        self.meter.errors.increment(1);
        self.failures.lock().note(&self.reconcile, key, message);
    }

    /// A reconcile went well after one that failed.
    pub(crate) fn recovered(&self, key: &Key) {
        self.failures.lock().resolve(&self.reconcile, key);
    }

    /// A reconcile was put off with a reason, or ended in another way.
    pub(crate) fn deferred(&self, key: &Key, reason: Option<String>) {
        match reason {
            Some(reason) => {
                self.any_deferred.store(true, Ordering::Relaxed);
                self.deferred.lock().note(&self.reconcile, key, reason);
            }
            None if self.any_deferred.load(Ordering::Relaxed) => {
                let mut deferred = self.deferred.lock();
                deferred.forget(&self.reconcile, key);
                if deferred.is_empty() {
                    self.any_deferred.store(false, Ordering::Relaxed);
                }
            }
            None => {}
        }
    }

    /// A mapping failed.
    pub(crate) fn mapping_failed(&self, place: &Arc<str>, key: &Key, message: String) {
        count(&self.mapper_errors);
        self.meter.mapper_errors.increment(1);
        self.failures.lock().note(place, key, message);
    }

    /// A mapping went well after one that failed.
    pub(crate) fn mapping_recovered(&self, place: &Arc<str>, key: &Key) {
        self.failures.lock().resolve(place, key);
    }

    /// An index failed on a resource; how often that happened so far.
    pub(crate) fn index_failed(&self, place: &Arc<str>, key: &Key, message: String) -> u64 {
        let before = self.index_errors.fetch_add(1, Ordering::Relaxed);
        self.meter.index_errors.increment(1);
        self.failures.lock().note(place, key, message);
        before + 1
    }

    /// A run ended with an error.
    pub(crate) fn broke(&self, error: String) {
        count(&self.restarts);
        self.meter.restarts.increment(1);
        *self.last_error.lock() = Some(error);
    }

    /// What is written down; queues and names are filled in by who knows them.
    pub(crate) fn status(&self, name: Arc<str>, definition: String) -> Status {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Status {
            name,
            definition,
            state: self.state(),
            queue_depth: 0,
            oldest: None,
            in_progress: 0,
            scheduled: 0,
            throttled: 0,
            throttled_keys: Vec::new(),
            mapper_queue_depth: 0,
            reconciles: read(&self.reconciles),
            errors: read(&self.errors),
            requeues: read(&self.requeues),
            self_wakes: read(&self.self_wakes),
            mapper_errors: read(&self.mapper_errors),
            mapper_skipped: read(&self.mapper_skipped),
            index_errors: read(&self.index_errors),
            restarts: read(&self.restarts),
            last_error: self.last_error.lock().clone(),
            failures: self.failures.lock().notes(),
            deferred: self.deferred.lock().notes(),
        }
    }
}

/// One more.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
