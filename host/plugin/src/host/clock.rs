//! `clock`: the time, for reconcilers. A hook that asks for it is ended, since its answer must not depend on the time.

use crate::{bindings::imports::mortise::plugin::clock::Host, host::state::State};

impl Host for State {
    fn now(&mut self) -> wasmtime::Result<u64> {
        Ok(self.begin("clock.now")?.host.now())
    }

    fn elapsed(&mut self) -> wasmtime::Result<u64> {
        let call_context = self.begin("clock.elapsed")?;
        Ok(u64::try_from(call_context.made.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }
}
