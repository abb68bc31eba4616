//! A controller that wakes itself endlessly. It increments its thing's number each time; with the text `again` it asks
//! to be called again at once instead, and with `anew` it deletes its thing by name and creates it again.

use mortise_plugin::{
    Context, Controller, Error, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope, Typed,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_self", "v1", "Thing");

static PLUGIN: Plugin =
    Plugin::new("reconcile-self", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(&[&Controller::new("restless", THING, Restless)]);
mortise_plugin::export!(PLUGIN: controlling);

struct Restless;

impl Reconciler for Restless {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(mut thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        if thing.data.text == "again" {
            return Ok(Outcome::RequeueNow);
        }
        if thing.data.text == "anew" {
            let mut id = thing.id().clone();
            id.uid.clear();
            ctx.delete(&id)?;
            ctx.write(&Typed::new(id, thing.data))?;
            return Ok(Outcome::Done);
        }
        thing.data.number = thing.data.number.wrapping_add(1);
        ctx.write(&thing)?;
        Ok(Outcome::Done)
    }
}
