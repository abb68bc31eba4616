//! A controller that needs grants: for each thing, the file `<name>.txt` in the directory `out` holds its text and, in
//! a second line, the secret `token`; a deleted thing's file is removed. Refuses to work if the clock is before 2020 or
//! runs backwards. The status `reconcile-files/things` has the condition `Written`, with the host's error text on
//! failure.

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, Failure, Kind, Outcome, Plugin, Reconciler, Request, ResourceType, Scope,
    Status, Typed,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_files", "v1", "Thing");

/// The beginning of 2020.
const EPOCH: Duration = Duration::from_secs(1_577_836_800);

static PLUGIN: Plugin =
    Plugin::new("reconcile-files", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .capabilities(&["files", "secrets", "clock"])
        .controllers(&[&Controller::new("files", THING, InFiles)]);
mortise_plugin::export!(PLUGIN: controlling);

struct InFiles;

impl Reconciler for InFiles {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let began = ctx.elapsed();
        let Some(thing) = request.read(ctx)? else {
            ctx.files("out").remove(&file_of(request.name()))?;
            return Ok(Outcome::Done);
        };
        let written = match write(ctx, &thing) {
            Ok(()) => Condition::holds("Written"),
            Err(failure) => {
                Condition::fails("Written").reason(format!("Code{}", failure.code)).message(failure.message)
            }
        };
        Status::new("reconcile-files/things", &thing).with(written).write_if_changed(ctx, &thing)?;
        if ctx.now() < EPOCH || ctx.elapsed() < began {
            return Err("the clock is wrong".into());
        }
        Ok(Outcome::Done)
    }
}

fn write(ctx: &Context<'_>, thing: &Typed<Thing>) -> Result<(), Failure> {
    let mut content = format!("{}\n", thing.data.text).into_bytes();
    content.extend(ctx.secret("token")?);
    ctx.files("out").write_if_changed(&file_of(thing.name()), &content).map(drop)
}

fn file_of(thing: &str) -> String {
    format!("{thing}.txt")
}
