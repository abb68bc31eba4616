//! A component for its functions: it is linked to nothing, so that any import it calls ends the call.

use wasmtime::component::{Component, InstancePre, Linker};

use crate::host::state::State;

/// Links a component whose imports all end the call.
pub(crate) fn without_imports(component: &Component) -> wasmtime::Result<InstancePre<State>> {
    let mut linker = Linker::new(component.engine());
    linker.define_unknown_imports_as_traps(component)?;
    linker.instantiate_pre(component)
}
