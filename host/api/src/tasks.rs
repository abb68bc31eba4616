//! The tasks of the ports. Without any one of them the server would look alive but not work, so an end of a task before
//! the stop is a fault. (`host/mortise/src/tasks.rs` watches the other tasks of the process, for panics alone.)

use std::time::Duration;

use futures::future::select_all;
use tokio::task::{JoinError, JoinHandle};

/// Time for the rest of a request to arrive after the server began to stop.
pub(crate) const STOPPING_REQUEST_WAIT: Duration = Duration::from_secs(1);

/// A task that must run as long as the server. Dropping it ends the task.
pub(crate) struct Task {
    name: &'static str,
    running: JoinHandle<()>,
}

impl Task {
    /// Starts a task.
    pub(crate) fn spawn(name: &'static str, work: impl Future<Output = ()> + Send + 'static) -> Self {
        let running = tokio::spawn(async move {
            tokio::select! {
                () = work => {}
                () = failpoint(name) => {}
            }
        });
        Self { name, running }
    }

    /// Waits for the end of the task; returns its name, and its panic if it had one. Must not be called again
    /// afterwards.
    pub(crate) async fn ended(&mut self) -> (&'static str, Option<JoinError>) {
        let ended = (&mut self.running).await;
        if ended.as_ref().is_err_and(JoinError::is_panic) {
            metrics::gauge!("mortise_task_failed", "task" => self.name).set(1.0);
        }
        (self.name, ended.err())
    }

    /// Ends the task, and waits until it has ended.
    pub(crate) async fn end(mut self) {
        self.running.abort();
        self.ended().await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Name of the variable that makes a task panic a moment after the start, in test builds only. Its value is the task's
/// name.
#[cfg(debug_assertions)]
const FAILPOINT_VARIABLE: &str = "FAILPOINT_PANIC_OF_TASK";

/// Never resolves, or panics if the variable names this task; for tests.
#[cfg_attr(debug_assertions, allow(clippy::panic, reason = "a test asks for the panic"))]
async fn failpoint(task: &str) {
    #[cfg(debug_assertions)]
    if std::env::var_os(FAILPOINT_VARIABLE).is_some_and(|chosen| chosen == task) {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        panic!("a test asked for this panic");
    }
    #[cfg(not(debug_assertions))]
    let _ = task;
    std::future::pending().await
}

/// Waits for the first task to end, by a panic or otherwise.
///
/// # Panics
/// If there are no tasks.
pub(crate) async fn first_ended(tasks: impl Iterator<Item = &mut Task>) -> (&'static str, Option<JoinError>) {
    select_all(tasks.map(|task| Box::pin(task.ended()))).await.0
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use super::*;

    #[tokio::test]
    async fn the_first_task_that_ends_is_named_with_its_panic() {
        let mut lasting = Task::spawn("lasting", pending());
        let mut ending = Task::spawn("ending", async {});
        let (name, panic) = first_ended([&mut lasting, &mut ending].into_iter()).await;
        assert_eq!((name, panic.is_none()), ("ending", true));
        let mut panicking = Task::spawn("panicking", async { panic!("a test asked for this panic") });
        let (name, panic) = first_ended([&mut lasting, &mut panicking].into_iter()).await;
        assert_eq!(name, "panicking");
        assert!(panic.unwrap().to_string().contains("a test asked for this panic"));
        lasting.end().await;
    }
}
