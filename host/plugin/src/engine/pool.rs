//! How many instances there may be at once, and where their memory comes from.
//!
//! A pool reserves address space for every slot when it is made, so that a fresh instance costs microseconds. Address
//! space is plenty on most machines and scarce on some: a Raspberry Pi's kernel has 39 bits, a container may have a
//! limit on it (`ulimit -v`). So the size is what is wanted, cut to a quarter of what is free, and cut again for as
//! long as the reservation fails. Where not even four slots fit, instances are made on demand: some tens of
//! microseconds dearer, and otherwise the same.
//!
//! None of it changes an answer: limits on memory, tables and fuel stay as they are set. With fewer slots, more calls
//! wait for one.

use std::fs;

use wasmtime::{Enabled, PoolingAllocationConfig};

use crate::limits::Limits;

/// Inaccessible bytes behind each memory.
pub(crate) const GUARD: u64 = 64 << 10;

/// The stack that a guest and the host calls it makes run on, bytes.
pub(crate) const STACK: usize = 512 << 10;

/// The same for controllers: what they ask of the host is answered on it, and may go as deep as on any thread of a
/// server.
pub(crate) const CONTROLLER_STACK: usize = STACK + (2 << 20);

/// A pool with fewer slots than this is not worth having.
const FEWEST: u32 = 4;

/// How many instances there are at once when they are made on demand.
const ON_DEMAND: u32 = 8;

/// Where the memory of an instance comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// From address space that is reserved once.
    Pooled,
    /// From the system, for each instance.
    OnDemand,
}

/// How many instances exist at once, and how much address space each has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolSize {
    /// Where their memory comes from.
    pub strategy: Strategy,
    /// Instances at once; at least one.
    pub slots: u32,
    /// Address space of one linear memory, bytes; not less than `sandbox.memory_bytes`.
    pub reservation: u64,
    /// Bytes of a memory that stay resident when its instance is gone, so that the next one finds them warm.
    pub keep_resident: usize,
    /// The least that one memory needs, bytes.
    tight: u64,
    /// Address space of one slot, all of its memories, tables and its stack, bytes.
    footprint: u64,
}

impl PoolSize {
    /// What this machine would have, were address space no matter: sized by its memory, and by `sandbox.instances`.
    #[must_use]
    pub fn wanted(limits: &Limits) -> Self {
        let small = physical_memory().is_some_and(|bytes| bytes < 1 << 30);
        let slots = match (limits.instances, small) {
            (0, true) => 32,
            (0, false) => 128,
            (chosen, _) => chosen,
        };
        let keep_resident = if small { 128 << 10 } else { 256 << 10 };
        let tight = (limits.memory_bytes as u64).next_multiple_of(64 << 10);
        let reservation = if small { tight } else { tight.max(64 << 20) };
        Self { strategy: Strategy::Pooled, slots, reservation, keep_resident, tight, footprint: 0 }.measured(limits)
    }

    fn measured(mut self, limits: &Limits) -> Self {
        let memories = (self.reservation + GUARD).saturating_mul(limits.memories as u64);
        let tables = (limits.table_elements as u64).saturating_mul(8).next_multiple_of(4 << 10);
        self.footprint = memories
            .saturating_add(tables.saturating_mul(limits.tables as u64))
            .saturating_add(STACK as u64 + (16 << 10));
        self
    }

    /// This size, cut to a quarter of the address space that is free, so that the rest of the process has the other
    /// three. None: there is no limit.
    #[must_use]
    pub fn within(self, free: Option<u64>) -> Self {
        let Some(free) = free else {
            return self;
        };
        let fit = u32::try_from(free / 4 / self.footprint.max(1)).unwrap_or(u32::MAX);
        match fit {
            fit if fit >= self.slots => self,
            fit if fit >= FEWEST => Self { slots: fit, ..self },
            _ => self.on_demand(free),
        }
    }

    /// The next size to try when this one could not be had; none after the last.
    #[must_use]
    pub fn smaller(self) -> Option<Self> {
        match self.strategy {
            Strategy::OnDemand => None,
            Strategy::Pooled if self.slots / 2 >= FEWEST => Some(Self { slots: self.slots / 2, ..self }),
            Strategy::Pooled => Some(self.on_demand(address_space().unwrap_or(u64::MAX))),
        }
    }

    /// As many as a quarter of the free space has room for, should each hold one memory as large as it may be.
    fn on_demand(self, free: u64) -> Self {
        let each = self.tight.saturating_add(GUARD).saturating_add(STACK as u64);
        let fit = u32::try_from(free / 4 / each).unwrap_or(u32::MAX);
        let slots = self.slots.min(fit).clamp(1, ON_DEMAND);
        Self { strategy: Strategy::OnDemand, slots, reservation: self.tight, ..self }
    }

    /// Says what became of the size that was wanted.
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

    /// The pool as wasmtime is told. Every slot may hold the largest component that the limits allow: a plugin with
    /// many memories takes nothing from others.
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
            // All of them may be in one module. Neither reserves anything: slots have room for a component.
            .max_memories_per_module(memories)
            .max_tables_per_module(tables)
            .max_memory_size(limits.memory_bytes)
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

/// Memory of this machine, bytes, if the system says.
#[must_use]
pub fn physical_memory() -> Option<u64> {
    let info = rustix::system::sysinfo();
    info.totalram.checked_mul(u64::from(info.mem_unit))
}

/// Address space that this process may still take, bytes, if it has a limit (`RLIMIT_AS`).
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
        assert!(fewer.strategy == Strategy::Pooled && (FEWEST..128).contains(&fewer.slots), "{fewer:?}");
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
