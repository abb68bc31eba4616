//! Slots of the pool for the instances of hooks, and the idle instances that wait in some of them for a request.
//!
//! # Contract
//! An instance is kept only if its plugin declares its hooks pure and the operator grants reuse
//! ([`Plugin::load`](crate::Plugin::load)). It serves one [`CallerClass`] of one loaded plugin, one request at a time. An
//! idle instance never keeps a request waiting: a request without a free slot takes the slot of the least recently used
//! one.
//!
//! # Limits
//! Idle instances: `Limits::idle_instances` and `Limits::idle_bytes` for each plugin, half of the slots for all plugins,
//! `Limits::idle_ms` of time.

use std::{
    collections::VecDeque,
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::pb;
use parking_lot::Mutex;
use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    time::timeout_at,
};

use crate::{call::hook_instance::HookInstance, limits::Limits, opaque::Owned};

/// Checks for idle instances that are due, within their longest time.
const SWEEPS: u32 = 4;

/// The callers that may share an instance: one identity with the same rights, in one partition and namespace.
///
/// A plugin that keeps what it sees could show it to the next request of the class. So a class has one identity, which
/// has sent all of that itself; and one tenancy, since resources of another one have other readers.
#[derive(Debug, Clone, PartialEq)]
pub struct CallerClass {
    identity: u64,
    rights: u64,
    tenancy: Option<pb::Tenancy>,
}

impl CallerClass {
    /// Class of an identity with these rights. Each identity needs a number of its own, and each set of rights as well.
    /// `tenancy` is that of the resource; `None` for functions.
    #[must_use]
    pub const fn new(identity: u64, rights: u64, tenancy: Option<pb::Tenancy>) -> Self {
        Self { identity, rights, tenancy }
    }
}

/// Owner of idle instances: a loaded plugin, and whether they are those of its functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotKey {
    pub(crate) plugin: u64,
    pub(crate) functions: bool,
}

/// An idle instance.
struct IdleInstance {
    key: SlotKey,
    class: CallerClass,
    since: Instant,
    memory: usize,
    instance: Owned<HookInstance>,
}

/// Idle instances, the most recently used last.
#[derive(Default)]
struct Idle {
    instances: VecDeque<IdleInstance>,
    /// Calls that wait for a slot; while there are any, no instance is kept.
    waiting: usize,
    /// Number of plugin keys given out.
    plugins: u64,
    /// Whether a task drops the instances that are due.
    is_swept: bool,
}

/// The slots of all plugins.
pub(crate) struct HookSlots {
    slots: Arc<Semaphore>,
    pub(crate) count: usize,
    idle: Mutex<Idle>,
}

impl HookSlots {
    pub(crate) fn new(count: usize) -> Self {
        Self { slots: Arc::new(Semaphore::new(count)), count, idle: Mutex::default() }
    }

    /// New number of a loaded plugin.
    pub(crate) fn plugin(&self) -> u64 {
        let mut idle = self.idle.lock();
        idle.plugins += 1;
        idle.plugins
    }

    /// Slot for one more instance: a free one, that of an idle instance, or, if `until` is given, one that becomes free
    /// until then.
    pub(crate) async fn slot(&self, until: Option<Instant>) -> Option<OwnedSemaphorePermit> {
        if let Ok(slot) = self.slots.clone().try_acquire_owned() {
            return Some(slot);
        }
        let (_waiting, oldest) = self.begin_waiting();
        // Dropped outside of the lock: cleaning up takes a moment. The slot becomes free with it.
        drop(oldest);
        match until {
            None => self.slots.clone().try_acquire_owned().ok(),
            Some(until) => timeout_at(until.into(), self.slots.clone().acquire_owned()).await.ok()?.ok(),
        }
    }

    /// Takes the most recently used idle instance of a class.
    pub(crate) fn take(&self, key: SlotKey, class: &CallerClass) -> Option<Owned<HookInstance>> {
        let mut idle = self.idle.lock();
        let position = idle.instances.iter().rposition(|kept| kept.key == key && kept.class == *class)?;
        idle.instances.remove(position).map(|kept| kept.instance)
    }

    /// Keeps an instance for further requests of a class. Returns the instances that give way to it, which may be itself.
    pub(crate) fn keep(
        self: &Arc<Self>,
        key: SlotKey,
        class: CallerClass,
        instance: Owned<HookInstance>,
        limits: &Limits,
    ) -> Vec<Owned<HookInstance>> {
        let (memory, since) = (instance.memory(), Instant::now());
        let mut idle = self.idle.lock();
        if idle.waiting > 0 {
            return vec![instance];
        }
        idle.instances.push_back(IdleInstance { key, class, since, memory, instance });
        let mut gone = Vec::new();
        while let Some(position) = self.surplus(&idle.instances, key.plugin, limits) {
            gone.extend(idle.instances.remove(position).map(|kept| kept.instance));
        }
        let must_sweep = !idle.is_swept && !idle.instances.is_empty();
        if must_sweep && let Ok(runtime) = Handle::try_current() {
            idle.is_swept = true;
            runtime.spawn(sweep(Arc::downgrade(self), Duration::from_millis(limits.idle_ms)));
        }
        gone
    }

    /// Removes all instances of a loaded plugin.
    pub(crate) fn remove(&self, plugin: u64) -> Vec<Owned<HookInstance>> {
        self.remove_if(|kept| kept.key.plugin == plugin)
    }

    /// Position of the idle instance that has to go: the least recently used one of the plugin if that has too many, or
    /// too much memory; of all plugins if these have too many.
    fn surplus(&self, idle: &VecDeque<IdleInstance>, plugin: u64, limits: &Limits) -> Option<usize> {
        let (count, bytes) = idle
            .iter()
            .filter(|kept| kept.key.plugin == plugin)
            .fold((0, 0_usize), |(count, bytes), kept| (count + 1, bytes.saturating_add(kept.memory)));
        if count > limits.idle_instances || bytes > limits.idle_bytes {
            return idle.iter().position(|kept| kept.key.plugin == plugin);
        }
        (idle.len() > self.count / 2).then_some(0)
    }

    /// Counts a waiting call, and removes the least recently used idle instance.
    fn begin_waiting(&self) -> (Waiting<'_>, Option<Owned<HookInstance>>) {
        let mut idle = self.idle.lock();
        idle.waiting += 1;
        let oldest = idle.instances.pop_front().map(|kept| kept.instance);
        (Waiting(self), oldest)
    }

    fn remove_if(&self, is_due: impl Fn(&IdleInstance) -> bool) -> Vec<Owned<HookInstance>> {
        let mut idle = self.idle.lock();
        let (gone, kept) = std::mem::take(&mut idle.instances).into_iter().partition(is_due);
        idle.instances = kept;
        let gone: VecDeque<IdleInstance> = gone;
        gone.into_iter().map(|kept| kept.instance).collect()
    }

    /// Ends the sweeps if nothing is idle.
    fn ends_sweeps(&self) -> bool {
        let mut idle = self.idle.lock();
        idle.is_swept = !idle.instances.is_empty();
        !idle.is_swept
    }
}

/// Drops idle instances that were not used for `longest`, until there are none.
async fn sweep(slots: std::sync::Weak<HookSlots>, longest: Duration) {
    loop {
        tokio::time::sleep(longest / SWEEPS).await;
        let Some(slots) = slots.upgrade() else { return };
        drop(slots.remove_if(|kept| kept.since.elapsed() >= longest));
        if slots.ends_sweeps() {
            return;
        }
    }
}

/// A call that waits for a slot.
struct Waiting<'a>(&'a HookSlots);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.idle.lock().waiting -= 1;
    }
}
