//! Updates with values that are not known yet.

use mortise_provider::value::Value;

use super::{EVERYTHING, attached, list, number, part, text, with};
use crate::{
    provider::terraform_core::{check_applied, check_same},
    support::Setup,
};

/// Attributes that every write changes.
const OF_EVERY_WRITE: [&str; 3] = ["generation", "status", "version"];

/// The paths of the unknown values, besides those of every write.
fn unknown_paths(value: &Value) -> Vec<String> {
    fn walk(path: &str, value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Unknown(_) => found.push(path.trim_start_matches('.').to_owned()),
            Value::Map(entries) => {
                entries.iter().for_each(|(name, value)| walk(&format!("{path}.{name}"), value, found));
            }
            Value::List(items) => {
                items.iter().enumerate().for_each(|(at, value)| walk(&format!("{path}[{at}]"), value, found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    walk("", value, &mut found);
    found.retain(|path| !OF_EVERY_WRITE.contains(&path.as_str()));
    found
}

#[tokio::test]
async fn an_unknown_value_replaces_nothing_and_leaves_the_rest_known() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let first = core.config(
        EVERYTHING,
        "x",
        &[
            ("text", text("One")),
            ("by_name", Value::object([("k", Value::object([("name", text("n")), ("weight", Value::Null)]))])),
        ],
    );
    let made = core.make(EVERYTHING, None, &first).await.unwrap();
    let unknown = Value::unknown;
    let by_name = |name: Value| Value::object([("k", Value::object([("name", name), ("weight", Value::Null)]))]);
    for (field, later, paths, known) in [
        ("text", unknown(), vec!["data.text"], text("Two")),
        ("labels", Value::object([("a", unknown())]), vec!["data.labels.a"], Value::object([("a", text("b"))])),
        ("parts", list(&[part("one", unknown())]), vec!["data.parts[0].weight"], list(&[part("one", number("4"))])),
        ("by_name", by_name(unknown()), vec!["data.by_name.k.name"], by_name(text("m"))),
        ("maybe", unknown(), vec!["data.maybe"], text("")),
        ("one", unknown(), vec!["data.one"], text("x")),
        ("tags", list(&[unknown(), text("a")]), vec!["data.tags[0]"], list(&[text("b"), text("a")])),
    ] {
        let next = core.config(EVERYTHING, "x", &[(field, later)]);
        let planned = core.plan(EVERYTHING, Some(&made), &next).await.unwrap();
        assert_eq!(planned.replace, [""; 0], "{field}");
        assert_eq!(unknown_paths(&planned.state), paths, "{field}");
        let next = core.config(EVERYTHING, "x", &[(field, known)]);
        let last = core.plan(EVERYTHING, Some(&made), &next).await.unwrap();
        check_same(&planned.state, &last.state);
    }
    // The plugin refuses no text here. It accepts a made-up one, which leaves the rest known.
    let named = Value::object([("named", text("x"))]);
    let next = core.config(EVERYTHING, "x", &[("labels", named), ("text", unknown())]);
    let planned = core.plan(EVERYTHING, Some(&made), &next).await.unwrap();
    assert_eq!((planned.replace.len(), unknown_paths(&planned.state)), (0, vec!["data.text".to_owned()]));
    // A change that the plugin refuses for each unknown value is found when it is known.
    let held = Value::object([("hold", text("x"))]);
    let next = core.config(EVERYTHING, "x", &[("labels", held), ("text", unknown())]);
    let planned = core.plan(EVERYTHING, Some(&made), &next).await.unwrap();
    assert_eq!((planned.replace.len(), planned.state.get("data").get("text")), (0, &unknown()));
    // An unknown name, place or metadata.
    let next = with(core.config(EVERYTHING, "x", &[]), "metadata", Value::object([("a", unknown())]));
    let planned = core.plan(EVERYTHING, Some(&made), &next).await.unwrap();
    assert_eq!((planned.replace.len(), unknown_paths(&planned.state)), (0, vec!["metadata.a".to_owned()]));
}

/// A dry run that is refused says nothing, so that no value is known to be independent of the unknown one.
#[tokio::test]
async fn a_refused_dry_run_agrees_with_nothing() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let first = core.config(EVERYTHING, "x", &[("text", text("One"))]);
    let made = core.make(EVERYTHING, None, &first).await.unwrap();
    // The plugin refuses this label with any value. Without a prior one the first dry run leaves it out.
    let held = Value::object([("hold", Value::unknown())]);
    let next = core.config(EVERYTHING, "x", &[("text", text("One")), ("labels", held)]);
    let planned = core.plan(EVERYTHING, Some(&made), &next).await.unwrap();
    let data = planned.state.get("data");
    assert_eq!((planned.replace.len(), data.get("port"), data.get("text")), (0, &Value::unknown(), &text("One")));
}

/// The configuration itself gives an unknown value to a field that cannot change: a dependency is replaced, and so is
/// this resource.
#[tokio::test]
async fn a_known_change_and_an_unknown_value_in_an_immutable_place_replace() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("fixed_name", text("a"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    for (fields, replace) in [
        (vec![("fixed_name", text("b")), ("text", Value::unknown())], vec!["data.fixed_name"]),
        (vec![("fixed_name", Value::unknown())], vec!["data.fixed_name"]),
        (vec![("fixed_name", text("a")), ("text", Value::unknown())], vec![]),
    ] {
        let next = core.config(EVERYTHING, "x", &fields);
        assert_eq!(core.plan(EVERYTHING, Some(&made), &next).await.unwrap().replace, replace, "{fields:?}");
    }
}

/// A value that the plugin makes of an unknown one stays unknown.
#[tokio::test]
async fn values_that_depend_on_an_unknown_one_are_unknown() {
    const THING: &str = "mortise_changes_thing";
    let server = Setup::new().guest("changes").start().await;
    let mut core = crate::provider::terraform_core::Core::attach(&super::socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let config = core.config(THING, "a", &[("text", text("one")), ("number", number("1"))]);
    let made = core.make(THING, None, &config).await.unwrap();
    let next = core.config(THING, "a", &[("text", Value::unknown()), ("number", number("1"))]);
    let planned = core.plan(THING, Some(&made), &next).await.unwrap();
    assert_eq!((planned.state.get("data").get("inner"), planned.replace.len()), (&Value::unknown(), 0));
    let next = core.config(THING, "a", &[("text", Value::unknown()), ("number", number("2"))]);
    let planned = core.plan(THING, Some(&made), &next).await.unwrap();
    assert_eq!(planned.replace, ["data.number"], "the plugin's rule, for a known change");
    let next = core.config(THING, "a", &[("text", text("two")), ("number", number("2"))]);
    check_applied(&planned.state, &core.plan(THING, Some(&made), &next).await.unwrap().state);
}
