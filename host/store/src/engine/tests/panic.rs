//! A commit thread that panics where nothing contains it.

use std::time::Duration;

use tokio::time::timeout;

use crate::{
    Backend as _, Consistency, Options, SledBackend, StoreError,
    conformance::fixtures::{id, resource},
    engine::commit::job::Job,
};

/// Nobody waits for it: what is asked afterwards, and what waited already, is answered; the store says that it is
/// poisoned, and goes on reading. What was acknowledged is there after a restart.
#[tokio::test]
async fn a_store_without_its_commit_thread_says_so_to_everybody() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledBackend::open(Options::new(dir.path().join("store"))).unwrap();
    let stored = store.write_cas(resource("a")).await.unwrap();
    store.shared.queue.push(Job::Panic).await.unwrap();
    let is_told = |error: StoreError| matches!(&error, StoreError::Poisoned(why) if why.contains("it was told to"));
    for n in 0..3 {
        let write = timeout(Duration::from_secs(20), store.write_cas(resource(&format!("b{n}"))));
        assert!(is_told(write.await.expect("an answer in time").unwrap_err()));
    }
    assert!(timeout(Duration::from_secs(20), store.stats()).await.expect("an answer in time").is_err());
    let why = store.health().borrow().poisoned.clone();
    assert!(why.is_some_and(|why| why.contains("commit thread failed: it was told to")));
    assert_eq!(store.read(Consistency::Consistent, &id(&stored)).await.unwrap(), stored);
    drop(store);
    let store = SledBackend::open(Options::new(dir.path().join("store"))).unwrap();
    assert_eq!(store.read(Consistency::Consistent, &id(&stored)).await.unwrap(), stored);
    store.write_cas(resource("c")).await.unwrap();
}
