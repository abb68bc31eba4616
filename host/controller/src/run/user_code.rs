//! Calls of code from outside this crate: reconcilers, mappers, initializers.

use std::{panic::AssertUnwindSafe, time::Duration};

use futures::FutureExt as _;
use tokio_util::sync::CancellationToken;

use crate::request::ReconcileError;

/// Awaits user code and turns its panic into an error.
pub(crate) async fn catch_panic<T>(code: impl Future<Output = Result<T, ReconcileError>>) -> Result<T, ReconcileError> {
    match AssertUnwindSafe(code).catch_unwind().await {
        Ok(result) => result,
        Err(panic) => Err(ReconcileError::panicked(&*panic)),
    }
}

/// Awaits a task; once the run is ending, for at most `drain` more. `None` if the task was dropped after that.
pub(crate) async fn until_drained<T>(
    ending: &CancellationToken,
    drain: Duration,
    task: impl Future<Output = T>,
) -> Option<T> {
    tokio::pin!(task);
    tokio::select! {
        biased;
        done = &mut task => return Some(done),
        () = ending.cancelled() => {}
    }
    tokio::time::timeout(drain, task).await.ok()
}
