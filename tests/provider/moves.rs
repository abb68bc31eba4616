//! Moves of a state to another type.

use mortise_provider::value::Value;

use crate::{
    provider::{
        changes::{OLD, THING, move_state, text},
        rules::socket,
        terraform_core::{Core, state_json},
    },
    support::{Setup, id},
};

/// The new address owns the keys of the former one: others' keys stay, and what the configuration leaves out goes.
#[tokio::test]
async fn a_move_keeps_the_labels_annotations_and_tags_of_the_former_address() {
    let server = Setup::new().guest("changes").start().await;
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let pairs = |pairs: &[(&str, &str)]| Value::object(pairs.iter().map(|(key, value)| (*key, text(value))));
    let tags = |tags: &[&str]| Value::List(tags.iter().map(|tag| text(tag)).collect());
    let config = |core: &Core, kind: &str, labels: &[(&str, &str)], own_tags: &[&str]| {
        let Value::Map(mut parts) = core.config(kind, "a", &[("text", text("hello"))]) else { panic!("no object") };
        parts.extend(["labels", "annotations"].map(|name| (name.to_owned(), pairs(labels))));
        parts.insert("tags".into(), tags(own_tags));
        Value::Map(parts)
    };
    let first = config(&core, OLD, &[("kept", "1"), ("left", "1")], &["m", "n"]);
    let old = core.make(OLD, None, &first).await.unwrap();
    let mut resource = server.read(&id("changes.v1.OldThing", "a")).await.unwrap();
    let meta = resource.meta.get_or_insert_default();
    meta.labels.insert("theirs".into(), "t".into());
    meta.tags.push("o".into());
    server.write(resource).await.unwrap();
    let old = core.refresh(&old).await.unwrap().unwrap();
    let mut other = Core::attach(&socket(&server)).await;
    let moved = move_state(&mut other, OLD, THING, &state_json(&old.state)).await.unwrap();
    for name in ["labels", "all_labels", "annotations", "tags"] {
        assert_eq!(moved.state.get(name), old.state.get(name), "{name}");
    }
    let moved = core.refresh(&moved).await.unwrap().unwrap();
    let same = config(&core, THING, &[("kept", "1"), ("left", "1")], &["m", "n"]);
    let planned = core.plan(THING, Some(&moved), &same).await.unwrap();
    assert_eq!(planned.state.get("labels"), moved.state.get("labels"), "no difference");
    let second = config(&core, THING, &[("kept", "1")], &["m"]);
    core.make(THING, Some(&moved), &second).await.unwrap();
    let meta = server.read(&id("changes.v1.Thing", "a")).await.unwrap().meta.unwrap();
    let labels: Vec<_> = meta.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let mut found = meta.tags.clone();
    found.sort();
    assert_eq!((labels, found), (vec!["kept=1".to_owned(), "theirs=t".into()], vec!["m".to_owned(), "o".into()]));
    assert_eq!(meta.annotations.len(), 1);
}
