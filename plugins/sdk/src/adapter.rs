//! The adapter between the generated bindings and [`crate::raw::Guest`].

use std::{marker::PhantomData, time::Duration};

use mortise_resource::{PathStep, pb};

use crate::{
    authorize::Decision,
    bindings::{
        authorizes::exports::mortise::plugin::authorizing,
        configures,
        controls::exports::mortise::plugin::controlling,
        described, initializes, maps,
        mutates::{exports::mortise::plugin::mutating, mortise::plugin::types},
        upgrades, validates,
    },
    diagnostics::{Diagnostic, Diagnostics, Severity},
    panic,
    raw::Guest,
    reconcile::Outcome,
};

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

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
