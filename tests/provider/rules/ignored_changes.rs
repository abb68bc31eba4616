//! `ignore_changes`: core plans with the prior values of ignored attributes, and applies with the configuration as
//! written.

use mortise_provider::value::Value;
use mortise_test_guests::Everything;

use super::{EVERYTHING, attached, id_of, list, number, part, text, with};
use crate::support::{any, decoded};

#[tokio::test]
async fn ignored_attributes_keep_the_values_of_others() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let labels = |value: &str| Value::object([("a", text(value)), ("b", text("b"))]);
    let raw = [
        ("text", text("Mine")),
        ("labels", labels("mine")),
        ("parts", list(&[part("one", number("1")), part("two", number("2"))])),
        ("maybe", text("here")),
    ];
    let config = core.config(EVERYTHING, "x", &raw);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let mut stored = server.read(&id_of("x")).await.unwrap();
    let mut data: Everything = decoded(&stored);
    data.text = "other".into();
    data.port = 81;
    data.maybe = None;
    data.labels.insert("a".into(), "other".into());
    data.parts.truncate(1);
    data.parts[0].weight = 9;
    stored.data = Some(any("mortise.test.v1.Everything", &data));
    stored.metadata.insert("by".into(), "somebody".into());
    server.write(stored).await.unwrap();
    let seen = core.refresh(&made).await.unwrap().unwrap();
    // Core's view while it plans: the prior values of text, port, maybe, labels["a"], parts and metadata.
    let ignored = [
        ("text", text("other")),
        ("port", number("81")),
        ("labels", labels("other")),
        ("parts", list(&[part("one", number("9"))])),
        ("small", number("2")),
    ];
    let by = Value::object([("by", text("somebody"))]);
    let ignored = with(core.config(EVERYTHING, "x", &ignored), "metadata", by);
    let planned = core.plan(EVERYTHING, Some(&seen), &ignored).await.unwrap();
    let written = core.config(EVERYTHING, "x", &[&raw[..], &[("small", number("2"))]].concat());
    let made = core.apply(EVERYTHING, Some(&seen), &written, &planned).await.unwrap();
    let stored = server.read(&id_of("x")).await.unwrap();
    let found: Everything = decoded(&stored);
    assert_eq!((found.text.as_str(), found.port, found.maybe, found.small), ("other", 81, None, 2));
    assert_eq!((found.labels["a"].as_str(), found.labels["b"].as_str(), found.parts.len()), ("other", "b", 1));
    assert_eq!(stored.metadata.get("by").map(String::as_str), Some("somebody"));
    assert!(core.plan(EVERYTHING, Some(&made), &ignored).await.unwrap().is_no_op(&made.state), "settled");
}

/// `ignore_changes = all`: core sends the whole prior state as the configuration, without what the server alone sets.
#[tokio::test]
async fn a_resource_that_ignores_all_changes_has_no_plan() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("text", text("Mine"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let mut stored = server.read(&id_of("x")).await.unwrap();
    stored.metadata.insert("by".into(), "somebody".into());
    server.write(stored).await.unwrap();
    let seen = core.refresh(&made).await.unwrap().unwrap();
    let Value::Map(mut all) = seen.state.clone() else { panic!("{seen:?}") };
    for set_by_server in ["id", "uid", "generation", "version", "group_version", "status"] {
        all.insert(set_by_server.into(), Value::Null);
    }
    let planned = core.plan(EVERYTHING, Some(&seen), &Value::Map(all)).await.unwrap();
    assert!(planned.is_no_op(&seen.state), "{planned:?}");
}
