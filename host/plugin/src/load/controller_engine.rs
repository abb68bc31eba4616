//! Second engine, for controllers: made when the first plugin with controllers is loaded, and not at all otherwise.
//!
//! A controller's call waits for the host most of its time, and would hold a slot of the hooks' pool meanwhile. So it
//! has instances elsewhere, made on demand and kept warm between calls (`warm`). They are few, and made seldom:
//! reserving address space for all of them in advance would gain nothing.
//!
//! Both engines generate the same code, so code compiled for hooks serves here too. Only where
//! `controllers.memory_bytes` is more than the hooks' engine reserves for a memory is it compiled once more, and cached
//! under this engine's own fingerprint.
//!
//! # Limits
//! `controllers.instances` bounds the instances of all plugins, running and warm: a new one replaces the least recently
//! used idle one.

use std::{collections::VecDeque, sync::Arc, time::Instant};

use parking_lot::Mutex;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};
use wasmtime::{Engine, component::Linker};

use crate::{
    call::{
        export::ControllerExports,
        warm_instance::{ControllerComponent, MAX_CONCURRENT_IMPORTS, WarmInstance},
    },
    engine::{
        configuration,
        pool::{self, PoolSize},
    },
    error::{ExceededLimit, LoadError},
    grants::Permit,
    host::tcp::MAX_CONCURRENT_CONNECTS,
    host::{files::MAX_FILE_THREADS, state::State, wasi},
    limits::Limits,
    load::{
        code_cache::Cache,
        compile::{Compiled, Compiler},
        compiler_process::CompilerProgram,
        contract,
        needs::least_memory,
    },
    manifest::exports::Exports,
    reconcile_limits::ReconcileLimits,
};

/// Default of `controllers.instances`: on a machine with less than 1 GiB of memory, and on others.
const SMALL_MACHINE_INSTANCES: u32 = 16;
const DEFAULT_INSTANCES: u32 = 64;

/// Engine for controllers, and its warm instances.
pub(crate) struct ControllerEngine {
    pub(crate) engine: Engine,
    /// Address space of one memory, bytes.
    reservation: u64,
    linker: Linker<State>,
    pub(crate) limits: ReconcileLimits,
    /// Cache of code for this engine; `None` if the hooks' code fits.
    cache: Option<Cache>,
    slots: Arc<Semaphore>,
    pub(crate) slot_count: usize,
    idle: Mutex<IdleInstances>,
    pub(crate) file_turns: Arc<Semaphore>,
    pub(crate) connect_turns: Arc<Semaphore>,
}

/// Idle instances, the most recently used last.
#[derive(Default)]
struct IdleInstances {
    idle: VecDeque<(u64, WarmInstance)>,
    /// Calls that wait for a slot; while there are any, finished instances are not kept.
    waiting: usize,
    /// Number of keys given out.
    keys: u64,
}

impl ControllerEngine {
    /// Makes an engine with the limits of the hooks and their cache of code. The caller gives it a ticker.
    pub(crate) fn new(
        (hooks, pool, hook_limits): (&Engine, &PoolSize, &Limits),
        cache: &Cache,
        limits: &ReconcileLimits,
    ) -> Result<Self, LoadError> {
        let host = |what| move |source| LoadError::Host { what, source };
        let (layout, size) = size(pool, limits, pool::address_space());
        let mut config = configuration::config(hook_limits, &layout);
        config.async_stack_size(pool::CONTROLLER_STACK_BYTES);
        let engine = Engine::new(&config).map_err(host("setting up the engine for controllers"))?;
        let linker = configuration::linker(&engine).map_err(host("linking the plugin contract for controllers"))?;
        let same = configuration::fingerprint(&engine) == configuration::fingerprint(hooks);
        tracing::debug!(instances = size, "engine for controllers");
        Ok(Self {
            cache: (!same).then(|| cache.of_engine(&engine)),
            engine,
            reservation: layout.reservation,
            linker,
            limits: limits.clone(),
            slots: Arc::new(Semaphore::new(size)),
            slot_count: size,
            idle: Mutex::default(),
            file_turns: Arc::new(Semaphore::new(MAX_FILE_THREADS)),
            connect_turns: Arc::new(Semaphore::new(MAX_CONCURRENT_CONNECTS)),
        })
    }

    /// Makes a component ready for this engine, compiled under the limits of the hooks. `bytes` are the component's
    /// file, and `compiled` is the one compiled for the hooks' engine.
    pub(crate) async fn compile_for_controllers(
        &self,
        (hook_limits, program): (&Limits, Option<&CompilerProgram>),
        (digest, bytes, compiled, manifest): (&str, &[u8], &Compiled, &[u8]),
        exports: Exports,
        limits: Limits,
        permit: Permit,
    ) -> Result<ControllerComponent, LoadError> {
        let contract = |e: wasmtime::Error| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") };
        let least = least_memory(&compiled.component);
        if least > self.limits.memory_bytes as u64 {
            return Err(LoadError::ExceedsLimit(vec![ExceededLimit {
                what: format!("{least} bytes of memory"),
                limit: self.limits.memory_bytes,
                setting: Some("controllers.memory_bytes"),
            }]));
        }
        let known = match &self.cache {
            None => compiled.code.load(&self.engine).ok(),
            Some(cache) => cache.get(&self.engine, digest).map(|entry| entry.compiled.component),
        };
        let component = match known {
            Some(component) => component,
            None => {
                let (engine, reservation) = (&self.engine, self.reservation);
                let compiler = Compiler { engine, reservation, limits: hook_limits, program };
                let compiled = compiler.compile(bytes).await?;
                self.cache.iter().for_each(|cache| cache.put(digest, &compiled.code, manifest));
                compiled.component
            }
        };
        let mut linker = self.linker.clone();
        let http = wasi::interfaces::sends_http(&self.engine, &component);
        let pre = wasi::link::link(&mut linker, &self.engine, &component, http)
            .and_then(|()| linker.instantiate_pre(&component))
            .map_err(contract)?;
        component
            .initialize_copy_on_write_image()
            .map_err(|source| LoadError::Host { what: "mapping the component's memory image", source })?;
        Ok(ControllerComponent {
            engine: self.engine.clone(),
            exports: ControllerExports::find(&pre, exports).map_err(contract)?,
            pre,
            http,
            limits: Arc::new(limits),
            permit: Arc::new(permit),
            import_turns: Semaphore::new(MAX_CONCURRENT_IMPORTS),
        })
    }

