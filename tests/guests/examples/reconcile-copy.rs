//! An honest controller that uses every feature: each `Thing` owns exactly one `Copy` called `<name>-copy` with its
//! text and number; a status `reconcile-copy/things` with the condition `Copied` on the thing; a finalizer
//! `reconcile-copy/release`, removed once the copies are gone; and a count of the copies written, decimal, in the
//! plugin's value `copies/<namespace>/<name>`.

use mortise_plugin::{
    Condition, Context, Controller, DeletionState, Error, Finalizer, Kind, Mapper, Outcome, Plugin, Reconciler,
    Request, ResourceType, Scope, Status, Typed, Watch, pb, reference_to,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_copy", "v1", "Thing");
const COPY: Kind<Thing> = Kind::new("reconcile_copy", "v1", "Copy");
const RELEASE: Finalizer = Finalizer::new("reconcile-copy/release");

static PLUGIN: Plugin = Plugin::new(
    "reconcile-copy",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(THING, Scope::Namespace), &ResourceType::of(COPY, Scope::Namespace)],
)
.controllers(&[&Controller::new("copies", THING, Copies).watches(&[&Watch::new(COPY, Mapper::Owner)])]);
mortise_plugin::export!(PLUGIN: controlling);

struct Copies;

impl Reconciler for Copies {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(mut thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        if RELEASE.guard(ctx, &mut thing, |thing| clean_up(ctx, thing))? == DeletionState::CleanedUp {
            return Ok(Outcome::Done);
        }
        let wanted = copy_of(&thing);
        let mut found = false;
        for copy in ctx.owned(COPY, thing.id())? {
            if copy.name() != wanted.name() {
                ctx.delete(copy.id())?;
            } else if copy.data == wanted.data {
                found = true;
            }
        }
        if !found {
            ctx.write(&wanted)?;
            count(ctx, thing.id())?;
        }
        let copied = Condition::holds("Copied").reason("Written").about(reference_to(wanted.id()));
        Status::new("reconcile-copy/things", &thing).with(copied).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}

fn copy_of(thing: &Typed<Thing>) -> Typed<Thing> {
    let id = COPY.id(format!("{}-copy", thing.name()), &thing.id().tenancy.clone().unwrap_or_default());
    Typed::new(id, thing.data.clone()).owned_by(thing.id())
}

fn clean_up(ctx: &Context<'_>, thing: &Typed<Thing>) -> Result<(), Error> {
    for copy in ctx.owned(COPY, thing.id())? {
        ctx.delete(copy.id())?;
    }
    Ok(ctx.kv().remove(&counter(thing.id()))?)
}

fn count(ctx: &Context<'_>, id: &pb::Id) -> Result<(), Error> {
    let key = counter(id);
    let before = match ctx.kv().get(&key)? {
        Some(value) => String::from_utf8(value)?.parse::<u64>()?,
        None => 0,
    };
    Ok(ctx.kv().set(&key, before.saturating_add(1).to_string().as_bytes())?)
}

fn counter(id: &pb::Id) -> String {
    let namespace = id.tenancy.as_ref().map_or("", |tenancy| tenancy.namespace.as_str());
    format!("copies/{namespace}/{}", id.name)
}
