//! `run`: the reconcile that is under way. There is none in a hook, and one that asks is ended.

use crate::{bindings::imports::mortise::plugin::run::Host, host::state::State};

impl Host for State {
    fn cancelled(&mut self) -> wasmtime::Result<bool> {
        Ok(self.begin("run.cancelled")?.cancel.is_cancelled())
    }
}
