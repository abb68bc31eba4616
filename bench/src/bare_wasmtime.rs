//! The hooks of a plugin called through wasmtime's interface alone: an engine with pooled instances, without Mortise
//! around it. No fuel, no deadline, no limit, no log.

use wasmtime::{
    Config, Engine, InstanceAllocationStrategy, PoolingAllocationConfig, Store,
    component::{Component, HasSelf, Linker},
};

use crate::{
    Outcome,
    bare_wasmtime::bindings::{Hooks, HooksPre, mortise::plugin},
};

#[allow(missing_docs, unreachable_pub, clippy::all, reason = "generated")]
mod bindings {
    wasmtime::component::bindgen!({
        path: "../wit/v0.1.0",
        inline: "
            package mortise:bench;
            world hooks {
                import mortise:plugin/log@0.1.0;
                import mortise:plugin/authorizer@0.1.0;
                export mortise:plugin/mutating@0.1.0;
                export mortise:plugin/validating@0.1.0;
                export mortise:plugin/authorizing@0.1.0;
            }
        ",
    });
}

/// State of a store: empty.
struct Nothing;

impl plugin::log::Host for Nothing {
    fn write(&mut self, _: u8, _: String, _: Vec<(String, String)>) {}
}

impl plugin::authorizer::Host for Nothing {
    fn allowed(&mut self, _: String, _: String) -> bool {
        true
    }
}

impl plugin::types::Host for Nothing {}

/// A component, ready to be instantiated.
pub(crate) struct BarePlugin {
    engine: Engine,
    pre: HooksPre<Nothing>,
}

impl BarePlugin {
    /// Compiles a component.
    pub(crate) fn load(component: &[u8]) -> Outcome<Self> {
        let mut pool = PoolingAllocationConfig::default();
        // As in Mortise's own engine: an instance is cleared by overwriting.
        pool.total_component_instances(128).linear_memory_keep_resident(256 << 10).table_keep_resident(64 << 10);
        let mut config = Config::new();
        config.allocation_strategy(InstanceAllocationStrategy::Pooling(pool));
        let engine = Engine::new(&config)?;
        let mut linker = Linker::new(&engine);
        Hooks::add_to_linker::<Nothing, HasSelf<Nothing>>(&mut linker, |nothing| nothing)?;
        let pre = HooksPre::new(linker.instantiate_pre(&Component::from_binary(&engine, component)?)?)?;
        Ok(Self { engine, pre })
    }

    /// Makes an instance and calls the hooks of a write in it; without a resource, no hooks.
    pub(crate) fn write(&self, resource: Option<&Vec<u8>>) -> Outcome<()> {
        let mut store = Store::new(&self.engine, Nothing);
        let hooks = self.pre.instantiate(&mut store)?;
        let Some(resource) = resource else { return Ok(()) };
        hooks.mortise_plugin_mutating().call_mutate(&mut store, resource)?.map_err(|_| "mutate refused")?;
        if !hooks.mortise_plugin_validating().call_validate(&mut store, resource, None)?.is_empty() {
            return Err("validate found a fault".into());
        }
        match hooks.mortise_plugin_authorizing().call_write(&mut store, resource)? {
            bindings::exports::mortise::plugin::authorizing::Decision::Allow => Ok(()),
            _ => Err("authorize refused".into()),
        }
    }
}
