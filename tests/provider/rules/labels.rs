//! Labels, annotations and tags: owned key by key.

use mortise_provider::value::Value;
use mortise_resource::goten::Meta;

use super::{EVERYTHING, REQUIRED, attached, id_of, list, socket, summaries, text, with};
use crate::{
    provider::{
        real_core::{self, RealCore},
        terraform_core::{Core, check_applied, path_of},
    },
    support::{Server, Setup, id, metadata},
};

fn map(pairs: &[(&str, &str)]) -> Value {
    Value::object(pairs.iter().map(|(key, value)| (*key, text(value))))
}

fn tags(names: &[&str]) -> Value {
    list(&names.iter().map(|name| text(name)).collect::<Vec<_>>())
}

async fn stored(server: &Server, name: &str) -> Meta {
    server.read(&id_of(name)).await.unwrap().meta.map(|meta| *meta).unwrap_or_default()
}

/// Another client adds to the meta of a resource.
async fn add(server: &Server, name: &str, labels: &[(&str, &str)], tags: &[&str]) {
    let mut resource = server.read(&id_of(name)).await.unwrap();
    let meta = resource.meta.get_or_insert_default();
    meta.labels.extend(metadata(labels));
    meta.annotations.extend(metadata(labels));
    meta.tags.extend(tags.iter().map(|tag| (*tag).to_owned()));
    server.write(resource).await.unwrap();
}

fn labelled(core: &Core, labels: Value, annotations: Value, tags: Value) -> Value {
    let config = core.config(EVERYTHING, "x", &[("text", text("one"))]);
    with(with(with(config, "labels", labels), "annotations", annotations), "tags", tags)
}

#[tokio::test]
async fn labels_annotations_and_tags_of_others_stay() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let first = labelled(&core, map(&[("a", "1"), ("b", "2")]), map(&[("a", "1")]), tags(&["m", "n"]));
    let made = core.make(EVERYTHING, None, &first).await.unwrap();
    let meta = stored(&server, "x").await;
    assert_eq!((&meta.labels, &meta.annotations), (&metadata(&[("a", "1"), ("b", "2")]), &metadata(&[("a", "1")])));
    assert_eq!((meta.tags, made.state.get("all_labels")), (vec!["m".to_owned(), "n".into()], first.get("labels")));
    // What others add is no drift.
    add(&server, "x", &[("theirs", "t")], &["o"]).await;
    let made = core.refresh(&made).await.unwrap().unwrap();
    assert!(core.plan(EVERYTHING, Some(&made), &first).await.unwrap().is_no_op(&made.state));
    // A change by others of an owned key is.
    add(&server, "x", &[("a", "changed")], &[]).await;
    let seen = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(seen.state.get("labels"), &map(&[("a", "changed"), ("b", "2")]));
    assert_eq!(seen.state.get("annotations"), &map(&[("a", "changed")]));
    // Owned keys go with the configuration, and theirs stay.
    let second = labelled(&core, map(&[("a", "1")]), Value::Null, tags(&["n", "p"]));
    let made = core.make(EVERYTHING, Some(&seen), &second).await.unwrap();
    let meta = stored(&server, "x").await;
    assert_eq!(meta.labels, metadata(&[("a", "1"), ("theirs", "t")]));
    assert_eq!(meta.annotations, metadata(&[("theirs", "t")]));
    let mut found = meta.tags;
    found.sort();
    assert_eq!(found, ["n", "o", "p"]);
    // The data sources show all.
    let data = core.data(EVERYTHING, &[("name", text("x"))]).await.unwrap();
    assert_eq!((data.get("labels"), data.get("tags")), (&map(&[("a", "1"), ("theirs", "t")]), &tags(&["n", "o", "p"])));
    let all = core.data("mortise_resources", &[("type", text("fields.v1.Everything"))]).await.unwrap();
    let Value::List(all) = all.get("resources") else { panic!("{all:?}") };
    assert_eq!(all[0].get("annotations"), &map(&[("theirs", "t")]));
    let none = core.config(EVERYTHING, "x", &[("text", text("one"))]);
    let made = core.make(EVERYTHING, Some(&made), &none).await.unwrap();
    let meta = stored(&server, "x").await;
    assert_eq!((meta.labels, meta.tags), (metadata(&[("theirs", "t")]), vec!["o".to_owned()]));
    // A change of the data alone leaves the meta alone.
    let data = core.config(EVERYTHING, "x", &[("text", text("two"))]);
    core.make(EVERYTHING, Some(&made), &data).await.unwrap();
    assert_eq!(stored(&server, "x").await.labels, metadata(&[("theirs", "t")]));
}

