//! Threads of low priority, for plugins that took more than their share.
//!
//! Hooks run on the threads that serve requests, since handing a call over costs more than most calls. That is fair only
//! to guests that are done before the first tick: one that works for longer, or traps and leaves a large instance to clear
//! away, holds up whoever waits for the same thread. So a plugin whose hook went on for [`SHARE`] of processor time past
//! its first tick, or faulted, is set aside: until `sandbox.low_priority_ms` have passed without another such call, its calls and
//! the clearing away of its instances happen on threads of their own, as many as there are cores, which yield to every
//! other thread of the process. Nothing else changes: limits, order and answers are the same, and while cores are idle
//! such a plugin is hardly slower.
//!
//! Time alone is no proof: what a hypervisor takes from a virtual machine is counted as the thread's, so that on a busy host
//! the shortest call may seem to have worked for milliseconds. So a call must also have left traces of that much work
//! ([`could_have_worked`]).
//!
//! Cost: a plugin that behaves pays one relaxed load for each call. The threads are started when the first one misbehaves.

use std::{
    pin::Pin,
    sync::{
        OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread,
    time::{Duration, Instant},
};

use pin_project_lite::pin_project;
use rustix::time::{ClockId, clock_gettime};
use tokio::{
    runtime::{Builder, Runtime},
    task::JoinHandle,
};

/// Processor time of one call, counted from its first tick on, after which its plugin is set aside.
pub(crate) const SHARE: Duration = Duration::from_millis(1);

/// Traces of a call that can have taken [`SHARE`] of work, any one of them: fuel, of which instructions and each byte of bulk
/// ones take a unit; memory, where the first touch of each page costs the system a fault; calls of the host, each of which
/// may copy what there is of memory. None of them fills a millisecond below these.
const FUEL: u64 = 100_000;
const MEMORY: usize = 2 << 20;
const HOST_CALLS: u32 = 10;

/// Niceness of the threads: about a thirtieth of what a serving thread gets where both want the same core.
#[cfg(target_os = "linux")]
const NICE: i32 = 15;

/// The threads.
#[derive(Default)]
pub(crate) struct LowPriorityThreads(OnceLock<Option<Runtime>>);

impl LowPriorityThreads {
    /// Does something on these threads. It is given up when the future is dropped. None when it panicked.
    pub(crate) async fn run<F>(&self, work: F) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        match self.runtime() {
            Some(runtime) => {
                let mut task = Task(runtime.spawn(work));
                (&mut task.0).await.ok()
            }
            None => Some(work.await),
        }
    }

    /// Drops something on these threads, and does not wait for it.
    pub(crate) fn clear_away<T: Send + 'static>(&self, what: T) {
        if let Some(runtime) = self.runtime() {
            runtime.spawn(async move { drop(what) });
        }
    }

    fn runtime(&self) -> Option<&Runtime> {
        let start = || {
            let cores = thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let mut builder = Builder::new_multi_thread();
            builder.worker_threads(cores).thread_name("mortise-lowprio").enable_all().on_thread_start(yield_to_others);
            builder
                .build()
                .inspect_err(|e| {
                    tracing::error!("no threads for plugins that are set aside, which go on as they are: {e}")
                })
                .ok()
        };
        self.0.get_or_init(start).as_ref()
    }
}

