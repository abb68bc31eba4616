//! Compiles components, on a few threads that end afterwards: served calls keep the other cores.
//!
//! The compiler frees what it used, but its data lies between the parts of the component that stay. So the component is
//! loaded again from its code, as it would be from the cache, and the freed memory is given back to the system:
//! otherwise a server that has compiled two small plugins keeps some 45 MiB more than one that found them in the cache.

use std::thread;

use wasmtime::{Engine, component::Component};

use crate::{
    error::LoadError,
    limits::Limits,
    load::{code_cache::move_to_engine, needs::exceeded_limit},
};

/// Compiles a component's file. `give_back` gives freed memory to the system.
pub(crate) async fn compile(
    engine: &Engine,
    limits: &Limits,
    bytes: &[u8],
    give_back: Option<fn()>,
) -> Result<Component, LoadError> {
    let not = |what: String| LoadError::NotAComponent { what };
    if Engine::detect_precompiled(bytes).is_some() {
        return Err(not("it is precompiled machine code, which is never accepted; use the .wasm file".into()));
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
    let (engine, bytes, threads) = (engine.clone(), bytes.to_vec(), threads(limits));
    let pool = rayon::ThreadPoolBuilder::new()
        .num_threads(threads)
        .thread_name(|n| format!("mortise-compiler-{n}"))
        .build()
        .map_err(|source| LoadError::Host {
            what: "the compiler's threads cannot be started",
            source: source.into(),
        })?;
    let compiled = tokio::task::spawn_blocking(move || {
        let compiled = pool.install(|| Component::from_binary(&engine, &bytes))?;
        drop((pool, bytes));
        let component = move_to_engine(&compiled, &engine).unwrap_or_else(|| compiled.clone());
        drop(compiled);
        if let Some(give_back) = give_back {
            give_back();
        }
        Ok(component)
    })
    .await;
    match compiled {
        Ok(Ok(component)) => Ok(component),
        Ok(Err(e)) => Err(exceeded_limit(&e, limits).unwrap_or_else(|| not(format!("{e:#}")))),
        Err(_) => Err(not("the compiler panicked; see the log".into())),
    }
}

/// Cores that may compile at once.
fn threads(limits: &Limits) -> usize {
    match limits.compile_threads {
        0 => thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1),
        threads => threads,
    }
}
