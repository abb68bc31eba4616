//! Rate limiter for log lines that could come ten thousand times: at most one event a second.
//!
//! Counts the refused events: docs/decisions/0032-throttles-of-log-lines-count-what-they-hold-back.md.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

/// Lets one event a second through, and counts the rest.
#[derive(Default)]
pub(crate) struct Throttle {
    /// Time of the last event that was let through: milliseconds since the first event of any throttle, plus one; 0
    /// before it.
    last: AtomicU64,
    missed: AtomicU64,
}

impl Throttle {
    /// Number of events suppressed since the last admitted one; `None` if this event is suppressed too.
    pub(crate) fn admit(&self) -> Option<u64> {
        static START: OnceLock<Instant> = OnceLock::new();
        let now = START.get_or_init(Instant::now).elapsed().as_millis() as u64 + 1;
        let last = self.last.load(Ordering::Relaxed);
        let due = last == 0 || now.saturating_sub(last) >= Duration::from_secs(1).as_millis() as u64;
        if due && self.last.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            Some(self.missed.swap(0, Ordering::Relaxed))
        } else {
            self.missed.fetch_add(1, Ordering::Relaxed);
            None
        }
    }
}
