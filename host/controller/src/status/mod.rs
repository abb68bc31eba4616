//! The status of a controller for the outside.

mod metrics;
mod recent_errors;
mod recorder;

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

pub use self::recent_errors::RecentError;
pub(crate) use self::{
    metrics::{ControllerMetrics, Names},
    recorder::{INDEX_PLACE_PREFIX, RECONCILE_PLACE, StatusRecorder, count},
};
use crate::key::Key;

/// The state of a controller.
///
/// ```text
/// WaitingForLease → Initializing → Priming → Running → Stopping ─→ BackingOff → (lease still held) Initializing
///        ↑                                                │  ├───→ WaitingForLease   lease lost
///        └──────────────── resume ──────── Paused ←───────┘  └───→ Stopped
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum State {
    /// Another server or no server has its lease.
    WaitingForLease,
    /// Its initializer runs.
    Initializing,
    /// Its cache is being filled; nothing is reconciled yet.
    Priming,
    /// It reconciles.
    Running,
    /// Its run is ending; reconciles that began may finish.
    Stopping,
    /// It is paused.
    Paused {
        /// The reason given with [`crate::Controllers::pause`].
        reason: String,
    },
    /// Its last run ended with an error too soon.
    BackingOff {
        /// Time at which the next run begins.
        until: Instant,
        /// Error of the last run.
        error: String,
    },
    /// It was removed, or the process is shutting down.
    Stopped,
}

/// The status of a controller at one moment.
#[derive(Debug, Clone)]
pub struct Status {
    /// Name of the controller.
    pub name: Arc<str>,
    /// The definition, in Consul's words.
    pub definition: String,
    /// The state.
    pub state: State,
    /// Resources that wait to be reconciled.
    pub queue_depth: usize,
    /// Age of the oldest waiting resource.
    pub oldest: Option<Duration>,
    /// Resources that are being reconciled.
    pub in_progress: usize,
    /// Resources that have a timer: retries, requests of the reconciler, resyncs.
    pub scheduled: usize,
    /// Resources that are throttled because they keep waking themselves.
    pub throttled: usize,
    /// Names of throttled resources, 16 at most.
    pub throttled_keys: Vec<Key>,
    /// Resources that are quarantined, because their reconcile broke down.
    pub quarantined: usize,
    /// Names of resources that are quarantined, 16 at most, with the time until each is tried again.
    pub quarantined_keys: Vec<(Key, Duration)>,
    /// Events that wait for mappers, or are retried by them.
    pub mapper_queue_depth: usize,
    /// Reconciles that ended, with every outcome.
    pub reconciles: u64,
    /// Reconciles that failed.
    pub errors: u64,
    /// Reconciles after which the reconciler asked to be called again.
    pub requeues: u64,
    /// Times that a resource was throttled because it kept waking itself.
    pub self_wakes: u64,
    /// Mappings that failed.
    pub mapper_errors: u64,
    /// Results of mappers that were skipped because they were of another type or incomplete.
    pub mapper_skipped: u64,
    /// Failures of indexes; the resources are cached, but not found through the index.
    pub index_errors: u64,
    /// Runs that ended with an error.
    pub restarts: u64,
    /// Error of the last such run.
    pub last_error: Option<String>,
    /// The last error of each of the 256 resources that failed last, the newest first.
    pub failures: Vec<RecentError>,
    /// Resources that were put off with a reason, 256 at most, the newest first.
    pub deferred: Vec<RecentError>,
}
