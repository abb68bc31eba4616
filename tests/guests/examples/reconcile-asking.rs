//! Asks for the directory `out` and nothing else. For each thing, it writes the file `<name>.txt` into the directory
//! that the thing's text names; the status `reconcile-asking/things` has the condition `Written`, with the host's error
//! text on failure.

use mortise_plugin::{
    Condition, Context, Controller, Error, GrantRequest, Kind, Outcome, Plugin, Reconciler, Request, ResourceType,
    Scope, Status,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_asking", "v1", "Thing");

static PLUGIN: Plugin =
    Plugin::new("reconcile-asking", "0.1.0", DESCRIPTORS, &[&ResourceType::of(THING, Scope::Namespace)])
        .requests(&[GrantRequest::directory("out", "files go there")])
        .controllers(&[&Controller::new("files", THING, InFiles)]);
mortise_plugin::export!(PLUGIN: controlling);

struct InFiles;

impl Reconciler for InFiles {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, request: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = request.read(ctx)? else { return Ok(Outcome::Done) };
        let file = format!("{}.txt", request.name());
        let written = match ctx.files(&thing.data.text).write_if_changed(&file, b"x") {
            Ok(_) => Condition::holds("Written"),
            Err(failure) => {
                Condition::fails("Written").reason(format!("Code{}", failure.code)).message(failure.message)
            }
        };
        Status::new("reconcile-asking/things", &thing).with(written).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}
