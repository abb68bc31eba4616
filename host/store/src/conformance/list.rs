//! Tests of List, and of the types.

use mortise_resource::pb;

use super::fixtures::{
    delete, everything, list, name, numbered, places, query, resource, resource_in, tenancy, type_of, write,
};
use crate::{Backend, Query, TypeKey};

/// Writes Consul's conformance seed.
async fn seed<B: Backend>(store: &B) -> Vec<pb::Resource> {
    let mut stored = Vec::new();
    for (group_version, kind, partition, namespace, name) in [
        ("v1", "A", "default", "default", "admin"),
        ("v1", "A", "default", "default", "api"),
        ("v2", "A", "default", "default", "web"),
        ("v1", "A", "billing", "payments", "api"),
        ("v1", "B", "default", "default", "admin"),
        ("v1", "A", "default", "other", "autoscaler"),
    ] {
        let resource = resource_in(type_of(group_version, kind), tenancy(partition, namespace), name);
        stored.push(write(store, &resource).await);
    }
    stored
}

/// Every kind of query over the seed.
pub async fn the_seed<B: Backend>(store: &B) {
    seed(store).await;
    let everywhere = [
        "billing/payments/api",
        "default/default/admin",
        "default/default/api",
        "default/default/web",
        "default/other/autoscaler",
    ];
    let cases: [(Query, &[&str]); 11] = [
        (query("default", "default", ""), &everywhere[1..4]),
        (query("default", "default", "a"), &everywhere[1..3]),
        (query("default", "default", "admin"), &everywhere[1..2]),
        (query("default", "default", "x"), &[]),
        (query("default", "*", ""), &everywhere[1..]),
        (query("*", "default", ""), &everywhere[1..4]),
        (query("*", "*", ""), &everywhere),
        (query("*", "*", "a"), &[everywhere[0], everywhere[1], everywhere[2], everywhere[4]]),
        (query("default", "*", "a"), &[everywhere[1], everywhere[2], everywhere[4]]),
        (query("*", "payments", "api"), &everywhere[..1]),
        (query("nowhere", "*", ""), &[]),
    ];
    for (query, expected) in cases {
        assert_eq!(places(&list(store, &query).await), expected, "{query:?}");
    }
    let other = Query { type_key: TypeKey { group: "test".into(), kind: "B".into() }, ..everything() };
    assert_eq!(places(&list(store, &other).await), ["default/default/admin"]);
    let absent = Query { type_key: TypeKey { group: "test".into(), kind: "C".into() }, ..everything() };
    assert_eq!(list(store, &absent).await, []);
}

