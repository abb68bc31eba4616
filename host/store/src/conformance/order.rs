//! Tests of the order in which states become visible.

use std::sync::atomic::{AtomicBool, Ordering};

use mortise_resource::pb;

use super::fixtures::{
    Event, commit, delete, everything, id, list, next, number, numbered, read, resource, resource_in, tenancy, type_of,
    watch, write,
};
use crate::{Backend, Batch, Mutation};

/// A resource is readable after its upsert event, in that state or a later one, and gone after its delete event.
pub async fn reads_are_not_older_than_events<B: Backend>(store: &B) {
    let (_, mut events) = watch(store, &everything()).await;
    let writer = async {
        for n in 0..100 {
            let created = write(store, &numbered(resource("a"), n * 2)).await;
            let updated = write(store, &numbered(created, n * 2 + 1)).await;
            delete(store, &updated).await;
        }
    };
    let reader = async {
        for _ in 0..300 {
            match next(&mut events).await {
                Event::Upsert(seen) => {
                    let mut any = id(&seen);
                    any.uid.clear();
                    if let Some(stored) = read(store, &any).await {
                        assert!(number(&stored) >= number(&seen), "{} after {}", number(&stored), number(&seen));
                    }
                    let listed = list(store, &everything()).await;
                    assert!(listed.iter().all(|stored| number(stored) >= number(&seen)));
                }
                Event::Delete(last) => assert_eq!(read(store, &id(&last)).await, None),
                Event::EndOfSnapshot => panic!("a second end marker"),
            }
        }
    };
    tokio::join!(writer, reader);
}

/// Reads and lists never show an older state than one seen before.
pub async fn reads_and_lists_never_go_back<B: Backend>(store: &B) {
    let stored = write(store, &numbered(resource("a"), 1)).await;
    let done = AtomicBool::new(false);
    let writer = async {
        let mut stored = stored.clone();
        for n in 2..200 {
            stored = write(store, &numbered(stored, n)).await;
        }
        done.store(true, Ordering::SeqCst);
    };
    let reader = async {
        let mut newest = 0;
        while !done.load(Ordering::SeqCst) {
            let by_read = number(&read(store, &id(&stored)).await.unwrap());
            assert!(by_read >= newest, "read {by_read} after {newest}");
            let by_list = number(&list(store, &everything()).await[0]);
            assert!(by_list >= by_read, "listed {by_list} after {by_read}");
            newest = by_list;
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(writer, reader);
}

/// A client that sees the owner's deletion can list every child that existed then.
pub async fn children_are_seen_after_the_owner_s_deletion<B: Backend>(store: &B) {
    let (_, mut events) = watch(store, &everything()).await;
    for round in 0..20 {
        let owner = write(store, &resource(&format!("owner-{round}"))).await;
        let children = async |kind: &str| {
            for n in 0..3 {
                let child = resource_in(type_of("v1", kind), tenancy("default", "default"), &format!("c-{round}-{n}"));
                write(store, &pb::Resource { owner: Some(id(&owner)), ..child }).await;
            }
        };
        tokio::join!(children("B"), children("C"));
        let watcher = async {
            while !matches!(next(&mut events).await, Event::Delete(_)) {}
            assert_eq!(store.list_by_owner(&id(&owner)).await.unwrap().len(), 6);
        };
        tokio::join!(delete(store, &owner), watcher);
    }
}

/// Batches keep a sum, and each list shows that sum.
pub async fn lists_are_of_one_commit<B: Backend>(store: &B) {
    const RESOURCES: usize = 200;
    let put = |resource: pb::Resource| Mutation::Put(Box::new(resource));
    let mutations = (0..RESOURCES).map(|n| put(numbered(resource(&format!("r-{n:03}")), 10))).collect();
    let created = commit(store, Batch::new(mutations)).await.unwrap();
    let total = 10 * RESOURCES as u64;
    let done = AtomicBool::new(false);
    let writer = async {
        let mut stored: Vec<_> = created.into_iter().flatten().collect();
        for round in 0..150_usize {
            // Moves an amount between two resources far apart in key order.
            let (from, to) = (round * 7 % RESOURCES, RESOURCES - 1 - round * 11 % RESOURCES);
            if from == to || number(&stored[from]) == 0 {
                continue;
            }
            let less = numbered(stored[from].clone(), number(&stored[from]) - 1);
            let more = numbered(stored[to].clone(), number(&stored[to]) + 1);
            let results = commit(store, Batch::new(vec![put(less), put(more)])).await.unwrap();
            stored[from] = results[0].clone().unwrap();
            stored[to] = results[1].clone().unwrap();
        }
        done.store(true, Ordering::SeqCst);
    };
    let reader = async {
        while !done.load(Ordering::SeqCst) {
            let listed = list(store, &everything()).await;
            assert_eq!(listed.iter().map(number).sum::<u64>(), total);
            let (snapshot, _events) = watch(store, &everything()).await;
            assert_eq!(snapshot.iter().map(number).sum::<u64>(), total);
            tokio::task::yield_now().await;
        }
    };
    tokio::join!(writer, reader);
}
