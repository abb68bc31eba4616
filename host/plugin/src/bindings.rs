//! The Rust side of `wit/v0.1.0`, generated: one world for each optional interface, so that a component's exports can
//! be looked up one by one. The types are generated once and shared.
#![allow(missing_docs, unreachable_pub, clippy::all, reason = "generated; the documentation stands in the .wit files")]

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

/// `describe`.
pub mod described {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "described",
        with: {
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `mutate`.
pub mod mutates {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "mutates",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `validate`.
pub mod validates {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "validates",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `read`, `write` and `list`.
pub mod authorizes {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "authorizes",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
            "mortise:plugin/authorizer": crate::bindings::imports::mortise::plugin::authorizer,
        },
        exports: { default: async },
    });
}

/// `upgrade`.
pub mod upgrades {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "upgrades",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `check`.
pub mod configures {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "configures",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
            "mortise:plugin/config": crate::bindings::imports::mortise::plugin::config,
        },
        exports: { default: async },
    });
}

/// `reconcile`.
pub mod controls {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "controls",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `map`.
pub mod maps {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "maps",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `initialize`.
pub mod initializes {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "initializes",
        with: {
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `plan`.
pub mod plans {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "plans",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `move`.
pub mod moves {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "moves",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// `import`.
pub mod brings {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "brings",
        with: {
            "mortise:plugin/types": crate::bindings::types,
            "mortise:plugin/log": crate::bindings::imports::mortise::plugin::log,
        },
        exports: { default: async },
    });
}

/// Functions.
pub mod computes {
    wasmtime::component::bindgen!({
        path: "../../wit/v0.1.0",
        world: "computes",
        exports: { default: async },
    });
}

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
