//! Changes whose callers go away, or whose time is up, in the middle of a commit.
//!
//! The store makes a commit that it has accepted, whether its caller waits or not. The call of such a change goes on in a
//! task of its own until the outcome is known, so the audit log says what was done. A call that ends before its commit,
//! or between two attempts, ends at once.
//!
//! Cost: an allocation and a clone of the caller for each change.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::runtime::Handle;

use super::{caller::Caller, commit_state::CommitState};

impl Caller {
    /// Notes that a commit of the call begins. Never resolves once the caller is gone: the call then only waits for the
    /// outcome of a commit that has begun, and makes no other.
    pub(crate) async fn start_commit(&self) {
        if !self.commit.start() {
            std::future::pending().await
        }
    }
}

/// Makes a change, which goes on after its commit has started even if this future is dropped.
pub(crate) async fn with_outcome<F>(caller: &Caller, change: impl FnOnce(Caller) -> F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let caller = Caller { commit: CommitState::of_change(), ..caller.clone() };
    let commit = caller.commit.clone();
    Change { work: Some(change(caller).boxed()), commit }.await
}

struct Change<T: 'static> {
    work: Option<BoxFuture<'static, T>>,
    commit: CommitState,
}

impl<T> Future for Change<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(work) = &mut self.work else { return Poll::Pending };
        let polled = work.as_mut().poll(cx);
        if polled.is_ready() {
            self.work = None;
        }
        polled
    }
}

impl<T> Drop for Change<T> {
    fn drop(&mut self) {
        if let Some(mut work) = self.work.take().filter(|_| self.commit.is_started())
            && let Ok(runtime) = Handle::try_current()
        {
            let commit = self.commit.clone();
            commit.abandon();
            let rest = poll_fn(move |cx| match work.as_mut().poll(cx) {
                Poll::Pending if commit.is_started() => Poll::Pending,
                _ => Poll::Ready(()),
            });
            runtime.spawn(rest);
        }
    }
}

#[cfg(test)]
#[path = "started_commit_tests.rs"]
mod tests;
