//! An instance of a component, and the only way to call an export in it.
//!
//! # Contract
//! Every guest is instantiated and called here: for a hook, for a controller, and while a plugin is loaded. Its time is
//! measured and bounded ([`CallTime`](crate::health::call_time::CallTime)), and a call that ends without an answer is
//! classified. An instance may be entered again only after a call that ended well; a trap, a limit, a reply that breaks
//! the contract, or a dropped future leaves it dead.
//!
//! # Cost
//! Beyond the guest's own work: a timer, and two reads of the thread's clock if the guest pauses.

use std::{sync::Arc, time::Duration};

use tokio::time::{error::Elapsed, timeout_at};
use wasmtime::{
    Store,
    component::{self, InstancePre},
};

use crate::{
    call::export::Export,
    engine::store::{ABANDON_GRACE, classify, late},
    error::HookFault,
    health::call_time::Meter,
    host::state::State,
};

/// An instance of a component, with the functions `G` that its exports need.
pub(crate) struct Instance<G> {
    store: Store<State>,
    guest: G,
    dead: bool,
    /// Fuel left before the last call, units.
    fuel: u64,
}

/// Failure of a call that ended without an answer.
pub(crate) struct CallFailure {
    pub(crate) fault: HookFault,
    /// Error of wasmtime, with the guest's backtrace; `None` for a call that the host abandoned.
    pub(crate) cause: Option<wasmtime::Error>,
}

impl<G> Instance<G> {
    /// Instantiates a component in `store`, within the time of the store's call, and looks its functions up.
    pub(crate) async fn open(
        mut store: Store<State>,
        component: &InstancePre<State>,
        guest: impl FnOnce(&mut Store<State>, component::Instance) -> wasmtime::Result<G>,
    ) -> Result<Self, CallFailure> {
        let (meter, until) = time(&store);
        let instantiated = meter.measure(timeout_at(until, component.instantiate_async(&mut store))).await;
        let instance = call_outcome(instantiated, &store)?;
        let guest = guest(&mut store, instance);
        let guest = call_outcome(Ok(guest), &store)?;
        Ok(Self { store, guest, dead: false, fuel: 0 })
    }

    /// Calls an export. Also answers the thread's processor time since the guest's first pause.
    pub(crate) async fn call<E: Export<Guest = G>>(&mut self, export: E) -> (Result<E::Reply, CallFailure>, Duration) {
        self.fuel = self.store.get_fuel().unwrap_or(0);
        self.dead = true;
        let state = self.store.data_mut();
        state.hook = E::NAME;
        state.growth_refused = None;
        state.last_error.clear();
        let (meter, until) = time(&self.store);
        let before = meter.worked();
        let outcome = meter.measure(timeout_at(until, export.call(&self.guest, &mut self.store))).await;
        let reply = call_outcome(outcome, &self.store);
        self.dead = reply.is_err();
        (reply, meter.worked().saturating_sub(before))
    }

    /// Whether a call left the instance in a state that must not be entered again.
    pub(crate) fn is_dead(&self) -> bool {
        self.dead
    }

    /// Gives the next call `fuel` units, and a whole tick before it first yields to the host.
    pub(crate) fn refuel(&mut self, fuel: u64) {
        // Cannot fail: every engine counts fuel.
        self.dead |= self.store.set_fuel(fuel).is_err();
        self.store.set_epoch_deadline(1);
    }

    /// Fuel that the last call used, units.
    pub(crate) fn spent(&self) -> u64 {
        self.fuel.saturating_sub(self.store.get_fuel().unwrap_or(0))
    }

    pub(crate) fn state(&self) -> &State {
        self.store.data()
    }

    pub(crate) fn state_mut(&mut self) -> &mut State {
        self.store.data_mut()
    }
}

/// Measure of the time of the store's call, and the time at which the call is abandoned.
fn time(store: &Store<State>) -> (Arc<Meter>, tokio::time::Instant) {
    let time = &store.data().time;
    (time.meter.clone(), (time.until + ABANDON_GRACE).into())
}

/// Answer of a finished call, or the fault that ended it.
fn call_outcome<R>(outcome: Result<wasmtime::Result<R>, Elapsed>, store: &Store<State>) -> Result<R, CallFailure> {
    match outcome {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(e)) => Err(CallFailure { fault: classify(&e, store.data()), cause: Some(e) }),
        Err(_) => Err(CallFailure { fault: late(store.data().time.left().1, store.data()), cause: None }),
    }
}
