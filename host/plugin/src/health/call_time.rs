//! Time of a call: its own time, which decides, and the time that others take from it, which is bounded.
//!
//! # Contract
//! The own time of a call is the processor time of its thread while the call runs. For a controller's call it includes
//! the waits for the host. A call ends when its own time is used up. The time in which other work has the processor is
//! the machine's: it ends a call only at [`CallTime::until`], and then as a fault of the plugin only if the plugin's
//! own calls took that time. They did if they had [`CROWD_PART`] of all processors while the call was ready to run, for
//! as long as it was delayed. A busy machine leaves threads of low priority far less, about a thirtieth; and a crowd of
//! callers with short calls delays each of them before it starts, which does not count here.
//!
//! The processor time before the first pause of a call, which is a guest's first tick, does not count.
//!
//! # Cost
//! A call that ends before its first tick takes a lock without contention. Each further piece of a call takes two reads
//! of the thread's clock, and each tick another one and an atomic addition.

use std::{
    num::NonZero,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    thread::available_parallelism,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use pin_project_lite::pin_project;
use tokio::runtime::Handle;

use crate::health::processor_time::processor_time;

/// Bound that a call exceeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bound {
    /// The call's own time is used up.
    OwnTime,
    /// Other work kept the call from the processors for too long.
    Delay,
}

/// Part of all processors, as a divisor, with which a plugin's calls are to blame for the delay of one of them.
const CROWD_PART: u32 = 4;

/// Processor time that the calls of one plugin have used together, after their first pauses.
#[derive(Debug, Default)]
pub(crate) struct PluginWork(AtomicU64);

impl PluginWork {
    /// Adds time of a call, and returns the sum.
    fn add(&self, work: Duration) -> Duration {
        let nanos = u64::try_from(work.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.0.fetch_add(nanos, Ordering::Relaxed).wrapping_add(nanos))
    }

    fn sum(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }
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
    pub(crate) fn of_hooks(allowance: Duration, until: Instant, plugin: Arc<PluginWork>) -> Self {
        Self { allowance, until, meter: Arc::new(Meter { used: Mutex::default(), plugin }) }
    }

    /// Time of a controller's call: its waits for the host count, too.
    pub(crate) fn of_controllers(allowance: Duration, until: Instant, plugin: Arc<PluginWork>) -> Self {
        let used = Mutex::new(Used { counts_waits: true, ..Used::default() });
        Self { allowance, until, meter: Arc::new(Meter { used, plugin }) }
    }

    /// Begins the time of the next call, or of the next item of a list.
    pub(crate) fn renew(&mut self, until: Instant) {
        self.until = until;
        let mut used = self.meter.used.lock();
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

    /// Whether other calls of the plugin explain the delay of a call that took `whole` by the clock.
    pub(crate) fn is_crowded(&self, whole: Duration) -> bool {
        let cores = available_parallelism().map_or(1, NonZero::get);
        // Calls run on the threads of one runtime.
        let threads = Handle::try_current().map_or(cores, |runtime| runtime.metrics().num_workers());
        let processors = u32::try_from(threads.min(cores)).unwrap_or(u32::MAX);
        let (own, crowd) = (self.meter.own_time(), self.meter.used.lock().crowd);
        explains(crowd, whole.saturating_sub(own), processors)
    }
}

/// Whether `crowd` of processor time explains a delay on a machine with so many processors.
fn explains(crowd: Duration, delay: Duration, processors: u32) -> bool {
    crowd * CROWD_PART >= delay * processors
}

/// Measure of the own time of a call. Each piece of the call runs on one thread from beginning to end.
pub(crate) struct Meter {
    used: Mutex<Used>,
    plugin: Arc<PluginWork>,
}

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
    /// The plugin's processor time at the end of the last piece, if the call has been ready to run since then.
    ready_since: Option<Duration>,
    /// Processor time of the plugin's other calls while this one was ready to run.
    crowd: Duration,
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
        self.used.lock().worked()
    }

    /// Records that the running piece ends at a tick.
    pub(crate) fn yields(&self) {
        self.used.lock().yields = true;
    }

    fn own_time(&self) -> Duration {
        let used = self.used.lock();
        used.worked() + used.waited + used.waiting_since.map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn resume(&self) {
        let mut used = self.used.lock();
        if let Some(since) = used.waiting_since.take() {
            used.waited += since.elapsed();
        }
        if let Some(since) = used.ready_since.take() {
            used.crowd += self.plugin.sum().saturating_sub(since);
        }
        used.running_since = Some(processor_time());
    }

    fn pause(&self, is_over: bool) {
        let mut used = self.used.lock();
        let worked = used.worked();
        let before = std::mem::replace(&mut used.worked, worked);
        used.running_since = None;
        let yields = std::mem::take(&mut used.yields);
        let work = self.plugin.add(worked.saturating_sub(before));
        used.ready_since = yields.then_some(work);
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
        let time = CallTime::of_hooks(LONG, far(), Arc::default());
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
            let time = new(Duration::from_secs(1), far(), Arc::default());
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
        let hooks = CallTime::of_hooks(wait, far(), Arc::default());
        hooks.meter.measure(tokio::time::sleep(wait)).await;
        assert_eq!(hooks.exceeded(), None);
        let mut controllers = CallTime::of_controllers(wait, far(), Arc::default());
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
        assert_eq!(CallTime::of_hooks(LONG, past, Arc::default()).exceeded(), Some(Bound::Delay));
        assert_eq!(CallTime::of_controllers(LONG, past, Arc::default()).exceeded(), Some(Bound::Delay));
        assert_eq!(CallTime::of_hooks(Duration::ZERO, far(), Arc::default()).exceeded(), Some(Bound::OwnTime));
    }

    /// The time of the plugin's other calls counts while a call is ready to run, and not while it waits for the host.
    #[tokio::test]
    async fn calls_of_one_plugin_delay_each_other_while_they_are_ready() {
        let piece = Duration::from_millis(5);
        for (same_plugin, ready, crowded) in [(true, true, true), (true, false, false), (false, true, false)] {
            let plugin: Arc<PluginWork> = Arc::default();
            let other = if same_plugin { plugin.clone() } else { Arc::default() };
            let (time, other) = (CallTime::of_hooks(LONG, far(), plugin), CallTime::of_hooks(LONG, far(), other));
            let [call, other] = [(&time, ready), (&other, true)].map(|(time, yields)| {
                let meter = time.meter.clone();
                time.meter.measure(async move {
                    for _ in 0..4 {
                        if yields {
                            meter.yields();
                        }
                        tokio::task::yield_now().await;
                        work(piece);
                    }
                })
            });
            tokio::join!(call, other);
            let crowd = time.meter.used.lock().crowd;
            assert_eq!(crowd >= 3 * piece, crowded, "{crowd:?}");
            assert_eq!(crowd.is_zero(), !crowded, "{crowd:?}");
            assert_eq!(time.is_crowded(time.meter.own_time() + piece), crowded);
        }
    }

    #[test]
    fn a_quarter_of_all_processors_explains_a_delay() {
        let seconds = Duration::from_secs;
        // Sixteen endless calls on two idle processors, and on two of which other work has one.
        assert!(explains(seconds(20), seconds(11), 2));
        assert!(explains(seconds(10), seconds(11), 2));
        // Two busy processors leave a thirtieth to threads of low priority; and one call of many alone got no
        // processor.
        assert!(!explains(Duration::from_millis(700), seconds(11), 2));
        assert!(!explains(seconds(10), seconds(11), 16));
        assert!(!explains(Duration::ZERO, seconds(11), 1));
    }
}