/// Lists are ordered by partition, namespace, name, each byte by byte, a prefix before its extensions.
pub async fn byte_order<B: Backend>(store: &B) {
    let units = ["a", "a-0", "a0", "aa", "b", "0"];
    for partition in units.iter().rev() {
        for namespace in units {
            for name in ["b", "a", "a-a", "a0"] {
                write(store, &resource_in(type_of("v1", "A"), tenancy(partition, namespace), name)).await;
            }
        }
    }
    let listed = places(&list(store, &everything()).await);
    let mut sorted = listed.clone();
    sorted.sort_by_key(|place| place.split('/').map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(listed.len(), 6 * 6 * 4);
    assert_eq!(listed, sorted);
}

/// Every combination of exact units, wildcards and prefixes equals a list filtered by hand.
pub async fn wildcards_reach_every_unit<B: Backend>(store: &B) {
    let units = ["a", "b", "ba", "c"];
    for (number, partition) in units.iter().enumerate() {
        for namespace in &units[number % 2..] {
            for name in ["w", "web", "web-1", "x", "a"] {
                write(store, &resource_in(type_of("v1", "A"), tenancy(partition, namespace), name)).await;
            }
        }
    }
    let all = places(&list(store, &everything()).await);
    assert_eq!(all.len(), (4 + 3 + 4 + 3) * 5);
    let wanted = ["*", "a", "b", "c", "d", "0"];
    for partition in wanted {
        for namespace in wanted {
            for prefix in ["", "w", "web", "web-1", "x", "xx", "a", "0", "zz"] {
                let fits = |place: &&String| {
                    let parts: Vec<_> = place.split('/').collect();
                    (partition == "*" || partition == parts[0])
                        && (namespace == "*" || namespace == parts[1])
                        && parts[2].starts_with(prefix)
                };
                let expected: Vec<_> = all.iter().filter(fits).cloned().collect();
                let listed = places(&list(store, &query(partition, namespace, prefix)).await);
                assert_eq!(listed, expected, "{partition}/{namespace}/{prefix}");
            }
        }
    }
}

/// Types of cluster and partition scope leave units empty: an empty unit in a query matches only these.
pub async fn empty_units_are_units<B: Backend>(store: &B) {
    for (partition, namespace) in [("", ""), ("p", ""), ("p", "n")] {
        write(store, &resource_in(type_of("v1", "A"), tenancy(partition, namespace), "x")).await;
    }
    let cases: [(&str, &str, &[&str]); 6] = [
        ("", "", &["//x"]),
        ("p", "", &["p//x"]),
        ("p", "n", &["p/n/x"]),
        ("*", "", &["//x", "p//x"]),
        ("p", "*", &["p//x", "p/n/x"]),
        ("*", "*", &["//x", "p//x", "p/n/x"]),
    ];
    for (partition, namespace, expected) in cases {
        assert_eq!(places(&list(store, &query(partition, namespace, "")).await), expected, "{partition}/{namespace}");
    }
}

/// Lists more resources than an engine reads in one step.
pub async fn thousands<B: Backend>(store: &B) {
    let mutations = |from: u32| {
        let put = |n: u32| {
            let tenancy = tenancy("default", if n.is_multiple_of(2) { "even" } else { "odd" });
            crate::Mutation::Put(Box::new(resource_in(type_of("v1", "A"), tenancy, &format!("r-{n:05}"))))
        };
        (from..from + 500).map(put).collect()
    };
    for from in (0..3_000).step_by(500) {
        store.commit(crate::Batch::new(mutations(from))).await.unwrap();
    }
    let all = list(store, &everything()).await;
    assert_eq!(all.len(), 3_000);
    assert!(places(&all).is_sorted());
    assert_eq!(list(store, &query("*", "odd", "")).await.len(), 1_500);
    assert_eq!(list(store, &query("*", "*", "r-012")).await.len(), 100);
}

/// A list shows the last writes, and no deleted resource.
pub async fn follows_writes<B: Backend>(store: &B) {
    let a = write(store, &resource("a")).await;
    let b = write(store, &resource("b")).await;
    let a = write(store, &numbered(a, 1)).await;
    assert_eq!(list(store, &everything()).await, [a.clone(), b.clone()]);
    delete(store, &a).await;
    assert_eq!(list(store, &everything()).await.iter().map(name).collect::<Vec<_>>(), ["b"]);
    delete(store, &b).await;
    assert_eq!(list(store, &everything()).await, []);
}

/// Types are listed in byte order; a type goes with its last resource and comes back with the next.
pub async fn types_with_resources_are_listed<B: Backend>(store: &B) {
    let kinds = async || store.types().await.unwrap().into_iter().map(|key| key.to_string()).collect::<Vec<_>>();
    assert!(kinds().await.is_empty());
    let id = |group_version: &str, kind: &str, name: &str| {
        resource_in(type_of(group_version, kind), tenancy("default", "default"), name)
    };
    let first = write(store, &id("v1", "B", "x")).await;
    let second = write(store, &id("v2", "B", "y")).await;
    write(store, &id("v1", "Aa", "x")).await;
    write(store, &id("v1", "A", "x")).await;
    assert_eq!(kinds().await, ["test.A", "test.Aa", "test.B"]);
    delete(store, &first).await;
    assert_eq!(kinds().await, ["test.A", "test.Aa", "test.B"]);
    delete(store, &second).await;
    assert_eq!(kinds().await, ["test.A", "test.Aa"]);
    write(store, &id("v1", "B", "z")).await;
    assert_eq!(kinds().await, ["test.A", "test.Aa", "test.B"]);
}
