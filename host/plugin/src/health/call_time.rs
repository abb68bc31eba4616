//! Time of a call: its own time, which decides, and the time that others take from it, which is bounded.
//!
//! # Contract
//! The own time of a call is the processor time of its thread while the call runs. For a controller's call it includes
//! the waits for the host. A call ends when its own time is used up. The time in which other work has the processor is
//! the machine's: it ends a call only at [`CallTime::until`], and never as a fault of the plugin.
//!
//! The processor time before the first pause of a call, which is a guest's first tick, does not count.
//!
//! # Cost
//! A call that ends before its first tick takes a lock without contention. Each further piece of a call takes two reads
//! of the thread's clock, and each tick another one.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use pin_project_lite::pin_project;

use crate::health::processor_time::processor_time;

/// Bound that a call exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The call's own time is used up.
    OwnTime,
    /// Other work kept the call from the processors for too long.
    Delay,
}

/// Bounds on the time of a call, or of the hooks of one request together.
pub(crate) struct CallTime {
    /// Most own time.
    pub(crate) allowance: Duration,
    /// End of the call by the monotonic clock, if its own time does not end it earlier.
    pub(crate) until: Instant,
    pub(crate) meter: Arc<Meter>,
}

impl CallTime {
    /// Time of hooks: only processor time counts, since a hook waits for nothing.
    pub(crate) fn of_hooks(allowance: Duration, until: Instant) -> Self {
        Self { allowance, until, meter: Arc::default() }
    }

    /// Time of a controller's call: its waits for the host count, too.
    pub(crate) fn of_controllers(allowance: Duration, until: Instant) -> Self {
        let used = Used { counts_waits: true, ..Used::default() };
        Self { allowance, until, meter: Arc::new(Meter(Mutex::new(used))) }
    }

    /// Begins the time of the next call, or of the next item of a list.
    pub(crate) fn renew(&mut self, until: Instant) {
        self.until = until;
        let mut used = self.meter.0.lock();
        *used = Used { counts_waits: used.counts_waits, ..Used::default() };
    }

    /// The bound that the call has exceeded by now.
    pub(crate) fn exceeded(&self) -> Option<Bound> {
        let (left, bound) = self.left();
        left.is_zero().then_some(bound)
    }

    /// Remaining time by the monotonic clock, and the bound that ends it.
    pub(crate) fn left(&self) -> (Duration, Bound) {
        let own = self.allowance.saturating_sub(self.meter.own_time());
        let whole = self.until.saturating_duration_since(Instant::now());
        if own <= whole { (own, Bound::OwnTime) } else { (whole, Bound::Delay) }
    }
}

/// Measure of the own time of a call. Each piece of the call runs on one thread from beginning to end.
#[derive(Default)]
pub(crate) struct Meter(Mutex<Used>);

#[derive(Default)]
struct Used {
    /// Processor time of the ended pieces.
    worked: Duration,
    /// Ended waits for the host.
    waited: Duration,
    counts_waits: bool,
    /// The thread's processor time at the beginning of the running piece.
    running_since: Option<Duration>,
    /// Beginning of the wait for the host that goes on.
    waiting_since: Option<Instant>,
    /// Whether the piece ends at a tick: the call is ready to run, and waits for its thread alone.
    yields: bool,
}

impl Used {
    fn worked(&self) -> Duration {
        self.worked + self.running_since.map_or(Duration::ZERO, |since| processor_time().saturating_sub(since))
    }
}

impl Meter {
    /// Runs a call, and measures it.
    pub(crate) fn measure<F: Future>(self: &Arc<Self>, call: F) -> Measured<F> {
        Measured { call, meter: self.clone(), paused: false }
    }

    /// Processor time so far.
    pub(crate) fn worked(&self) -> Duration {
        self.0.lock().worked()
    }

    /// Records that the running piece ends at a tick.
    pub(crate) fn yields(&self) {
        self.0.lock().yields = true;
    }

