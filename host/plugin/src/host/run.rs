//! `run`: state of the running reconcile. A hook has none, and is ended if it asks.

use crate::{bindings::imports::mortise::plugin::run::Host, host::state::State};

impl Host for State {
    fn cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(self.begin("run.cancelled")?.cancel.is_cancelled())
    }
}
