//! Resources over their life: plans, changes, drift, ends, upgrades.

use mortise_provider::{proto::tfplugin6::RawState, value::Value};

use super::{EVERYTHING, attached, everything, id_of, list, number, part, socket, summaries, text, with};
use crate::{
    provider::terraform_core::{Core, check_applied, path_of, state_json},
    support::{Setup, controllers::read_until, id, plugins::Plugins as _, until},
};

#[tokio::test]
async fn every_kind_of_field_settles_whatever_its_spelling() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let all = everything();
    let whole = core.config(EVERYTHING, "whole", &all);
    let made = core.make(EVERYTHING, None, &whole).await.unwrap();
    assert_eq!(made.state.get("data").get("text"), &text("UPPER Lower"), "the user's spelling");
    assert_eq!(made.state.get("data").get("port"), &number("80"), "the server's default");
    assert_eq!(made.state.get("id"), &text("default/default/whole"));
    // Each field alone, then removed, then set again.
    let mut fields = 0;
    for (position, (field, value)) in all.iter().enumerate() {
        let name = format!("f-{position}");
        let with = core.config(EVERYTHING, &name, &[(field, value.clone())]);
        let made = core.make(EVERYTHING, None, &with).await.unwrap_or_else(|faults| panic!("{field}: {faults:?}"));
        let without = core.config(EVERYTHING, &name, &[]);
        let made = core.make(EVERYTHING, Some(&made), &without).await.unwrap();
        core.make(EVERYTHING, Some(&made), &with).await.unwrap();
        fields += 1;
    }
    assert_eq!(fields, 36);
    // An imported resource settles at the second apply at the latest.
    let imported = core.import(EVERYTHING, "whole").await.unwrap();
    core.make(EVERYTHING, Some(&imported), &whole).await.unwrap();
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn unknown_values_are_planned_and_known_at_apply() {
    let (_server, mut core) = attached().await;
    core.configure(&[("namespace", "default")]).await.unwrap();
    let parts = list(&[part("one", Value::unknown()), part("two", number("3"))]);
    for (field, unknown, known) in [
        ("text", Value::unknown(), text("NOW")),
        ("parts", Value::unknown(), list(&[part("x", Value::Null)])),
        ("parts", parts, list(&[part("one", number("2")), part("two", number("3"))])),
        ("labels", Value::object([("a", Value::unknown())]), Value::object([("a", text("x"))])),
        ("by_name", Value::object([("a", Value::unknown())]), Value::object([("a", part("x", Value::Null))])),
        ("one", Value::unknown(), text("x")),
    ] {
        let config = core.config(EVERYTHING, "later", &[(field, unknown), ("yes", Value::Bool(true))]);
        let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
        let config = core.config(EVERYTHING, "later", &[(field, known), ("yes", Value::Bool(true))]);
        let last = core.plan(EVERYTHING, None, &config).await.unwrap();
        check_applied(&planned.state, &last.state);
        let made = core.apply(EVERYTHING, None, &config, &last).await.unwrap();
        check_applied(&planned.state, &made.state);
        core.destroy(&made).await.unwrap();
    }
}