    fn own_time(&self) -> Duration {
        let used = self.0.lock();
        used.worked() + used.waited + used.waiting_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn resume(&self) {
        let mut used = self.0.lock();
        if let Some(since) = used.waiting_since.take() {
            used.waited += since.elapsed();
        }
        used.running_since = Some(processor_time());
    }

    fn pause(&self, is_over: bool) {
        let mut used = self.0.lock();
        used.worked = used.worked();
        used.running_since = None;
        let yields = std::mem::take(&mut used.yields);
        used.waiting_since = (used.counts_waits && !yields && !is_over).then(Instant::now);
    }
}

pin_project! {
    /// Future of [`Meter::measure`]. Not an `async fn`, which would hold its argument twice: every call is in one of
    /// these.
    pub(crate) struct Measured<F> {
        #[pin]
        call: F,
        meter: Arc<Meter>,
        paused: bool,
    }
}

impl<F: Future> Future for Measured<F> {
    type Output = F::Output;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if *this.paused {
            this.meter.resume();
        }
        let polled = this.call.poll(context);
        this.meter.pause(polled.is_ready());
        *this.paused = true;
        polled
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// Keeps a core busy for `length` of processor time.
    fn work(length: Duration) {
        let begun = processor_time();
        while processor_time().saturating_sub(begun) < length {}
    }

    const LONG: Duration = Duration::from_secs(600);

    fn far() -> Instant {
        Instant::now() + LONG
    }

    #[tokio::test]
    async fn only_work_after_the_first_pause_counts() {
        let time = CallTime::of_hooks(LONG, far());
        time.meter.measure(async { work(Duration::from_millis(5)) }).await;
        assert_eq!(time.meter.own_time(), Duration::ZERO);
        time.meter
            .measure(async {
                work(Duration::from_millis(50));
                tokio::task::yield_now().await;
                work(Duration::from_millis(3));
            })
            .await;
        let own = time.meter.own_time();
        assert!(own >= Duration::from_millis(3) && own < Duration::from_millis(50), "{own:?}");
    }

    /// The time of others is not the call's: neither of those on its thread nor of those that have its core.
    #[tokio::test]
    async fn the_time_of_others_does_not_count() {
        for counts_waits in [false, true] {
            let new = if counts_waits { CallTime::of_controllers } else { CallTime::of_hooks };
            let time = new(Duration::from_secs(1), far());
            let meter = time.meter.clone();
            let call = time.meter.measure(async {
                for _ in 0..3 {
                    meter.yields();
                    tokio::task::yield_now().await;
                }
            });
            let other = async {
                for _ in 0..3 {
                    #[allow(clippy::disallowed_methods, reason = "it takes the thread away on purpose")]
                    thread::sleep(Duration::from_millis(400));
                    tokio::task::yield_now().await;
                }
            };
            tokio::join!(call, other);
            assert!(time.meter.own_time() < Duration::from_millis(400), "{:?}", time.meter.own_time());
            assert_eq!(time.exceeded(), None);
        }
    }

    #[tokio::test]
    async fn waits_for_the_host_count_for_controllers_alone() {
        let wait = Duration::from_millis(30);
        let hooks = CallTime::of_hooks(wait, far());
        hooks.meter.measure(tokio::time::sleep(wait)).await;
        assert_eq!(hooks.exceeded(), None);
        let mut controllers = CallTime::of_controllers(wait, far());
        let during = controllers.meter.clone();
        controllers
            .meter
            .measure(async {
                tokio::time::sleep(2 * wait).await;
                assert!(during.own_time() >= wait, "counted as soon as it ends");
            })
            .await;
        assert_eq!(controllers.exceeded(), Some(Bound::OwnTime));
        controllers.renew(far());
        assert_eq!(controllers.exceeded(), None, "each call has its own");
    }

    #[test]
    fn the_bound_on_the_whole_holds_without_own_time() {
        let past = Instant::now();
        assert_eq!(CallTime::of_hooks(LONG, past).exceeded(), Some(Bound::Delay));
        assert_eq!(CallTime::of_controllers(LONG, past).exceeded(), Some(Bound::Delay));
        assert_eq!(CallTime::of_hooks(Duration::ZERO, far()).exceeded(), Some(Bound::OwnTime));
    }
}