#[tokio::test]
async fn an_import_takes_no_labels_from_others() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let plain = core.config(EVERYTHING, "x", &[("text", text("one"))]);
    core.make(EVERYTHING, None, &plain).await.unwrap();
    add(&server, "x", &[("theirs", "t"), ("a", "0")], &["o"]).await;
    let imported = core.import(EVERYTHING, "x").await.unwrap();
    assert!(["labels", "all_labels", "tags"].iter().all(|name| imported.state.get(name).is_null()));
    let config = labelled(&core, map(&[("a", "1")]), Value::Null, Value::Null);
    core.make(EVERYTHING, Some(&imported), &config).await.unwrap();
    let meta = stored(&server, "x").await;
    assert_eq!((meta.labels, meta.tags), (metadata(&[("a", "1"), ("theirs", "t")]), vec!["o".to_owned()]));
}

#[tokio::test]
async fn default_labels_are_on_every_resource() {
    let (server, core) = attached().await;
    drop(core);
    let connect = async |labels: Value| {
        let mut core = Core::attach(&socket(&server)).await;
        core.configure_with(&[("default_labels", labels)]).await.unwrap();
        core
    };
    let mut core = connect(map(&[("env", "prod"), ("a", "default")])).await;
    let config = labelled(&core, map(&[("a", "1")]), Value::Null, Value::Null);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    assert_eq!(stored(&server, "x").await.labels, metadata(&[("a", "1"), ("env", "prod")]));
    assert_eq!(made.state.get("labels"), &map(&[("a", "1")]));
    add(&server, "x", &[("theirs", "t")], &[]).await;
    let made = core.refresh(&made).await.unwrap().unwrap();
    // Another default replaces the earlier one.
    let mut core = connect(map(&[("stage", "test")])).await;
    let planned = core.plan(EVERYTHING, Some(&made), &config).await.unwrap();
    assert_eq!(planned.state.get("all_labels"), &map(&[("a", "1"), ("stage", "test")]));
    let made = core.make(EVERYTHING, Some(&made), &config).await.unwrap();
    assert_eq!(stored(&server, "x").await.labels, metadata(&[("a", "1"), ("stage", "test"), ("theirs", "t")]));
    // A value that is known with the apply.
    let unknown = labelled(&core, Value::object([("a", Value::unknown())]), Value::Null, Value::Null);
    let planned = core.plan(EVERYTHING, Some(&made), &unknown).await.unwrap();
    assert_eq!((planned.replace.len(), planned.state.get("data").get("text")), (0, &text("one")));
    let known = labelled(&core, map(&[("a", "2")]), Value::Null, Value::Null);
    let last = core.plan(EVERYTHING, Some(&made), &known).await.unwrap();
    check_applied(&planned.state, &last.state);
    let made = core.apply(EVERYTHING, Some(&made), &known, &last).await.unwrap();
    assert_eq!(stored(&server, "x").await.labels["a"], "2");
    core.destroy(&made).await.unwrap();
}

#[tokio::test]
async fn faults_of_labels_are_at_their_attributes() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let long = "x".repeat(257);
    for (name, value) in
        [("labels", map(&[("a", &long)])), ("tags", tags(&[&long])), ("annotations", map(&[(&long, "a")]))]
    {
        let config = with(core.config(EVERYTHING, "x", &[]), name, value);
        let faults = core.plan(EVERYTHING, None, &config).await.unwrap_err();
        assert!(path_of(&faults[0]).starts_with(name) && summaries(&faults).contains("the limit is 256"), "{faults:?}");
    }
    for (name, value) in [("labels", Value::object([("a", Value::Null)])), ("tags", list(&[Value::Null]))] {
        let config = with(core.config(EVERYTHING, "x", &[]), name, value);
        let faults = core.validate(EVERYTHING, &config).await.unwrap_err();
        assert_eq!(summaries(&faults), format!("{name}|null cannot be an element|\n"));
    }
    let faults = core.configure_with(&[("default_labels", Value::object([("a", Value::Null)]))]).await.unwrap_err();
    assert_eq!(summaries(&faults), "default_labels|the label \"a\" is null|\n");
}