#[tokio::test]
async fn changes_of_immutable_fields_make_another_resource() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("fixed_name", text("a"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let other = core.config(EVERYTHING, "x", &[("fixed_name", text("b"))]);
    assert_eq!(core.plan(EVERYTHING, Some(&made), &other).await.unwrap().replace, ["data.fixed_name"]);
    let renamed = core.config(EVERYTHING, "y", &[("fixed_name", text("a"))]);
    assert_eq!(core.plan(EVERYTHING, Some(&made), &renamed).await.unwrap().replace, ["name"]);
    let same = core.config(EVERYTHING, "x", &[("fixed_name", text("a")), ("yes", Value::Bool(true))]);
    assert_eq!(core.plan(EVERYTHING, Some(&made), &same).await.unwrap().replace, [""; 0]);
}

#[tokio::test]
async fn changes_by_others_are_drift_or_refused() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("text", text("Mine"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    // Changed between the plan and its application.
    let wanted = core.config(EVERYTHING, "x", &[("text", text("Next"))]);
    let planned = core.plan(EVERYTHING, Some(&made), &wanted).await.unwrap();
    let mut stored = server.read(&id_of("x")).await.unwrap();
    stored.metadata.insert("by".into(), "somebody".into());
    server.write(stored).await.unwrap();
    let (faults, state) = core.apply(EVERYTHING, Some(&made), &wanted, &planned).await.unwrap_err();
    assert!(summaries(&faults).contains("the resource changed since this was planned"), "{faults:?}");
    assert_eq!(state, made.state, "core keeps what it had");
    // The change is seen, and undone.
    let seen = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(seen.state.get("metadata"), &Value::object([("by", text("somebody"))]));
    let next = core.make(EVERYTHING, Some(&seen), &wanted).await.unwrap();
    // Deleted, and created again under the same name.
    server.delete(&id_of("x"), "").await.unwrap();
    assert!(core.refresh(&next).await.unwrap().is_none());
    let planned = core.plan(EVERYTHING, Some(&next), &config).await.unwrap();
    let (faults, _) = core.apply(EVERYTHING, Some(&next), &config, &planned).await.unwrap_err();
    assert!(summaries(&faults).contains("the resource was deleted since this was planned"), "{faults:?}");
    core.make(EVERYTHING, None, &config).await.unwrap();
    core.destroy(&next).await.unwrap();
    assert!(server.read(&id_of("x")).await.is_ok(), "another uid is not deleted");
}

#[tokio::test]
async fn a_destroyed_resource_waits_for_its_finalizers() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let mut config = core.config(EVERYTHING, "held", &[]);
    let wait = Value::object([("conditions", list(&[])), ("fields", Value::Null), ("timeout", text("3s"))]);
    if let Value::Map(parts) = &mut config {
        parts.insert("wait".into(), wait);
    }
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let mut stored = server.read(&id_of("held")).await.unwrap();
    stored.metadata.insert("finalizers".into(), "cleaner".into());
    let stored = server.write(stored).await.unwrap();
    let made = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(made.state.get("metadata"), &Value::Null, "finalizers are the server's");
    let other = with(config, "metadata", Value::object([("a", text("b"))]));
    let made = core.make(EVERYTHING, Some(&made), &other).await.unwrap();
    assert_eq!(server.read(&id_of("held")).await.unwrap().metadata["finalizers"], "cleaner", "an update keeps them");
    let (warned, _) = core.plan_destroy(&made).await.unwrap();
    assert_eq!(summaries(&warned), "", "finalizers that controllers remove in time");
    let (faults, state) = core.destroy(&made).await.unwrap_err();
    assert!(summaries(&faults).contains("have removed these finalizers: cleaner"), "{faults:?}");
    assert_eq!(state, made.state, "it is still there");
    let freeing = async {
        // During the wait of the deletion; before, there would be nothing to wait for.
        let is_marked = |seen: &mortise_resource::pb::Resource| seen.metadata.contains_key("deletionTimestamp");
        let mut marked = read_until(&server, &id_of("held"), is_marked).await;
        assert_eq!(marked.id.as_ref().unwrap().uid, stored.id.as_ref().unwrap().uid);
        marked.metadata.insert("finalizers".into(), String::new());
        server.write(marked).await.unwrap();
    };
    let (destroyed, ()) = tokio::join!(core.destroy(&made), freeing);
    destroyed.unwrap();
}

#[tokio::test]
async fn conditions_are_waited_for() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let mut config = core.config(EVERYTHING, "ready", &[]);
    let wait_for = |config: &mut Value, timeout: &str| {
        let wait = Value::object([
            ("conditions", list(&[text("Ready")])),
            ("fields", Value::Null),
            ("timeout", text(timeout)),
        ]);
        let Value::Map(parts) = config else { panic!("{config:?}") };
        parts.insert("wait".into(), wait);
    };
    wait_for(&mut config, "500ms");
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    let (faults, state) = core.apply(EVERYTHING, None, &config, &planned).await.unwrap_err();
    assert_eq!(path_of(&faults[0]), "wait");
    assert!(faults[0].summary.contains("the timeout passed before these conditions were true: Ready"), "{faults:?}");
    assert_eq!(state.get("id"), &text("default/default/ready"), "what was made is not lost");
    let stored = server.read(&id_of("ready")).await.unwrap();
    server.delete(&id_of("ready"), "").await.unwrap();
    assert_eq!(state.get("uid"), &text(&stored.id.unwrap().uid));
    wait_for(&mut config, "30s");
    let telling = async {
        let stored = read_until(&server, &id_of("ready"), |_| true).await;
        let condition = mortise_resource::pb::Condition {
            r#type: "Ready".into(),
            state: mortise_resource::pb::condition::State::True.into(),
            ..Default::default()
        };
        let status = mortise_resource::pb::Status {
            observed_generation: stored.generation.clone(),
            conditions: vec![condition],
            updated_at: None,
        };
        let request = mortise_resource::pb::WriteStatusRequest {
            id: stored.id,
            version: stored.version,
            key: "tests".into(),
            status: Some(status),
        };
        server.write_status(request).await.unwrap();
    };
    let (made, ()) = tokio::join!(core.make(EVERYTHING, None, &config), telling);
    let status = made.unwrap().state.get("status").get("tests").clone();
    assert!(matches!(status.get("conditions"), Value::List(found) if found.len() == 1), "{status:?}");
}

