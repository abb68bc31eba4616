//! Number of instances at once, and the source of their memory.
//!
//! A pool reserves address space for every slot when it is made, so that a fresh instance costs microseconds. Address
//! space is plenty on most machines and scarce on some: a Raspberry Pi's kernel has 39 bits, a container may limit it
//! (`ulimit -v`). So the wanted size is cut to a quarter of the free space, and cut again for as long as the
//! reservation fails. Where not even four slots fit, instances are made on demand: some tens of microseconds dearer,
//! and otherwise the same.
//!
//! The size never changes an answer: limits on memory, tables and fuel stay as they are set. With fewer slots, more
//! calls wait for one.

use std::fs;

use wasmtime::{Enabled, PoolingAllocationConfig};

use crate::limits::Limits;

/// Inaccessible bytes behind each memory.
pub(crate) const GUARD_BYTES: u64 = 64 << 10;

/// Stack of a guest and of the host calls that it makes, bytes.
pub(crate) const GUEST_STACK_BYTES: usize = 512 << 10;

/// Stack of a controller's guest, bytes. The host answers its requests on it, and those may go as deep as on any thread
/// of a server.
pub(crate) const CONTROLLER_STACK_BYTES: usize = GUEST_STACK_BYTES + (2 << 20);

/// Memory of a machine below which it counts as small, bytes.
const SMALL_MACHINE_BYTES: u64 = 1 << 30;

/// Fewest slots of a useful pool.
const MIN_POOL_SLOTS: u32 = 4;

/// Most instances at once when they are made on demand.
const MAX_ON_DEMAND_INSTANCES: u32 = 8;

/// Source of an instance's memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Address space that is reserved once.
    Pooled,
    /// The system, for each instance.
    OnDemand,
}

/// Number of instances at once, and address space of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Source of their memory.
    pub strategy: Strategy,
    /// Instances at once; at least one.
    pub slots: u32,
    /// Address space of one linear memory, bytes; not less than `sandbox.memory_bytes`.
    pub reservation: u64,
    /// Bytes of a memory that stay resident after its instance, so that the next instance finds them warm.
    pub keep_resident: usize,
    /// The least address space of one memory, bytes.
    min_reservation: u64,
    /// Address space of one slot, bytes: all its memories, tables and its stack.
    footprint: u64,
}

impl PoolSize {
    /// Address space of one memory on a small or a larger machine, bytes.
    #[must_use]
    pub fn reservation_of(limits: &Limits, is_small: bool) -> u64 {
        let least = (limits.memory_bytes as u64).next_multiple_of(64 << 10);
        if is_small { least } else { least.max(64 << 20) }
    }

    /// The size for unlimited address space: from the machine's memory and `sandbox.instances`.
    #[must_use]
    pub fn wanted(limits: &Limits) -> Self {
        let small = physical_memory().is_some_and(|bytes| bytes < SMALL_MACHINE_BYTES);
        let slots = match (limits.instances, small) {
            (0, true) => 32,
            (0, false) => 128,
            (chosen, _) => chosen,
        };
        let keep_resident = if small { 128 << 10 } else { 256 << 10 };
        let min_reservation = Self::reservation_of(limits, true);
        let reservation = Self::reservation_of(limits, small);
        Self { strategy: Strategy::Pooled, slots, reservation, keep_resident, min_reservation, footprint: 0 }
            .measured(limits)
    }

    fn measured(mut self, limits: &Limits) -> Self {
        let memories = (self.reservation + GUARD_BYTES).saturating_mul(limits.memories as u64);
        let tables = (limits.table_elements as u64).saturating_mul(8).next_multiple_of(4 << 10);
        self.footprint = memories
            .saturating_add(tables.saturating_mul(limits.tables as u64))
            .saturating_add(GUEST_STACK_BYTES as u64 + (16 << 10));
        self
    }

    /// Cuts this size to a quarter of the free address space, which leaves the rest to the other parts of the process.
    /// `None`: the address space is unlimited.
    #[must_use]
    pub fn within(self, free: Option<u64>) -> Self {
        let Some(free) = free else {
            return self;
        };
        let fit = u32::try_from(free / 4 / self.footprint.max(1)).unwrap_or(u32::MAX);
        match fit {
            fit if fit >= self.slots => self,
            fit if fit >= MIN_POOL_SLOTS => Self { slots: fit, ..self },
            _ => self.on_demand(free),
        }
    }

    /// The next size to try after this one failed; `None` after the last.
    #[must_use]
    pub fn smaller(self) -> Option<Self> {
        match self.strategy {
            Strategy::OnDemand => None,
            Strategy::Pooled if self.slots / 2 >= MIN_POOL_SLOTS => Some(Self { slots: self.slots / 2, ..self }),
            Strategy::Pooled => Some(self.on_demand(address_space().unwrap_or(u64::MAX))),
        }
    }

