//! The engine, its ticker, its pool and its cache, made together: none can exist without the others.
//!
//! Every call has fuel and a deadline. Fuel bounds work, deterministically. The deadline is held by epochs: a thread
//! advances the engine's epoch once a millisecond while any call runs, and at each tick a running guest comes back to the
//! host, which ends it if its time is over and otherwise lets other tasks of the thread go first. That also holds for a
//! guest that burns little fuel in big steps. The thread sleeps while nothing runs.
//!
//! Cost: one fresh instance and one call take about 10 µs with a guest of the SDK (docs/architecture.md). The pool
//! reserves address space, not memory; its size is found by [`crate::pool`].

use std::{
    collections::BTreeMap,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    path::PathBuf,
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use mortise_resource::manifest;
use parking_lot::{Condvar, Mutex};
use tokio::sync::Semaphore;
use wasmtime::{
    Config, Engine, EngineWeak, InstanceAllocationStrategy, OptLevel, Strategy, WasmBacktraceDetails,
    component::{HasSelf, Linker},
};

use crate::{
    bindings,
    engine::{
        controller_engine::ControllerEngine,
        low_priority::LowPriorityThreads,
        pool::{self, PoolSize},
    },
    error::LoadError,
    health::{
        breaker::Quarantine,
        logs::{LogSettings, Logs},
        metrics::{PluginLabels, count_load},
    },
    host::state::State,
    limits::Limits,
    load::code_cache::Cache,
    reconcile_limits::ReconcileLimits,
};

/// How often a running guest comes back to the host.
pub(crate) const TICK: Duration = Duration::from_millis(1);

/// Ticks without a running call after which the ticker goes to sleep.
const IDLE_TICKS: u32 = 50;

/// How plugins are watched, and what is beyond the limits of hooks.
#[derive(Debug, Clone, Default)]
pub struct SandboxOptions {
    /// When a hook is left alone.
    pub quarantine: Quarantine,
    /// How much plugins may log.
    pub logs: LogSettings,
    /// Log levels of plugins that do not log from info on, by name; see [`crate::health::logs::level`].
    pub log_levels: BTreeMap<String, u8>,
    /// What controllers may use.
    pub controllers: ReconcileLimits,
}

/// Everything that runs guests. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    inner: Arc<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) logs: Arc<Logs>,
    /// What plugins are called in metrics.
    pub(crate) names: PluginLabels,
    pub(crate) cache: Cache,
    /// One permit for each slot of the pool.
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) slot_count: usize,
    /// How the hooks' memories are laid out.
    pub(crate) pool: PoolSize,
    controllers: ReconcileLimits,
    /// The engine for controllers, once there are some.
    controller_engine: Mutex<Option<Arc<ControllerEngine>>>,
    /// Where the calls of plugins run that are set aside.
    pub(crate) aside: LowPriorityThreads,
    pub(crate) made: Instant,
    ticker: Arc<Ticker>,
}

impl Sandbox {
    /// An engine with everything that belongs to it. `cache_dir` holds compiled code; it is created when missing.
    ///
    /// Takes a few milliseconds. Starts one thread, which ends when the last clone of the sandbox is gone.
    ///
    /// # Errors
    /// [`LoadError::Host`] when the address space is too small for the pool, or `cache_dir` is no directory. One that cannot
    /// be used is said in the log, and does without.
    pub fn new(limits: &Limits, cache_dir: PathBuf) -> Result<Self, LoadError> {
        Self::with_options(limits, SandboxOptions::default(), cache_dir)
    }

    /// As [`Sandbox::new`], with a say in how plugins are watched.
    ///
    /// # Errors
    /// Those of [`Sandbox::new`].
    pub fn with_options(limits: &Limits, policy: SandboxOptions, cache_dir: PathBuf) -> Result<Self, LoadError> {
        let host = |what| move |source| LoadError::Host { what, source };
        let limits = Arc::new(limits.clone());
        let (engine, pool) = engine(&limits).map_err(host("setting up the pool of instances"))?;
        let linker = linker(&engine).map_err(host("linking the plugin contract"))?;
        let cache = Cache::open(cache_dir, &engine)?;
        let ticker = Ticker::start(&engine)
            .map_err(|e| LoadError::Host { what: "starting the ticker", source: wasmtime::Error::new(e) })?;

        let slot_count = pool.slots as usize;
        metrics::gauge!("mortise_plugin_instances_limit").set(f64::from(pool.slots));
        Ok(Self {
            inner: Arc::new(Inner {
                engine,
                linker,
                limits,
                quarantine: Arc::new(policy.quarantine),
                logs: Arc::new(Logs::new(policy.logs, policy.log_levels)),
                names: PluginLabels::default(),
                cache,
                slots: Arc::new(Semaphore::new(slot_count)),
                slot_count,
                pool,
                controllers: policy.controllers,
                controller_engine: Mutex::default(),
                aside: LowPriorityThreads::default(),
                made: Instant::now(),
                ticker,
            }),
        })
    }

    /// The host's limits, before any plugin lowers them.
    #[must_use]
    pub fn limits(&self) -> &Limits {
        &self.inner.limits
    }

    /// What plugins log.
    #[must_use]
    pub fn logs(&self) -> &Arc<Logs> {
        &self.inner.logs
    }

