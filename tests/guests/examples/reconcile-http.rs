//! A controller that fetches the URL in its thing's text: by the method before it, such as `DELETE http://…`, or by GET,
//! or by POST with the items as the lines of the body.
//! The number is the timeout in milliseconds; the inner text, if it is a number, is the count of fetches. The status
//! `reconcile-http/things` has the condition `Fetched`: its reason has the status code, and its message the length and
//! the beginning of the body; or the code and text of the failure.
//!
//! A mutate hook tries the same for things whose name begins with `in-hook`, and writes the outcome into the text.

use std::time::Duration;

use mortise_plugin::{
    Condition, Context, Controller, Error, HttpRequest, Kind, Outcome, Plugin, Reconciler, Request, ResourceType,
    Scope, Status,
};
use mortise_test_guests::{DESCRIPTORS, Thing};

const THING: Kind<Thing> = Kind::new("reconcile_http", "v1", "Thing");

static PLUGIN: Plugin = Plugin::new(
    "reconcile-http",
    "0.1.0",
    DESCRIPTORS,
    &[&ResourceType::of(THING, Scope::Namespace).mutate(|thing| {
        #[cfg(target_arch = "wasm32")]
        if thing.name().starts_with("in-hook") {
            use mortise_plugin::host::{Host as _, Imports};
            thing.data.text = match Imports.http(&request(&thing.data)) {
                Ok(answer) => format!("ESCAPED: {}", answer.status),
                Err(failure) => format!("{} {}", failure.code, failure.message),
            };
        }
        let _ = thing;
        Ok(())
    })],
)
.capabilities(&["http"])
.controllers(&[&Controller::new("fetches", THING, Fetches)]);
mortise_plugin::export!(PLUGIN: mutating, controlling);

struct Fetches;

impl Reconciler for Fetches {
    type Managed = Thing;

    #[allow(clippy::print_stdout, reason = "on WASI it is the log")]
    fn reconcile(&self, ctx: &Context<'_>, thing: &Request<Thing>) -> Result<Outcome, Error> {
        let Some(thing) = thing.read(ctx)? else { return Ok(Outcome::Done) };
        let times = thing.data.inner.as_ref().and_then(|inner| inner.text.parse().ok()).unwrap_or(1_u32);
        for _ in 1..times {
            if let Err(failure) = ctx.http().send(&request(&thing.data)) {
                return Err(failure.message.into());
            }
        }
        let fetched = match ctx.http().send(&request(&thing.data)) {
            Ok(answer) => {
                println!("fetched {}", thing.name());
                let begins: String = answer.text().chars().take(400).collect();
                let text = format!("{} bytes: {begins}", answer.body.len());
                Condition::holds("Fetched").reason(format!("Status{}", answer.status)).message(text)
            }
            Err(failure) => {
                Condition::fails("Fetched").reason(format!("Code{}", failure.code)).message(failure.message)
            }
        };
        Status::new("reconcile-http/things", &thing).with(fetched).write_if_changed(ctx, &thing)?;
        Ok(Outcome::Done)
    }
}

fn request(thing: &Thing) -> HttpRequest {
    let mut request = match thing.text.split_once(' ') {
        Some((method, url)) => HttpRequest::new(method, url),
        None if thing.items.is_empty() => HttpRequest::get(&thing.text),
        None => HttpRequest::post(&thing.text).body(thing.items.join("\n")),
    };
    request = request.header("x-test", "yes");
    match u64::try_from(thing.number) {
        Ok(millis) if millis > 0 => request.timeout(Duration::from_millis(millis)),
        _ => request,
    }
}
