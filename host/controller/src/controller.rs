//! The part of a controller that outlives its runs: its queues, its memory of own writes, and its recorded status.

use std::{collections::BTreeMap, sync::Arc};

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    definition::Definition,
    loop_detection::OwnWrites,
    queue::{MappingItem, ReconcileItem, SharedQueue},
    status::{ControllerMetrics, Status, StatusRecorder},
};

/// Most throttled keys, and most keys quarantined, in a status.
const MAX_SHOWN_KEYS: usize = 16;

/// A registered controller, from its registration to its removal.
pub(crate) struct Controller {
    pub(crate) name: Arc<str>,
    pub(crate) queue: SharedQueue<ReconcileItem>,
    pub(crate) writes: Arc<OwnWrites>,
    pub(crate) recorder: StatusRecorder,
    /// The queues of its mappers, by the place that logs name (`map demo.v2.Album`).
    pub(crate) mappings: Mutex<BTreeMap<Arc<str>, Arc<SharedQueue<MappingItem>>>>,
}

impl Controller {
    pub(crate) fn new(name: Arc<str>, metrics: ControllerMetrics) -> Self {
        Self {
            name,
            queue: SharedQueue::new(),
            writes: Arc::default(),
            recorder: StatusRecorder::new(metrics),
            mappings: Mutex::default(),
        }
    }

    /// Empties all queues, timers and failure counts included.
    pub(crate) fn clear(&self) {
        self.queue.lock().clear();
        self.mappings.lock().clear();
    }

    /// Lets every key that is quarantined run again: the code that broke down on it has been replaced.
    pub(crate) fn release(&self) {
        self.queue.release();
        self.mappings.lock().values().for_each(|queue| queue.release());
    }

    /// The status at this moment.
    pub(crate) fn status(&self, definition: &Definition) -> Status {
        let mut status = self.recorder.status(self.name.clone(), definition.to_string());
        status.mapper_queue_depth = self.mapper_queue_depth();
        let mappers: usize = self.mappings.lock().values().map(|queue| queue.lock().throttled()).sum();
        let queue = self.queue.lock();
        status.queue_depth = queue.depth();
        status.oldest = queue.oldest(Instant::now());
        status.in_progress = queue.running();
        status.scheduled = queue.timers();
        status.throttled = queue.throttled() + mappers;
        status.throttled_keys = queue.throttled_keys(MAX_SHOWN_KEYS);
        status.quarantined = queue.quarantined();
        status.quarantined_keys = queue.quarantined_keys(MAX_SHOWN_KEYS, Instant::now());
        status
    }

    /// Sets the gauges.
    pub(crate) fn observe(&self) {
        let metrics = &self.recorder.metrics;
        metrics.mapper_queue_depth.set(float(self.mapper_queue_depth()));
        let queue = self.queue.lock();
        metrics.queue_depth.set(float(queue.depth()));
        metrics.queue_oldest.set(queue.oldest(Instant::now()).unwrap_or_default().as_secs_f64());
        metrics.in_progress.set(float(queue.running()));
        metrics.scheduled.set(float(queue.timers()));
        metrics.throttled.set(float(queue.throttled()));
        metrics.quarantined.set(float(queue.quarantined()));
    }

    fn mapper_queue_depth(&self) -> usize {
        self.mappings.lock().values().map(|queue| queue.lock().len()).sum()
    }
}

#[allow(clippy::cast_precision_loss, reason = "a gauge; 2^53 keys do not fit into memory")]
fn float(count: usize) -> f64 {
    count as f64
}
