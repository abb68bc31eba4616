//! Tests of WatchList.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
    time::Duration,
};

use mortise_resource::pb;

use super::fixtures::{
    Event, WATCH_BUFFER, assert_silent, decoded, delete, everything, id, list, name, next, number, numbered, places,
    query, resource, resource_in, tenancy, type_of, watch, write,
};
use crate::{Backend, Query, StoreError, TypeKey, WatchEvent};

/// A watch delivers present resources as upserts in the order of a list, one end marker, then changes in commit order,
/// each once.
pub async fn snapshot_then_end_then_changes<B: Backend>(store: &B) {
    let a = write(store, &resource("a")).await;
    let b = write(store, &resource("b")).await;
    let (snapshot, mut events) = watch(store, &everything()).await;
    assert_eq!(snapshot, [a.clone(), b.clone()]);
    let a = write(store, &numbered(a, 1)).await;
    let c = write(store, &resource("c")).await;
    delete(store, &b).await;
    let a2 = write(store, &numbered(a.clone(), 2)).await;
    let expected = [Event::Upsert(a), Event::Upsert(c), Event::Delete(b), Event::Upsert(a2)];
    for event in expected {
        assert_eq!(next(&mut events).await, event);
    }
    assert_silent(store, &mut events, &resource("marker")).await;
}

/// An empty snapshot has the end marker, too, once.
pub async fn an_empty_snapshot_ends_too<B: Backend>(store: &B) {
    let (snapshot, mut events) = watch(store, &everything()).await;
    assert_eq!(snapshot, []);
    let early = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
    assert!(early.is_err(), "nothing happened, yet: {early:?}");
    assert_silent(store, &mut events, &resource("marker")).await;
}

/// A deletion carries the last stored resource with its version, not just the id.
pub async fn deletion_carries_the_last_stored_resource<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    let stored = write(store, &numbered(stored, 7)).await;
    let (_, mut events) = watch(store, &everything()).await;
    delete(store, &stored).await;
    assert_eq!(next(&mut events).await, Event::Delete(stored));
}

/// A watch delivers only resources of its tenancy and prefix.
pub async fn exact_tenancy_and_prefix<B: Backend>(store: &B) {
    let id = |partition: &str, namespace: &str, name: &str| {
        resource_in(type_of("v1", "A"), tenancy(partition, namespace), name)
    };
    for resource in [id("p", "n", "web-1"), id("p", "n", "api"), id("p", "m", "web-2"), id("q", "n", "web-3")] {
        write(store, &resource).await;
    }
    let (snapshot, mut events) = watch(store, &query("p", "n", "web")).await;
    assert_eq!(places(&snapshot), ["p/n/web-1"]);
    for resource in [id("p", "n", "we"), id("p", "m", "web"), id("q", "n", "web"), id("", "", "web")] {
        let stored = write(store, &resource).await;
        delete(store, &stored).await;
    }
    write(store, &resource_in(type_of("v1", "B"), tenancy("p", "n"), "web")).await;
    assert_silent(store, &mut events, &id("p", "n", "web")).await;
}

/// Wildcards in either unit apply to the snapshot and to later events.
pub async fn wildcards<B: Backend>(store: &B) {
    let list = |partition: &str, namespace: &str| {
        resource_in(type_of("v1", "A"), tenancy(partition, namespace), &format!("x-{}", super::fixtures::ulid()))
    };
    let cases = [
        (query("p", "*", ""), [("p", "n"), ("p", "m")], ("q", "n")),
        (query("*", "n", ""), [("p", "n"), ("q", "n")], ("p", "m")),
        (query("*", "*", "x"), [("p", "n"), ("q", "m")], ("p", "n")),
    ];
    for (query, inside, outside) in cases {
        let (_, mut events) = watch(store, &query).await;
        for (partition, namespace) in inside {
            let stored = write(store, &list(partition, namespace)).await;
            assert_eq!(next(&mut events).await, Event::Upsert(stored), "{query:?}");
        }
        if query.name_prefix.is_empty() {
            write(store, &list(outside.0, outside.1)).await;
        }
        assert_silent(store, &mut events, &list(inside[0].0, inside[0].1)).await;
    }
}

