//! The engine, its ticker, its pool and its cache, made together: none can exist without the others.
//!
//! Every call has fuel and time. Fuel bounds work, deterministically. Epochs enforce the time: a thread advances the
//! engine's epoch once a millisecond while any call runs, and at each tick a running guest yields to the host, which
//! ends the guest once its time is used up and otherwise lets other tasks of the thread go first. This also bounds a
//! guest that uses little fuel in much time. The thread sleeps while no call runs.
//!
//! Cost: one fresh instance and one call take about 10 µs with a guest of the SDK (docs/performance.md). The pool
//! reserves address space, not memory; [`crate::engine::pool`] finds its size.

use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, Weak},
    time::Instant,
};

use mortise_keys::age::Identities;
use mortise_resource::manifest;
use parking_lot::Mutex;
use wasmtime::{Engine, component::Linker};

use crate::{
    call::hook_slots::HookSlots,
    engine::{
        configuration::{hook_engine, linker},
        low_priority::LowPriorityThreads,
        pool::PoolSize,
        ticker::{TickGuard, Ticker},
    },
    error::LoadError,
    health::{
        breaker::Quarantine,
        log_level::LogThreshold,
        logs::{LogSettings, Logs},
        metrics::{PluginLabels, count_load},
    },
    host::{lookup_host::LookupHost, state::State},
    limits::Limits,
    load::{
        brought_code::CodeFolder, code_cache::Cache, compile::Compiler, compiler_process::CompilerProgram,
        controller_engine::ControllerEngine,
    },
    opaque::{Shared, share},
    reconcile_limits::ReconcileLimits,
};

/// Options of a sandbox besides the limits of hooks.
#[derive(Debug, Clone, Default)]
pub struct SandboxOptions {
    /// Rules of quarantine.
    pub quarantine: Quarantine,
    /// Limits of plugins' logs.
    pub logs: LogSettings,
    /// Thresholds of logs by plugin name; the default is info.
    pub log_levels: BTreeMap<String, LogThreshold>,
    /// Limits of controllers.
    pub controllers: ReconcileLimits,
    /// Keys that decrypt the files of granted secrets.
    pub identities: Option<Arc<Identities>>,
    /// Program that compiles components; without one, this process does.
    pub program: Option<CompilerProgram>,
    /// Code that other machines compiled.
    pub code: Option<CodeFolder>,
    /// Reuses the instances of every plugin, whether it asks for that or not: for tests of plugins.
    pub reuses_all: bool,
}

/// Engine, pool, cache and threads that run guests. Cheap to clone.
#[derive(Clone)]
pub struct Sandbox {
    inner: Shared<Inner>,
}

pub(crate) struct Inner {
    pub(crate) engine: Engine,
    pub(crate) linker: Linker<State>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) quarantine: Arc<Quarantine>,
    pub(crate) logs: Arc<Logs>,
    /// Names of plugins in metrics.
    pub(crate) names: PluginLabels,
    pub(crate) cache: Cache,
    /// Slots of the pool, and the idle instances in them.
    pub(crate) slots: Arc<HookSlots>,
    /// Layout of the hooks' memories.
    pub(crate) pool: PoolSize,
    controllers: ReconcileLimits,
    pub(crate) identities: Option<Arc<Identities>>,
    /// Program that compiles components.
    pub(crate) program: Option<CompilerProgram>,
    /// Code that other machines compiled.
    pub(crate) code: Option<CodeFolder>,
    /// Whether plugins that do not ask for it reuse instances, too.
    pub(crate) reuses_all: bool,
    /// Engine for controllers, once there are some.
    controller_engine: Mutex<Option<Shared<ControllerEngine>>>,
    /// Host that answers the searches of hooks, once there is one.
    lookup: Mutex<Option<Weak<dyn LookupHost>>>,
    /// Threads for the calls of plugins at low priority.
    pub(crate) low_priority: LowPriorityThreads,
    pub(crate) made: Instant,
    pub(crate) ticker: Arc<Ticker>,
}

