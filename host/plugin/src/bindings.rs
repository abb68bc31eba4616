//! Rust bindings generated from `wit/v0.1.0`: one world for each optional interface, so that a component's exports can
//! be looked up one by one. The types are generated once and shared.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; the documentation is in the .wit files")]

/// Imports. Those that may have to wait are async.
pub mod imports {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "imports",
        with: {
            "mortise:plugin/types": crate::bindings::types,
        },
        imports: {
            "mortise:plugin/log.write": trappable,
            "mortise:plugin/authorizer.allowed": trappable,
            "mortise:plugin/config.settings": trappable,
            "mortise:plugin/clock.now": trappable,
            "mortise:plugin/clock.elapsed": trappable,
            "mortise:plugin/run.cancelled": trappable,
            default: async | trappable,
        },
    });
}

/// Generates a module for a world with one exported interface. `bindgen!` refuses a mapping that the world does not
/// use, so each world lists the imports whose types it shares.
macro_rules! export_world {
    ($(#[$doc:meta])* $module:ident, $world:literal, { $($interface:literal => $shared:path),* }) => {
        $(#[$doc])*
        pub mod $module {
            wasmtime::component::bindgen!({
                path: "../../wit/v0.1.0",
                world: $world,
                with: { $($interface: $shared),* },
                exports: { default: async },
            });
        }
    };
}

export_world!(
    /// `describe`.
    described, "described", { "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `mutate`.
    mutates, "mutates", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `validate`.
    validates, "validates", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `read`, `write` and `list`.
    authorizes, "authorizes", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log, "mortise:plugin/authorizer" => crate::bindings::imports::mortise::plugin::authorizer }
);
export_world!(
    /// `upgrade`.
    upgrades, "upgrades", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `check`.
    configures, "configures", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log, "mortise:plugin/config" => crate::bindings::imports::mortise::plugin::config }
);
export_world!(
    /// `reconcile`.
    controls, "controls", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `map`.
    maps, "maps", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `initialize`.
    initializes, "initializes", { "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `plan`.
    plans, "plans", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `move`.
    moves, "moves", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// `import`.
    brings, "brings", { "mortise:plugin/types" => crate::bindings::types, "mortise:plugin/log" => crate::bindings::imports::mortise::plugin::log }
);
export_world!(
    /// Functions.
    computes, "computes", {  }
);

/// Records and variants of the contract.
pub mod types {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        interfaces: "import mortise:plugin/types@0.1.0;",
    });
    pub use mortise::plugin::types::*;
}

pub use authorizes::exports::mortise::plugin::authorizing::Decision;
pub use controls::exports::mortise::plugin::controlling::Outcome;
pub use imports::mortise::plugin::failures::Failure;
pub use types::{Diagnostic, PathStep};