impl Drop for LowPriorityThreads {
    fn drop(&mut self) {
        // Waiting for them is not allowed where other tasks run.
        if let Some(Some(runtime)) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

/// Lowers the priority of the thread that calls it. On Linux niceness belongs to threads; elsewhere it would be the whole
/// process's, and these threads share as equals.
fn yield_to_others() {
    #[cfg(target_os = "linux")]
    if let Err(e) = rustix::process::setpriority_process(None, NICE) {
        tracing::warn!("threads for plugins that are set aside keep their priority: {e}");
    }
}

/// A task that ends with its owner.
struct Task<T>(JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Until when a plugin is set aside, in milliseconds since the sandbox was made; 0 if it never was.
#[derive(Default)]
pub(crate) struct LowPriority(AtomicU64);

impl LowPriority {
    /// Whether it is, now.
    pub(crate) fn is_set(&self, sandbox_made: Instant) -> bool {
        let until = self.0.load(Ordering::Relaxed);
        until > 0 && since(sandbox_made) < until
    }

    /// Sets it aside for so long from now; answers whether that is news.
    pub(crate) fn set(&self, sandbox_made: Instant, length: Duration) -> bool {
        let now = since(sandbox_made);
        self.0.fetch_max(now.saturating_add(millis(length)), Ordering::Relaxed) <= now && !length.is_zero()
    }
}

fn since(made: Instant) -> u64 {
    millis(made.elapsed())
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Whether a call that used so much fuel, in an instance with so many bytes of memory, and called the host so often, can have
/// worked for [`SHARE`].
pub(crate) fn could_have_worked(fuel: u64, memory: usize, host_calls: u32) -> bool {
    fuel >= FUEL || memory >= MEMORY || host_calls >= HOST_CALLS
}

/// Runs a call, and answers how much processor time it took from its first pause on, which is a guest's first tick.
/// Wall-clock time would blame it for what others do to the thread.
pub(crate) fn timed<F: Future>(call: F) -> Timed<F> {
    Timed { call, counts: false, spent: Duration::ZERO }
}

/// Runs something, and answers how much processor time it took, all of it: what the host did for a guest.
pub(crate) fn worked<F: Future>(work: F) -> Timed<F> {
    Timed { call: work, counts: true, spent: Duration::ZERO }
}

pin_project! {
    /// See [`timed`] and [`worked`]. No `async fn`, which would hold its argument twice: every call is in one of these.
    pub(crate) struct Timed<F> {
        #[pin]
        call: F,
        counts: bool,
        spent: Duration,
    }
}

impl<F: Future> Future for Timed<F> {
    type Output = (F::Output, Duration);

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        let begun = this.counts.then(processor_time);
        let polled = this.call.poll(context);
        if let Some(begun) = begun {
            *this.spent += processor_time().saturating_sub(begun);
        }
        *this.counts = true;
        polled.map(|output| (output, *this.spent))
    }
}

/// Processor time of this thread.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_aside_for_a_while_after_each_cause() {
        let made = Instant::now();
        let aside = LowPriority::default();
        assert!(!aside.is_set(made));
        assert!(aside.set(made, Duration::from_secs(60)), "news");
        assert!(!aside.set(made, Duration::from_secs(60)), "no news");
        assert!(aside.is_set(made));
        let long_ago = made.checked_sub(Duration::from_secs(61)).unwrap();
        assert!(!aside.is_set(long_ago), "over by then");
        assert!(aside.set(long_ago, Duration::from_secs(60)), "news again");
    }

    #[test]
    fn setting_zero_sets_nobody_aside() {
        let (made, aside) = (Instant::now(), LowPriority::default());
        assert!(!aside.set(made, Duration::ZERO));
        assert!(!aside.is_set(made));
    }

    #[test]
    fn time_without_traces_is_the_machine_s() {
        assert!(!could_have_worked(5_000, 192 << 10, 2), "a call that does next to nothing");
        for (fuel, memory, host_calls) in [(FUEL, 0, 0), (0, MEMORY, 0), (0, 0, HOST_CALLS)] {
            assert!(could_have_worked(fuel, memory, host_calls));
        }
    }

    /// Keeps a core busy for so long.
    fn work(length: Duration) {
        let begun = processor_time();
        while processor_time().saturating_sub(begun) < length {}
    }

    #[tokio::test]
    async fn only_work_after_the_first_pause_counts() {
        let ((), spent) = timed(async { work(Duration::from_millis(5)) }).await;
        assert_eq!(spent, Duration::ZERO);
        let ((), spent) = timed(async {
            work(Duration::from_millis(5));
            tokio::task::yield_now().await;
            work(Duration::from_millis(3));
        })
        .await;
        assert!((3..5).contains(&spent.as_millis()), "{spent:?}");
        let ((), spent) = timed(tokio::time::sleep(Duration::from_millis(20))).await;
        assert!(spent < Duration::from_millis(5), "waiting is no work: {spent:?}");
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

    #[tokio::test]
    async fn work_aside_runs_elsewhere_and_ends_with_its_owner() {
        let threads = LowPriorityThreads::default();
        let there = threads.run(async { thread::current().name().map(str::to_owned) }).await;
        assert_eq!(there.flatten().as_deref(), Some("mortise-lowprio"));
        assert!(threads.run(async { panic!("it was told to") }).await.is_none());

        let (ended, mut heard) = tokio::sync::mpsc::channel::<()>(1);
        let endless = threads.run(async move {
            let _ended = ended;
            std::future::pending::<()>().await;
        });
        assert!(tokio::time::timeout(Duration::from_millis(20), endless).await.is_err());
        assert!(heard.recv().await.is_none(), "the task is gone, and what it held");
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn these_threads_yield_to_others() {
        let threads = LowPriorityThreads::default();
        let nice = threads.run(async { rustix::process::getpriority_process(None) }).await.unwrap().unwrap();
        assert_eq!(nice, NICE + rustix::process::getpriority_process(None).unwrap());
    }
}
