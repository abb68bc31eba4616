//! What of a controller outlives its runs: its queue, its memory of own writes, its board.

use std::{collections::BTreeMap, panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{
    cause::Writes,
    definition::Definition,
    item::{Item, Wake},
    latch::Latch,
    meter::Meter,
    request::ReconcileError,
    status::{Board, Status},
    work::Work,
};

/// See the module.
pub(crate) struct Core {
    pub(crate) name: Arc<str>,
    pub(crate) work: Work<Wake>,
    pub(crate) writes: Arc<Writes>,
    pub(crate) board: Board,
    /// The queues of its mappers, by what is mapped.
    pub(crate) mappings: Mutex<BTreeMap<Arc<str>, Arc<Work<Item>>>>,
}

impl Core {
    pub(crate) fn new(name: Arc<str>, meter: Meter) -> Self {
        Self { name, work: Work::new(), writes: Arc::default(), board: Board::new(meter), mappings: Mutex::default() }
    }

    /// Forgets what is due.
    pub(crate) fn forget(&self) {
        self.work.look().clear();
        self.mappings.lock().clear();
    }

    /// The controller as it is now.
    pub(crate) fn status(&self, definition: &Definition) -> Status {
        let mut status = self.board.status(self.name.clone(), definition.to_string());
        status.mapper_queue_depth = self.mapper_queue_depth();
        let queue = self.work.look();
        status.queue_depth = queue.depth();
        status.oldest = queue.oldest(Instant::now());
        status.in_progress = queue.running();
        status.scheduled = queue.timers();
        status.throttled = queue.held();
        status.throttled_keys = queue.some_held(16);
        status
    }

    /// Sets the gauges.
    pub(crate) fn observe(&self) {
        let meter = &self.board.meter;
        meter.mapper_queue_depth.set(float(self.mapper_queue_depth()));
        let queue = self.work.look();
        meter.queue_depth.set(float(queue.depth()));
        meter.queue_oldest.set(queue.oldest(Instant::now()).unwrap_or_default().as_secs_f64());
        meter.in_progress.set(float(queue.running()));
        meter.scheduled.set(float(queue.timers()));
        meter.throttled.set(float(queue.held()));
    }

    fn mapper_queue_depth(&self) -> usize {
        self.mappings.lock().values().map(|work| work.look().len()).sum()
    }
}

#[allow(clippy::cast_precision_loss, reason = "a gauge; 2^53 keys do not fit into memory")]
fn float(count: usize) -> f64 {
    count as f64
}

/// Calls other people's code, whose panics are errors.
pub(crate) async fn guard<T>(code: impl Future<Output = Result<T, ReconcileError>>) -> Result<T, ReconcileError> {
    match AssertUnwindSafe(code).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => Err(ReconcileError::panicked(&*panic)),
    }
}

/// Waits for something, and once the run is ending for `drain` more at the most.
pub(crate) async fn within<T>(ending: &Latch, drain: Duration, task: impl Future<Output = T>) -> Option<T> {
    tokio::pin!(task);
    tokio::select! {
        biased;
        done = &mut task => return Some(done),
        () = ending.fired() => {}
    }
    tokio::time::timeout(drain, task).await.ok()
}
