//! Work that runs while the manager's task goes on: loads, commands of callers, and waits for calls to end.

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
    /// Waits for something without the place: what is waited for may itself be waiting for one.
    pub(crate) async fn leave_while<T>(&mut self, waiting: impl Future<Output = T>) -> T {
        self._permit = None;
        let awaited = waiting.await;
        self._permit = self.loads.clone().acquire_owned().await.ok();
        awaited
    }
}

/// Starts work, bounds how many loads run at once, and ends all of it with the server. Cheap to clone.
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

    /// Runs what nobody waits for to its end, or until the manager stops. A panic ends the manager: something that has
    /// to go on does not any more.
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

    /// Runs a future whose end is waited for, or until the manager stops; answers nothing then.
    pub(crate) fn spawn_awaited<F>(&self, future: F) -> JoinHandle<Option<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.tasks.spawn(self.stop.clone().run_until_cancelled_owned(future))
    }

    /// Waits for a place to load in.
    pub(crate) async fn place(&self) -> LoadPermit {
        // It is never closed.
        LoadPermit { loads: self.loads.clone(), _permit: self.loads.clone().acquire_owned().await.ok() }
    }

    /// Has the manager's task end with a panic, and the process with that.
    pub(crate) fn give_up(&self) {
        self.given_up.cancel();
    }

    /// Resolves when the manager is to end.
    pub(crate) async fn given_up(&self) {
        self.given_up.cancelled().await;
    }

    /// Ends everything where it next waits, and waits for that.
    pub(crate) async fn stop(&self) {
        self.stop.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
