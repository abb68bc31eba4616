//! Tests of scans of a part: by a label, and from a place on.

use mortise_resource::pb;

use super::fixtures::{
    delete, everything, id, labelled, list, numbered, page, places, query, resource, resource_in, tenancy, type_of,
    write,
};
use crate::{Backend, Batch, Cursor, ListKey, Mutation, Query, ScanPart};

/// Number of resources above that of a page.
const MANY: u32 = 3_000;

/// Writes numbered resources: one in three with `env=prod`, the others with `env=test`; some have a label without a
/// value.
async fn fill<B: Backend>(store: &B) {
    for from in (0..MANY).step_by(500) {
        let put = |n: u32| {
            let tenancy = tenancy("default", if n.is_multiple_of(2) { "even" } else { "odd" });
            let resource = resource_in(type_of("v1", "A"), tenancy, &format!("r-{n:05}"));
            let resource = labelled(resource, "env", if n.is_multiple_of(3) { "prod" } else { "test" });
            let resource = labelled(resource, "n", &n.to_string());
            let resource = if n.is_multiple_of(7) { labelled(resource, "none", "") } else { resource };
            Mutation::Put(Box::new(resource))
        };
        store.commit(Batch::new((from..from + 500).map(put).collect())).await.unwrap();
    }
    // Resources of another type, and with a label of the same prefix.
    let other = resource_in(type_of("v1", "B"), tenancy("default", "even"), "r-00000");
    write(store, &labelled(other, "env", "prod")).await;
    let near = resource_in(type_of("v1", "A"), tenancy("default", "even"), "near");
    write(store, &labelled(labelled(near, "env", "prod-2"), "env2", "prod")).await;
}

fn with(label: &str, value: &str) -> ScanPart {
    ScanPart { label: Some((label.into(), value.into())), after: None }
}

async fn rest(cursor: &mut Box<dyn Cursor>) -> Vec<pb::Resource> {
    let mut found = Vec::new();
    while let Some(page) = page(cursor).await {
        assert!(!page.is_empty());
        found.extend(page);
    }
    found
}

async fn scan<B: Backend>(store: &B, query: &Query, part: &ScanPart) -> Vec<pb::Resource> {
    rest(&mut store.scan_part(query, part).await.unwrap()).await
}

fn has(resource: &pb::Resource, label: &str, value: &str) -> bool {
    resource.meta.as_ref().is_some_and(|meta| meta.labels.get(label).is_some_and(|found| found == value))
}

/// A scan by label returns the matching resources of the list, in the same order, for each query.
pub async fn by_label_returns_matches_in_order<B: Backend>(store: &B) {
    fill(store).await;
    let mut sizes = Vec::new();
    for query in [
        everything(),
        query("default", "odd", ""),
        query("*", "odd", ""),
        query("*", "*", "r-012"),
        query("default", "even", "r-012"),
        query("p", "*", ""),
    ] {
        for (label, value) in [("env", "prod"), ("env", "test"), ("n", "17"), ("none", ""), ("env", ""), ("en", "prod")]
        {
            let mut listed = list(store, &query).await;
            listed.retain(|resource| has(resource, label, value));
            assert_eq!(scan(store, &query, &with(label, value)).await, listed, "{query:?} {label}={value}");
            sizes.push(listed.len());
        }
    }
    assert!(sizes.contains(&1_000) && sizes.contains(&1) && sizes.contains(&0), "{sizes:?}");
}

/// A scan by label shows one commit, in spite of changes to resources before and behind its place.
pub async fn by_label_shows_one_commit<B: Backend>(store: &B) {
    fill(store).await;
    let (query, part) = (everything(), with("env", "prod"));
    let before = scan(store, &query, &part).await;
    let mut cursor = store.scan_part(&query, &part).await.unwrap();
    let mut found = page(&mut cursor).await.unwrap();
    assert!(found.len() < before.len(), "one page is not all");
    for (n, stored) in before.iter().enumerate().step_by(5) {
        match n % 3 {
            0 => delete(store, stored).await,
            1 => drop(write(store, &numbered(stored.clone(), 1)).await),
            _ => drop(write(store, &labelled(stored.clone(), "env", "test")).await),
        }
    }
    for name in ["a", "r-01500-", "z"] {
        let late = resource_in(type_of("v1", "A"), tenancy("default", "even"), name);
        write(store, &labelled(late, "env", "prod")).await;
    }
    found.extend(rest(&mut cursor).await);
    assert_eq!(places(&found), places(&before));
    assert_eq!(found, before);
    assert_ne!(scan(store, &query, &part).await, before);
}

