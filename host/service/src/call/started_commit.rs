//! Changes whose callers go away, or whose time is up, in the middle of a commit.
//!
//! The store makes a commit that it has accepted, whether its caller waits or not. The call of such a change goes on in
//! a task of its own until the outcome is known, so the audit log says what was done. A call that ends before its
//! commit, or between two attempts, ends at once. The service counts such tasks, and a stop of the server waits for
//! them.
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
use crate::core::Core;

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
pub(crate) async fn with_outcome<F>(core: &Core, caller: &Caller, change: impl FnOnce(Caller) -> F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let caller = Caller { commit: CommitState::of_change(), ..caller.clone() };
    let (core, commit) = (core.clone(), caller.commit.clone());
    Change { work: Some(change(caller).boxed()), core, commit }.await
}

struct Change<T: 'static> {
    work: Option<BoxFuture<'static, T>>,
    core: Core,
    commit: CommitState,
}

/// Counts a change that outlives its caller.
struct Remainder(Core);

impl Remainder {
    fn begin(core: Core) -> Self {
        core.remainders.send_modify(|number| *number = number.saturating_add(1));
        Self(core)
    }
}

impl Drop for Remainder {
    fn drop(&mut self) {
        self.0.remainders.send_modify(|number| *number = number.saturating_sub(1));
    }
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
            let (commit, remainder) = (self.commit.clone(), Remainder::begin(self.core.clone()));
            commit.abandon();
            runtime.spawn(async move {
                let _remainder = remainder;
                poll_fn(move |cx| match work.as_mut().poll(cx) {
                    Poll::Pending if commit.is_started() => Poll::Pending,
                    _ => Poll::Ready(()),
                })
                .await;
            });
        }
    }
}

#[cfg(test)]
#[path = "started_commit_tests.rs"]
mod tests;