    /// Size without a pool: slots for a quarter of the free space, if each holds one memory of the largest size.
    fn on_demand(self, free: u64) -> Self {
        let each = self.min_reservation.saturating_add(GUARD_BYTES).saturating_add(GUEST_STACK_BYTES as u64);
        let fit = u32::try_from(free / 4 / each).unwrap_or(u32::MAX);
        let slots = self.slots.min(fit).clamp(1, MAX_ON_DEMAND_INSTANCES);
        Self { strategy: Strategy::OnDemand, slots, reservation: self.min_reservation, ..self }
    }

    /// Logs the size that was obtained instead of the wanted one.
    pub(crate) fn report(&self, wanted: &Self) {
        let (slots, wanted_slots) = (self.slots, wanted.slots);
        match self.strategy {
            _ if self == wanted => tracing::debug!(slots, "pool of instances"),
            Strategy::Pooled => tracing::warn!(
                slots,
                wanted_slots,
                "address space is scarce (ulimit -v, or a small kernel): fewer instances at once"
            ),
            Strategy::OnDemand => tracing::warn!(
                slots,
                wanted_slots,
                "address space is too scarce for a pool (ulimit -v): instances are made on demand, fewer at once"
            ),
        }
    }

    /// Configuration of the pool for wasmtime. Every slot may hold the largest component that the limits allow: a
    /// plugin with many memories takes nothing from others.
    pub(crate) fn config(&self, limits: &Limits) -> PoolingAllocationConfig {
        let count = |limit: usize| u32::try_from(limit).unwrap_or(u32::MAX);
        let (instances, tables, memories) =
            (count(limits.core_instances), count(limits.tables), count(limits.memories));
        let mut pool = PoolingAllocationConfig::default();
        pool.total_component_instances(self.slots)
            .total_core_instances(self.slots.saturating_mul(instances))
            .total_memories(self.slots.saturating_mul(memories))
            .total_tables(self.slots.saturating_mul(tables))
            .total_stacks(self.slots)
            .max_core_instances_per_component(instances)
            .max_memories_per_component(memories)
            .max_tables_per_component(tables)
            // One module may hold them all. Neither call reserves anything: slots have room for a component.
            .max_memories_per_module(memories)
            .max_tables_per_module(tables)
            // Beyond `sandbox.memory_bytes` only for plugins with a grant: their stores have the limit.
            .max_memory_size(usize::try_from(self.reservation).unwrap_or(limits.memory_bytes))
            .table_elements(limits.table_elements)
            .linear_memory_keep_resident(self.keep_resident)
            .table_keep_resident(64 << 10)
            .async_stack_keep_resident(0)
            .max_unused_warm_slots(16)
            .decommit_batch_size(1)
            // Off: it may show swapped-out pages of an earlier instance to a later one (wasmtime PR 14357).
            .pagemap_scan(Enabled::No);
        pool
    }
}

/// Memory of this machine, bytes; `None` if the system does not say.
#[must_use]
pub fn physical_memory() -> Option<u64> {
    let info = rustix::system::sysinfo();
    info.totalram.checked_mul(u64::from(info.mem_unit))
}

/// Address space that this process may still take, bytes; `None` without a limit (`RLIMIT_AS`).
#[must_use]
pub fn address_space() -> Option<u64> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::As).current?;
    // One line of a file: `procfs` would read and keep all of it.
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:"))?;
    let used = line.split_whitespace().next()?.parse::<u64>().ok()?.saturating_mul(1024);
    Some(limit.saturating_sub(used))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scarce_space_means_fewer_slots_and_then_none() {
        let limits = Limits { instances: 128, ..Limits::default() };
        let wanted = PoolSize::wanted(&limits);
        assert_eq!((wanted.strategy, wanted.slots), (Strategy::Pooled, 128));
        assert_eq!(wanted.within(None), wanted);
        assert_eq!(wanted.within(Some(512 << 30)), wanted, "39 bits are enough for all of it");
        let fewer = wanted.within(Some(8 << 30));
        assert!(fewer.strategy == Strategy::Pooled && (MIN_POOL_SLOTS..128).contains(&fewer.slots), "{fewer:?}");
        assert!(u64::from(fewer.slots) * fewer.footprint <= 2 << 30);
        let small = wanted.within(Some(512 << 20));
        assert_eq!((small.strategy, small.slots, small.reservation), (Strategy::OnDemand, 3, 32 << 20));
        assert_eq!(wanted.within(Some(0)).slots, 1);
    }

    #[test]
    fn trying_again_comes_to_an_end() {
        let mut size = Some(PoolSize::wanted(&Limits { instances: 100, ..Limits::default() }));
        let mut slots = Vec::new();
        while let Some(tried) = size {
            slots.push(tried.slots);
            size = tried.smaller();
        }
        assert_eq!(slots[..5], [100, 50, 25, 12, 6]);
        assert_eq!(slots.len(), 6, "the last is on demand");
    }
}