/// A watch covers every GroupVersion of a group and kind.
pub async fn every_group_version<B: Backend>(store: &B) {
    let resource_at =
        |group_version: &str, name: &str| resource_in(type_of(group_version, "A"), tenancy("default", "default"), name);
    let first = write(store, &resource_at("v1", "a")).await;
    let second = write(store, &resource_at("v2", "b")).await;
    let (snapshot, mut events) = watch(store, &everything()).await;
    assert_eq!(snapshot, [first, second]);
    assert_silent(store, &mut events, &resource_at("v3", "c")).await;
}

/// A resource that is replaced under another GroupVersion leaves the readers of the former one.
pub async fn another_group_version_is_a_deletion_and_an_upsert<B: Backend>(store: &B) {
    let of = |stored: &pb::Resource, group_version: &str| {
        let mut next = stored.clone();
        next.id.as_mut().unwrap().r#type = Some(type_of(group_version, "A"));
        next
    };
    let v1 = write(store, &resource("a")).await;
    let (_, mut events) = watch(store, &everything()).await;
    let (_, mut other_names) = watch(store, &query("default", "default", "b")).await;
    let v2 = write(store, &of(&v1, "v2")).await;
    let again = write(store, &numbered(v2.clone(), 7)).await;
    let back = write(store, &of(&again, "v1")).await;
    delete(store, &back).await;
    for event in [
        Event::Delete(v1),
        Event::Upsert(v2),
        Event::Upsert(again.clone()),
        Event::Delete(again),
        Event::Upsert(back.clone()),
        Event::Delete(back),
    ] {
        assert_eq!(next(&mut events).await, event);
    }
    assert_silent(store, &mut events, &resource("marker")).await;
    assert_silent(store, &mut other_names, &resource("b")).await;
}

/// The snapshot has every write acknowledged before the call.
pub async fn snapshot_is_no_older_than_the_call<B: Backend>(store: &B) {
    let mut stored = write(store, &resource("a")).await;
    for n in 1..30 {
        stored = write(store, &numbered(stored, n)).await;
        let (snapshot, _events) = watch(store, &everything()).await;
        assert_eq!(snapshot, [stored.clone()]);
    }
    delete(store, &stored).await;
    assert_eq!(watch(store, &everything()).await.0, []);
}

/// A task that polls a live watch is woken by the next event, once, and by no event that it has taken.
pub async fn a_polled_watch_wakes_its_task<B: Backend>(store: &B) {
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let (_, mut watch) = watch(store, &everything()).await;
    let count = Arc::new(Count(AtomicUsize::new(0)));
    let waker = Waker::from(count.clone());
    let mut cx = Context::from_waker(&waker);
    for round in 1..=3 {
        assert!(watch.poll_ready(&mut cx).is_pending());
        assert!(watch.poll_ready(&mut cx).is_pending(), "polled twice, it waits once");
        let written = write(store, &resource(&format!("r{round}"))).await;
        let woken = async {
            while count.0.load(Ordering::SeqCst) < round {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), woken).await.expect("a wake-up in time");
        match watch.poll_ready(&mut cx) {
            Poll::Ready(Ok(WatchEvent::Upsert(event))) => assert_eq!(decoded(&event), written),
            other => panic!("{other:?}"),
        }
        assert_eq!(count.0.load(Ordering::SeqCst), round);
    }
}

