//! A controller that connects to the host in its thing's text, at the port in its number, within the milliseconds in
//! the inner text (1,000 by default). The status `reconcile-tcp/things` has the condition `Connected`: its message is
//! the time in microseconds; on failure its reason is the code and its message the text.
//!
//! Its manifest asks for every host and port. A mutate hook tries the same for things whose name begins with `in-hook`,
//! and writes the outcome into the text.

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, GrantRequest, Kind, Outcome, Plugin, Reconciler, Request, ResourceType,
    Scope, Status,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_tcp", "v1", "Thing");

static PLUGIN: Plugin = Plugin::new(
    "reconcile-tcp",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(THING, Scope::Namespace).mutate(|thing| {
        #[cfg(target_arch = "wasm32")]
        if thing.name().starts_with("in-hook") {
            use mortise_plugin::host::{Host as _, Imports};
            let (host, port, timeout) = target(&thing.data);
            thing.data.text = match Imports.tcp_connect(&host, port, timeout.subsec_millis()) {
                Ok(took) => format!("ESCAPED: {took}"),
                Err(failure) => format!("{} {}", failure.code, failure.message),
            };
        }
        let _ = thing;
        Ok(())
    })],
)
.capabilities(&["tcp"])
.requests(&[GrantRequest::tcp("*", "connects to where things say")])
.controllers(&[&Controller::new("connects", THING, Connects).parallel(64)]);
mortise_plugin::export!(PLUGIN: mutating, controlling);

struct Connects;

impl Reconciler for Connects {
    type Managed = Thing;

    fn reconcile(&self, ctx: &Context<'_>, thing: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = thing.read(ctx)? else { return Ok(Outcome::Done) };
        // Once is enough: writing a status wakes the controller.
        if thing.status_under("reconcile-tcp/things").is_some() {
            return Ok(Outcome::Done);
        }
        let (host, port, timeout) = target(&thing.data);
        let connected = match ctx.tcp().connect(&host, port, timeout) {
            Ok(took) => Condition::holds("Connected").message(took.as_micros().to_string()),
            Err(failure) => {
                Condition::fails("Connected").reason(format!("Code{}", failure.code)).message(failure.message)
            }
        };
        Status::new("reconcile-tcp/things", &thing).with(connected).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}

fn target(thing: &Thing) -> (String, u16, Duration) {
    let millis = thing.inner.as_ref().and_then(|inner| inner.text.parse().ok()).unwrap_or(1_000);
    (thing.text.clone(), u16::try_from(thing.number).unwrap_or_default(), Duration::from_millis(millis))
}
