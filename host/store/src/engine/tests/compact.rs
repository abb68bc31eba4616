//! Compaction of closed stores.

use std::fs;

use super::*;

/// Makes a closed store whose tree has much free space, and what it should show.
async fn wasteful() -> (TestStore, Vec<pb::Resource>) {
    let mut store = TestStore::new(|options| Options { cache_bytes: 256 << 10, history_events: 10, ..options });
    for round in 0..8_u64 {
        for n in 0..100 {
            let name = format!("r-{n}");
            let made = write(&*store, &sized(numbered(resource(&name), round), 20_000)).await;
            if round < 7 || n >= 10 {
                delete(&*store, &made).await;
            }
        }
    }
    let listed = list(&*store, &everything()).await;
    store.shut();
    (store, listed)
}

#[tokio::test]
async fn a_compacted_store_is_smaller_and_otherwise_the_same() {
    let (mut store, listed) = wasteful().await;
    store.open().unwrap();
    let (id, head) = (store.id(), store.stats().await.unwrap().head);
    let snapshot = |store: &TestStore| store.shared.table.range(Vec::new()..).map(Result::unwrap).collect::<Vec<_>>();
    let mut keys_before = snapshot(&store);
    store.shut();
    let done = SledBackend::compact(&store.path()).unwrap();
    assert!(done.after < done.before / 2, "{done:?}");
    assert!(!store.path().join("store.new").exists());
    store.open().unwrap();
    assert_eq!((store.id(), store.stats().await.unwrap().head), (id, head.clone()));
    let mut keys_after = snapshot(&store);
    for keys in [&mut keys_before, &mut keys_after] {
        keys.retain(|(key, _)| *key != *keys::CHECKPOINT);
    }
    assert_eq!(keys_after, keys_before);
    assert_eq!(list(&*store, &everything()).await, listed);
    assert_eq!(store.problems().await, [""; 0]);
    let next = write(&*store, &resource("next")).await;
    assert_eq!(next.version, (head.sequence + 1).to_string(), "versions go on");
}

#[tokio::test]
async fn a_store_with_a_log_is_compacted_with_it() {
    let (mut store, listed) = wasteful().await;
    store.open().unwrap();
    let more = write(&*store, &resource("more")).await;
    let killed = tempfile::tempdir().unwrap();
    copy_store(&store.path(), killed.path());
    SledBackend::compact(killed.path()).unwrap();
    let opened = SledBackend::open(Options::new(killed.path())).unwrap();
    let found = list(&opened, &everything()).await;
    assert!(found.len() == listed.len() + 1 && found.contains(&more));
}

#[tokio::test]
async fn an_open_a_missing_and_a_damaged_store_are_refused_and_left() {
    let (mut store, listed) = wasteful().await;
    store.open().unwrap();
    assert!(matches!(SledBackend::compact(&store.path()), Err(StoreError::Locked { .. })));
    let missing = tempfile::tempdir().unwrap();
    assert!(matches!(SledBackend::compact(&missing.path().join("x")), Err(StoreError::Absent { .. })));
    assert!(!missing.path().join("x").exists());
    store.shut();
    store.tamper(|db| drop(db.remove(keys::resource(&id(&listed[0])).unwrap()).unwrap()));
    let refused = SledBackend::compact(&store.path()).unwrap_err().to_string();
    assert!(refused.contains("compact: ") && refused.contains("nothing refers to it"), "{refused}");
    assert!(!store.path().join("store.new").exists());
}

/// A kill before the exchange of names, or behind it, leaves a directory; the next opening removes it.
#[tokio::test]
async fn the_rest_of_a_killed_compaction_is_removed() {
    let (mut store, listed) = wasteful().await;
    for name in ["store.new", "store.new/blobs"] {
        fs::create_dir_all(store.path().join(name)).unwrap();
    }
    fs::copy(store.path().join("store/db"), store.path().join("store.new/db")).unwrap();
    store.open().unwrap();
    assert_eq!(list(&*store, &everything()).await, listed);
    assert!(!store.path().join("store.new").exists());
}