#[tokio::test]
async fn a_place_may_be_made_by_the_same_run() {
    const NAMESPACE: &str = "mortise_tenancy_namespace";
    let (_server, mut core) = attached().await;
    core.configure(&[("namespace", "team")]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("text", text("X"))]);
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    assert!(planned.warnings.len() == 1 && planned.warnings[0].summary.contains("when this is applied"), "{planned:?}");
    assert_eq!(planned.state.get("namespace"), &text("team"));
    let (faults, state) = core.apply(EVERYTHING, None, &config, &planned).await.unwrap_err();
    assert!(state.is_null() && summaries(&faults).contains("namespace not found: team"), "{faults:?}");
    let namespace = core.config(NAMESPACE, "team", &[]);
    let namespace = core.make(NAMESPACE, None, &namespace).await.unwrap();
    assert_eq!(namespace.state.get("id"), &text("default/team"));
    let last = core.plan(EVERYTHING, None, &config).await.unwrap();
    check_applied(&planned.state, &last.state);
    core.apply(EVERYTHING, None, &config, &last).await.unwrap();
    // The server keeps a namespace until it is empty; destroy waits for that.
    core.destroy(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_type_that_is_upgraded_between_runs_keeps_its_resources() {
    const KIND: &str = "mortise_schema_thing";
    let component = |name| std::fs::read(mortise_test_guests::component(name)).unwrap();
    let server = Setup::new().component("schema", component("schema-1")).start().await;
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let config = core.config(KIND, "x", &[("text", text("words"))]);
    let made = core.make(KIND, None, &config).await.unwrap();
    assert_eq!(core.schemas[KIND].version, 1);
    std::fs::write(server.plugin_dir.join("schema.wasm"), component("schema-2")).unwrap();
    // The next run uses a new connection.
    let mut core = until("the provider has the new schema", async || {
        let core = Core::attach(&socket(&server)).await;
        if core.schemas[KIND].version == 2 { Ok(core) } else { Err(core.schemas[KIND].version) }
    })
    .await;
    core.configure(&[]).await.unwrap();
    let raw = RawState { json: state_json(&made.state), ..RawState::default() };
    let state = core.upgrade(KIND, 1, raw).await.unwrap();
    assert_eq!(state, made.state, "what the versions have in common");
    let seen = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(seen.state.get("uid"), made.state.get("uid"));
    let upgraded = [("text", text("upgraded words")), ("number", number("1"))];
    for (field, value) in &upgraded {
        assert_eq!(seen.state.get("data").get(field), value);
    }
    let planned = core.plan(KIND, Some(&seen), &config).await.unwrap_err();
    assert!(summaries(&planned).contains("the new text is not of version 2"), "{planned:?}");
    let config = core.config(KIND, "x", &upgraded);
    assert!(core.plan(KIND, Some(&seen), &config).await.unwrap().is_no_op(&seen.state));
}

/// A saved plan, and a plugin that changes resources otherwise since then.
#[tokio::test]
async fn a_plan_is_refused_where_the_rules_would_make_something_else_of_it() {
    const KIND: &str = "mortise_version_stamp_thing";
    let component = |name| std::fs::read(mortise_test_guests::component(name)).unwrap();
    let server = Setup::new().component("version-stamp", component("version-stamp-1")).start().await;
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let config = core.config(KIND, "x", &[]);
    let planned = core.plan(KIND, None, &config).await.unwrap();
    server.install("version-stamp", &component("version-stamp-2")).await.unwrap();
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let (faults, _) = core.apply(KIND, None, &config, &planned).await.unwrap_err();
    let said = summaries(&faults);
    assert!(said.contains("the server's rules changed since this was planned; plan again"), "{said}");
    assert!(server.read(&id("version_stamp.v1.Thing", "x")).await.is_err(), "nothing is written");
}

/// An attached process asks for the types again only after a change of them: here a new version of the type, and then
/// another plugin.
#[tokio::test]
async fn an_attached_process_asks_for_its_types_once_until_they_change() {
    let component = |name| std::fs::read(mortise_test_guests::component(name)).unwrap();
    let server = Setup::new().component("schema", component("schema-1")).start().await;
    let calls = async || {
        let series = "mortise_grpc_requests_total{method=\"mortise.v1.TypeService/GetType\"}";
        server.metric(series).await.unwrap_or_default()
    };
    let first = Core::attach(&socket(&server)).await;
    let asked = calls().await;
    assert!(asked >= 1.0);
    for _ in 0..3 {
        let mut core = Core::attach(&socket(&server)).await;
        core.configure(&[]).await.unwrap();
        let config = core.config("mortise_schema_thing", "x", &[]);
        core.validate("mortise_schema_thing", &config).await.unwrap();
        assert_eq!(core.schemas, first.schemas);
    }
    assert_eq!(calls().await, asked, "every instance of the provider uses the same answers");
    std::fs::write(server.plugin_dir.join("schema.wasm"), component("schema-2")).unwrap();
    until("the provider has the new schema", async || {
        let core = Core::attach(&socket(&server)).await;
        if core.schemas["mortise_schema_thing"].version == 2 { Ok(()) } else { Err(()) }
    })
    .await;
    assert!(calls().await > asked);
    std::fs::copy(mortise_test_guests::component("every-field"), server.plugin_dir.join("every-field.wasm")).unwrap();
    until("the provider has the new type", async || {
        let core = Core::attach(&socket(&server)).await;
        if core.schemas.contains_key(EVERYTHING) { Ok(()) } else { Err(()) }
    })
    .await;
}

/// Core plans a change right before it applies the change; the apply makes no dry run of its own. One on another
/// connection, such as that of a saved plan, does.
#[tokio::test]
async fn an_apply_uses_the_plan_of_a_moment_ago() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let calls = async |method: &str| {
        let series = format!("mortise_grpc_requests_total{{method=\"{method}\"}}");
        server.metric(&series).await.unwrap_or_default()
    };
    let plan = "mortise.v1.ChangeService/Plan";
    let config = |core: &Core, text: &str| core.config(EVERYTHING, "x", &[("text", super::text(text))]);
    let first = config(&core, "one");
    let planned = core.plan(EVERYTHING, None, &first).await.unwrap();
    let before = calls(plan).await;
    let made = core.apply(EVERYTHING, None, &first, &planned).await.unwrap();
    assert_eq!(calls(plan).await - before, 0.0, "a creation");
    let second = config(&core, "two");
    let planned = core.plan(EVERYTHING, Some(&made), &second).await.unwrap();
    let before = calls(plan).await;
    let made = core.apply(EVERYTHING, Some(&made), &second, &planned).await.unwrap();
    assert_eq!(calls(plan).await - before, 0.0, "an update");
    // Another configuration of the provider, and another connection.
    let third = config(&core, "three");
    let planned = core.plan(EVERYTHING, Some(&made), &third).await.unwrap();
    core.configure(&[("namespace", "default")]).await.unwrap();
    let before = calls(plan).await;
    let made = core.apply(EVERYTHING, Some(&made), &third, &planned).await.unwrap();
    assert!(calls(plan).await - before >= 1.0, "a late hook is asked again");
    let fourth = config(&core, "four");
    let planned = core.plan(EVERYTHING, Some(&made), &fourth).await.unwrap();
    let mut other = Core::attach(&socket(&server)).await;
    other.configure(&[]).await.unwrap();
    let before = calls(plan).await;
    other.apply(EVERYTHING, Some(&made), &fourth, &planned).await.unwrap();
    assert!(calls(plan).await - before >= 1.0, "a late hook is asked again");
}
