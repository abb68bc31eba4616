//! Tests of scans in pages.

use std::collections::BTreeMap;

use mortise_resource::pb;

use super::fixtures::{
    decoded, delete, everything, id, list, name, number, numbered, page, places, query, resource, resource_in, tenancy,
    type_of, write,
};
use crate::{Backend, Batch, Cursor, ListKey, Mutation, Query, backend::ATOMIC_CHANGES};

/// Number of resources above that of a page.
const MANY: u32 = 3_000;

async fn fill<B: Backend>(store: &B, count: u32) {
    for from in (0..count).step_by(500) {
        let put = |n: u32| {
            let tenancy = tenancy("default", if n.is_multiple_of(2) { "even" } else { "odd" });
            Mutation::Put(Box::new(resource_in(type_of("v1", "A"), tenancy, &format!("r-{n:05}"))))
        };
        let mutations = (from..(from + 500).min(count)).map(put).collect();
        store.commit(Batch::new(mutations)).await.unwrap();
    }
}

async fn rest(cursor: &mut Box<dyn Cursor>) -> Vec<pb::Resource> {
    let mut found = Vec::new();
    while let Some(page) = page(cursor).await {
        assert!(!page.is_empty());
        found.extend(page);
    }
    assert!(cursor.next().await.unwrap().is_none(), "an end stays one");
    found
}

async fn scan<B: Backend>(store: &B, query: &Query) -> Vec<pb::Resource> {
    rest(&mut store.scan(query).await.unwrap()).await
}

/// A scan without a match has no page.
pub async fn of_nothing_ends_at_once<B: Backend>(store: &B) {
    assert_eq!(scan(store, &everything()).await, []);
    write(store, &resource("a")).await;
    assert_eq!(scan(store, &query("*", "*", "b")).await, []);
}

/// A scan returns the list of its query, in the same order.
pub async fn equals_a_list<B: Backend>(store: &B) {
    fill(store, MANY).await;
    for query in [
        everything(),
        query("default", "odd", ""),
        query("*", "odd", ""),
        query("*", "*", "r-012"),
        query("p", "*", ""),
    ] {
        assert_eq!(scan(store, &query).await, list(store, &query).await, "{query:?}");
    }
}

