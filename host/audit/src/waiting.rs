//! How many records wait to be written, and how many were dropped.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Notify, futures::Notified};

/// The counts.
#[derive(Default)]
pub(crate) struct Waiting {
    records: AtomicUsize,
    dropped: AtomicU64,
    room: Notify,
    closed: AtomicBool,
}

impl Waiting {
    /// One more waits.
    pub(crate) fn add(&self) {
        self.records.fetch_add(1, Ordering::AcqRel);
    }

    /// So many were written, or given up.
    pub(crate) fn took(&self, count: usize) {
        self.records.fetch_sub(count, Ordering::AcqRel);
        self.room.notify_waiters();
    }

    /// One is dropped.
    pub(crate) fn drop_one(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// How many were dropped since this was asked last.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// Nothing is taken any more.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether fewer wait than `limit`.
    pub(crate) fn has_room(&self, limit: usize) -> bool {
        !self.closed.load(Ordering::Acquire) && self.records.load(Ordering::Acquire) < limit
    }

    /// Resolves when some were written.
    pub(crate) fn room(&self) -> Notified<'_> {
        self.room.notified()
    }
}