impl Sandbox {
    /// Makes a sandbox. `cache_dir` holds compiled code; it is created if missing.
    ///
    /// Takes a few milliseconds. Starts one thread, which ends when the last clone of the sandbox is gone.
    ///
    /// # Errors
    /// [`LoadError::Host`] if the address space is too small for the pool, or `cache_dir` is not a directory. If it
    /// cannot be used, the sandbox logs that and works without a cache.
    pub fn new(limits: &Limits, cache_dir: PathBuf) -> Result<Self, LoadError> {
        Self::with_options(limits, SandboxOptions::default(), cache_dir)
    }

    /// Makes a sandbox like [`Sandbox::new`], with these options.
    ///
    /// # Errors
    /// Those of [`Sandbox::new`].
    pub fn with_options(limits: &Limits, policy: SandboxOptions, cache_dir: PathBuf) -> Result<Self, LoadError> {
        let host = |what| move |source| LoadError::Host { what, source };
        let limits = Arc::new(limits.clone());
        let (engine, pool) = hook_engine(&limits).map_err(host("setting up the pool of instances"))?;
        let linker = linker(&engine).map_err(host("linking the plugin contract"))?;
        let cache = Cache::open(cache_dir, limits.code_cache_bytes, &engine)?;
        let ticker = Ticker::start(&engine)
            .map_err(|e| LoadError::Host { what: "starting the ticker", source: wasmtime::Error::new(e) })?;

        // The zero of `clock.elapsed` lies before the load of any plugin.
        let _ = mortise_clock::ran();
        metrics::gauge!("mortise_plugin_instances_limit").set(f64::from(pool.slots));
        Ok(Self {
            inner: share(Inner {
                engine,
                linker,
                limits,
                quarantine: Arc::new(policy.quarantine),
                logs: Arc::new(Logs::new(policy.logs, policy.log_levels)),
                names: PluginLabels::default(),
                cache,
                slots: Arc::new(HookSlots::new(pool.slots as usize)),
                pool,
                controllers: policy.controllers,
                identities: policy.identities,
                program: policy.program,
                code: policy.code,
                reuses_all: policy.reuses_all,
                controller_engine: Mutex::default(),
                lookup: Mutex::default(),
                low_priority: LowPriorityThreads::default(),
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

    /// Logs of the plugins.
    #[must_use]
    pub fn logs(&self) -> &Arc<Logs> {
        &self.inner.logs
    }

    /// Counts a refused plugin. If it never served it is counted under `(others)`, so that names of files cannot fill
    /// the memory.
    pub fn count_refused(&self, called: &str) {
        count_load(&self.inner.names.label_if_loaded(called), "refused");
    }

    /// Answers the searches of hooks from now on, as long as `host` lives; without a host they fail.
    pub fn set_lookup_host(&self, host: &Arc<dyn LookupHost>) {
        *self.inner.lookup.lock() = Some(Arc::downgrade(host));
    }

    pub(crate) fn inner(&self) -> &Shared<Inner> {
        &self.inner
    }
}

impl Inner {
    /// Compiler for the hooks' engine.
    pub(crate) fn compiler(&self) -> Compiler<'_> {
        Compiler {
            engine: &self.engine,
            reservation: self.pool.reservation,
            limits: &self.limits,
            program: self.program.as_ref(),
        }
    }

    /// Engine for controllers, made now if it does not exist yet.
    pub(crate) fn controller_engine(&self) -> Result<Shared<ControllerEngine>, LoadError> {
        let mut controller_engine = self.controller_engine.lock();
        if let Some(controller_engine) = &*controller_engine {
            return Ok(controller_engine.clone());
        }
        let made =
            share(ControllerEngine::new((&self.engine, &self.pool, &self.limits), &self.cache, &self.controllers)?);
        self.ticker.add_engine(&made.engine);
        Ok(controller_engine.insert(made).clone())
    }

    #[cfg(test)]
    pub(crate) fn has_controller_engine(&self) -> bool {
        self.controller_engine.lock().is_some()
    }

    /// Limits of a plugin's controllers.
    pub(crate) fn controller_limits(&self, asked: &manifest::Limits) -> Limits {
        self.controllers.over(&self.limits, asked)
    }

    /// Host that answers the searches of hooks.
    pub(crate) fn lookup_host(&self) -> Option<Arc<dyn LookupHost>> {
        self.lookup.lock().as_ref()?.upgrade()
    }

    /// Keeps the ticker awake for as long as the guard lives.
    pub(crate) fn tick(&self) -> TickGuard {
        self.ticker.clone().keep_ticking()
    }
}
