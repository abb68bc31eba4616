//! `wait` and `timeouts`: the end of a wait while others write the resource.

use mortise_provider::{proto::tfplugin6::stop_provider, value::Value};
use mortise_resource::pb;
use mortise_test_guests::Everything;
use tokio::time::timeout;

use super::{EVERYTHING, attached, id_of, list, socket, summaries, text, with};
use crate::{
    provider::terraform_core::{Core, path_of},
    support::{PATIENCE, Server, Setup, any, controllers::read_until, decoded},
};

const NOTHING: Value = Value::Null;

fn wait_for(conditions: &[&str], fields: Value, timeout: &str) -> Value {
    let conditions = conditions.iter().map(|one| text(one)).collect::<Vec<_>>();
    Value::object([("conditions", list(&conditions)), ("fields", fields), ("timeout", text(timeout))])
}

/// Reports a condition for the generation that is stored now, about another resource.
async fn report(server: &Server, name: &str, condition: &str) {
    let stored = server.read(&id_of(name)).await.unwrap();
    let about = pb::Reference {
        r#type: Some(crate::support::gvk("fields.v1.Everything")),
        tenancy: Some(crate::support::tenancy("default", "default")),
        name: "other".into(),
        section: String::new(),
    };
    let condition = pb::Condition {
        r#type: condition.into(),
        state: pb::condition::State::True.into(),
        resource: Some(about),
        ..Default::default()
    };
    let status =
        pb::Status { observed_generation: stored.generation.clone(), conditions: vec![condition], updated_at: None };
    let (id, version) = (stored.id, stored.version);
    let request = pb::WriteStatusRequest { id, version, key: "tests".into(), status: Some(status) };
    server.write_status(request).await.unwrap();
}

/// A controller adds a finalizer and writes metadata, as most do first, and then reports.
#[tokio::test]
async fn a_wait_ends_where_a_controller_writes_the_resource() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let wait = wait_for(&["Ready"], NOTHING, "90s");
    let config = with(core.config(EVERYTHING, "x", &[("text", text("Mine"))]), "wait", wait);
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    let controller = async {
        let mut stored = read_until(&server, &id_of("x"), |_| true).await;
        stored.metadata.insert("finalizers".into(), "tests".into());
        server.write(stored).await.unwrap();
        report(&server, "x", "Ready").await;
    };
    let (made, ()) = tokio::join!(core.apply(EVERYTHING, None, &config, &planned), controller);
    let made = made.unwrap();
    let Value::List(conditions) = made.state.get("status").get("tests").get("conditions") else { panic!("{made:?}") };
    assert_eq!(conditions[0].get("resource"), &text("fields.v1.Everything/default/default/other"));
    assert!(core.plan(EVERYTHING, Some(&made), &config).await.unwrap().is_no_op(&made.state));
}

/// Conditions of another data are not those of the applied one.
#[tokio::test]
async fn a_wait_fails_where_another_client_changes_what_was_applied() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let wait = wait_for(&["Ready"], NOTHING, "90s");
    let config = with(core.config(EVERYTHING, "x", &[("text", text("Mine"))]), "wait", wait);
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    let other = async {
        let mut stored = read_until(&server, &id_of("x"), |_| true).await;
        let data = Everything { text: "other".into(), ..decoded(&stored) };
        stored.data = Some(any("mortise.test.v1.Everything", &data));
        server.write(stored).await.unwrap();
        report(&server, "x", "Ready").await;
    };
    let (made, ()) = tokio::join!(core.apply(EVERYTHING, None, &config, &planned), other);
    let (faults, state) = made.unwrap_err();
    assert!(summaries(&faults).contains("another client changed data.text during the wait"), "{faults:?}");
    assert_eq!(state.get("data").get("text"), &text("Mine"), "what was written is not lost");
}

