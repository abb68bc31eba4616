//! Configuration of engines: alike except for where memories lie, so that code compiled for one runs in the other.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, OptLevel, Strategy, WasmBacktraceDetails,
    component::{HasSelf, Linker},
};

use crate::{
    bindings,
    engine::pool::{self, PoolSize},
    host::state::State,
    limits::Limits,
};

/// An engine with the largest pool that fits this process.
pub(crate) fn hook_engine(limits: &Limits) -> wasmtime::Result<(Engine, PoolSize)> {
    let wanted = PoolSize::wanted(limits);
    let mut size = wanted.within(pool::address_space());
    loop {
        match Engine::new(&config(limits, &size)) {
            Ok(engine) => {
                size.report(&wanted);
                return Ok((engine, size));
            }
            // The system may report fragmented space, or more than there is: reserving it is the only proof.
            Err(e) => size = size.smaller().ok_or(e)?,
        }
    }
}

/// Imports of the contract, for one engine.
pub(crate) fn linker(engine: &Engine) -> wasmtime::Result<Linker<State>> {
    let mut linker = Linker::new(engine);
    bindings::imports::Imports::add_to_linker::<State, HasSelf<State>>(&mut linker, |state| state)?;
    Ok(linker)
}

/// Number that engines share if they can run the same compiled code: it differs between versions of wasmtime, settings
/// and processors.
pub(crate) fn fingerprint(engine: &Engine) -> u64 {
    let mut hasher = DefaultHasher::new();
    engine.precompile_compatibility_hash().hash(&mut hasher);
    hasher.finish()
}

pub(crate) fn config(limits: &Limits, size: &PoolSize) -> Config {
    let mut config = of_code(size.reservation);
    config.allocation_strategy(match size.strategy {
        pool::Strategy::Pooled => InstanceAllocationStrategy::Pooling(size.config(limits)),
        pool::Strategy::OnDemand => InstanceAllocationStrategy::OnDemand,
    });
    config
}

/// The part on which code depends. `reservation` is the address space of one memory, bytes.
pub(crate) fn of_code(reservation: u64) -> Config {
    let mut config = Config::new();
    config
        .strategy(Strategy::Cranelift)
        .cranelift_opt_level(OptLevel::Speed)
        .consume_fuel(true)
        .epoch_interruption(true)
        // Determinism: a hook's answer is a function of its input alone.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .wasm_backtrace_max_frames(std::num::NonZeroUsize::new(32))
        .wasm_backtrace_details(WasmBacktraceDetails::Enable)
        .max_wasm_stack(256 << 10)
        .async_stack_size(pool::GUEST_STACK_BYTES)
        .memory_guard_size(pool::GUARD_BYTES);
    // Both strategies reserve the largest size of a memory at its creation: growth within the limit never fails, so
    // only where memories lie differs, and fuel, limits and answers are the same.
    config.memory_reservation(reservation).memory_may_move(false);
    config
}
