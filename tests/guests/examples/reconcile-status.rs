//! Does one write for each reconcile: the status `reconcile-status/seen` of things with a new generation. Things of the
//! type `One` are reconciled one at a time, those of `Few` 16 at once, those of `Many` 64 at once.

use mortise_plugin::{
    Condition, Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope, Status,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const ONE: Kind<Thing> = Kind::new("reconcile_status", "v1", "One");
const FEW: Kind<Thing> = Kind::new("reconcile_status", "v1", "Few");
const MANY: Kind<Thing> = Kind::new("reconcile_status", "v1", "Many");

static PLUGIN: Plugin = Plugin::new(
    "reconcile-status",
    "0.1.0",
    DESCRIPTORS,
    &[
        &ResourceType::of(ONE, Scope::Namespace),
        &ResourceType::of(FEW, Scope::Namespace),
        &ResourceType::of(MANY, Scope::Namespace),
    ],
)
.controllers(&[
    &Controller::new("one", ONE, Seen).parallel(1),
    &Controller::new("few", FEW, Seen).parallel(16),
    &Controller::new("many", MANY, Seen).parallel(64),
]);
mortise_plugin::export!(PLUGIN: controlling);

struct Seen;

impl Reconciler for Seen {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        Status::new("reconcile-status/seen", &thing).with(Condition::holds("Seen")).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}
