//! The cache and its indexes.

use std::sync::Arc;

use mortise_resource::{EncodedResource, pb};

use super::{
    harness::{Harness, Probe},
    kit::{album, artist, id, pointing, refers, resource},
};
use crate::{By, Cache, ID, Index, IndexKey};

fn at(mut resource: pb::Resource, partition: &str, namespace: &str) -> pb::Resource {
    resource.id.as_mut().unwrap().tenancy =
        Some(pb::Tenancy { partition: partition.into(), namespace: namespace.into() });
    resource
}

fn put(cache: &Cache, resource: pb::Resource) -> Arc<EncodedResource> {
    let resource_type = resource.id.as_ref().unwrap().r#type.clone().unwrap();
    let resource = Arc::new(EncodedResource::encode(&resource).unwrap());
    assert!(cache.upsert(&resource_type, &resource).faults.is_empty());
    resource
}

fn names(found: Vec<Arc<EncodedResource>>) -> Vec<String> {
    found.into_iter().map(|r| r.name().to_owned()).collect()
}

fn cache(indexes: &[Index]) -> Cache {
    Cache::new([(&artist(), indexes)])
}

#[test]
fn the_id_index_matches_whatever_the_uid_and_the_version_and_copies_nothing() {
    let cache = cache(&[]);
    let stored = put(&cache, resource(&artist(), "a", 1));
    let mut wanted = id(&artist(), "a");
    wanted.uid = "another".into();
    wanted.r#type.as_mut().unwrap().group_version = "v1".into();
    assert!(Arc::ptr_eq(&cache.get(&wanted).unwrap().unwrap(), &stored));
    assert!(Arc::ptr_eq(&cache.get_by(&artist(), ID, &IndexKey::id(&wanted)).unwrap().unwrap(), &stored));
    assert_eq!(cache.get(&id(&artist(), "b")).unwrap(), None);
}

#[test]
fn list_is_by_tenancy_and_an_exact_id_lists_exactly_itself() {
    let cache = cache(&[]);
    for (name, partition, namespace) in [("a", "p", "m"), ("ab", "p", "m"), ("a", "p", "n"), ("a", "pq", "m")] {
        put(&cache, at(resource(&artist(), name, 1), partition, namespace));
    }
    let count = |partition: &str, namespace: &str| {
        let tenancy = pb::Tenancy { partition: partition.into(), namespace: namespace.into() };
        cache.list(&artist(), ID, &IndexKey::tenancy(&tenancy)).unwrap().len()
    };
    assert_eq!([count("", ""), count("*", "*"), count("p", "*"), count("p", "m"), count("q", "")], [4, 4, 3, 2, 0]);
    let exact = at(resource(&artist(), "a", 1), "p", "m").id.unwrap();
    assert_eq!(cache.list(&artist(), ID, &IndexKey::id(&exact)).unwrap().len(), 1);
}

#[test]
fn a_page_is_a_range_of_names_in_one_tenancy_under_a_whole_key_or_a_beginning() {
    let word =
        By::Keys(Arc::new(|r| Ok(r.metadata.get("word").map(|word| IndexKey::text(word)).into_iter().collect())));
    let cache = cache(&[Index::new("word", word)]);
    for (name, namespace, word) in [
        ("a", "m", "one"),
        ("b", "m", "one"),
        ("c", "m", "one"),
        ("d", "m", "onerous"),
        ("b", "n", "one"),
        ("b", "l", "one"),
    ] {
        let mut resource = at(resource(&artist(), name, 1), "p", namespace);
        resource.metadata.insert("word".into(), word.into());
        put(&cache, resource);
    }
    let tenancy = pb::Tenancy { partition: "p".into(), namespace: "m".into() };
    let page = |key: &IndexKey, range, most| {
        names(cache.page(&artist(), &tenancy, ("word", key), range, most).unwrap()).concat()
    };
    let (whole, beginning) = (IndexKey::text("one"), IndexKey::bytes(*b"one"));
    for (range, of_whole, of_beginning) in [
        (("", ""), "abc", "abcd"),
        (("b", ""), "bc", "bcd"),
        (("a-", "c"), "b", "b"),
        (("", "a"), "", ""),
        (("c", "e"), "c", "cd"),
    ] {
        assert_eq!(
            (page(&whole, range, 9).as_str(), page(&beginning, range, 9).as_str()),
            (of_whole, of_beginning),
            "{range:?}"
        );
        let by_id =
            names(cache.page(&artist(), &tenancy, (ID, &IndexKey::tenancy(&tenancy)), range, 9).unwrap()).concat();
        assert_eq!(by_id, of_beginning, "{range:?}");
    }
    assert_eq!((page(&whole, ("", ""), 2), page(&beginning, ("b", ""), 2)), ("ab".to_owned(), "bc".to_owned()));
}

