//! Records the history of a controller: state, counters, recent errors. Writing costs atomic additions, and a lock
//! after a failure.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use mortise_resource::{pb, types};
use parking_lot::Mutex;

use super::{State, Status, metrics::ControllerMetrics, recent_errors::RecentErrors};
use crate::key::Key;

/// The place of errors of reconciles.
pub(crate) const RECONCILE_PLACE: &str = "reconcile";

/// Prefix of the places of index errors, which end with ` of ` and the type.
pub(crate) const INDEX_PLACE_PREFIX: &str = "index ";

/// The record of one controller.
pub(crate) struct StatusRecorder {
    state: Mutex<State>,
    pub(crate) metrics: ControllerMetrics,
    pub(crate) reconciles: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) requeues: AtomicU64,
    pub(crate) self_wakes: AtomicU64,
    mapper_errors: AtomicU64,
    pub(crate) mapper_skipped: AtomicU64,
    index_errors: AtomicU64,
    restarts: AtomicU64,
    last_error: Mutex<Option<String>>,
    failures: Mutex<RecentErrors>,
    deferred: Mutex<RecentErrors>,
    /// Whether `deferred` may have entries: saves a lock for each reconcile.
    any_deferred: AtomicBool,
    /// Whether `failures` may have an index's error that is not resolved: saves a lock for each event.
    any_index_failed: AtomicBool,
    reconcile: Arc<str>,
}

impl StatusRecorder {
    pub(crate) fn new(metrics: ControllerMetrics) -> Self {
        Self {
            state: Mutex::new(State::WaitingForLease),
            metrics,
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
            any_index_failed: AtomicBool::new(false),
            reconcile: RECONCILE_PLACE.into(),
        }
    }

    pub(crate) fn set(&self, state: State) {
        let running = if state == State::Running { 1.0 } else { 0.0 };
        *self.state.lock() = state;
        self.metrics.running.set(running);
    }

    pub(crate) fn state(&self) -> State {
        self.state.lock().clone()
    }

    /// Records that a reconcile failed.
    pub(crate) fn failed(&self, key: &Key, message: String) {
        count(&self.errors);
        self.metrics.errors.increment(1);
        self.failures.lock().record(&self.reconcile, key, message);
    }

    /// Records that a reconcile succeeded after a failure.
    pub(crate) fn recovered(&self, key: &Key) {
        self.failures.lock().resolve(&self.reconcile, key);
    }

    /// Records that a reconcile was deferred with a reason; `None` when it ended in another way.
    pub(crate) fn deferred(&self, key: &Key, reason: Option<String>) {
        match reason {
            Some(reason) => {
                self.any_deferred.store(true, Ordering::Relaxed);
                self.deferred.lock().record(&self.reconcile, key, reason);
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

    /// Records that a mapping failed.
    pub(crate) fn mapping_failed(&self, place: &Arc<str>, key: &Key, message: String) {
        count(&self.mapper_errors);
        self.metrics.mapper_errors.increment(1);
        self.failures.lock().record(place, key, message);
    }

    /// Records that a mapping succeeded after a failure.
    pub(crate) fn mapping_recovered(&self, place: &Arc<str>, key: &Key) {
        self.failures.lock().resolve(place, key);
    }

    /// Records that an index failed on a resource. Returns the number of such failures so far.
    pub(crate) fn index_failed(&self, place: &Arc<str>, key: &Key, message: String) -> u64 {
        let before = self.index_errors.fetch_add(1, Ordering::Relaxed);
        self.metrics.index_errors.increment(1);
        let mut failures = self.failures.lock();
        failures.record(place, key, message);
        self.any_index_failed.store(true, Ordering::Relaxed);
        before + 1
    }

    /// Records that a resource is in every index of its type except those of the `failed` places, or that it is gone.
    pub(crate) fn index_recovered(&self, resource_type: &pb::Type, key: &Key, failed: &[Arc<str>]) {
        if !self.any_index_failed.load(Ordering::Relaxed) {
            return;
        }
        let suffix = format!(" of {}", types::gvk(resource_type));
        let is_over = |place: &Arc<str>| {
            place.starts_with(INDEX_PLACE_PREFIX) && place.ends_with(&suffix) && !failed.contains(place)
        };
        let mut failures = self.failures.lock();
        failures.resolve_where(key, is_over);
        self.any_index_failed
            .store(failures.any_unresolved(|place| place.starts_with(INDEX_PLACE_PREFIX)), Ordering::Relaxed);
    }

    /// Records that a run ended with an error.
    pub(crate) fn run_failed(&self, error: String) {
        count(&self.restarts);
        self.metrics.restarts.increment(1);
        *self.last_error.lock() = Some(error);
    }

    /// The recorded part of the status; [`crate::controller::Controller::status`] adds the queues.
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
            quarantined: 0,
            quarantined_keys: Vec::new(),
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
            failures: self.failures.lock().newest_first(),
            deferred: self.deferred.lock().newest_first(),
        }
    }
}

/// Adds one to a counter.
pub(crate) fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
