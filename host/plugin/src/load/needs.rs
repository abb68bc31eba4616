//! What a component needs, compared with the limits that it will run under.

use wasmtime::component::Component;

use crate::{error::LoadError, limits::Limits};

/// What the largest memory of a component begins with, bytes. Wasmtime says it in pages.
pub(crate) fn least_memory(component: &Component) -> u64 {
    let pages = component.resources_required().and_then(|needs| needs.max_initial_memory_size).unwrap_or(0);
    pages.saturating_mul(64 << 10)
}

/// What a component may need more of than there is.
#[derive(Debug, Clone, Copy)]
enum Need {
    CoreInstances,
    Memories,
    /// Bytes of one memory.
    Memory,
    Tables,
    /// Elements of one table.
    TableElements,
}

/// Stands in an error where other limits have their setting.
const FIXED: &str = "a fixed limit";

impl Need {
    /// Refuses a component that needs `n`.
    fn over(self, n: u64, limits: &Limits) -> LoadError {
        let (what, limit, setting) = match self {
            Self::CoreInstances => (format!("{n} core instances"), limits.core_instances, FIXED),
            Self::Memories => (format!("{n} memories"), limits.memories, FIXED),
            Self::Memory => (format!("{n} bytes of memory"), limits.memory_bytes, "sandbox.memory_bytes"),
            Self::Tables => (format!("{n} tables"), limits.tables, FIXED),
            Self::TableElements => (format!("a table of {n} elements"), limits.table_elements, FIXED),
        };
        LoadError::ExceedsLimit { what, limit, setting }
    }
}

/// How wasmtime says that a component does not fit into a slot of the pool, which it does after compiling, or that an
/// instance made on demand has too many parts: the words before the number, those after it, and what is meant. It has
/// no type for either.
const MESSAGES: [(&str, &str, Need); 8] = [
    ("component transitively contains ", " core module instances", Need::CoreInstances),
    ("component transitively contains ", " Wasm linear memories", Need::Memories),
    ("component transitively contains ", " tables", Need::Tables),
    ("defined memories count of ", " exceeds", Need::Memories),
    ("defined tables count of ", " exceeds", Need::Tables),
    ("memory has a minimum byte size of ", " which exceeds", Need::Memory),
    ("has a minimum element size of ", " which exceeds", Need::TableElements),
    ("resource limit exceeded: instance count too high at ", "", Need::CoreInstances),
];

/// The limit that an error of wasmtime is about, if it is about one.
pub(crate) fn exceeded_limit(error: &wasmtime::Error, limits: &Limits) -> Option<LoadError> {
    let text = error.root_cause().to_string();
    MESSAGES.into_iter().find_map(|(before, after, need)| {
        let (_, rest) = text.split_once(before)?;
        let (number, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        rest.starts_with(after).then(|| number.parse().ok())?.map(|n| need.over(n, limits))
    })
}

/// Refuses what could not be instantiated anyway, with a better message than that of instantiation: without a pool,
/// compiling does not look.
pub(crate) fn check_limits(component: &Component, limits: &Limits) -> Result<(), LoadError> {
    let Some(needs) = component.resources_required() else {
        return Err(LoadError::NotAComponent {
            what: "it instantiates modules that it imports; a plugin must be complete in itself".into(),
        });
    };
    for (need, n, limit) in [
        (Need::Memory, least_memory(component), limits.memory_bytes),
        (Need::Memories, needs.num_memories.into(), limits.memories),
        (Need::Tables, needs.num_tables.into(), limits.tables),
        (Need::TableElements, needs.max_initial_table_size.unwrap_or(0), limits.table_elements),
    ] {
        if n > limit as u64 {
            return Err(need.over(n, limits));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
