//! Check of a component's needs against the limits that it will run under.

use wasmtime::component::Component;

use crate::{error::LoadError, limits::Limits};

/// Initial size of a component's largest memory, bytes. Wasmtime reports it in pages.
pub(crate) fn least_memory(component: &Component) -> u64 {
    let pages = component.resources_required().and_then(|needs| needs.max_initial_memory_size).unwrap_or(0);
    pages.saturating_mul(64 << 10)
}

/// A need of a component that has a limit.
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

impl Need {
    /// Makes the error for a component that needs `n`.
    fn limit_error(self, n: u64, limits: &Limits) -> LoadError {
        let (what, limit, setting) = match self {
            Self::CoreInstances => (format!("{n} core instances"), limits.core_instances, None),
            Self::Memories => (format!("{n} memories"), limits.memories, None),
            Self::Memory => (format!("{n} bytes of memory"), limits.memory_bytes, Some("sandbox.memory_bytes")),
            Self::Tables => (format!("{n} tables"), limits.tables, None),
            Self::TableElements => (format!("a table of {n} elements"), limits.table_elements, None),
        };
        LoadError::ExceedsLimit { what, limit, setting }
    }
}

/// Messages of wasmtime, which has no types for these errors: of compiling, for a component that does not fit into a
/// slot of the pool, and of making an instance on demand with too many parts. Each entry is the text before the number,
/// the text after it, and the need.
const LIMIT_MESSAGES: [(&str, &str, Need); 8] = [
    ("component transitively contains ", " core module instances", Need::CoreInstances),
    ("component transitively contains ", " Wasm linear memories", Need::Memories),
    ("component transitively contains ", " tables", Need::Tables),
    ("defined memories count of ", " exceeds", Need::Memories),
    ("defined tables count of ", " exceeds", Need::Tables),
    ("memory has a minimum byte size of ", " which exceeds", Need::Memory),
    ("has a minimum element size of ", " which exceeds", Need::TableElements),
    ("resource limit exceeded: instance count too high at ", "", Need::CoreInstances),
];

/// Error for the limit that an error of wasmtime reports; `None` for other errors.
pub(crate) fn exceeded_limit(error: &wasmtime::Error, limits: &Limits) -> Option<LoadError> {
    let text = error.root_cause().to_string();
    LIMIT_MESSAGES.into_iter().find_map(|(before, after, need)| {
        let (_, rest) = text.split_once(before)?;
        let (number, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        rest.starts_with(after).then(|| number.parse().ok())?.map(|n| need.limit_error(n, limits))
    })
}

/// Refuses a component that cannot be instantiated. Without a pool compiling does not check this, and instantiation has
/// a worse message.
pub(crate) fn check_limits(component: &Component, limits: &Limits) -> Result<(), LoadError> {
    let Some(needs) = component.resources_required() else {
        return Err(LoadError::NotAComponent {
            what: "it instantiates imported modules; a plugin must contain all its modules".into(),
        });
    };
    for (need, n, limit) in [
        (Need::Memory, least_memory(component), limits.memory_bytes),
        (Need::Memories, needs.num_memories.into(), limits.memories),
        (Need::Tables, needs.num_tables.into(), limits.tables),
        (Need::TableElements, needs.max_initial_table_size.unwrap_or(0), limits.table_elements),
    ] {
        if n > limit as u64 {
            return Err(need.limit_error(n, limits));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
