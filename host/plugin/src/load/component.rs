//! The first part of loading: what depends on the component alone, and not on the settings under which it is to serve.
//!
//! # Contract
//! The file is parsed whole, compiled or taken from the cache, compared with the contract and with the host's limits, and
//! `describe` is called once for each digest, under limits. Nothing of it touches plugins that serve already.
//!
//! # Cost
//! Compiling: some 200 to 400 ms for a plugin of the SDK, on half of the cores. From the cache a few milliseconds.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wasmtime::{
    Engine, Store,
    component::{Component, InstancePre},
};

use crate::{
    bindings::described::DescribedIndices,
    call::export::Describe,
    error::LoadError,
    host::{state::State, wasi},
    limits::Limits,
    load::{
        code_cache, contract,
        loading_call::{PluginName, call_once},
        settings,
    },
    manifest::{document::Manifest, exports::Exports},
    sandbox::Inner,
};

/// A component that fits the contract, and what it says about itself.
pub(crate) struct CheckedComponent {
    pub(crate) digest: String,
    pub(crate) component: Component,
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Exports,
    pub(crate) described: Vec<u8>,
    pub(crate) manifest: Manifest,
    /// How long compiling took; none for one that was in the cache.
    pub(crate) compiling: Option<Duration>,
}

/// The first part of loading: what depends on the component alone.
pub(crate) async fn prepare(inner: &Arc<Inner>, called: &str, bytes: &[u8]) -> Result<CheckedComponent, LoadError> {
    let limit = inner.limits.component_bytes;
    if bytes.len() > limit {
        return Err(LoadError::TooLarge { size: bytes.len(), limit });
    }
    let digest = code_cache::digest(bytes);
    let cached = inner.cache.get(&inner.engine, &digest);
    let from_cache = cached.is_some();
    let begun = Instant::now();
    let (component, known) = match cached {
        Some(entry) => (entry.component, Some(entry.manifest)),
        None => (compile(&inner.engine, inner, bytes).await?, None),
    };
    let compiling = (!from_cache).then(|| begun.elapsed());

    let exports = contract::check(&inner.engine, &component)?;
    check_limits(&component, &inner.limits)?;
    let mut linker = inner.linker.clone();
    let pre = wasi::link(&mut linker, &inner.engine, &component, false)
        .and_then(|()| linker.instantiate_pre(&component))
        .map_err(|e| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") })?;
    component
        .initialize_copy_on_write_image()
        .map_err(|source| LoadError::Host { what: "mapping the component's memory image", source })?;

    let described = match known {
        Some(bytes) => bytes,
        None => describe(inner, called, &pre).await?,
    };
    let manifest = Manifest::read(&described, exports)?;
    if !from_cache {
        inner.cache.put(&digest, &component, &described);
    }
    Ok(CheckedComponent { digest, component, pre, exports, described, manifest, compiling })
}

/// Compiles a component's file, on a few threads of its own.
pub(crate) async fn compile(engine: &Engine, sandbox: &Inner, bytes: &[u8]) -> Result<Component, LoadError> {
    let not = |what: String| LoadError::NotAComponent { what };
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(not("it is precompiled machine code, which is never taken from users; give the .wasm file".into()));
    }
    match bytes {
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            return Err(not(
                "it is a core module; turn it into a component, as guest-build and wit-component do".into()
            ));
        }
        [0, b'a', b's', b'm', ..] => {}
        _ => return Err(not("it does not begin as WebAssembly does; the file is truncated or something else".into())),
    }
    let (engine, bytes, threads) = (engine.clone(), bytes.to_vec(), sandbox.compile_threads());
    // Threads of its own, a few and gone afterwards: calls that are being served keep the other cores.
    let compiled = tokio::task::spawn_blocking(move || {
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(threads)
            .thread_name(|n| format!("mortise-compiler-{n}"))
            .build()
            .map_err(wasmtime::Error::new)?;
        pool.install(|| Component::from_binary(&engine, &bytes))
    })
    .await;
    match compiled {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(e)) => Err(exceeded_limit(&e, &sandbox.limits).unwrap_or_else(|| not(format!("{e:#}")))),
        Err(_) => Err(not("the compiler gave up on it".into())),
    }
}

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

impl Need {
    /// Refuses a component that needs `n`.
    fn over(self, n: u64, limits: &Limits) -> LoadError {
        let (what, limit, setting) = match self {
            Self::CoreInstances => (format!("{n} core instances"), limits.core_instances, "sandbox.core_instances"),
            Self::Memories => (format!("{n} memories"), limits.memories, "sandbox.memories"),
            Self::Memory => (format!("{n} bytes of memory"), limits.memory_bytes, "sandbox.memory_bytes"),
            Self::Tables => (format!("{n} tables"), limits.tables, "sandbox.tables"),
            Self::TableElements => {
                (format!("a table of {n} elements"), limits.table_elements, "sandbox.table_elements")
            }
        };
        LoadError::ExceedsLimit { what, limit, setting }
    }
}

/// How wasmtime says that a component does not fit into a slot of the pool, which it does after compiling, or that an
/// instance made on demand has too many parts: the words before the number, those after it, and what is meant. It has no
/// type for either.
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

/// Refuses what could not be instantiated anyway, with a better message: without a pool nobody has looked before.
fn check_limits(component: &Component, limits: &Limits) -> Result<(), LoadError> {
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

/// Calls `describe` in an instance of its own.
async fn describe(sandbox: &Inner, called: &str, pre: &InstancePre<State>) -> Result<Vec<u8>, LoadError> {
    let contract = |e: wasmtime::Error| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") };
    let indices = DescribedIndices::new(pre).map_err(contract)?;
    let name = PluginName { plugin: called.into(), version: "(unknown)" };
    let guest = |store: &mut Store<State>, instance| indices.load(store, &instance);
    call_once(sandbox, name, settings::NONE.into(), &sandbox.limits, pre, guest, Describe).await
}

#[cfg(test)]
mod tests;