/// The next update does not overwrite unseen the values that another client wrote during a wait, even if core does not
/// refresh.
#[tokio::test]
async fn a_wait_keeps_the_generation_of_the_data_that_it_returns() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let wait = wait_for(&["Ready"], NOTHING, "90s");
    let config = with(core.config(EVERYTHING, "x", &[("text", text("Mine"))]), "wait", wait);
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    let controller = async {
        let mut stored = read_until(&server, &id_of("x"), |_| true).await;
        let data = Everything { small: 5, ..decoded(&stored) };
        stored.data = Some(any("mortise.test.v1.Everything", &data));
        server.write(stored).await.unwrap();
        report(&server, "x", "Ready").await;
    };
    let (made, ()) = tokio::join!(core.apply(EVERYTHING, None, &config, &planned), controller);
    let made = made.unwrap();
    assert!(made.state.get("status").get("tests") != &NOTHING);
    assert_eq!(made.state.get("data").get("small"), &NOTHING, "as planned");
    let next = core.config(EVERYTHING, "x", &[("text", text("Other"))]);
    let planned = core.plan(EVERYTHING, Some(&made), &next).await.unwrap();
    let (faults, _) = core.apply(EVERYTHING, Some(&made), &next, &planned).await.unwrap_err();
    assert!(summaries(&faults).contains("the resource changed since this was planned"), "{faults:?}");
    let seen = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(seen.state.get("data").get("small"), &crate::provider::rules::number("5"));
}

#[tokio::test]
async fn values_of_fields_are_waited_for() {
    const THING: &str = "mortise_changes_thing";
    let server = Setup::new().guest("changes").start().await;
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let config = |core: &Core, name: &str, path: &str, value: &str, timeout: &str| {
        let fields = Value::object([(path, text(value))]);
        with(core.config(THING, name, &[("text", text("one"))]), "wait", wait_for(&[], fields, timeout))
    };
    for (name, value) in [("a", "seen one"), ("b", "*")] {
        let config = config(&core, name, "data.inner.text", value, "90s");
        let planned = core.plan(THING, None, &config).await.unwrap();
        let made = core.apply(THING, None, &config, &planned).await.unwrap();
        assert_eq!(made.state.get("data").get("inner").get("text"), &text("seen one"));
    }
    let never = config(&core, "c", "data.inner.text", "nothing", "200ms");
    let planned = core.plan(THING, None, &never).await.unwrap();
    let (faults, _) = core.apply(THING, None, &never, &planned).await.unwrap_err();
    assert!(summaries(&faults).contains("these fields had their values: data.inner.text"), "{faults:?}");
    for path in ["data.innner.text", "data.inner", "", "metadata", "data.items[x]"] {
        let wrong = config(&core, "d", path, "x", "1s");
        let faults = core.validate(THING, &wrong).await.unwrap_err();
        assert!(path_of(&faults[0]).starts_with("wait"), "{path}: {faults:?}");
    }
}

#[tokio::test]
async fn the_end_of_a_run_ends_its_waits() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = with(core.config(EVERYTHING, "x", &[]), "wait", wait_for(&["Never"], NOTHING, "1h"));
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    let mut client = core.client.clone();
    let end = async {
        read_until(&server, &id_of("x"), |_| true).await;
        client.stop_provider(stop_provider::Request {}).await.unwrap();
    };
    let both = async { tokio::join!(core.apply(EVERYTHING, None, &config, &planned), end).0 };
    let (faults, state) = timeout(PATIENCE, both).await.expect("no end").unwrap_err();
    assert!(summaries(&faults).contains("the run was stopped before these conditions were true: Never"), "{faults:?}");
    assert_eq!(state.get("id"), &text("default/default/x"), "what was made is not lost");
}

#[tokio::test]
async fn timeouts_are_those_of_the_kind_of_change() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let timeouts = |create: &str, update: &str| {
        Value::object([("create", text(create)), ("update", text(update)), ("delete", NOTHING)])
    };
    let wait = wait_for(&["Never"], NOTHING, "1h");
    let config = with(core.config(EVERYTHING, "x", &[]), "wait", wait);
    let creating = with(config.clone(), "timeouts", timeouts("200ms", "1h"));
    let planned = core.plan(EVERYTHING, None, &creating).await.unwrap();
    let (faults, state) = core.apply(EVERYTHING, None, &creating, &planned).await.unwrap_err();
    assert!(summaries(&faults).contains("these conditions were true: Never"), "{faults:?}");
    let made = crate::provider::terraform_core::Instance { kind: EVERYTHING.into(), state, private: planned.private };
    let updating =
        with(with(config.clone(), "metadata", Value::object([("a", text("b"))])), "timeouts", timeouts("1h", "200ms"));
    let planned = core.plan(EVERYTHING, Some(&made), &updating).await.unwrap();
    core.apply(EVERYTHING, Some(&made), &updating, &planned).await.unwrap_err();
    let wrong = with(config, "timeouts", timeouts("soon", "1s"));
    assert!(path_of(&core.validate(EVERYTHING, &wrong).await.unwrap_err()[0]).starts_with("timeouts"));
}