#[test]
fn owners_references_and_keys_follow_changes() {
    let words = By::Keys(Arc::new(|r| {
        let words = r.metadata.get("words").map(String::as_str).unwrap_or_default();
        Ok(words.split_whitespace().map(IndexKey::text).collect())
    }));
    let indexes = [
        Index::new("owner", By::Owner),
        Index::new("to", By::References(Arc::new(|r| refers(r).or(Ok(Vec::new()))))),
        Index::new("words", words),
    ];
    let cache = cache(&indexes);
    let owner = id(&album(), "o");
    let make = |version, to: &str, words: &str| {
        let mut resource = pointing(&artist(), "a", version, to);
        resource.metadata.insert("words".into(), words.into());
        resource.owner = Some(owner.clone());
        resource
    };
    put(&cache, make(1, "x,y", "one two"));
    put(&cache, resource(&artist(), "b", 1));
    let by = |index: &str, key: IndexKey| names(cache.list(&artist(), index, &key).unwrap());
    let to = |name: &str| by("to", IndexKey::target(&id(&artist(), name)));
    assert_eq!(by("owner", IndexKey::target(&owner)), ["a"]);
    assert_eq!(by("owner", IndexKey::targets_in(&album(), &pb::Tenancy::default())), ["a"]);
    assert_eq!(
        (to("x"), to("y"), by("words", IndexKey::text("two"))),
        (vec!["a".into()], vec!["a".into()], vec!["a".into()])
    );
    put(&cache, make(2, "y,z", "two"));
    assert!(to("x").is_empty() && by("words", IndexKey::text("one")).is_empty());
    assert_eq!((to("y"), to("z")), (vec!["a".to_owned()], vec!["a".to_owned()]));
    cache.remove(&artist(), (&id(&artist(), "a")).into());
    assert!(to("z").is_empty() && by("owner", IndexKey::all()).is_empty());
    assert_eq!(cache.count(&artist()), Ok(1));
}

#[test]
fn faults_of_lookups_are_worded_as_in_consul() {
    let cache = cache(&[]);
    let text = |r: Result<Option<_>, crate::CacheError>| r.unwrap_err().to_string();
    assert_eq!(text(cache.get(&id(&album(), "a"))), "the resource type specified is not indexed");
    assert_eq!(text(cache.get(&pb::Id::default())), "the resource type was not specified");
    assert_eq!(
        text(cache.get_by(&artist(), "x", &IndexKey::all())),
        r#"operation on resource type demo.Artist failed: No index with name "x" exists"#
    );
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_an_index_fails_on_is_cached_all_the_same_and_counted() {
    let fails = By::Keys(Arc::new(|r| {
        assert!(r.id.as_ref().unwrap().name != "b", "no bs");
        Err("never".into())
    }));
    let harness = Harness::start(Probe::done(), |d| d.index(Index::new("broken", fails))).await;
    for name in ["a", "b"] {
        harness.store.put(&artist(), name);
    }
    harness.settle().await;
    assert_eq!(harness.probe.names()[2..], ["a", "b"]);
    let status = harness.status();
    assert_eq!(status.index_errors, 2);
    let mut messages: Vec<_> = status.failures.iter().map(|error| error.message.as_str()).collect();
    messages.sort_unstable();
    assert_eq!(
        messages,
        [
            r#"operation on index "broken" failed: never"#,
            r#"operation on index "broken" failed: panic [recovered]: no bs"#,
        ]
    );
    let context = harness.probe.context.lock().clone().unwrap();
    assert_eq!(context.cache().count(&artist()), Ok(2));
}

#[tokio::test(start_paused = true)]
async fn an_indexs_error_is_resolved_when_it_succeeds_or_the_resource_goes() {
    let broken = |name: &str| {
        let key = format!("not-{name}");
        let keys = By::Keys(Arc::new(
            move |r| if r.metadata.contains_key(&key) { Err("never".into()) } else { Ok(Vec::new()) },
        ));
        Index::new(name, keys)
    };
    let harness = Harness::start(Probe::done(), |d| d.index(broken("one")).index(broken("two"))).await;
    let put = |name: &str, faults: &[&str]| {
        harness.store.put_as(|version| {
            let mut resource = resource(&artist(), name, version);
            resource.metadata.extend(faults.iter().map(|index| (format!("not-{index}"), String::new())));
            resource
        });
    };
    // The resource and the index of each error that is not resolved.
    let unresolved = async || {
        harness.settle().await;
        let failures = harness.status().failures.into_iter().filter(|error| !error.resolved);
        let mut left: Vec<_> = failures.map(|error| format!("{} {}", error.key.name(), error.place)).collect();
        left.sort_unstable();
        left
    };
    let [first, two] = ["one", "two"].map(|index| format!("index \"{index}\" of demo.v2.Artist"));
    put("a", &["one", "two"]);
    put("b", &["one"]);
    put("c", &["two"]);
    assert_eq!(
        unresolved().await,
        [format!("a {first}"), format!("a {two}"), format!("b {first}"), format!("c {two}")]
    );
    put("a", &["two"]);
    assert_eq!(unresolved().await, [format!("a {two}"), format!("b {first}"), format!("c {two}")]);
    harness.store.delete(&artist(), "b");
    assert_eq!(unresolved().await, [format!("a {two}"), format!("c {two}")]);
    harness.pass(3_000).await;
    harness.store.break_watches();
    harness.store.delete(&artist(), "c");
    assert_eq!(unresolved().await, [format!("a {two}")], "it went while nobody watched");
    put("a", &[]);
    assert_eq!(unresolved().await, [""; 0]);
    put("a", &["one"]);
    assert_eq!(unresolved().await, [format!("a {first}")]);
    assert_eq!(harness.status().failures.len(), 4);
}
