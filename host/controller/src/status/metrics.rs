//! The metrics of a controller. Handles are looked up when it is registered; a reconcile costs two atomic additions and
//! a histogram. Gauges are set when metrics are collected ([`crate::Controllers::observe`]), not when something
//! changes.
//!
//! Bounded: after [`MAX_LABELS`] names in one life of the process, further controllers share the name `(others)`.

use std::{collections::HashSet, sync::Arc};

use metrics::{Counter, Gauge, Histogram};
use parking_lot::Mutex;

/// Most names of controllers with their own series.
const MAX_LABELS: usize = 512;

/// The name that all further controllers share.
const SHARED_LABEL: &str = "(others)";

/// The names that label series.
#[derive(Default)]
pub(crate) struct Names(Mutex<HashSet<Arc<str>>>);

impl Names {
    /// The label of a controller.
    pub(crate) fn label(&self, controller: &Arc<str>) -> Arc<str> {
        let mut names = self.0.lock();
        if names.contains(controller) || (names.len() < MAX_LABELS && names.insert(controller.clone())) {
            controller.clone()
        } else {
            SHARED_LABEL.into()
        }
    }
}

/// The metric handles of one controller.
pub(crate) struct ControllerMetrics {
    pub(crate) done: Counter,
    pub(crate) now: Counter,
    pub(crate) after: Counter,
    pub(crate) deferred: Counter,
    pub(crate) error: Counter,
    pub(crate) seconds: Histogram,
    pub(crate) requeues: Counter,
    pub(crate) errors: Counter,
    pub(crate) mapper_errors: Counter,
    pub(crate) index_errors: Counter,
    pub(crate) restarts: Counter,
    pub(crate) self_wakes: Counter,
    pub(crate) queue_depth: Gauge,
    pub(crate) mapper_queue_depth: Gauge,
    pub(crate) queue_oldest: Gauge,
    pub(crate) in_progress: Gauge,
    pub(crate) scheduled: Gauge,
    pub(crate) throttled: Gauge,
    pub(crate) quarantined: Gauge,
    pub(crate) running: Gauge,
}

impl ControllerMetrics {
    pub(crate) fn new(label: &Arc<str>) -> Self {
        let name = || label.to_string();
        let outcome = |outcome: &'static str| metrics::counter!("mortise_controller_reconciles_total", "controller" => name(), "outcome" => outcome);
        Self {
            done: outcome("done"),
            now: outcome("now"),
            after: outcome("after"),
            deferred: outcome("deferred"),
            error: outcome("error"),
            seconds: metrics::histogram!("mortise_controller_reconcile_seconds", "controller" => name()),
            requeues: metrics::counter!("mortise_controller_requeues_total", "controller" => name()),
            errors: metrics::counter!("mortise_controller_errors_total", "controller" => name()),
            mapper_errors: metrics::counter!("mortise_controller_mapper_errors_total", "controller" => name()),
            index_errors: metrics::counter!("mortise_controller_index_errors_total", "controller" => name()),
            restarts: metrics::counter!("mortise_controller_restarts_total", "controller" => name()),
            self_wakes: metrics::counter!("mortise_controller_reconcile_loops_throttled_total", "controller" => name()),
            queue_depth: metrics::gauge!("mortise_controller_queue_depth", "controller" => name()),
            mapper_queue_depth: metrics::gauge!("mortise_controller_mapper_queue_depth", "controller" => name()),
            queue_oldest: metrics::gauge!("mortise_controller_queue_oldest_seconds", "controller" => name()),
            in_progress: metrics::gauge!("mortise_controller_in_progress", "controller" => name()),
            scheduled: metrics::gauge!("mortise_controller_scheduled", "controller" => name()),
            throttled: metrics::gauge!("mortise_controller_throttled", "controller" => name()),
            quarantined: metrics::gauge!("mortise_controller_quarantined_keys", "controller" => name()),
            running: metrics::gauge!("mortise_controller_running", "controller" => name()),
        }
    }
}
