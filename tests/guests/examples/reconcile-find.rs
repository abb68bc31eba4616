//! A controller that looks up parts in its cache, by every kind of index by values.
//!
//! A thing names an index in its text and, in `items`, the lookup (`prefix`, `exact` or `first`) and the value. The
//! status `reconcile-find/things` has the condition `Found`; its message is the names of the parts, separated by
//! commas. The indexes are `name`, `metadata` and `text`, and each of them within the tenancy, with `-here` at its end.
//!
//! Every change of a part wakes all things.

use mortise_plugin::{
    Condition, Context, Controller, Error, Index, Key, Kind, Mapper, Outcome, Plugin, Reconciler, Request,
    ResourceType, Scope, Status, Typed, Watch, everywhere, pb,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_find", "v1", "Thing");
const PART: Kind<Thing> = Kind::new("reconcile_find", "v1", "Part");

static PLUGIN: Plugin = Plugin::new(
    "reconcile-find",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(THING, Scope::Namespace), &ResourceType::of(PART, Scope::Namespace)],
)
.controllers(&[&Controller::new("finds", THING, Finds).watches(&[&Watch::new(PART, Mapper::Map(everything))
    .indexes(&[
        Index::by_name("name"),
        Index::by_name("name-here").in_tenancy(),
        Index::by_metadata("metadata"),
        Index::by_metadata("metadata-here").in_tenancy(),
        Index::by_value("text", "text"),
        Index::by_value("text-here", "text").in_tenancy(),
    ])])]);
mortise_plugin::export!(PLUGIN: controlling, mapping);

fn everything(ctx: &Context<'_>, _: &Typed<Thing>) -> Result<Vec<pb::Id>, Error> {
    let all = pb::Id { name: String::new(), ..THING.id("", &everywhere()) };
    Ok(ctx.cache().list(THING, "id", Key::Id(&all))?.iter().map(|thing| thing.id().clone()).collect())
}

struct Finds;

impl Reconciler for Finds {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, thing: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = thing.read(ctx)? else { return Ok(Outcome::Done) };
        let [how, what] = thing.data.items.as_slice() else { return Ok(Outcome::Done) };
        let (cache, index) = (ctx.cache(), thing.data.text.as_str());
        let found = match how.as_str() {
            "prefix" => cache.list(PART, index, Key::Value(what))?,
            "exact" => cache.list(PART, index, Key::Exact(what))?,
            _ => cache.first(PART, index, Key::Exact(what))?.into_iter().collect(),
        };
        let names: Vec<_> = found.iter().map(|part| part.name().to_owned()).collect();
        let found = Condition::holds("Found").message(names.join(","));
        Status::new("reconcile-find/things", &thing).with(found).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}
