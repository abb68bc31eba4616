//! The thread that advances the epoch of each engine, once a millisecond while any call runs.
//!
//! At each tick a running guest yields to the host, which ends it once its time is used up and otherwise lets other
//! tasks of the thread go first. This also bounds a guest that uses little fuel in much time. The thread sleeps while
//! no call runs.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use parking_lot::{Condvar, Mutex};
use wasmtime::{Engine, EngineWeak};

/// Interval at which a running guest yields to the host.
pub(crate) const TICK_INTERVAL: Duration = Duration::from_millis(1);

/// Ticks without a running call after which the ticker goes to sleep.
const IDLE_TICKS: u32 = 50;

/// The thread that advances the epoch.
pub(crate) struct Ticker {
    running: AtomicUsize,
    /// Set while the thread sleeps until [`TickGuard`] wakes it. Written and waited for under the lock.
    asleep: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
    ticks: AtomicU64,
    /// Engine of controllers, once it exists.
    second: OnceLock<EngineWeak>,
}

impl Ticker {
    pub(crate) fn start(engine: &Engine) -> std::io::Result<Arc<Self>> {
        let ticker = Arc::new(Self {
            running: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            ticks: AtomicU64::new(0),
            second: OnceLock::new(),
        });
        let (weak_ticker, engine) = (Arc::downgrade(&ticker), engine.weak());
        let tick = move || {
            let mut idle: u32 = 0;
            while let (Some(ticker), Some(engine)) = (Weak::upgrade(&weak_ticker), engine.upgrade()) {
                engine.increment_epoch();
                drop(engine);
                if let Some(second) = ticker.second.get().and_then(EngineWeak::upgrade) {
                    second.increment_epoch();
                }
                ticker.ticks.fetch_add(1, Ordering::Relaxed);
                idle = if ticker.running.load(Ordering::SeqCst) == 0 { idle.saturating_add(1) } else { 0 };
                if idle >= IDLE_TICKS && ticker.sleep() {
                    idle = 0;
                }
                drop(ticker);
                #[allow(clippy::disallowed_methods, reason = "a thread of its own, which may sleep")]
                thread::sleep(TICK_INTERVAL);
            }
        };
        thread::Builder::new().name("mortise-ticker".into()).spawn(move || restart_after_panics(tick))?;
        Ok(ticker)
    }

    /// Advances the epoch of a second engine from now on.
    pub(crate) fn add_engine(&self, engine: &Engine) {
        // Fails only if a second engine is set already, and there are never three.
        let _ = self.second.set(engine.weak());
    }

    /// Waits up to a second for a call, and answers whether one runs. After the second the thread notices whether the
    /// sandbox is gone.
    fn sleep(&self) -> bool {
        let mut lock = self.lock.lock();
        self.asleep.store(true, Ordering::SeqCst);
        // A call that began before the flag was set did not see the flag, but is counted.
        let called = self.running.load(Ordering::SeqCst) > 0
            || !self.wake.wait_for(&mut lock, Duration::from_secs(1)).timed_out();
        self.asleep.store(false, Ordering::SeqCst);
        called
    }

    /// Counts a running call, and wakes the thread if it sleeps.
    pub(crate) fn keep_ticking(self: Arc<Self>) -> TickGuard {
        if self.running.fetch_add(1, Ordering::SeqCst) == 0 && self.asleep.load(Ordering::SeqCst) {
            let _waits_by_now = self.lock.lock();
            self.wake.notify_one();
        }
        TickGuard(self)
    }
}

/// Repeats `work` until it ends without a panic: without ticks, a call that does not end by itself would run for ever.
fn restart_after_panics(mut work: impl FnMut()) {
    while catch_unwind(AssertUnwindSafe(&mut work)).is_err() {
        tracing::error!("the ticker thread panicked and was restarted; please report this with the log");
        #[allow(clippy::disallowed_methods, reason = "a thread of its own, which may sleep")]
        thread::sleep(TICK_INTERVAL);
    }
}

/// Keeps epochs advancing while it lives.
pub(crate) struct TickGuard(Arc<Ticker>);

impl Drop for TickGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_does_not_end_the_ticks() {
        let mut begun = 0;
        restart_after_panics(|| {
            begun += 1;
            assert!(begun > 2, "a test asked for this panic");
        });
        assert_eq!(begun, 3);
    }
}