/// Each watch has its own position; dropping one does not affect others.
pub async fn watches_are_independent<B: Backend>(store: &B) {
    let (_, mut first) = watch(store, &everything()).await;
    let (_, second) = watch(store, &everything()).await;
    let a = write(store, &resource("a")).await;
    drop(second);
    let (snapshot, mut third) = watch(store, &everything()).await;
    assert_eq!(snapshot, std::slice::from_ref(&a));
    let b = write(store, &resource("b")).await;
    assert_eq!(next(&mut first).await, Event::Upsert(a));
    assert_eq!(next(&mut first).await, Event::Upsert(b.clone()));
    assert_eq!(next(&mut third).await, Event::Upsert(b));
}

/// Watches opened under load: snapshot and events add up to the final content, the states of one resource come in
/// order, and none twice.
pub async fn opened_under_load_nothing_is_missed_or_doubled<B: Backend>(store: &B) {
    // Each writer has its own names, so that creations do not collide.
    let writers = async {
        tokio::join!(writer(store, 0), writer(store, 1));
        write(store, &resource("the-end")).await;
    };
    let watcher = async |delay: u64| {
        tokio::time::sleep(Duration::from_millis(delay)).await;
        follow(store).await
    };
    let ((), a, b, c, d) = tokio::join!(writers, watcher(0), watcher(5), watcher(20), watcher(60));
    let expected: BTreeMap<_, _> = list(store, &everything()).await.into_iter().map(|r| (name(&r), r)).collect();
    for seen in [a, b, c, d] {
        assert_eq!(seen, expected);
    }
}

async fn writer<B: Backend>(store: &B, offset: u64) {
    for n in 0..60_u64 {
        let created = write(store, &numbered(resource(&format!("w{offset}-{}", n % 7)), n)).await;
        let updated = write(store, &numbered(created, n + 1_000)).await;
        if n % 5 == 0 {
            write(store, &numbered(resource(&format!("w{offset}-stay-{n}")), n)).await;
        }
        delete(store, &updated).await;
    }
}

/// Follows a watch until the resource `the-end` appears, checking each event against the earlier ones.
async fn follow<B: Backend>(store: &B) -> BTreeMap<String, pb::Resource> {
    let (snapshot, mut events) = watch(store, &everything()).await;
    let mut state: BTreeMap<_, _> = BTreeMap::new();
    for resource in snapshot {
        assert!(state.insert(name(&resource), resource).is_none(), "twice in a snapshot");
    }
    while !state.contains_key("the-end") {
        match next(&mut events).await {
            Event::Upsert(new) => {
                let old = state.insert(name(&new), new.clone());
                if let Some(old) = old {
                    assert_eq!(id(&old), id(&new), "a deletion was missed");
                    assert!(number(&old) < number(&new), "{} after {}", number(&new), number(&old));
                }
            }
            Event::Delete(last) => assert_eq!(state.remove(&name(&last)), Some(last)),
            Event::EndOfSnapshot => panic!("a second end marker"),
        }
    }
    state
}

/// A reader that lags too far gets an error instead of a gap, also in later calls.
pub async fn a_slow_reader_gets_an_error<B: Backend>(store: &B) {
    let (_, mut events) = watch(store, &everything()).await;
    let (_, mut other_type) =
        watch(store, &Query { type_key: TypeKey { group: "test".into(), kind: "B".into() }, ..everything() }).await;
    let mut stored = write(store, &resource("a")).await;
    for n in 0..4 * WATCH_BUFFER as u64 {
        stored = write(store, &numbered(stored, n)).await;
    }
    let ended = loop {
        match tokio::time::timeout(Duration::from_secs(20), events.next()).await.expect("an end in time") {
            Ok(event) => assert!(matches!(event, WatchEvent::Upsert(_))),
            Err(error) => break error,
        }
    };
    assert!(matches!(ended, StoreError::WatchLagged { bound, .. } if bound <= WATCH_BUFFER), "{ended:?}");
    assert!(events.next().await.is_err());
    // Other watches are not affected.
    let marker = resource_in(type_of("v1", "B"), tenancy("default", "default"), "marker");
    assert_silent(store, &mut other_type, &marker).await;
    assert_eq!(watch(store, &everything()).await.0, [stored]);
}
