//! A slow controller: each reconcile takes the milliseconds in the thing's number, by the clock, or ends when it is
//! cancelled. The status `reconcile-slow/things` has the condition `Finished`: true, or false with the reason
//! `Cancelled`.
//!
//! It computes while it waits, so its fuel may last only half a second.

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope, Status,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_slow", "v1", "Thing");

static PLUGIN: Plugin =
    Plugin::new("reconcile-slow", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(&[&Controller::new("slow", THING, Slow).parallel(4)]);
mortise_plugin::export!(PLUGIN: controlling);

struct Slow;

impl Reconciler for Slow {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        let end = ctx.elapsed().saturating_add(Duration::from_millis(thing.data.number.unsigned_abs()));
        let mut finished = Condition::holds("Finished");
        while ctx.elapsed() < end {
            if ctx.cancelled() {
                finished = Condition::fails("Finished").reason("Cancelled");
                break;
            }
            // Some work between two readings of the clock, whose number is limited.
            for turn in 0..300_000_u32 {
                std::hint::black_box(turn);
            }
        }
        Status::new("reconcile-slow/things", &thing).with(finished).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}
