//! Every way in which a change of one resource wakes another, and an initializer.
//!
//! The controller `things` manages `Thing`, and is woken
//! - by `Part`, with a function of the plugin's: a part affects the thing that its text names, and those in `items`;
//!   the text `confused` makes it fail, `trap` panic;
//! - by `Label`, which affects the thing of its name;
//! - by `Link`, which affects the thing that its field `to` refers to.
//!
//! It writes the status `reconcile-map/things` with the condition `Counted`, whose message is `<parts> <label>
//! <links>`: the count of parts that name the thing in their text, the existence of a label, the count of links to it;
//! all from the cache.
//!
//! The controller `links` manages `Link`, finds links by the labels that they refer to in `also`, and is woken by
//! changes of these. It writes the status `reconcile-map/links` with the condition `Seen`, whose message is the first
//! label's text.
//!
//! The initializer of `things` counts its calls in the value `starts`, and fails while the settings contain the word
//! `unready`.

use mortise_plugin::{
    Condition, Context, Controller, Error, Index, Key, Kind, Mapper, Outcome, Plugin, Reconciler, Request,
    ResourceType, Scope, Status, Typed, Watch, pb, referent, settings,
};
use mortise_test_guests::{DESCRIPTORS, Link, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_map", "v1", "Thing");
const PART: Kind<Thing> = Kind::new("reconcile_map", "v1", "Part");
const LABEL: Kind<Thing> = Kind::new("reconcile_map", "v1", "Label");
const LINK: Kind<Link> = Kind::new("reconcile_map", "v1", "Link");

static PLUGIN: Plugin = Plugin::new(
    "reconcile-map",
    "0.1.0",
    DESCRIPTORS,
    &[
        &ResourceType::of(THING, Scope::Namespace),
        &ResourceType::of(PART, Scope::Namespace),
        &ResourceType::of(LABEL, Scope::Namespace),
        &ResourceType::of(LINK, Scope::Namespace),
    ],
)
.controllers(&[
    &Controller::new("things", THING, Things)
        .watches(&[
            &Watch::new(PART, Mapper::Map(things_of_part)).indexes(&[Index::by_value("thing", "text")]),
            &Watch::new(LABEL, Mapper::SameName),
            &Watch::new(LINK, Mapper::Reference("to")).indexes(&[Index::by_reference("to", "to")]),
        ])
        .initialize(start),
    &Controller::new("links", LINK, Links)
        .indexes(&[Index::by_reference("also", "also")])
        .watches(&[&Watch::new(LABEL, Mapper::Index("also"))]),
]);
mortise_plugin::export!(PLUGIN: controlling, mapping, initializing);

fn things_of_part(_: &Context<'_>, part: &Typed<Thing>) -> Result<Vec<pb::Id>, Error> {
    if part.data.text == "confused" {
        return Err("a confused part belongs nowhere".into());
    }
    assert_ne!(part.data.text, "trap", "the mapper met a trap");
    let tenancy = part.id().tenancy.clone().unwrap_or_default();
    Ok([&part.data.text].into_iter().chain(&part.data.items).map(|name| THING.id(name, &tenancy)).collect())
}

fn start(ctx: &Context<'_>) -> Result<(), Error> {
    let before = ctx.kv().get("starts")?.map(String::from_utf8).transpose()?;
    let before = before.map(|text| text.parse::<u64>()).transpose()?.unwrap_or_default();
    ctx.kv().set("starts", before.saturating_add(1).to_string().as_bytes())?;
    if settings().contains("unready") { Err("not ready".into()) } else { Ok(()) }
}

struct Things;

impl Reconciler for Things {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        let tenancy = thing.id().tenancy.clone().unwrap_or_default();
        // A list matches by prefix.
        let parts = ctx.cache().list(PART, "thing", Key::Value(thing.name()))?;
        let parts = parts.iter().filter(|part| part.data.text == thing.name()).count();
        let label = ctx.cache().get(LABEL, &LABEL.id(thing.name(), &tenancy))?.is_some();
        let links = ctx.cache().list(LINK, "to", Key::Id(thing.id()))?.len();
        let counted = Condition::holds("Counted").message(format!("{parts} {label} {links}"));
        Status::new("reconcile-map/things", &thing).with(counted).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}

struct Links;

impl Reconciler for Links {
    type Managed = Link;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Link>) -> Result<Outcome, Error> {
        let Some(link) = request.read(ctx)? else { return Ok(Outcome::Done) };
        let Some(also) = link.data.also.first() else { return Ok(Outcome::Done) };
        let seen = match ctx.cache().get(LABEL, &referent(also, link.id()))? {
            Some(label) => Condition::holds("Seen").message(label.data.text),
            None => Condition::fails("Seen").reason("Missing"),
        };
        Status::new("reconcile-map/links", &link).with(seen).write_if_changed(ctx, &link)?;
        Ok(Outcome::Done)
    }
}
