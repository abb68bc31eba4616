//! Controllers that wake themselves.

use std::sync::{Arc, OnceLock};

use super::{
    harness::{Harness, Probe},
    kit::{Store, album, artist, id},
};
use crate::{Mapper, Outcome};

/// A reconciler that writes `of` under a name that is made of the one it is asked about, and says so.
fn writer(
    write: impl Fn(&Store, &str) -> Option<(mortise_resource::pb::Id, u64)> + Send + Sync + 'static,
) -> (Arc<Probe>, Arc<OnceLock<Store>>) {
    let store: Arc<OnceLock<Store>> = Arc::default();
    let (with, write) = (store.clone(), Arc::new(write));
    let probe = Probe::new(move |context, request, _| {
        let (store, write) = (with.get().unwrap().clone(), write.clone());
        async move {
            if let Some((id, version)) = write(&store, request.key.name()) {
                // Let the event be faster than the answer.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                context.wrote(&id, &version.to_string());
            }
            Ok(Outcome::Done)
        }
    });
    (probe, store)
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_wakes_itself_is_throttled_until_something_else_happens() {
    let (probe, store) = writer(|store, name| Some((id(&artist(), name), store.put(&artist(), name))));
    let harness = Harness::new(probe);
    store.set(harness.store.clone()).ok().unwrap();
    harness.register(|d| d);
    harness.settle().await;
    harness.store.put(&artist(), "a");
    harness.pass(4).await;
    let status = harness.status();
    assert_eq!((status.reconciles, status.throttled, status.self_wakes), (11, 1, 1));
    assert_eq!(status.throttled_keys[0].name(), "a");
    harness.pass(5 + 10 + 20 + 40 + 1).await;
    assert_eq!(
        (harness.status().reconciles, harness.status().throttled),
        (15, 1),
        "5, 10, 20, 40 ms, as after failures"
    );
    harness.store.put(&artist(), "a");
    harness.pass(1).await;
    assert_eq!(
        (harness.status().reconciles, harness.status().throttled),
        (26, 1),
        "at full speed once more, then no more"
    );
    harness.pass(3_600_000).await;
    assert!(harness.status().reconciles < 26 + 25, "{}", harness.status().reconciles);
}

#[tokio::test(start_paused = true)]
async fn through_a_mapper_and_through_several_keys_too() {
    // Each of two artists writes an album that wakes the other one.
    let (probe, store) = writer(|store, name| {
        let other = if name == "a" { "b" } else { "a" };
        Some((id(&album(), name), store.point(&album(), name, other)))
    });
    let harness = Harness::new(probe);
    store.set(harness.store.clone()).ok().unwrap();
    harness.register(|d| d.watch(album(), Mapper::References(Arc::new(super::kit::refers)), Vec::new()));
    harness.settle().await;
    harness.store.put(&artist(), "a");
    harness.pass(3).await;
    let status = harness.status();
    assert_eq!((status.reconciles, status.throttled), (11, 1));
}

#[tokio::test(start_paused = true)]
async fn foreign_events_are_never_throttled() {
    let harness = Harness::start(Probe::done(), |d| d).await;
    for _ in 0..100 {
        harness.store.put(&artist(), "a");
        harness.settle().await;
    }
    assert_eq!((harness.status().reconciles, harness.status().self_wakes), (100, 0));
}

#[tokio::test(start_paused = true)]
async fn work_that_settles_is_not_throttled_however_far_it_spreads() {
    // A hundred artists each write one album once, which wakes all of them.
    let written = parking_lot::Mutex::new(std::collections::HashSet::new());
    let (probe, store) = writer(move |store, name| {
        let first = written.lock().insert(name.to_owned());
        let all: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        first.then(|| (id(&album(), "all"), store.point(&album(), "all", &all.join(","))))
    });
    let harness = Harness::new(probe);
    store.set(harness.store.clone()).ok().unwrap();
    for n in 0..100 {
        harness.store.put(&artist(), &n.to_string());
    }
    harness.register(|d| d.watch(album(), Mapper::References(Arc::new(super::kit::refers)), Vec::new()));
    harness.pass(10).await;
    let status = harness.status();
    assert_eq!((status.self_wakes, status.throttled, status.queue_depth), (0, 0, 0));
}

#[tokio::test(start_paused = true)]
async fn one_that_deletes_and_creates_is_found_as_well() {
    let store: Arc<OnceLock<Store>> = Arc::default();
    let with = store.clone();
    let probe = Probe::new(move |context, _, _| {
        let store = with.get().unwrap().clone();
        async move {
            if context.cache().get(&id(&album(), "x")).unwrap().is_some() {
                context.deleted(&id(&album(), "x"));
                store.delete(&album(), "x");
            } else {
                context.wrote(&id(&album(), "x"), &store.point(&album(), "x", "a").to_string());
            }
            Ok(Outcome::Done)
        }
    });
    let harness = Harness::new(probe);
    store.set(harness.store.clone()).ok().unwrap();
    harness.register(|d| d.watch(album(), Mapper::References(Arc::new(super::kit::refers)), Vec::new()));
    harness.settle().await;
    harness.store.put(&artist(), "a");
    harness.pass(3).await;
    assert_eq!((harness.status().reconciles, harness.status().throttled), (11, 1));
}
