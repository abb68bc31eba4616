//! A controller that panics at things with the number 13, and gives all others the status `reconcile-trap/things`.

use mortise_plugin::{
    Condition, Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope, Status,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_trap", "v1", "Thing");

static PLUGIN: Plugin =
    Plugin::new("reconcile-trap", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(&[&Controller::new("traps", THING, Traps)]);
mortise_plugin::export!(PLUGIN: controlling);

struct Traps;

impl Reconciler for Traps {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        assert_ne!(thing.data.number, 13, "reconcile met a trap");
        Status::new("reconcile-trap/things", &thing)
            .with(Condition::holds("Harmless"))
            .write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}
