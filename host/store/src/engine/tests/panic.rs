//! Tests of an uncaught panic of the commit thread.

use std::time::Duration;

use tokio::time::timeout;

use crate::{
    Backend as _, Consistency, Options, SledBackend, StoreError,
    conformance::fixtures::{id, resource},
    engine::commit::job::Job,
};

/// Waiting and later calls are answered; the store reports that it is poisoned, and reads continue. Acknowledged data
/// is there after a restart.
#[tokio::test]
async fn a_store_without_its_commit_thread_answers_all_callers() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledBackend::open(Options::new(dir.path().join("store"))).unwrap();
    let stored = store.write_cas(resource("a")).await.unwrap();
    store.shared.queue.push(Job::Panic).await.unwrap();
    let is_told = |error: StoreError| matches!(&error, StoreError::Poisoned(why) if why.contains("panics on purpose"));
    for n in 0..3 {
        let write = timeout(Duration::from_secs(20), store.write_cas(resource(&format!("b{n}"))));
        assert!(is_told(write.await.expect("an answer in time").unwrap_err()));
    }
    assert!(timeout(Duration::from_secs(20), store.stats()).await.expect("an answer in time").is_err());
    let why = store.health().borrow().poisoned.clone();
    assert!(why.is_some_and(|why| why.contains("commit thread failed: panics on purpose")));
    assert_eq!(store.read(Consistency::Consistent, &id(&stored)).await.unwrap(), stored);
    drop(store);
    let store = SledBackend::open(Options::new(dir.path().join("store"))).unwrap();
    assert_eq!(store.read(Consistency::Consistent, &id(&stored)).await.unwrap(), stored);
    store.write_cas(resource("c")).await.unwrap();
}

/// The other threads have no callers that wait for them; the store shows their end.
#[tokio::test]
async fn a_store_without_one_of_its_threads_refuses_writes() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledBackend::open(Options::new(dir.path().join("store"))).unwrap();
    let stored = store.write_cas(resource("a")).await.unwrap();
    store.shared.guard("scrub", || {});
    assert!(store.health().borrow().is_ready(), "only a panic makes it unready");
    store.shared.guard("scrub", || panic!("panics on purpose"));
    let health = store.health().borrow().clone();
    assert!(
        health.poisoned.as_ref().is_some_and(|why| why == "the scrub thread failed: panics on purpose"),
        "{health:?}"
    );
    assert!(!health.is_ready());
    assert!(matches!(store.write_cas(resource("b")).await, Err(StoreError::Poisoned(_))));
    assert_eq!(store.read(Consistency::Consistent, &id(&stored)).await.unwrap(), stored);
}