/// An update that the server refuses for its labels is refused by its plan.
#[tokio::test]
async fn a_plan_of_an_update_shows_a_fault_of_its_labels() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = labelled(&core, map(&[("a", "1")]), Value::Null, Value::Null);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    // Another client's label is among those that the server checks.
    let theirs = (0..63).map(|number| (format!("theirs-{number}"), "t".to_owned())).collect::<Vec<_>>();
    let theirs: Vec<_> = theirs.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    add(&server, "x", &theirs, &[]).await;
    let made = core.refresh(&made).await.unwrap().unwrap();
    let long = "x".repeat(257);
    for (name, value) in
        [("labels", map(&[("a", &long)])), ("annotations", map(&[(&long, "a")])), ("tags", tags(&[&long]))]
    {
        let config = with(config.clone(), name, value);
        let faults = core.plan(EVERYTHING, Some(&made), &config).await.unwrap_err();
        assert!(path_of(&faults[0]).starts_with(name) && summaries(&faults).contains("the limit is 256"), "{faults:?}");
    }
    let many = labelled(&core, map(&[("a", "1"), ("b", "2")]), Value::Null, Value::Null);
    let faults = core.plan(EVERYTHING, Some(&made), &many).await.unwrap_err();
    assert!(path_of(&faults[0]).starts_with("labels"), "{faults:?}");
}

/// A core whose provider leaves keys to controllers.
async fn with_controller_keys(server: &Server, patterns: &[&str]) -> Core {
    let mut core = Core::attach(&socket(server)).await;
    core.configure_with(&[("controller_keys", tags(patterns))]).await.unwrap();
    core
}

#[tokio::test]
async fn keys_of_controllers_are_no_difference_and_stay() {
    let (server, _core) = attached().await;
    let mut core = with_controller_keys(&server, &["example.com/*", "revision"]).await;
    // The configuration gives first values.
    let pairs = map(&[("a", "1"), ("revision", "0"), ("example.com/zone", "none")]);
    let first = with(labelled(&core, pairs.clone(), pairs.clone(), Value::Null), "metadata", pairs.clone());
    let made = core.make(EVERYTHING, None, &first).await.unwrap();
    let expected = [("a", "1"), ("revision", "0"), ("example.com/zone", "none")];
    assert_eq!(stored(&server, "x").await.labels, metadata(&expected));
    assert_eq!(server.read(&id_of("x")).await.unwrap().metadata, metadata(&expected));
    // A controller writes its keys, some of them for the first time.
    let theirs = [("revision", "7"), ("example.com/zone", "b"), ("example.com/host", "h")];
    add(&server, "x", &theirs, &[]).await;
    let mut resource = server.read(&id_of("x")).await.unwrap();
    resource.metadata.extend(metadata(&theirs));
    server.write(resource).await.unwrap();
    let seen = core.refresh(&made).await.unwrap().unwrap();
    for name in ["labels", "all_labels", "annotations", "metadata"] {
        assert_eq!(seen.state.get(name), &pairs, "{name}");
    }
    assert!(core.plan(EVERYTHING, Some(&seen), &first).await.unwrap().is_no_op(&seen.state));
    // An apply changes and removes none of them.
    let own = map(&[("a", "2")]);
    let second = with(labelled(&core, own.clone(), own.clone(), Value::Null), "metadata", own);
    let made = core.make(EVERYTHING, Some(&seen), &second).await.unwrap();
    let expected = [("a", "2"), ("revision", "7"), ("example.com/zone", "b"), ("example.com/host", "h")];
    let meta = stored(&server, "x").await;
    assert_eq!((&meta.labels, &meta.annotations), (&metadata(&expected), &metadata(&expected)));
    assert_eq!(server.read(&id_of("x")).await.unwrap().metadata, metadata(&expected));
    // A configuration takes no value back, and one without metadata does not show theirs.
    let third = with(labelled(&core, pairs.clone(), Value::Null, Value::Null), "metadata", Value::Null);
    let made = core.make(EVERYTHING, Some(&made), &third).await.unwrap();
    assert_eq!(made.state.get("metadata").get("revision"), &Value::Null);
    assert_eq!(stored(&server, "x").await.labels["revision"], "7");
    // Without the list these keys are like others.
    let mut core = with_controller_keys(&server, &[]).await;
    let seen = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(seen.state.get("labels").get("revision"), &text("7"));
}