    /// New key for keeping instances.
    pub(crate) fn key(&self) -> u64 {
        let mut idle = self.idle.lock();
        idle.keys += 1;
        idle.keys
    }

    /// The most recently used instance kept under a key.
    pub(crate) fn take(&self, key: u64) -> Option<WarmInstance> {
        let mut idle = self.idle.lock();
        let position = idle.idle.iter().rposition(|(owner, _)| *owner == key)?;
        idle.idle.remove(position).map(|(_, warm)| warm)
    }

    /// Keeps an instance under a key, or returns it if others wait for its slot.
    pub(crate) fn keep(&self, key: u64, warm: WarmInstance) -> Option<WarmInstance> {
        let mut idle = self.idle.lock();
        if idle.waiting > 0 {
            return Some(warm);
        }
        idle.idle.push_back((key, warm));
        None
    }

    /// Removes all instances kept under a key.
    pub(crate) fn remove_instances(&self, key: u64) -> Vec<WarmInstance> {
        let mut idle = self.idle.lock();
        let (gone, kept) = std::mem::take(&mut idle.idle).into_iter().partition(|(owner, _)| *owner == key);
        idle.idle = kept;
        let gone: VecDeque<(u64, WarmInstance)> = gone;
        gone.into_iter().map(|(_, warm)| warm).collect()
    }

    /// Slot for one more instance; `None` if none was free until `until`.
    pub(crate) async fn slot(&self, until: Instant) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            return Some(slot);
        }
        let (_waiting, idle) = self.start_waiting();
        // Dropped outside of the lock: cleaning up takes a moment.
        drop(idle);
        timeout_at(until.into(), self.slots.clone().acquire_owned()).await.ok()?.ok()
    }

    /// Counts a waiting call, and removes the least recently used idle instance. While calls wait, finished instances
    /// are dropped, so every freed slot reaches a waiting call.
    fn start_waiting(&self) -> (Waiting<'_>, Option<WarmInstance>) {
        let mut idle = self.idle.lock();
        idle.waiting += 1;
        let idle = idle.idle.pop_front().map(|(_, warm)| warm);
        (Waiting(self), idle)
    }
}

/// A call that waits for a slot.
struct Waiting<'a>(&'a ControllerEngine);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.idle.lock().waiting -= 1;
    }
}

/// Layout of memories, and number of instances: as many as fit into a quarter of the free address space.
fn size(hooks: &PoolSize, limits: &ReconcileLimits, free: Option<u64>) -> (PoolSize, usize) {
    let needed = (limits.memory_bytes as u64).next_multiple_of(64 << 10);
    let mut config = *hooks;
    config.strategy = pool::Strategy::OnDemand;
    // The hooks' reservation if it is large enough: then their code fits.
    config.reservation = hooks.reservation.max(needed);
    let small = pool::physical_memory().is_some_and(|bytes| bytes < 1 << 30);
    let wanted = match (limits.instances, small) {
        (0, true) => SMALL_MACHINE_INSTANCES,
        (0, false) => DEFAULT_INSTANCES,
        (chosen, _) => chosen,
    };
    let each =
        config.reservation.saturating_add(2 * pool::GUARD_BYTES).saturating_add(pool::CONTROLLER_STACK_BYTES as u64);
    let fit = free.map_or(u32::MAX, |free| u32::try_from(free / 4 / each).unwrap_or(u32::MAX));
    let count = wanted.min(fit).max(1);
    if count < wanted {
        tracing::warn!(
            instances = count,
            wanted,
            "address space is scarce (ulimit -v, or a small kernel): controllers have fewer instances"
        );
    }
    (config, count as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scarce_space_means_fewer_instances_and_never_none() {
        let hooks = PoolSize::wanted(&Limits::default());
        let limits = ReconcileLimits { instances: 40, ..ReconcileLimits::default() };
        assert_eq!(size(&hooks, &limits, None).1, 40);
        let (config, count) = size(&hooks, &limits, Some(4 << 30));
        assert!((2..40).contains(&count), "{count}");
        assert!(count as u64 * (config.reservation + pool::GUEST_STACK_BYTES as u64) <= 1 << 30);
        assert_eq!(size(&hooks, &limits, Some(0)).1, 1);
    }

    #[test]
    fn more_memory_than_the_hooks_have_is_reserved() {
        let hooks = PoolSize::wanted(&Limits::default());
        let limits = ReconcileLimits { memory_bytes: (200 << 20) + 1, ..ReconcileLimits::default() };
        assert_eq!(size(&hooks, &limits, None).0.reservation, (200 << 20) + (64 << 10));
        let less = ReconcileLimits { memory_bytes: 1 << 20, ..ReconcileLimits::default() };
        assert_eq!(size(&hooks, &less, None).0.reservation, hooks.reservation);
    }
}
