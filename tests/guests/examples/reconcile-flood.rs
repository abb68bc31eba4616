//! A controller that reads its thing endlessly, and ignores the host's answers.

use mortise_plugin::{Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_flood", "v1", "Thing");

static PLUGIN: Plugin =
    Plugin::new("reconcile-flood", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(&[&Controller::new("floods", THING, Floods)]);
mortise_plugin::export!(PLUGIN: controlling);

struct Floods;

impl Reconciler for Floods {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        loop {
            let _ = std::hint::black_box(request.read(ctx));
        }
    }
}
