//! Names that are taken, and tokens that may only read.

use mortise_provider::value::Value;
use mortise_test_guests::Everything;

use super::{EVERYTHING, attached, id_of, socket, summaries, text};
use crate::{
    provider::terraform_core::Core,
    support::{Setup, any, resource, tokens::Guarded},
};

fn foreign(name: &str) -> mortise_resource::pb::Resource {
    resource(id_of(name), Some(any("mortise.test.v1.Everything", &Everything::default())))
}

#[tokio::test]
async fn a_taken_name_is_found_by_the_plan() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("text", text("Mine"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    // Its own resource, which is tainted or replaced: core plans a creation.
    core.plan(EVERYTHING, None, &config).await.unwrap();
    // That of another client.
    server.write(foreign("y")).await.unwrap();
    let taken = core.config(EVERYTHING, "y", &[]);
    let faults = core.plan(EVERYTHING, None, &taken).await.unwrap_err();
    let said = summaries(&faults);
    assert!(said.starts_with("name|a resource of this name already exists|"), "{said}");
    assert!(said.contains("terraform import") && said.contains("default/default/y"), "{said}");
    // It appears between the plan and its application; or the old one still has the name.
    let later = core.config(EVERYTHING, "z", &[]);
    let planned = core.plan(EVERYTHING, None, &later).await.unwrap();
    server.write(foreign("z")).await.unwrap();
    let (faults, state) = core.apply(EVERYTHING, None, &later, &planned).await.unwrap_err();
    let said = summaries(&faults);
    assert!(state.is_null() && said.starts_with("name|a resource of this name already exists|"), "{said}");
    assert!(said.contains("create_before_destroy"), "{said}");
    core.destroy(&made).await.unwrap();
}

#[tokio::test]
async fn a_token_that_may_only_read_plans_where_nothing_changes() {
    let guarded = Guarded::start(Setup::new().guest("every-field")).await;
    guarded.policy("readers", "operator = \"read\"", Vec::new()).await;
    let reader = guarded.token("reader-of-fields", &["readers"], |_| {}).await;
    let mut writing = Core::attach(&socket(&guarded.server)).await;
    writing.configure(&[("token", &guarded.management)]).await.unwrap();
    let config = writing.config(EVERYTHING, "x", &[("text", text("Mine"))]);
    let made = writing.make(EVERYTHING, None, &config).await.unwrap();
    let mut reading = Core::attach(&socket(&guarded.server)).await;
    reading.configure(&[("token", &reader)]).await.unwrap();
    let seen = reading.refresh(&made).await.unwrap().unwrap();
    let planned = reading.plan(EVERYTHING, Some(&seen), &config).await.unwrap();
    assert!(planned.is_no_op(&seen.state) && planned.private == seen.private, "{planned:?}");
    let other = reading.config(EVERYTHING, "x", &[("text", text("Other")), ("yes", Value::Bool(true))]);
    let faults = reading.plan(EVERYTHING, Some(&seen), &other).await.unwrap_err();
    assert!(summaries(&faults).contains("does not allow"), "{faults:?}");
}
