//! `authorizer`: permissions of the current request's caller. Outside of an authorize hook every permission is refused.

use crate::{bindings::imports::mortise::plugin::authorizer::Host, host::state::State};

impl Host for State {
    fn allowed(&mut self, permission: String, name: String) -> wasmtime::Result<bool> {
        self.count_host_call()?;
        let allowed = self.caller.as_ref().is_some_and(|caller| caller.is_allowed(&permission, &name));
        if !allowed {
            self.refused = Some((permission, name));
        }
        Ok(allowed)
    }
}
