//! Repeats the value of a field marked with `debug_redact`, wherever a plugin can return text.
//!
//! The label selects the place: `mutate`, `validate` and `deny` refuse with the value; everything is logged. A
//! controller fails with the value, or, for the label `defer`, defers.

use std::time::Duration;

use mortise_plugin::{
    Context, Controller, Decision, Diagnostics, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope,
    Typed, field, log,
};
use mortise_test_guests::{DESCRIPTORS, Safe};

const SAFE: Kind<Safe> = Kind::new("redacted", "v1", "Safe");

static PLUGIN: Plugin = Plugin::new(
    "redacted",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(SAFE, Scope::Namespace).mutate(mutate).validate(validate).authorize_write(write)],
)
.controllers(&[&Controller::new("safes", SAFE, Safes)]);
mortise_plugin::export!(PLUGIN: mutating, validating, authorizing, controlling);

fn says(safe: &Safe) -> String {
    format!("the combination is <{}>", safe.combination)
}

fn mutate(safe: &mut Typed<Safe>) -> Result<(), Diagnostics> {
    log::write(log::Level::Info, &says(&safe.data), &[("combination", &safe.data.combination)]);
    if safe.data.label == "mutate" { Err(Diagnostics::refusal(says(&safe.data))) } else { Ok(()) }
}

fn validate(safe: &Typed<Safe>, _: Option<&Typed<Safe>>, diagnostics: &mut Diagnostics) {
    if safe.data.label == "validate" {
        let said = says(&safe.data);
        diagnostics.error(said.clone()).at(field("codes").key(&safe.data.combination)).detail(said);
    }
}

fn write(safe: &Typed<Safe>) -> Decision {
    if safe.data.label == "deny" { Decision::Deny(says(&safe.data)) } else { Decision::Allow }
}

struct Safes;

impl Reconciler for Safes {
    type Managed = Safe;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Safe>) -> Result<Outcome, Error> {
        let Some(safe) = request.read(ctx)? else { return Ok(Outcome::Done) };
        log::info(&format!("reconciled: {}", says(&safe.data)));
        if safe.data.label == "defer" {
            return Ok(Outcome::Deferred(Duration::from_secs(60), says(&safe.data)));
        }
        Err(says(&safe.data).into())
    }
}
