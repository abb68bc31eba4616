//! Compiles components: in a process that ends afterwards, or on a few threads of this one.
//!
//! # Contract
//! With a [`CompilerProgram`] nothing of the compiler stays in this process, neither its memory nor the pages of the
//! program's file that hold it, and a component that takes too much of either ends the other process alone
//! ([`super::compiler_process`]). Both ways give the same code. It is loaded as it would be from the cache.
//!
//! # Cost
//! Half of the cores, so that served calls keep the others. A process costs some 10 ms more.

use std::thread;

use wasmtime::{Engine, component::Component};

use crate::{
    engine::configuration,
    error::LoadError,
    limits::Limits,
    load::{
        compiler_process::{self, CompilerProgram},
        machine_code::MachineCode,
        needs::exceeded_limit,
    },
};

/// Engine, reservation and limits under which components are compiled.
#[derive(Clone, Copy)]
pub(crate) struct Compiler<'a> {
    pub(crate) engine: &'a Engine,
    /// Address space of one memory in this engine, bytes: a part of what the code depends on.
    pub(crate) reservation: u64,
    pub(crate) limits: &'a Limits,
    /// `None`: this process compiles.
    pub(crate) program: Option<&'a CompilerProgram>,
}

/// A component that is ready for one engine, and its code for others.
pub(crate) struct Compiled {
    pub(crate) component: Component,
    pub(crate) code: MachineCode,
}

/// Part of a refusal of what needs the async ABI, in the validator's words.
const ASYNC_FEATURE: &str = "component model async";

impl Compiler<'_> {
    /// Compiles a component's file.
    pub(crate) async fn compile(&self, bytes: &[u8]) -> Result<Compiled, LoadError> {
        let not = |what: &str| LoadError::NotAComponent { what: what.into() };
        refuse_other_forms(bytes)?;
        let threads = threads(self.limits);
        let code = match self.program {
            Some(program) => compiler_process::compile(program, (self.reservation, threads), bytes).await?,
            None => self.compile_here(bytes, threads).await?,
        };
        match code.load(self.engine) {
            Ok(component) => Ok(Compiled { component, code }),
            Err(e) => {
                let outside = self.outside_of_the_pool(&code);
                Err(exceeded_limit(&e, outside.as_ref(), self.limits).unwrap_or_else(|| not(&format!("{e:#}"))))
            }
        }
    }

    /// The component in an engine without a pool, which takes it however much it needs. Its needs are then read from it.
    fn outside_of_the_pool(&self, code: &MachineCode) -> Option<Component> {
        let engine = Engine::new(&configuration::of_code(self.reservation)).ok()?;
        code.load(&engine).ok()
    }

    /// Compiles in this process.
    async fn compile_here(&self, bytes: &[u8], threads: usize) -> Result<MachineCode, LoadError> {
        let host = |what| move |source: wasmtime::Error| LoadError::Host { what, source };
        let (engine, bytes) = (self.engine.clone(), bytes.to_vec());
        let pool = pool(threads)
            .map_err(|source| host("the compiler's threads cannot be started")(wasmtime::Error::new(source)))?;
        let compiled = tokio::task::spawn_blocking(move || pool.install(|| engine.precompile_component(&bytes))).await;
        match compiled {
            Ok(Ok(code)) => MachineCode::of(&code)
                .map_err(|source| host("keeping compiled code in memory")(wasmtime::Error::new(source))),
            Ok(Err(e)) => {
                let not = || LoadError::NotAComponent { what: with_remedy(format!("{e:#}")) };
                Err(exceeded_limit(&e, None, self.limits).unwrap_or_else(not))
            }
            Err(_) => Err(LoadError::NotAComponent { what: "the compiler panicked; see the log".into() }),
        }
    }
}

/// Refuses bytes that do not begin as a component does.
pub(super) fn refuse_other_forms(bytes: &[u8]) -> Result<(), LoadError> {
    let not = |what: &str| Err(LoadError::NotAComponent { what: what.into() });
    if Engine::detect_precompiled(bytes).is_some() {
        return not("it is precompiled machine code, which is never accepted; use the .wasm file");
    }
    match bytes {
        [0, b'a', b's', b'm', 1, 0, 0, 0, ..] => {
            not("it is a core module; turn it into a component, as guest-build and wit-component do")
        }
        [0, b'a', b's', b'm', ..] => Ok(()),
        _ => not("it does not begin as WebAssembly does; the file is truncated or something else"),
    }
}

/// Adds the next step to the compiler's refusal, where one is known.
pub(super) fn with_remedy(refusal: String) -> String {
    match refusal.contains(ASYNC_FEATURE) {
        true => format!(
            "it uses the async ABI of WASI 0.3, which the contract lacks ({refusal}); build it without async functions: \
             with --sync for componentize-qjs, and without async in the world for other tool chains"
        ),
        false => refusal,
    }
}

/// Threads for one compilation.
pub(super) fn pool(threads: usize) -> Result<rayon::ThreadPool, rayon::ThreadPoolBuildError> {
    rayon::ThreadPoolBuilder::new().num_threads(threads).thread_name(|n| format!("mortise-compiler-{n}")).build()
}

/// Cores that may compile at once.
fn threads(limits: &Limits) -> usize {
    match limits.compile_threads {
        0 => thread::available_parallelism().map_or(1, |cores| cores.get() / 2).max(1),
        threads => threads,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text is the validator's, so a release of it with other words must be noticed.
    #[test]
    fn the_async_abi_is_refused_with_the_next_step() {
        let (mut component, mut canon) =
            (wasm_encoder::Component::new(), wasm_encoder::CanonicalFunctionSection::new());
        canon.backpressure_inc();
        component.section(&canon);
        let refusal = Engine::default().precompile_component(&component.finish()).unwrap_err();
        let refused = with_remedy(format!("{refusal:#}"));
        assert!(refused.contains("build it without async functions: with --sync for componentize-qjs"), "{refused}");
        assert_eq!(with_remedy("it is broken".into()), "it is broken");
    }
}
