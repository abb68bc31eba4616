//! The most controllers that a plugin may have, all doing nothing: the cost of idle ones.

use mortise_plugin::{Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_sixteen", "v1", "Thing");

macro_rules! controllers {
    ($($name:literal)+) => { &[$(&Controller::new($name, THING, Nothing)),+] };
}

static PLUGIN: Plugin =
    Plugin::new("reconcile-sixteen", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(controllers!("a" "b" "c" "d" "e" "f" "g" "h" "i" "j" "k" "l" "m" "n" "o" "p"));
mortise_plugin::export!(PLUGIN: controlling);

struct Nothing;

impl Reconciler for Nothing {
    type Managed = Thing;

    fn reconcile(&self, _: &Context<'_>, _: &Request<Thing>) -> Result<Outcome, Error> {
        Ok(Outcome::Done)
    }
}