    /// Counts a plugin that was refused, for whoever keeps the registry. One that never served is counted among the
    /// others, so that names of files cannot fill the memory.
    pub fn count_refused(&self, called: &str) {
        count_load(&self.inner.names.known(called), "refused");
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.inner
    }
}

impl Inner {
    /// How many cores may compile at once.
    pub(crate) fn compile_threads(&self) -> usize {
        match self.limits.compile_threads {
            0 => thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1),
            threads => threads,
        }
    }

    /// The engine for controllers, made now if there is none yet.
    pub(crate) fn controller_engine(&self) -> Result<Arc<ControllerEngine>, LoadError> {
        let mut controller_engine = self.controller_engine.lock();
        if let Some(controller_engine) = &*controller_engine {
            return Ok(controller_engine.clone());
        }
        let made = Arc::new(ControllerEngine::new(self, &self.controllers)?);
        self.ticker.also(&made.engine);
        Ok(controller_engine.insert(made).clone())
    }

    #[cfg(test)]
    pub(crate) fn has_controller_engine(&self) -> bool {
        self.controller_engine.lock().is_some()
    }

    /// The limits of a plugin's controllers.
    pub(crate) fn controller_limits(&self, asked: &manifest::Limits) -> Limits {
        self.controllers.over(&self.limits, asked)
    }

    /// Keeps the ticker awake for as long as the guard lives.
    pub(crate) fn tick(&self) -> TickGuard {
        self.ticker.clone().hold()
    }
}

/// An engine with the largest pool that fits this process.
fn engine(limits: &Limits) -> wasmtime::Result<(Engine, PoolSize)> {
    let wanted = PoolSize::wanted(limits);
    let mut size = wanted.within(pool::address_space());
    loop {
        match Engine::new(&config(limits, &size)) {
            Ok(engine) => {
                size.report(&wanted);
                return Ok((engine, size));
            }
            // What the system says is free may be in pieces, or less than it says: reserving it is the only proof.
            Err(e) => size = size.smaller().ok_or(e)?,
        }
    }
}

/// The contract's imports, for one engine.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    bindings::imports::Imports::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// A number that engines share which can run the same code: it differs between wasmtime versions, settings and processors.
pub(crate) fn fingerprint(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn config(limits: &Limits, size: &PoolSize) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .consume_fuel(true)
        .epoch_interruption(true)
        // Determinism: a hook's answer is a function of its input alone.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(32))
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        .max_wasm_stack(256 << 10)
        .async_stack_size(pool::STACK)
        .memory_guard_size(pool::GUARD);
    // All that a memory may grow to is reserved when it is made, in either way: growth within the limit never fails, so
    // only where memories lie differs, and fuel, limits and answers are the same.
    config.memory_reservation(size.reservation).memory_may_move(false).allocation_strategy(match size.strategy {
        pool::Strategy::Pooled => InstanceAllocationStrategy::Pooling(size.config(limits)),
        pool::Strategy::OnDemand => InstanceAllocationStrategy::OnDemand,
    });
    config
}

/// The thread that advances the epoch.
struct Ticker {
    running: AtomicUsize,
    /// Set while the thread sleeps until [`TickGuard`] wakes it. Set, and waited for, under the lock.
    asleep: AtomicBool,
    lock: Mutex<()>,
    wake: Condvar,
    ticks: AtomicU64,
    /// The engine for controllers, once there is one.
    second: OnceLock<EngineWeak>,
}

impl Ticker {
    fn start(engine: &Engine) -> std::io::Result<Arc<Self>> {
        let ticker = Arc::new(Self {
            running: AtomicUsize::new(0),
            asleep: AtomicBool::new(false),
            lock: Mutex::new(()),
            wake: Condvar::new(),
            ticks: AtomicU64::new(0),
            second: OnceLock::new(),
        });
        let (weak_ticker, engine) = (Arc::downgrade(&ticker), engine.weak());
        thread::Builder::new().name("mortise-ticker".into()).spawn(move || {
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
                #[allow(clippy::disallowed_methods, reason = "a thread of its own, whose work is to wait")]
                thread::sleep(TICK);
            }
        })?;
        Ok(ticker)
    }

    /// Advances the epoch of one more engine from now on.
    fn also(&self, engine: &Engine) {
        // A second one there is once.
        let _ = self.second.set(engine.weak());
    }

    /// Waits until a call runs, and answers whether one does. Comes back now and then without one, so that the thread sees
    /// whether the sandbox is gone.
    fn sleep(&self) -> bool {
        let mut lock = self.lock.lock();
        self.asleep.store(true, Ordering::SeqCst);
        // A call that began before the flag was set did not see it; it is counted, though.
        let called = self.running.load(Ordering::SeqCst) > 0
            || !self.wake.wait_for(&mut lock, Duration::from_secs(1)).timed_out();
        self.asleep.store(false, Ordering::SeqCst);
        called
    }

    fn hold(self: Arc<Self>) -> TickGuard {
        if self.running.fetch_add(1, Ordering::SeqCst) == 0 && self.asleep.load(Ordering::SeqCst) {
            let _waits_by_now = self.lock.lock();
            self.wake.notify_one();
        }
        TickGuard(self)
    }
}

/// While one of these lives, epochs advance.
pub(crate) struct TickGuard(Arc<Ticker>);

impl Drop for TickGuard {
    fn drop(&mut self) {
        self.0.running.fetch_sub(1, Ordering::SeqCst);
    }
}
