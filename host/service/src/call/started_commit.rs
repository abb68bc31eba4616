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
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll},
};

use futures::{FutureExt as _, future::BoxFuture};
use tokio::runtime::Handle;

use super::caller::Caller;

/// The commit of a call; `None` for a call that changes nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommitState(Option<Arc<Flags>>);

#[derive(Debug, Default)]
struct Flags {
    /// A commit is under way, or made.
    started: AtomicBool,
    /// The caller takes no answer any more.
    abandoned: AtomicBool,
}

impl CommitState {
    fn is_started(&self) -> bool {
        self.0.as_ref().is_some_and(|flags| flags.started.load(Ordering::Relaxed))
    }

    /// Notes that the commit has failed.
    pub(super) fn reset(&self) {
        if let Some(flags) = &self.0 {
            flags.started.store(false, Ordering::Relaxed);
        }
    }
}

impl Caller {
    /// Notes that a commit of the call begins. Never resolves for a call that was to see the end of an earlier commit alone.
    pub(crate) async fn start_commit(&self) {
        let Some(flags) = &self.commit.0 else { return };
        let is_abandoned = flags.abandoned.load(Ordering::Relaxed);
        flags.started.store(!is_abandoned, Ordering::Relaxed);
        if is_abandoned {
            std::future::pending().await
        }
    }
}

/// Makes a change, which goes on after its commit has started even if this future is dropped.
pub(crate) async fn with_outcome<F>(caller: &Caller, change: impl FnOnce(Caller) -> F) -> F::Output
where
    F: Future<Output: Send> + Send + 'static,
{
    let caller = Caller { commit: CommitState(Some(Arc::default())), ..caller.clone() };
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
            if let Some(flags) = &commit.0 {
                flags.abandoned.store(true, Ordering::Relaxed);
            }
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
