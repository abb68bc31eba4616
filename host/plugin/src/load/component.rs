//! First part of loading: checks that depend on the component alone, and not on its settings.
//!
//! # Contract
//! The file is parsed whole, compiled or taken from the cache or from another machine, compared with the contract and
//! with the host's limits, and `describe` is called once for each digest, under limits. Plugins that serve already are
//! not touched.
//!
//! # Cost
//! Compiling: some 200 to 400 ms for a plugin of the SDK, on half of the cores. From the cache a few milliseconds.

use std::time::{Duration, Instant};

use wasmtime::{Store, component::InstancePre};

use crate::{
    bindings::described::DescribedIndices,
    call::export::Describe,
    error::LoadError,
    host::{state::State, wasi},
    load::{
        code_cache,
        compile::Compiled,
        contract,
        loading_call::{PluginName, call_once},
        needs::check_limits,
        settings,
    },
    manifest::{document::Manifest, exports::Exports},
    sandbox::Inner,
};

/// A component that fits the contract, and its manifest.
pub(crate) struct CheckedComponent {
    pub(crate) digest: String,
    pub(crate) compiled: Compiled,
    pub(crate) pre: InstancePre<State>,
    pub(crate) exports: Exports,
    pub(crate) described: Vec<u8>,
    pub(crate) manifest: Manifest,
    /// Time of compiling; `None` if the code was in the cache, or came from another machine.
    pub(crate) compiling: Option<Duration>,
}

/// Does the first part of loading. `called` is the plugin's name in errors until the manifest is known.
pub(crate) async fn check_component(inner: &Inner, called: &str, bytes: &[u8]) -> Result<CheckedComponent, LoadError> {
    let limit = inner.limits.component_bytes;
    if bytes.len() > limit {
        return Err(LoadError::TooLarge { size: bytes.len(), limit });
    }
    let digest = code_cache::digest(bytes);
    let cached = inner.cache.get(&inner.engine, &digest);
    let from_cache = cached.is_some();
    let begun = Instant::now();
    let (mut compiling, mut is_brought) = (None, false);
    let (compiled, known) = match cached {
        Some(entry) => (entry.compiled, Some(entry.manifest)),
        None => {
            let code = inner.code.as_ref();
            let brought =
                code.and_then(|code| code.find(&inner.engine, (&digest, bytes.len()), inner.pool.reservation));
            let compiled = match brought {
                Some(compiled) => {
                    is_brought = true;
                    compiled
                }
                None => {
                    let compiled = inner.compiler().compile(bytes).await?;
                    compiling = Some(begun.elapsed());
                    compiled
                }
            };
            (compiled, None)
        }
    };
    let component = &compiled.component;

    check_limits(component, &inner.limits)?;
    let exports = contract::check(&inner.engine, component)?;
    let mut linker = inner.linker.clone();
    let pre = wasi::link::link(&mut linker, &inner.engine, component, false)
        .and_then(|()| linker.instantiate_pre(component))
        .map_err(|e| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") })?;
    component
        .initialize_copy_on_write_image()
        .map_err(|source| LoadError::Host { what: "mapping the component's memory image", source })?;

    let described = match known {
        Some(bytes) => bytes,
        None => describe(inner, called, &pre).await?,
    };
    let manifest = Manifest::read(&described, exports)?;
    // Code of another machine counts as long as its signer does, so it is verified at each load.
    if !from_cache && !is_brought {
        inner.cache.put(&digest, &compiled.code, &described);
    }
    Ok(CheckedComponent { digest, compiled, pre, exports, described, manifest, compiling })
}

/// Calls `describe` in an instance of its own.
async fn describe(sandbox: &Inner, called: &str, pre: &InstancePre<State>) -> Result<Vec<u8>, LoadError> {
    let contract = |e: wasmtime::Error| LoadError::Contract { version: contract::VERSION, what: format!("{e:#}") };
    let indices = DescribedIndices::new(pre).map_err(contract)?;
    let name = PluginName { plugin: called.into(), version: "(unknown)" };
    let guest = |store: &mut Store<State>, instance| indices.load(store, &instance);
    call_once(sandbox, name, settings::EMPTY_SETTINGS.into(), &sandbox.limits, pre, guest, Describe).await
}
