//! The tasks without which a server would look alive and not be.

use futures::future::select_all;
use tokio::task::{JoinError, JoinHandle};

/// A task that runs as long as the server. Dropping it ends it.
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

    /// Waits for the end of the task; answers its name, and its panic if it had one. Not to be called again after that.
    pub(crate) async fn ended(&mut self) -> (&'static str, Option<JoinError>) {
        let ended = (&mut self.running).await;
        (self.name, ended.err())
    }

    /// Ends the task, and waits for that.
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

/// The variable that makes a task panic a moment after the start, by its name; in builds for tests only.
#[cfg(debug_assertions)]
const FAILPOINT_VARIABLE: &str = "FAILPOINT_PANIC_OF_TASK";

/// Never ends, but panics where it is told to, for tests.
#[cfg_attr(debug_assertions, allow(clippy::panic, reason = "a build for tests does what it is told"))]
async fn failpoint(task: &str) {
    #[cfg(debug_assertions)]
    if std::env::var_os(FAILPOINT_VARIABLE).is_some_and(|told| told == task) {
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        panic!("it was told to");
    }
    #[cfg(not(debug_assertions))]
    let _ = task;
    std::future::pending().await
}

/// The first of some tasks to end, by a panic or otherwise. There has to be one.
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
        let mut panicking = Task::spawn("panicking", async { panic!("it was told to") });
        let (name, panic) = first_ended([&mut lasting, &mut panicking].into_iter()).await;
        assert_eq!(name, "panicking");
        assert!(panic.unwrap().to_string().contains("it was told to"));
        lasting.end().await;
    }
}
