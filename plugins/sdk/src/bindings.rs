//! The generated bindings, and the adapter between them and [`crate::raw::Guest`].
//!
//! One WIT world for each interface: a component says what it exports in custom sections, and each world's section sits
//! in its own `export!`, so that only what is exported is declared. Types and the log are generated once and shared.
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

use std::marker::PhantomData;

use mortise_resource::{PathStep, pb};

use crate::{Decision, Diagnostic, Diagnostics, Outcome, Severity, controller::millis, log::Level, panic, raw::Guest};

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

use authorizes::exports::mortise::plugin::authorizing;
use controls::exports::mortise::plugin::controlling;
use mutates::{exports::mortise::plugin::mutating, mortise::plugin::types};

/// Implements the generated traits for whatever implements [`Guest`].
pub struct Adapter<G>(PhantomData<G>);

impl<G: Guest> described::exports::mortise::plugin::plugin::Guest for Adapter<G> {
    fn describe() -> Vec<u8> {
        panic::report();
        G::describe()
    }
}

impl<G: Guest> mutating::Guest for Adapter<G> {
    fn mutate(input: Vec<u8>) -> Result<Option<Vec<u8>>, Vec<types::Diagnostic>> {
        panic::report();
        G::mutate(input).map_err(diagnostics)
    }
}

impl<G: Guest> validates::exports::mortise::plugin::validating::Guest for Adapter<G> {
    fn validate(input: Vec<u8>, prior: Option<Vec<u8>>) -> Vec<types::Diagnostic> {
        panic::report();
        diagnostics(G::validate(input, prior))
    }
}

impl<G: Guest> authorizing::Guest for Adapter<G> {
    fn read(id: Vec<u8>, stored: Option<Vec<u8>>) -> authorizing::Decision {
        panic::report();
        decision(G::read(id, stored))
    }

    fn write(input: Vec<u8>) -> authorizing::Decision {
        panic::report();
        decision(G::write(input))
    }

    fn list(of: types::TypeName, tenancy: types::Tenancy) -> authorizing::Decision {
        panic::report();
        let types::TypeName { group, group_version, kind } = of;
        let types::Tenancy { partition, namespace } = tenancy;
        decision(G::list(pb::Type { group, group_version, kind }, pb::Tenancy { partition, namespace }))
    }
}

impl<G: Guest> upgrades::exports::mortise::plugin::upgrading::Guest for Adapter<G> {
    fn upgrade(of: types::TypeName, since: u32, data: Vec<u8>) -> Result<Vec<u8>, Vec<types::Diagnostic>> {
        panic::report();
        let types::TypeName { group, group_version, kind } = of;
        G::upgrade(pb::Type { group, group_version, kind }, since, data).map_err(diagnostics)
    }
}

impl<G: Guest> configures::exports::mortise::plugin::configuring::Guest for Adapter<G> {
    fn check(settings: String) -> Vec<types::Diagnostic> {
        panic::report();
        diagnostics(G::check(settings))
    }
}

impl<G: Guest> controlling::Guest for Adapter<G> {
    fn reconcile(controller: String, id: Vec<u8>) -> Result<controlling::Outcome, String> {
        panic::report();
        Ok(match G::reconcile(controller, id)? {
            Outcome::Done => controlling::Outcome::Done,
            Outcome::RequeueNow => controlling::Outcome::RequeueNow,
            Outcome::RequeueAfter(time) => controlling::Outcome::RequeueAfter(millis(time)),
            Outcome::Deferred(time, reason) => controlling::Outcome::Deferred((millis(time), reason)),
        })
    }
}

impl<G: Guest> maps::exports::mortise::plugin::mapping::Guest for Adapter<G> {
    fn map(controller: String, changed: Vec<u8>) -> Result<Vec<Vec<u8>>, String> {
        panic::report();
        G::map(controller, changed)
    }
}

impl<G: Guest> initializes::exports::mortise::plugin::initializing::Guest for Adapter<G> {
    fn initialize(controller: String) -> Result<(), String> {
        panic::report();
        G::initialize(controller)
    }
}

pub(crate) fn settings() -> String {
    configured::mortise::plugin::config::settings()
}

pub(crate) fn log(level: Level, message: &str, fields: &[(&str, &str)]) {
    let fields = fields.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect::<Vec<_>>();
    described::mortise::plugin::log::write(level as u8, message, &fields);
}

pub(crate) fn allowed(permission: &str, name: &str) -> bool {
    authorizes::mortise::plugin::authorizer::allowed(permission, name)
}

fn decision(decision: Decision) -> authorizing::Decision {
    match decision {
        Decision::Allow => authorizing::Decision::Allow,
        Decision::Deny(reason) => authorizing::Decision::Deny(reason),
        Decision::NeedResource => authorizing::Decision::NeedResource,
    }
}

fn diagnostics(diagnostics: Diagnostics) -> Vec<types::Diagnostic> {
    diagnostics.into_iter().map(diagnostic).collect()
}

fn diagnostic(Diagnostic { severity, path, summary, detail }: Diagnostic) -> types::Diagnostic {
    let step = |step| match step {
        PathStep::Field(name) => types::PathStep::Field(name),
        PathStep::Index(index) => types::PathStep::Index(index),
        PathStep::Key(key) => types::PathStep::Key(key),
    };
    let severity = if severity == Severity::Warning { 2 } else { 1 };
    types::Diagnostic { severity, path: path.0.into_iter().map(step).collect(), summary, detail }
}
