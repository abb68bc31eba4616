//! `clock`: the time, for reconcilers. A hook that asks for it is ended, since its answer must not depend on the time.
//!
//! `elapsed` is the time for which the process ran: where `now` has moved further, the process was stopped, the machine
//! slept, or its clock was set forward.

use crate::{bindings::imports::mortise::plugin::clock::Host, host::state::State};

impl Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.begin("clock.now")?.host.now())
    }

    fn elapsed(&mut self) -> wasmtime::Result<u64> {
        self.begin("clock.elapsed")?;
        Ok(u64::try_from(mortise_clock::ran().as_nanos()).unwrap_or(u64::MAX))
    }
}
