//! Controllers that wake themselves.

use std::sync::Arc;

use super::{
    harness::{Harness, Probe},
    kit::{Store, album, artist, id},
};
use crate::{Mapper, Outcome};

/// A reconciler that calls `write` with the requested name, and records the write.
fn writer(write: impl Fn(&Store, &str) -> Option<(mortise_resource::pb::Id, u64)> + Send + Sync + 'static) -> Harness {
    let store = Store::default();
    let (with, write) = (store.clone(), Arc::new(write));
    let probe = Probe::new(move |context, request, _| {
        let (store, write) = (with.clone(), write.clone());
        async move {
            if let Some((id, version)) = write(&store, request.key.name()) {
                // Lets the event arrive before the answer.
                tokio::task::yield_now().await;
                tokio::task::yield_now().await;
                context.wrote(&id, &version.to_string());
            }
            Ok(Outcome::Done)
        }
    });
    Harness::over(store, probe)
}

/// Registers a controller that watches albums, and lets it wake itself until it is throttled.
async fn wakes_itself(harness: &Harness) {
    harness.register(|d| d.watch(album(), Mapper::References(Arc::new(super::kit::refers)), Vec::new()));
    harness.settle().await;
    harness.store.put(&artist(), "a");
    harness.pass(3).await;
    assert_eq!((harness.status().reconciles, harness.status().throttled), (11, 1));
}

#[tokio::test(start_paused = true)]
async fn a_controller_that_wakes_itself_is_throttled_until_something_else_happens() {
    let harness = writer(|store, name| Some((id(&artist(), name), store.put(&artist(), name))));
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
    let harness = writer(|store, name| {
        let other = if name == "a" { "b" } else { "a" };
        Some((id(&album(), name), store.point(&album(), name, other)))
    });
    wakes_itself(&harness).await;
}

#[tokio::test(start_paused = true)]
async fn through_ever_so_many_children_too() {
    let store = Store::default();
    let with = store.clone();
    let probe = Probe::new(move |context, _, _| {
        let store = with.clone();
        async move {
            for n in 0..200 {
                let name = n.to_string();
                let version = store.point(&album(), &name, "a");
                // The owner is in the queue again before the write is known.
                for _ in 0..4 {
                    tokio::task::yield_now().await;
                }
                context.wrote(&id(&album(), &name), &version.to_string());
            }
            Ok(Outcome::Done)
        }
    });
    wakes_itself(&Harness::over(store, probe)).await;
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
    let harness = writer(move |store, name| {
        let first = written.lock().insert(name.to_owned());
        let all: Vec<String> = (0..100).map(|n| n.to_string()).collect();
        first.then(|| (id(&album(), "all"), store.point(&album(), "all", &all.join(","))))
    });
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
    let store = Store::default();
    let with = store.clone();
    let probe = Probe::new(move |context, _, _| {
        let store = with.clone();
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
    wakes_itself(&Harness::over(store, probe)).await;
}

#[tokio::test(start_paused = true)]
async fn asking_to_be_called_again_at_once_is_waking_oneself() {
    for after in [None, Some(0), Some(1)] {
        let probe = Probe::new(move |_, _, _| async move {
            Ok(after.map_or(Outcome::Now, |ms| Outcome::After(std::time::Duration::from_millis(ms))))
        });
        let harness = Harness::start(probe, |d| d).await;
        harness.store.put(&artist(), "a");
        harness.pass(20).await;
        let status = harness.status();
        assert!((11..=13).contains(&status.reconciles) && status.throttled == 1, "{after:?}: {status:?}");
        assert_eq!(status.throttled_keys[0].name(), "a");
        // 5, 10, 20 and so on up to a second, and no longer.
        harness.pass(60_000).await;
        let reconciles = harness.status().reconciles;
        assert!((11 + 7 + 55..=11 + 9 + 60).contains(&reconciles), "{after:?}: {reconciles}");
        // A change from outside wakes it at once, at full speed for a while.
        harness.store.put(&artist(), "a");
        harness.pass(20).await;
        assert!(harness.status().reconciles >= reconciles + 10, "{after:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn one_that_asks_for_a_later_time_is_left_alone() {
    let probe = Probe::new(|_, _, _| async { Ok(Outcome::After(std::time::Duration::from_secs(1))) });
    let harness = Harness::start(probe, |d| d).await;
    harness.store.put(&artist(), "a");
    harness.pass(100_100).await;
    assert_eq!((harness.status().reconciles, harness.status().self_wakes), (101, 0));
}

/// A mapper that writes an album each time it maps one.
struct WritingMap(Store);

#[async_trait::async_trait]
impl crate::Map for WritingMap {
    async fn map(
        &self,
        context: &crate::Context,
        resource: &mortise_resource::pb::Resource,
    ) -> Result<Vec<mortise_resource::pb::Id>, crate::ReconcileError> {
        let name = resource.id.as_ref().unwrap().name.clone();
        let version = self.0.put(&album(), &name);
        context.wrote(&id(&album(), &name), &version.to_string());
        Ok(Vec::new())
    }

    fn follows(&self) -> bool {
        false
    }
}

#[tokio::test(start_paused = true)]
async fn a_mapper_that_writes_wakes_itself_too() {
    let store = Store::default();
    let harness = Harness::over(store.clone(), Probe::done());
    harness.register(|d| d.watch(album(), Mapper::Custom(Arc::new(WritingMap(store))), Vec::new()));
    harness.settle().await;
    let before = harness.store.put(&album(), "x");
    harness.pass(4).await;
    assert_eq!(harness.status().self_wakes, 1);
    harness.pass(1_000).await;
    let after = harness.store.put(&album(), "y");
    assert!((12..=22).contains(&(after - before)), "{}", after - before);
}
