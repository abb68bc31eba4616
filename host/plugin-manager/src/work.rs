//! Background work beside the manager's task: loads, commands of callers, and waits for the end of calls.

use std::{future::Future, panic::AssertUnwindSafe, sync::Arc};

use futures::FutureExt as _;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{AbortHandle, JoinHandle},
};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

/// A place among the loads that run at once. Held while a component is read, compiled and compared.
pub(crate) struct LoadPermit {
    loads: Arc<Semaphore>,
    _permit: Option<OwnedSemaphorePermit>,
}

impl LoadPermit {
    /// Waits for a future without holding the place, since that future may itself wait for a place.
    pub(crate) async fn leave_while<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        self._permit = None;
        let awaited = waiting.await;
        self._permit = self.loads.clone().acquire_owned().await.ok();
        awaited
    }
}

/// Starts background work, bounds the number of concurrent loads, and ends all work with the server. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Work {
    tasks: TaskTracker,
    stop: CancellationToken,
    given_up: CancellationToken,
    loads: Arc<Semaphore>,
}

impl Work {
    pub(crate) fn new(parallel_loads: usize) -> Self {
        Self {
            tasks: TaskTracker::new(),
            stop: CancellationToken::new(),
            given_up: CancellationToken::new(),
            loads: Arc::new(Semaphore::new(parallel_loads.max(1))),
        }
    }

    /// Runs a task in the background to its end, or until the manager stops. A panic ends the manager, since work that
    /// has to continue would be missing.
    pub(crate) fn spawn<F>(&self, future: F) -> AbortHandle
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let (stop, given_up) = (self.stop.clone(), self.given_up.clone());
        let task = self.tasks.spawn(async move {
            let ended = AssertUnwindSafe(stop.run_until_cancelled_owned(future)).catch_unwind().await;
            if ended.is_err() {
                given_up.cancel();
            }
        });
        task.abort_handle()
    }

    /// Runs a future for a caller that waits for it; `None` if the manager stops before its end.
    pub(crate) fn spawn_awaited<F>(&self, future: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(future))
    }

    /// Waits for a place among the concurrent loads.
    pub(crate) async fn place(&self) -> LoadPermit {
        // The semaphore is never closed.
        LoadPermit { loads: self.loads.clone(), _permit: self.loads.clone().acquire_owned().await.ok() }
    }

    /// Ends the manager's task with a panic, and with it the process.
    pub(crate) fn give_up(&self) {
        self.given_up.cancel();
    }

    /// Resolves when the manager has to end.
    pub(crate) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    /// Ends all work at its next wait, and waits for that.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
