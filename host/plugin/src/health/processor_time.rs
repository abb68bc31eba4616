//! Processor time of calls, and whether the guest can have used it.
//!
//! Wall-clock time would blame a guest for the work of others on its thread. Processor time alone is not proof either:
//! the time that a hypervisor takes from a virtual machine counts as the thread's, so that on a busy host the shortest
//! call may seem to have worked for milliseconds. So a call must also have left traces of that much work
//! ([`could_have_worked`]).
//!
//! Cost of [`worked`]: two reads of the thread's clock for each poll.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use pin_project_lite::pin_project;
use rustix::time::{ClockId, clock_gettime};

/// Processor time of one call, counted from its first tick on, after which its plugin runs at low priority.
pub(crate) const LOW_PRIORITY_AFTER: Duration = Duration::from_millis(1);

/// Traces of a call that can have taken [`LOW_PRIORITY_AFTER`] of work; any one of them suffices: fuel, of which each
/// instruction and each byte of a bulk instruction takes a unit; memory, bytes, where the first touch of each page
/// costs the system a fault; host calls, each of which may copy all of the memory. A call below all three cannot fill a
/// millisecond.
const MIN_WORK_FUEL: u64 = 100_000;
const MIN_WORK_MEMORY_BYTES: usize = 2 << 20;
const MIN_WORK_HOST_CALLS: u32 = 10;

/// Whether a call that used so much fuel, in an instance with so many bytes of memory, and with so many host calls, can
/// have worked for [`LOW_PRIORITY_AFTER`].
pub(crate) fn could_have_worked(fuel: u64, memory: usize, host_calls: u32) -> bool {
    fuel >= MIN_WORK_FUEL || memory >= MIN_WORK_MEMORY_BYTES || host_calls >= MIN_WORK_HOST_CALLS
}

/// Runs host work for a guest, and answers its processor time.
pub(crate) fn worked<F: Future>(work: F) -> Worked<F> {
    Worked { work, spent: Duration::ZERO }
}

pin_project! {
    /// Future of [`worked`]. Not an `async fn`, which would hold its argument twice.
    pub(crate) struct Worked<F> {
        #[pin]
        work: F,
        spent: Duration,
    }
}

impl<F: Future> Future for Worked<F> {
    type Output = (F::Output, Duration);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let begun = processor_time();
        let polled = this.work.poll(context);
        *this.spent += processor_time().saturating_sub(begun);
        polled.map(|output| (output, *this.spent))
    }
}

/// Processor time of this thread.
#[must_use]
pub fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_without_traces_is_the_machine_s() {
        assert!(!could_have_worked(5_000, 192 << 10, 2), "a call that does next to nothing");
        for (fuel, memory, host_calls) in
            [(MIN_WORK_FUEL, 0, 0), (0, MIN_WORK_MEMORY_BYTES, 0), (0, 0, MIN_WORK_HOST_CALLS)]
        {
            assert!(could_have_worked(fuel, memory, host_calls));
        }
    }

    /// Keeps a core busy for `length`.
    fn work(length: Duration) {
        let begun = processor_time();
        while processor_time().saturating_sub(begun) < length {}
    }

    #[tokio::test]
    async fn all_work_counts_and_waiting_does_not() {
        let (inner, spent) = worked(async {
            work(Duration::from_millis(5));
            tokio::time::sleep(Duration::from_millis(20)).await;
            worked(async { work(Duration::from_millis(3)) }).await.1
        })
        .await;
        assert!((3..5).contains(&inner.as_millis()), "{inner:?}");
        assert!((8..16).contains(&spent.as_millis()), "{spent:?}");
    }
}
