//! The reading side of an answer: the client, as the port sees it.
//!
//! The port notes since when the client leaves bytes of the answer unread, and a pool of shares may ask the answer to
//! give way to callers that wait ([`FairPool::press`](super::FairPool::press)). The port ends such an answer, which
//! drops its shares.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    task::{Context, Poll},
    time::Duration,
};

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The client that reads the answer of a call, or the answers of a connection one after the other.
#[derive(Debug, Default)]
pub struct Reader {
    unread_since: Mutex<Option<Instant>>,
    asked: AtomicBool,
    waker: AtomicWaker,
}

impl Reader {
    /// Notes the time since when bytes wait for the client; `None` while the client waits for the server, which also
    /// takes back that the answer has to give way.
    pub fn set_unread(&self, since: Option<Instant>) {
        *self.unread_since.lock() = since;
        if since.is_none() {
            self.asked.store(false, Ordering::Relaxed);
        }
    }

    /// Returns the time for which the client has read nothing; `None` while the client waits for the server.
    #[must_use]
    pub fn unread_for(&self, now: Instant) -> Option<Duration> {
        self.unread_since.lock().map(|since| now.saturating_duration_since(since))
    }

    /// Asks the answer to give way.
    pub(crate) fn ask(&self) {
        self.asked.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Whether the answer has to give way. A second call returns false until it is asked again.
    #[must_use]
    pub fn take_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed) && self.asked.swap(false, Ordering::AcqRel)
    }

    /// Resolves once the answer has to give way. Only the last caller is woken.
    pub fn poll_asked(&self, cx: &Context<'_>) -> Poll<()> {
        self.waker.register(cx.waker());
        if self.take_asked() { Poll::Ready(()) } else { Poll::Pending }
    }
}
