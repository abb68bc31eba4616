//! Store of a guest with every limit set, and the classification of calls that broke a limit.
//!
//! # Contract
//! Stores are made here and nowhere else, for hooks and for controllers, so that no limit is forgotten. Fuel and memory
//! end a call by themselves; at each tick a running guest yields to the host, which ends the guest once its time is
//! used up ([`CallTime`]). A call that does not yield is abandoned [`ABANDON_GRACE`] after the bound on its whole time.

use std::{sync::Arc, time::Duration};

use wasmtime::{Engine, Store, Trap, UpdateDeadline};

use crate::{
    error::{HookError, HookFault},
    health::{
        call_time::{Bound, CallTime},
        logs::Logs,
    },
    host::{abort_reason::AbortReason, state::State},
    limits::Limits,
};

/// Time past [`CallTime::until`] after which a call is abandoned, if the guest has not yielded to the host.
pub(crate) const ABANDON_GRACE: Duration = Duration::from_millis(100);

/// Divisor of a call's own time: a late guest that worked for less than limit / `WORK_DIVISOR` waited for the host, and
/// is not blamed.
const WORK_DIVISOR: u32 = 2;

/// Makes a store with every limit set: the only place where one is made.
pub(crate) fn store(
    engine: &Engine,
    logs: &Arc<Logs>,
    plugin: Arc<str>,
    settings: Arc<str>,
    limits: Arc<Limits>,
    time: CallTime,
) -> wasmtime::Result<Store<State>> {
    let state = State::new(plugin, settings, limits.clone(), logs.clone(), time);
    let mut store = Store::new(engine, state);
    store.limiter(|state| state);
    store.set_fuel(limits.fuel)?;
    store.set_hostcall_fuel(limits.reply_bytes.saturating_add(1024));
    store.set_max_component_handles(limits.handles);
    store.set_epoch_deadline(1);
    store.epoch_deadline_callback(|context| {
        let time = &context.data().time;
        if let Some(bound) = time.exceeded() {
            return Err(AbortReason::Late(bound).into());
        }
        time.meter.yields();
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
            AbortReason::Late(bound) => late(*bound, state),
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
        Some(Trap::Interrupt) => return late(state.time.left().1, state),
        Some(Trap::StackOverflow) => return HookFault::Stack,
        Some(trap) => {
            // A guest that was refused memory panics or aborts; the refusal is the cause.
            let (trap, logged) = (trap.to_string(), state.last_error.clone());
            return state.growth_refused.clone().unwrap_or(HookFault::Trap { trap, logged });
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

/// Fault of a call that exceeded this bound on its time.
pub(crate) fn late(bound: Bound, state: &State) -> HookFault {
    let limits = &state.limits;
    match bound {
        Bound::OwnTime => HookFault::Deadline { limit_ms: limits.deadline_ms, setting: limits.deadline_setting() },
        Bound::Delay => {
            let whole = state.time.allowance + limits.max_delay();
            let whole_ms = millis(whole);
            match state.time.is_crowded(whole) {
                true => HookFault::Crowded { whole_ms, setting: limits.deadline_setting() },
                false => HookFault::Starved { whole_ms },
            }
        }
    }
}

fn millis(length: Duration) -> u64 {
    u64::try_from(length.as_millis()).unwrap_or(u64::MAX)
}

/// Keeps a late call from counting against a plugin that spent its time on waits for the host. `worked` is the guest's
/// processor time.
pub(crate) fn excuse_waits(mut error: HookError, worked: Duration, allowance: Duration) -> HookError {
    if worked < allowance / WORK_DIVISOR && matches!(error.fault, HookFault::Deadline { .. }) {
        error.counts = false;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_late_call_that_waited_for_the_host_is_not_blamed() {
        let late = |worked| {
            let fault = HookFault::Deadline { limit_ms: 200, setting: "sandbox.deadline_ms" };
            let error = HookError { plugin: "p".into(), version: "1".into(), hook: "validate", fault, counts: true };
            excuse_waits(error, Duration::from_millis(worked), Duration::from_millis(200)).counts
        };
        assert_eq!([5, 66, 99, 100, 200].map(late), [false, false, false, true, true]);
    }
}
