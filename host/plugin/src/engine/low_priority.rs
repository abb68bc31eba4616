//! Threads of low priority, for plugins that took more than their share, and for work that takes long by its nature.
//!
//! Hooks run on the threads that serve requests, since handing a call over costs more than most calls. That is fair
//! only to guests that finish before the first tick: a guest that works for longer, or traps and leaves a large
//! instance to clear away, delays every request of the same thread. So a plugin gets low priority after a hook that
//! faulted, or that ran for 1 ms of processor time past its first tick (`LOW_PRIORITY_AFTER`). Until
//! `Limits::low_priority_ms` have passed without another such call, its calls and the cleaning up of its instances
//! happen on these threads, one for each core, which yield to every other thread of the process. Limits, order and
//! answers are the same, and while cores are idle such a plugin is hardly slower.
//!
//! The service has threads of this kind of its own, for long lists and snapshots.
//!
//! Cost: a plugin of normal priority pays one relaxed load for each call. The threads are started when first needed.

use std::{sync::OnceLock, thread};

use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};
use tokio_util::context::TokioContext;

/// Niceness of the threads beyond that of the process. A thread gets about a thirtieth of the time of a serving thread
/// when both want the same core.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 15;

/// The threads, one for each core, and further ones for blocking work. They are started with the first work; if the
/// system refuses them, the work runs on the caller's thread.
#[derive(Debug, Default)]
pub struct LowPriorityThreads(OnceLock<Option<Runtime>>);

impl LowPriorityThreads {
    /// Runs `work` on these threads. Dropping the future cancels it. Answers `None` if it panicked.
    pub async fn run<F>(&self, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match self.runtime() {
            Some(runtime) => {
                let mut task = Task(runtime.spawn(work));
                (&mut task.0).await.ok()
            }
            None => Some(work.await),
        }
    }

    /// Runs a future on the caller's thread, but its calls of [`tokio::task::spawn_blocking`] on these threads.
    pub async fn blocking<F: Future>(&self, work: F) -> F::Output {
        match self.runtime() {
            Some(runtime) => TokioContext::new(work, runtime.handle().clone()).await,
            None => work.await,
        }
    }

    /// Drops a value on these threads, without waiting; on the caller's thread if the system refused the threads.
    pub(crate) fn drop_in_background<T: Send + 'static>(&self, what: T) {
        if let Some(runtime) = self.runtime() {
            runtime.spawn(async move { drop(what) });
        }
    }

    fn runtime(&self) -> Option<&Runtime> {
        let start = || {
            let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(cores).thread_name("mortise-lowprio").enable_all().on_thread_start(yield_to_others);
            builder
                .build()
                .inspect_err(|e| {
                    tracing::error!(
                        "cannot start the threads of low priority; all plugins keep their normal priority: {e}"
                    )
                })
                .ok()
        };
        self.0.get_or_init(start).as_ref()
    }
}

impl Drop for LowPriorityThreads {
    fn drop(&mut self) {
        // Dropping a runtime waits for its threads, which panics inside of another runtime.
        if let Some(Some(runtime)) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Lowers the priority of the calling thread. On Linux niceness belongs to threads. Elsewhere it belongs to the whole
/// process, so there these threads keep the normal priority.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    // A thread inherits the niceness of the thread that starts it, which may be of low priority already; the first
    // thread of the process has the usual one.
    if let Err(e) = rustix::process::getpriority_process(Some(rustix::process::getpid()))
        .and_then(|usual| rustix::process::setpriority_process(None, (usual + NICENESS).min(19)))
    {
        tracing::warn!("cannot lower the priority of a thread; it keeps the normal one: {e}");
    }
}

/// A task that ends with its owner.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test]
    async fn work_of_low_priority_runs_elsewhere_and_ends_with_its_owner() {
        let threads = LowPriorityThreads::default();
        let there = threads.run(async { thread::current().name().map(str::to_owned) }).await;
        assert_eq!(there.flatten().as_deref(), Some("mortise-lowprio"));
        assert!(threads.run(async { panic!("a test asked for this panic") }).await.is_none());

        let (ended, mut heard) = tokio::sync::mpsc::channel::<()>(1);
        let endless = threads.run(async move {
            let _ended = ended;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::from_millis(20), endless).await.is_err());
        assert!(heard.recv().await.is_none(), "the task is gone, and what it held");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn these_threads_yield_to_others() {
        let threads = LowPriorityThreads::default();
        let nice = || rustix::process::getpriority_process(None).unwrap();
        let usual = nice();
        let low = (usual + NICENESS).min(19);
        assert_eq!(threads.run(async move { nice() }).await, Some(low));
        let blocking = threads.blocking(async { (nice(), tokio::task::spawn_blocking(nice).await.unwrap()) }).await;
        assert_eq!(blocking, (usual, low), "only what blocks is there");
    }
}
