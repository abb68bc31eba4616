//! Counts of waiting and of dropped records.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};

use tokio::sync::{Notify, futures::Notified};

/// Records that wait to be written, dropped records, and the wake-up of callers that wait for room.
#[derive(Default)]
pub(crate) struct Waiting {
    records: AtomicUsize,
    dropped: AtomicU64,
    room: Notify,
    closed: AtomicBool,
}

impl Waiting {
    /// Counts a waiting record.
    pub(crate) fn add(&self) {
        self.records.fetch_add(1, Ordering::AcqRel);
    }

    /// Uncounts records that were written or lost, and wakes waiting callers.
    pub(crate) fn uncount(&self, count: usize) {
        self.records.fetch_sub(count, Ordering::AcqRel);
        self.room.notify_waiters();
    }

    /// Counts a dropped record.
    pub(crate) fn count_dropped(&self) {
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of records dropped since the last call.
    pub(crate) fn take_dropped(&self) -> u64 {
        self.dropped.swap(0, Ordering::Relaxed)
    }

    /// Refuses all further records.
    pub(crate) fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// Whether fewer than `limit` records wait, and the log is open.
    pub(crate) fn has_room(&self, limit: usize) -> bool {
        !self.closed.load(Ordering::Acquire) && self.records.load(Ordering::Acquire) < limit
    }

    /// Resolves when records were written.
    pub(crate) fn room(&self) -> Notified<'_> {
        self.room.notified()
    }
}