/// Scans follow a label that changes, goes, or comes back.
pub async fn labels_follow_each_write<B: Backend>(store: &B) {
    let count = async |value: &str| scan(store, &everything(), &with("env", value)).await.len();
    let stored = write(store, &labelled(resource("a"), "env", "prod")).await;
    assert_eq!((count("prod").await, count("test").await), (1, 0));
    let stored = write(store, &labelled(stored, "env", "test")).await;
    assert_eq!((count("prod").await, count("test").await), (0, 1));
    let stored = write(store, &pb::Resource { meta: None, ..stored }).await;
    assert_eq!((count("prod").await, count("test").await), (0, 0));
    let stored = write(store, &labelled(stored, "env", "prod")).await;
    assert_eq!((count("prod").await, count("test").await), (1, 0));
    let mut rewritten = stored.clone();
    rewritten.meta.as_mut().unwrap().labels.insert("env".into(), "test".into());
    store.commit(Batch::single(Mutation::Rewrite(Box::new(rewritten)))).await.unwrap();
    assert_eq!((count("prod").await, count("test").await), (0, 1));
    delete(store, &stored).await;
    assert_eq!((count("prod").await, count("test").await), (0, 0));
}

/// A scan behind a place returns the rest of a list, also by label: for places that exist or not, first, last or
/// beyond.
pub async fn behind_a_place_is_the_rest<B: Backend>(store: &B) {
    fill(store).await;
    let list_key = |namespace: &str, name: &str| ListKey {
        partition: "default".into(),
        namespace: namespace.into(),
        name: name.into(),
    };
    let name_of = |resource: &pb::Resource| {
        let id = id(resource);
        let tenancy = id.tenancy.unwrap();
        ListKey { partition: tenancy.partition, namespace: tenancy.namespace, name: id.name }
    };
    let mut sizes = Vec::new();
    for query in [everything(), query("default", "odd", ""), query("*", "odd", "r-02"), query("default", "even", "r-")]
    {
        for after in [
            list_key("", ""),
            list_key("even", ""),
            list_key("even", "r-00500"),
            list_key("even", "r-00500-"),
            list_key("even", "zzz"),
            list_key("odd", "r-02999"),
            list_key("odd", "r-02001"),
            list_key("z", "z"),
            ListKey { partition: "a".into(), ..list_key("odd", "x") },
        ] {
            for label in [None, Some(("env".to_owned(), "prod".to_owned()))] {
                let mut listed = list(store, &query).await;
                listed.retain(|resource| {
                    name_of(resource) > after && label.as_ref().is_none_or(|(label, value)| has(resource, label, value))
                });
                let part = ScanPart { label, after: Some(after.clone()) };
                assert_eq!(scan(store, &query, &part).await, listed, "{query:?} {part:?}");
                sizes.push(listed.len());
            }
        }
    }
    assert!(sizes.contains(&0) && sizes.contains(&3_001), "{sizes:?}");
}

/// The version is also in `meta`, if the resource has one; otherwise no `meta` is added.
pub async fn the_version_is_in_meta_too<B: Backend>(store: &B) {
    let plain = write(store, &resource("plain")).await;
    assert_eq!(plain.meta, None);
    let stored = write(store, &labelled(resource("a"), "env", "prod")).await;
    assert_eq!(stored.meta.as_ref().unwrap().resource_version, stored.version);
    let again = write(store, &numbered(stored.clone(), 2)).await;
    assert_eq!(again.meta.as_ref().unwrap().resource_version, again.version);
    assert_ne!(again.version, stored.version);
}
