//! Tasks with tokio's interface, over those of shuttle.

use std::{future::poll_fn, pin::Pin, task::Poll};

pub use shuttle::future::{JoinError, JoinHandle, spawn};

/// Tasks that are awaited together, and that end with the set.
pub struct JoinSet<T>(Vec<JoinHandle<T>>);

impl<T> JoinSet<T> {
    /// Makes an empty set.
    #[must_use]
    pub const fn new() -> Self {
        Self(Vec::new())
    }

    /// Adds a task.
    pub fn spawn(&mut self, task: impl Future<Output = T> + Send + 'static)
    where
        T: Send + 'static,
    {
        self.0.push(spawn(task));
    }

    /// Waits for the next end of a task; `None` without tasks.
    pub async fn join_next(&mut self) -> Option<Result<T, JoinError>> {
        poll_fn(|cx| {
            if self.0.is_empty() {
                return Poll::Ready(None);
            }
            let mut ended = self.0.iter_mut().enumerate().filter_map(|(place, task)| match Pin::new(task).poll(cx) {
                Poll::Ready(result) => Some((place, result)),
                Poll::Pending => None,
            });
            let Some((place, result)) = ended.next() else { return Poll::Pending };
            drop(self.0.swap_remove(place));
            Poll::Ready(Some(result))
        })
        .await
    }

    /// Ends all tasks, and waits for that.
    pub async fn shutdown(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
        while self.join_next().await.is_some() {}
    }
}

impl<T> Default for JoinSet<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Drop for JoinSet<T> {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

/// Lets the other tasks work.
pub async fn consume_budget() {
    shuttle::future::yield_now().await;
}
