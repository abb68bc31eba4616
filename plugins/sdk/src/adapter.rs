//! The adapter between the generated bindings and [`crate::raw::Guest`].

use std::{marker::PhantomData, time::Duration};

use mortise_resource::{FieldPath, PathStep, pb};

use crate::{
    authorize::Decision,
    bindings::{
        authorizes::exports::mortise::plugin::authorizing,
        brings::exports::mortise::plugin::importing,
        computes::exports::mortise::plugin::functions,
        configures,
        controls::exports::mortise::plugin::controlling,
        described, initializes, maps,
        moves::exports::mortise::plugin::moving,
        mutates::{exports::mortise::plugin::mutating, mortise::plugin::types},
        plans::exports::mortise::plugin::planning,
        upgrades, validates,
    },
    diagnostics::{Diagnostic, Diagnostics, Severity},
    function::FunctionFault,
    panic,
    raw::{Guest, NewResource},
    reconcile::Outcome,
};

/// Implements the generated traits for every [`Guest`].
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
        decision(G::list(type_name(of), tenancy_of(tenancy)))
    }
}

impl<G: Guest> upgrades::exports::mortise::plugin::upgrading::Guest for Adapter<G> {
    fn upgrade(of: types::TypeName, since: u32, data: Vec<u8>) -> Result<Vec<u8>, Vec<types::Diagnostic>> {
        panic::report();
        G::upgrade(type_name(of), since, data).map_err(diagnostics)
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

impl<G: Guest> planning::Guest for Adapter<G> {
    fn plan(input: Vec<u8>, prior: Option<Vec<u8>>, kept: Option<Vec<u8>>) -> planning::Expectation {
        panic::report();
        let plan = G::plan(input, prior, kept);
        planning::Expectation {
            predicted: plan.predicted,
            replace: plan.replace.into_iter().map(path).collect(),
            diagnostics: diagnostics(plan.diagnostics),
        }
    }
}

impl<G: Guest> moving::Guest for Adapter<G> {
    fn move_to(
        source: Vec<u8>,
        since: u32,
        to: types::TypeName,
        kept: Option<Vec<u8>>,
    ) -> Result<moving::Moved, Vec<types::Diagnostic>> {
        panic::report();
        let NewResource { resource, kept } = G::move_to(source, since, type_name(to), kept).map_err(diagnostics)?;
        Ok(moving::Moved { made: resource, kept })
    }
}

impl<G: Guest> importing::Guest for Adapter<G> {
    fn import(
        of: types::TypeName,
        within: types::Tenancy,
        external_id: String,
    ) -> Result<importing::Imported, Vec<types::Diagnostic>> {
        panic::report();
        let imported = G::import(type_name(of), tenancy_of(within), external_id);
        let NewResource { resource, kept } = imported.map_err(diagnostics)?;
        Ok(importing::Imported { made: resource, kept })
    }
}

impl<G: Guest> functions::Guest for Adapter<G> {
    /// Calls a function. Panics are not reported: the log is an import, which would end the call before the trap.
    fn call(name: String, arguments: Vec<Vec<u8>>) -> Result<Vec<u8>, functions::FunctionFault> {
        let fault = |FunctionFault { argument, text }| functions::FunctionFault { argument, text };
        G::call(name, arguments).map_err(fault)
    }
}

fn type_name(types::TypeName { group, group_version, kind }: types::TypeName) -> pb::Type {
    pb::Type { group, group_version, kind }
}

fn tenancy_of(types::Tenancy { partition, namespace }: types::Tenancy) -> pb::Tenancy {
    pb::Tenancy { partition, namespace }
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

fn diagnostic(Diagnostic { severity, path: at, summary, detail }: Diagnostic) -> types::Diagnostic {
    let severity = if severity == Severity::Warning { 2 } else { 1 };
    types::Diagnostic { severity, path: path(at), summary, detail }
}

fn path(path: FieldPath) -> Vec<types::PathStep> {
    let step = |step| match step {
        PathStep::Field(name) => types::PathStep::Field(name),
        PathStep::Index(index) => types::PathStep::Index(index),
        PathStep::Key(key) => types::PathStep::Key(key),
    };
    path.0.into_iter().map(step).collect()
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}
