//! A controller that searches parts by their content, and labels them.
//!
//! A thing's text is a filter, and its `items` are key and value of labels that parts must have. The status
//! `reconcile-query/things` has the condition `Found`, whose message is the names of the parts in descending order,
//! separated by commas, or the fault of the query. The first part found gets the label `found.by`, and a change of its
//! data by mask.
//!
//! With the single item `foreign` it asks for artists of the plugin `demo`. Every change of a part wakes all things.

use mortise_plugin::{
    Condition, Context, Controller, Error, Key, Kind, Mapper, Outcome, Plugin, Reconciler, Request, ResourceType,
    Scope, Status, Typed, Watch, everywhere, pb,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_query", "v1", "Thing");
const PART: Kind<Thing> = Kind::new("reconcile_query", "v1", "Part");
/// A type of another plugin, without a grant.
const FOREIGN: Kind<Thing> = Kind::new("demo", "v2", "Artist");

static PLUGIN: Plugin = Plugin::new(
    "reconcile-query",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(THING, Scope::Namespace), &ResourceType::of(PART, Scope::Namespace)],
)
.controllers(&[&Controller::new("asks", THING, Asks).watches(&[&Watch::new(PART, Mapper::Map(everything))])]);
mortise_plugin::export!(PLUGIN: controlling, mapping);

fn everything(ctx: &Context<'_>, _: &Typed<Thing>) -> Result<Vec<pb::Id>, Error> {
    let all = pb::Id { name: String::new(), ..THING.id("", &everywhere()) };
    Ok(ctx.cache().list(THING, "id", Key::Id(&all))?.iter().map(|thing| thing.id().clone()).collect())
}

struct Asks;

impl Reconciler for Asks {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, thing: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = thing.read(ctx)? else { return Ok(Outcome::Done) };
        let of = if thing.data.items == ["foreign"] { FOREIGN } else { PART };
        let mut query = ctx.query(of, &everywhere()).filter(&thing.data.text).order_by("name desc").page_size(2);
        for pair in thing.data.items.chunks(2) {
            if let [key, value] = pair {
                query = query.label(key, value);
            }
        }
        let found = match query.all() {
            Ok(found) => {
                for part in found.iter().filter(|part| part.data.items.is_empty()) {
                    ctx.label(part.id(), "found.by", Some(thing.name()))?;
                    let mut changed = part.clone().without_version();
                    changed.data.items = vec![thing.name().to_owned()];
                    changed.data.text = "not named by the mask".to_owned();
                    ctx.update(&changed, &["data.items"])?;
                }
                let names: Vec<_> = found.iter().map(|part| part.name().to_owned()).collect();
                Condition::holds("Found").message(names.join(","))
            }
            Err(failure) => Condition::fails("Found").reason(format!("Code{}", failure.code)).message(failure.message),
        };
        Status::new("reconcile-query/things", &thing).with(found).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}
