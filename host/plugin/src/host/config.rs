//! `config`: the plugin's own settings. `describe` gets none, since its answer must depend on the component alone.

use crate::{bindings::imports::mortise::plugin::config::Host, host::state::State};

impl Host for State {
    fn settings(&mut self) -> wasmtime::Result<String> {
        self.count_host_call()?;
        Ok(self.settings.to_string())
    }
}
