//! Tasks that run as long as the server. A task that panics ends the process with an error, so that its supervisor
//! starts it again: a server without the task would only look alive. Other ends are normal here; the tasks of the ports
//! must not end at all (`host/api/src/tasks.rs`). The server is not ready from the panic on, and `mortise_task_failed`
//! shows the task.

use tokio::{
    sync::watch,
    task::{JoinError, JoinHandle},
};

/// Panic of a task.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{task} panicked ({panic}), so the server stops, to be started again; please report it with the log")]
pub(crate) struct TaskPanic {
    task: &'static str,
    panic: String,
}

/// The first panic of the watched tasks. Cheap to clone.
#[derive(Clone)]
pub(crate) struct TaskWatch(watch::Sender<Option<TaskPanic>>);

impl TaskWatch {
    /// Makes a watch without tasks.
    pub(crate) fn new() -> Self {
        Self(watch::Sender::new(None))
    }

    /// Starts a task and watches it until it ends.
    pub(crate) fn spawn(&self, task: &'static str, work: impl Future<Output = ()> + Send + 'static) -> JoinHandle<()> {
        self.over(task, tokio::spawn(work))
    }

    /// Watches a started task until it ends. An abort is not a fault.
    pub(crate) fn over<T: Send + 'static>(&self, task: &'static str, ending: JoinHandle<T>) -> JoinHandle<()> {
        let first = self.0.clone();
        tokio::spawn(async move {
            let ended = tokio::select! {
                ended = ending => ended.map(drop),
                ended = failpoint(task) => ended,
            };
            if let Err(ended) = ended
                && ended.is_panic()
            {
                let panic = TaskPanic { task, panic: ended.to_string() };
                metrics::gauge!("mortise_task_failed", "task" => task).set(1.0);
                tracing::error!("{panic}");
                first.send_if_modified(|first| first.is_none() && first.replace(panic).is_none());
            }
        })
    }

    /// Resolves at the first panic.
    pub(crate) async fn panicked(&self) {
        // An error would mean that the sender is gone, but this value holds it.
        let _ = self.0.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns the first panic so far.
    pub(crate) fn panic(&self) -> Option<TaskPanic> {
        self.0.borrow().clone()
    }
}

/// Variable that names a task to panic a moment after the start; in builds for tests only.
#[cfg(debug_assertions)]
const FAILPOINT: &str = "FAILPOINT_PANIC_OF_TASK";

/// Stand-in for a task, for tests; it never ends, unless `FAILPOINT` names the task: then it panics.
#[cfg_attr(debug_assertions, allow(clippy::panic, reason = "a test asks for the panic"))]
async fn failpoint(task: &str) -> Result<(), JoinError> {
    #[cfg(debug_assertions)]
    if std::env::var_os(FAILPOINT).is_some_and(|chosen| chosen == task) {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        return tokio::spawn(async { panic!("a test asked for this panic") }).await;
    }
    #[cfg(not(debug_assertions))]
    let _ = task;
    std::future::pending().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_first_panic_is_told_and_nothing_else() {
        let tasks = TaskWatch::new();
        let aborted = tokio::spawn(std::future::pending::<()>());
        let abort = aborted.abort_handle();
        let watching = [tasks.over("good", tokio::spawn(async {})), tasks.over("aborted", aborted)];
        abort.abort();
        for watch in watching {
            watch.await.unwrap();
        }
        assert_eq!(tasks.panic(), None);
        tasks.spawn("bad", async { panic!("a test asked for this panic") }).await.unwrap();
        tasks.over("worse", tokio::spawn(async { panic!("later") })).await.unwrap();
        tasks.panicked().await;
        let text = tasks.panic().unwrap().to_string();
        assert!(text.starts_with("bad panicked (") && text.contains("a test asked for this panic"), "{text}");
    }
}
