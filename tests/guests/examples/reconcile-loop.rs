//! A controller that never returns: burns fuel.

use mortise_plugin::{Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_loop", "v1", "Thing");

static PLUGIN: Plugin =
    Plugin::new("reconcile-loop", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(&[&Controller::new("loops", THING, Loops)]);
mortise_plugin::export!(PLUGIN: controlling);

struct Loops;

impl Reconciler for Loops {
    type Managed = Thing;

    fn reconcile(&self, _: &Context<'_>, _: &Request<Thing>) -> Result<Outcome, Error> {
        let mut turns = 0_u64;
        loop {
            turns = std::hint::black_box(turns.wrapping_add(1));
        }
    }
}
