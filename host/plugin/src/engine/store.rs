//! Store of a guest with every limit set, and the classification of calls that broke a limit.
//!
//! # Contract
//! Stores are made here and nowhere else, for hooks and for controllers, so that no limit is forgotten. Fuel and memory
//! end a call by themselves; at each tick a running guest yields to the host, which ends it past its deadline. A call
//! that does not yield in time is abandoned [`ABANDON_GRACE`] later.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use wasmtime::{Engine, Store, Trap, UpdateDeadline};

use crate::{
    error::{HookError, HookFault},
    health::logs::Logs,
    host::{abort_reason::AbortReason, state::State},
    limits::Limits,
};

/// Time past its deadline after which a call is abandoned, if the guest has not yielded to the host.
pub(crate) const ABANDON_GRACE: Duration = Duration::from_millis(100);

/// Divisor of a call's time limit: a call that ran for less than limit / `STARVATION_DIVISOR` was kept from its work by
/// others, and is not blamed for being late.
const STARVATION_DIVISOR: u32 = 2;

/// Makes a store with every limit set: the only place where one is made.
pub(crate) fn store(
    engine: &Engine,
    logs: &Arc<Logs>,
    plugin: Arc<str>,
    settings: Arc<str>,
    limits: Arc<Limits>,
    within: Duration,
) -> wasmtime::Result<Store<State>> {
    let state = State::new(plugin, settings, limits.clone(), logs.clone(), within);
    let mut store = Store::new(engine, state);
    store.limiter(|state| state);
    store.set_fuel(limits.fuel)?;
    store.set_hostcall_fuel(limits.reply_bytes.saturating_add(1024));
    store.set_max_component_handles(limits.handles);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|context| {
        if Instant::now() >= context.data().deadline {
            return Err(AbortReason::Deadline.into());
        }
        Ok(UpdateDeadline::Yield(1))
    });
    Ok(store)
}

/// Fault that ended a failed call.
pub(crate) fn classify(error: &wasmtime::Error, state: &State) -> HookFault {
    if let Some(fault) = error.downcast_ref::<HookFault>() {
        return fault.clone();
    }
    let limits = &state.limits;
    if let Some(exceeded) = error.downcast_ref::<AbortReason>() {
        return match exceeded {
            AbortReason::Deadline => HookFault::timed_out(limits),
            AbortReason::HostCalls => {
                HookFault::HostCalls { limit: limits.host_calls, setting: limits.host_calls_setting() }
            }
            AbortReason::OnlyReconcilers { what } => {
                HookFault::Answer(format!("it called {what}, which only reconcilers may call"))
            }
            AbortReason::Exit { status } => HookFault::Exit { status: *status },
            AbortReason::Random { limit } => {
                HookFault::Answer(format!("it asked for more than {limit} random bytes at once"))
            }
        };
    }
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => return HookFault::Fuel { limit: limits.fuel, setting: limits.fuel_setting() },
        Some(Trap::Interrupt) => return HookFault::timed_out(limits),
        Some(Trap::StackOverflow) => return HookFault::Stack,
        Some(trap) => {
            // A guest that was refused memory panics or aborts; the refusal is the cause.
            return state.growth_refused.clone().unwrap_or_else(|| HookFault::Trap(trap.to_string()));
        }
        None => {}
    }
    if error.is::<wasmtime::PoolConcurrencyLimitError>() {
        return HookFault::Host(format!("{error:#}"));
    }
    let text = format!("{error:#}");
    // Wasmtime has no type for this error.
    if text.contains("fuel allocated for hostcalls") {
        return HookFault::Reply { limit: limits.reply_bytes };
    }
    // Nor for this one: a call of an import in an instance without imports.
    if let Some((import, _)) = text.split_once("unknown import: `").and_then(|(_, rest)| rest.split_once('`')) {
        return HookFault::Answer(format!("it called {import}, and functions have no imports"));
    }
    // Nor for this one.
    if text.contains("store handle limit exceeded") {
        return HookFault::Handles { limit: limits.handles };
    }
    HookFault::Answer(text)
}

/// Whether a call was kept from its work by others: it ran for too small a part of its time limit.
pub(crate) fn was_starved(ran: Duration, within: Duration) -> bool {
    ran < within / STARVATION_DIVISOR
}

/// Keeps a late call from counting against a plugin that got its turn late.
pub(crate) fn excuse_if_starved(mut error: HookError, starved: bool) -> HookError {
    if starved && matches!(error.fault, HookFault::Deadline { .. }) {
        error.counts = false;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A call gets a share of a core on a busy machine. A call that ran for a third of its time would have been in time
    /// alone.
    #[test]
    fn late_for_want_of_a_core_is_no_fault() {
        let within = Duration::from_millis(200);
        let late = |ran| {
            let fault = HookFault::timed_out(&Limits::default());
            let error = HookError { plugin: "p".into(), version: "1".into(), hook: "validate", fault, counts: true };
            excuse_if_starved(error, was_starved(Duration::from_millis(ran), within)).counts
        };
        assert_eq!([5, 66, 99, 100, 200].map(late), [false, false, false, true, true]);
    }
}
