//! A controller that does nothing: the cost of the machinery itself.

use mortise_plugin::{Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_noop", "v1", "Thing");

static PLUGIN: Plugin =
    Plugin::new("reconcile-noop", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(&[&Controller::new("noop", THING, Noop)]);
mortise_plugin::export!(PLUGIN: controlling);

struct Noop;

impl Reconciler for Noop {
    type Managed = Thing;

    fn reconcile(&self, _: &Context<'_>, _: &Request<Thing>) -> Result<Outcome, Error> {
        Ok(Outcome::Done)
    }
}
