//! Generated bindings, and calls of the imports that every plugin may use.
//!
//! One WIT world for each interface: a component declares its exports in custom sections, and each world's section is
//! in its own `export!`, so that only actual exports are declared. Types and the log are generated once and shared.
#![allow(
    missing_docs,
    unreachable_pub,
    unsafe_code,
    clippy::all,
    clippy::pedantic,
    clippy::undocumented_unsafe_blocks,
    reason = "what wit-bindgen generates: loads, stores and frees by the canonical ABI"
)]

pub mod http;
pub mod imports;

pub mod described {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "described",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
    });
}

pub mod mutates {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "mutates",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: { "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log },
    });
}

pub mod validates {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "validates",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod authorizes {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "authorizes",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod upgrades {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "upgrades",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod configured {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "configured",
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
    });
}

pub mod configures {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "configures",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
            "mortise:plugin/config@0.1.0": crate::bindings::configured::mortise::plugin::config,
        },
    });
}

pub mod controls {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "controls",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod maps {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "maps",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod initializes {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "initializes",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
        },
    });
}

pub mod plans {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "plans",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod moves {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "moves",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod brings {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "brings",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
        with: {
            "mortise:plugin/log@0.1.0": crate::bindings::described::mortise::plugin::log,
            "mortise:plugin/types@0.1.0": crate::bindings::mutates::mortise::plugin::types,
        },
    });
}

pub mod computes {
    wit_bindgen::generate!({
        path: "../../wit/v0.1.0",
        world: "computes",
        pub_export_macro: true,
        runtime_path: "::mortise_plugin::wit_bindgen::rt",
    });
}

pub(crate) fn settings() -> String {
    configured::mortise::plugin::config::settings()
}

pub(crate) fn log(level: u8, message: &str, fields: &[(&str, &str)]) {
    let fields = fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>();
    described::mortise::plugin::log::write(level, message, &fields);
}

pub(crate) fn allowed(permission: &str, name: &str) -> bool {
    authorizes::mortise::plugin::authorizer::allowed(permission, name)
}
