//! A controller that always fails with an error text.

use mortise_plugin::{Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_fail", "v1", "Thing");

static PLUGIN: Plugin =
    Plugin::new("reconcile-fail", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(&[&Controller::new("fails", THING, Fails)]);
mortise_plugin::export!(PLUGIN: controlling);

struct Fails;

impl Reconciler for Fails {
    type Managed = Thing;

    fn reconcile(&self, _: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        Err(format!("{} cannot be helped", request.name()).into())
    }
}
