//! A controller that uses a type of another plugin: it reads the artist (`demo.v2.Artist`) with the thing's name, and
//! writes one called `<name>-foreign`. The status `reconcile-foreign/things` has the conditions `Read` and `Wrote`,
//! with the host's code and text of a refusal, and the reason `Missing` if the artist does not exist. With the text
//! `list` it lists every artist, and the resources that the thing owns, instead; the conditions are `Listed` and
//! `Owned`.

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope,
    Status, Typed,
};
use mortise_test_guests::{DESCRIPTORS, Thing, proto::hashicorp::consul::internal::demo::v2::Artist};

const THING: Kind<Thing> = Kind::new("reconcile_foreign", "v1", "Thing");
const ARTIST: Kind<Artist> = Kind::new("demo", "v2", "Artist");

static PLUGIN: Plugin =
    Plugin::new("reconcile-foreign", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .controllers(&[&Controller::new("meddles", THING, Meddles)]);
mortise_plugin::export!(PLUGIN: controlling);

struct Meddles;

impl Reconciler for Meddles {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        let tenancy = thing.id().tenancy.clone().unwrap_or_default();
        if thing.data.text == "list" {
            let of = |name, count: Result<usize, Failure>| match count {
                Ok(count) => Condition::holds(name).message(count.to_string()),
                Err(failure) => refused(name, failure),
            };
            let listed = of("Listed", ctx.list(ARTIST, &tenancy, "").map(|found| found.len()));
            let owned = of("Owned", ctx.list_by_owner(thing.id()).map(|found| found.len()));
            Status::new("reconcile-foreign/things", &thing).with(listed).with(owned).write_if_changed(ctx, &thing)?;
            return Ok(Outcome::Done);
        }
        let read = match ctx.read::<Artist>(&ARTIST.id(thing.name(), &tenancy)) {
            Ok(Some(artist)) => Condition::holds("Read").message(artist.data.name),
            Ok(None) => Condition::fails("Read").reason("Missing"),
            Err(failure) => refused("Read", failure),
        };
        let data = Artist { name: thing.data.text.clone(), ..Artist::default() };
        let wrote = match ctx.write(&Typed::new(ARTIST.id(format!("{}-foreign", thing.name()), &tenancy), data)) {
            Ok(_) => Condition::holds("Wrote"),
            Err(failure) => refused("Wrote", failure),
        };
        Status::new("reconcile-foreign/things", &thing).with(read).with(wrote).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}

fn refused(what: &str, failure: Failure) -> Condition {
    Condition::fails(what).reason(format!("Code{}", failure.code)).message(failure.message)
}