/// A scan shows the state of its commit, in spite of changes while it is read, before, at and behind its place.
pub async fn shows_the_commit_of_its_opening<B: Backend>(store: &B) {
    fill(store, MANY).await;
    let before = list(store, &everything()).await;
    let mut untouched = store.scan(&everything()).await.unwrap();
    let mut cursor = store.scan(&everything()).await.unwrap();
    let mut found = page(&mut cursor).await.unwrap();
    assert!(found.len() < before.len(), "one page is not all");
    for (n, stored) in before.iter().enumerate().step_by(7) {
        match n % 3 {
            0 => delete(store, stored).await,
            1 => drop(write(store, &numbered(stored.clone(), 1)).await),
            _ => {
                // Deleted, and another incarnation in its place.
                delete(store, stored).await;
                let id = stored.id.clone().unwrap();
                write(store, &resource_in(id.r#type.unwrap(), id.tenancy.unwrap(), &id.name)).await;
            }
        }
    }
    for name in ["a", "r-00010-", "r-01500-", "z"] {
        for namespace in ["even", "odd", "p"] {
            write(store, &resource_in(type_of("v1", "A"), tenancy("default", namespace), name)).await;
        }
    }
    found.extend(rest(&mut cursor).await);
    assert_eq!(places(&found), places(&before));
    assert_eq!(found, before);
    assert_eq!(rest(&mut untouched).await, before);
    assert_ne!(list(store, &everything()).await, before);
}

/// Large resources come a few at a time.
pub async fn pages_are_bounded_in_bytes<B: Backend>(store: &B) {
    let large = |n: u32| {
        let mut resource = resource(&format!("r-{n:02}"));
        resource.metadata.insert("text".to_owned(), "x".repeat(100_000));
        resource
    };
    for n in 0..40 {
        write(store, &large(n)).await;
    }
    let mut cursor = store.scan(&everything()).await.unwrap();
    let mut count = 0;
    while let Some(page) = cursor.next().await.unwrap() {
        assert!(page.len() <= 20, "{}", page.len());
        count += page.len();
    }
    assert_eq!(count, 40);
}

/// A future dropped before it is done loses no page.
pub async fn a_call_that_is_given_up_loses_nothing<B: Backend>(store: &B) {
    fill(store, MANY).await;
    let mut cursor = store.scan(&everything()).await.unwrap();
    let mut found = Vec::new();
    loop {
        let waker = std::task::Waker::noop();
        let polled = cursor.next().as_mut().poll(&mut std::task::Context::from_waker(waker));
        match polled {
            std::task::Poll::Ready(page) => match page.unwrap() {
                Some(page) => found.extend(page.iter().map(decoded)),
                None => break,
            },
            std::task::Poll::Pending => tokio::task::yield_now().await,
        }
    }
    assert_eq!(found, list(store, &everything()).await);
}

/// A scan under load shows one commit: all resources have the same number at any commit.
pub async fn pages_are_of_one_commit_under_load<B: Backend>(store: &B) {
    fill(store, ATOMIC_CHANGES as u32).await;
    let writing = async {
        for round in 1..=30 {
            let stored = list(store, &everything()).await;
            let put = |stored: pb::Resource| Mutation::Put(Box::new(numbered(stored, round)));
            let mutations = stored.into_iter().map(put).collect();
            store.commit(Batch::new(mutations)).await.unwrap();
        }
    };
    let reading = async {
        for _ in 0..30 {
            let mut numbers = BTreeMap::new();
            for resource in scan(store, &everything()).await {
                numbers.entry(number(&resource)).or_insert_with(Vec::new).push(name(&resource));
            }
            assert_eq!(numbers.len(), 1, "{numbers:?}");
            assert_eq!(numbers.into_values().next().unwrap().len(), ATOMIC_CHANGES);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(writing, reading);
}

/// A kept content and a later read of any kind give the state of its commit, in spite of writes in between.
pub async fn a_kept_content_is_exact<B: Backend>(store: &B) {
    let place = |id: &pb::Id| {
        let tenancy = id.tenancy.clone().unwrap();
        ListKey { partition: tenancy.partition, namespace: tenancy.namespace, name: id.name.clone() }
    };
    let by_place = |resources: Vec<pb::Resource>| -> BTreeMap<ListKey, pb::Resource> {
        resources.into_iter().map(|resource| (place(&id(&resource)), resource)).collect()
    };
    fill(store, 200).await;
    let only = query("default", "odd", "r-");
    let (before, newest) = (by_place(list(store, &only).await), store.newest_version());
    let kept = store.keep(&only).await.unwrap();
    assert_eq!(kept.position().sequence, newest);
    let later = store.keep(&query("default", "none", "")).await.unwrap();
    let mut known = 0;
    let mut overwritten = BTreeMap::new();
    for round in 0..4 {
        for (n, stored) in list(store, &everything()).await.into_iter().enumerate().skip(round).step_by(7) {
            match n % 3 {
                0 => delete(store, &stored).await,
                _ => drop(write(store, &numbered(stored, round as u64)).await),
            }
        }
        write(store, &resource_in(type_of("v1", "A"), tenancy("default", "odd"), &format!("r-new-{round}"))).await;
        write(store, &resource_in(type_of("v1", "B"), tenancy("default", "odd"), &format!("r-{round}"))).await;
        let states = kept.overwritten(known).unwrap();
        known += states.len();
        for (place, state) in states {
            assert_eq!(overwritten.insert(place, state.as_ref().map(decoded)), None, "each comes once");
        }
        let mut content = by_place(list(store, &only).await);
        content.retain(|place, _| !overwritten.contains_key(place));
        content.extend(overwritten.iter().filter_map(|(place, state)| Some((place.clone(), state.clone()?))));
        assert_eq!(content, before, "round {round}");
    }
    assert!(known > 30, "{known}");
    assert_eq!(kept.overwritten(0).unwrap().len(), known);
    assert_eq!(later.overwritten(0).unwrap(), [], "other places do not count");
}

/// Writes children of three types in two namespaces, in byte order.
async fn fill_owned<B: Backend>(store: &B, owner: &pb::Id, count: u32) {
    for from in (0..count).step_by(500) {
        let put = |n: u32| {
            let (kind, namespace) = (["A", "B", "C"][n as usize % 3], if n.is_multiple_of(2) { "even" } else { "odd" });
            let child = resource_in(type_of("v1", kind), tenancy("default", namespace), &format!("r-{n:05}"));
            Mutation::Put(Box::new(pb::Resource { owner: Some(owner.clone()), ..child }))
        };
        let mutations = (from..(from + 500).min(count)).map(put).collect();
        store.commit(Batch::new(mutations)).await.unwrap();
    }
}

async fn scan_owned<B: Backend>(store: &B, owner: &pb::Id) -> Vec<pb::Resource> {
    rest(&mut store.scan_owned(owner).await.unwrap()).await
}

/// Children come by type, partition, namespace, name; other owners' resources are skipped.
pub async fn of_an_owner_gives_its_children_in_order<B: Backend>(store: &B) {
    let (owner, other) = (write(store, &resource("owner")).await, write(store, &resource("owner-2")).await);
    assert_eq!(scan_owned(store, &id(&owner)).await, []);
    fill_owned(store, &id(&owner), MANY).await;
    let stranger = resource_in(type_of("v1", "B"), tenancy("default", "even"), "r-00000-");
    let stranger = write(store, &pb::Resource { owner: Some(id(&other)), ..stranger }).await;
    let found = scan_owned(store, &id(&owner)).await;
    assert_eq!(found.len(), MANY as usize);
    let place = |resource: &pb::Resource| {
        let id = id(resource);
        (id.r#type.unwrap().kind, id.tenancy.unwrap().namespace, id.name)
    };
    assert!(found.is_sorted_by_key(place));
    let mut listed = store.list_by_owner(&id(&owner)).await.unwrap();
    listed.sort_by_key(place);
    assert_eq!(found, listed);
    assert_eq!(scan_owned(store, &id(&other)).await, [stranger]);
}

/// A scan of an owner shows one commit, even if children before and behind its place are changed, deleted, moved to or
/// from the owner, or the owner is deleted.
pub async fn of_an_owner_shows_one_commit<B: Backend>(store: &B) {
    let (owner, other) = (write(store, &resource("owner")).await, write(store, &resource("other")).await);
    fill_owned(store, &id(&owner), MANY).await;
    let before = scan_owned(store, &id(&owner)).await;
    let mut cursor = store.scan_owned(&id(&owner)).await.unwrap();
    let mut found = page(&mut cursor).await.unwrap();
    assert!(found.len() < before.len(), "one page is not all");
    for (n, stored) in before.iter().enumerate().step_by(7) {
        match n % 3 {
            0 => delete(store, stored).await,
            1 => drop(write(store, &numbered(stored.clone(), 1)).await),
            _ => drop(write(store, &pb::Resource { owner: Some(id(&other)), ..stored.clone() }).await),
        }
    }
    for (kind, name) in [("A", "a"), ("B", "r-01500-"), ("D", "z")] {
        let late = resource_in(type_of("v1", kind), tenancy("default", "even"), name);
        write(store, &pb::Resource { owner: Some(id(&owner)), ..late }).await;
    }
    delete(store, &owner).await;
    found.extend(rest(&mut cursor).await);
    assert_eq!(places(&found), places(&before));
    assert_eq!(found, before);
    assert_ne!(scan_owned(store, &id(&owner)).await, before);
}

/// Large children come a few at a time.
pub async fn of_an_owner_has_bounded_pages<B: Backend>(store: &B) {
    let owner = id(&write(store, &resource("owner")).await);
    for n in 0..40 {
        let mut child = pb::Resource { owner: Some(owner.clone()), ..resource(&format!("r-{n:02}")) };
        child.metadata.insert("text".to_owned(), "x".repeat(100_000));
        write(store, &child).await;
    }
    let mut cursor = store.scan_owned(&owner).await.unwrap();
    let mut count = 0;
    while let Some(page) = cursor.next().await.unwrap() {
        assert!(page.len() <= 20, "{}", page.len());
        count += page.len();
    }
    assert_eq!(count, 40);
}