/// The configuration has the first value of such a key, and a controller ends it.
#[tokio::test]
async fn a_key_that_its_controller_removed_is_not_written_again() {
    let (server, _core) = attached().await;
    let mut core = with_controller_keys(&server, &["revision"]).await;
    let of = |core: &Core, own: &str| {
        with(core.config(EVERYTHING, "x", &[]), "metadata", map(&[("own", own), ("revision", "0")]))
    };
    let (first, second) = (of(&core, "1"), of(&core, "2"));
    let made = core.make(EVERYTHING, None, &first).await.unwrap();
    let mut resource = server.read(&id_of("x")).await.unwrap();
    resource.metadata.remove("revision").unwrap();
    server.write(resource).await.unwrap();
    let seen = core.refresh(&made).await.unwrap().unwrap();
    core.make(EVERYTHING, Some(&seen), &second).await.unwrap();
    assert_eq!(server.read(&id_of("x")).await.unwrap().metadata, metadata(&[("own", "2")]));
}

/// A hook may write such a key, too.
#[tokio::test]
async fn a_controllers_key_that_a_hook_writes_is_in_no_state() {
    const KIND: &str = "mortise_version_stamp_thing";
    let component = std::fs::read(mortise_test_guests::component("version-stamp-1")).unwrap();
    let server = Setup::new().component("version-stamp", component).start().await;
    let mut core = with_controller_keys(&server, &["mutated-by"]).await;
    let config = core.config(KIND, "x", &[]);
    let made = core.make(KIND, None, &config).await.unwrap();
    let stored = server.read(&id("version_stamp.v1.Thing", "x")).await.unwrap();
    assert!(stored.metadata.contains_key("mutated-by"), "{stored:?}");
    assert!(made.state.get("metadata").is_null(), "{made:?}");
}

#[tokio::test]
async fn misspelt_keys_of_controllers_are_refused_at_their_places() {
    let (_server, mut core) = attached().await;
    for (wrong, fault) in [("example.com/", "ends with a slash"), ("*.example.com", "is not a key"), ("*", "* alone")] {
        let faults = core.validate_provider(&[("controller_keys", tags(&["good", wrong]))]).await.unwrap_err();
        assert!(faults.len() == 1 && path_of(&faults[0]) == "controller_keys[1]", "{faults:?}");
        assert!(faults[0].summary.contains(fault) && faults[0].summary.contains("such as example.com/*"), "{faults:?}");
    }
}

real_core::on_each_core!(a_real_core_labels_resources);

async fn a_real_core_labels_resources(core: RealCore) {
    let (server, _core) = attached().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |label: &str, patterns: &str| {
        let configuration = format!(
            "{REQUIRED}provider \"mortise\" {{\n  default_labels = {{ env = \"prod\" }}\n  controller_keys = [{patterns}]\n}}\nresource \"{EVERYTHING}\" \"x\" \
             {{\n  name   = \"x\"\n  labels = {{ a = \"{label}\" }}\n  tags   = [\"n\", \"m\"]\n  data {{}}\n}}\n"
        );
        std::fs::write(dir.path().join("main.tf"), configuration).unwrap();
    };
    let run = |arguments: &[&str]| core.run(dir.path(), &server, arguments);
    write("1", "\"theirs\", \"example.com/\"");
    let (valid, said) = run(&["validate"]);
    assert!(!valid && said.contains("ends with a slash") && said.contains("main.tf line"), "{said}");
    write("1", "\"theirs\", \"example.com/*\"");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied, "{said}");
    add(&server, "x", &[("theirs", "t")], &["o"]).await;
    let (clean, said) = run(&["plan", "-detailed-exitcode"]);
    assert!(clean, "{said}");
    write("2", "\"theirs\"");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("0 added, 1 changed, 0 destroyed"), "{said}");
    let meta = stored(&server, "x").await;
    assert_eq!(meta.labels, metadata(&[("a", "2"), ("env", "prod"), ("theirs", "t")]));
    assert_eq!(meta.tags.len(), 3);
}
