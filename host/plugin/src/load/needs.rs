//! Check of a component's needs against the limits that it will run under.

use wasmtime::component::Component;

use crate::{
    error::{ExceededLimit, LoadError},
    limits::Limits,
};

/// Initial size of a component's largest memory, bytes. Wasmtime reports it in pages.
pub(crate) fn least_memory(component: &Component) -> u64 {
    let pages = component.resources_required().and_then(|needs| needs.max_initial_memory_size).unwrap_or(0);
    pages.saturating_mul(64 << 10)
}

/// A need of a component that has a limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    /// The limit that a component exceeds, which needs `n`.
    fn exceeded(self, n: u64, limits: &Limits) -> ExceededLimit {
        let (what, limit, setting) = match self {
            Self::CoreInstances => (format!("{n} core instances"), limits.core_instances, None),
            Self::Memories => (format!("{n} memories"), limits.memories, None),
            Self::Memory => (format!("{n} bytes of memory"), limits.memory_bytes, Some("sandbox.memory_bytes")),
            Self::Tables => (format!("{n} tables"), limits.tables, None),
            Self::TableElements => (format!("a table of {n} elements"), limits.table_elements, None),
        };
        ExceededLimit { what, limit, setting }
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

/// Error for the limit that an error of wasmtime reports; `None` for other errors. Wasmtime reports one limit; the others
/// are those of `component`, if it is at hand.
pub(crate) fn exceeded_limit(
    error: &wasmtime::Error,
    component: Option<&Component>,
    limits: &Limits,
) -> Option<LoadError> {
    let (need, n) = reported_need(error)?;
    let others = component.map(|component| exceeding(component, limits)).unwrap_or_default();
    let others = others.into_iter().filter(|(other, _)| *other != need);
    let all = std::iter::once((need, n)).chain(others);
    Some(LoadError::ExceedsLimit(all.map(|(need, n)| need.exceeded(n, limits)).collect()))
}

/// The need that an error of wasmtime reports, and its amount.
fn reported_need(error: &wasmtime::Error) -> Option<(Need, u64)> {
    let text = error.root_cause().to_string();
    LIMIT_MESSAGES.into_iter().find_map(|(before, after, need)| {
        let (_, rest) = text.split_once(before)?;
        let (number, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len()));
        rest.starts_with(after).then(|| number.parse().ok())?.map(|n| (need, n))
    })
}

/// Refuses a component that cannot be instantiated. Without a pool compiling does not check this, and instantiation has
/// a worse message.
pub(crate) fn check_limits(component: &Component, limits: &Limits) -> Result<(), LoadError> {
    if component.resources_required().is_none() {
        return Err(LoadError::NotAComponent {
            what: "it instantiates imported modules; a plugin must contain all its modules".into(),
        });
    }
    match exceeding(component, limits).as_slice() {
        [] => Ok(()),
        all => Err(LoadError::ExceedsLimit(all.iter().map(|(need, n)| need.exceeded(*n, limits)).collect())),
    }
}

/// Needs of a component that exceed limits, with their amounts. Core instances are not among them: wasmtime counts them
/// only for errors.
fn exceeding(component: &Component, limits: &Limits) -> Vec<(Need, u64)> {
    let Some(needs) = component.resources_required() else { return Vec::new() };
    let all = [
        (Need::Memory, least_memory(component), limits.memory_bytes),
        (Need::Memories, needs.num_memories.into(), limits.memories),
        (Need::Tables, needs.num_tables.into(), limits.tables),
        (Need::TableElements, needs.max_initial_table_size.unwrap_or(0), limits.table_elements),
    ];
    all.into_iter().filter(|(_, n, limit)| *n > *limit as u64).map(|(need, n, _)| (need, n)).collect()
}

#[cfg(test)]
mod tests;
