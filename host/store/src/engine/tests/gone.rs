//! Files that are moved or removed under an open store.

use std::{fs, time::Duration};

use super::*;

fn still() -> TestStore {
    // Nothing but the comparison of names wakes the threads.
    TestStore::new(|options| Options { scrub_per_second: 0, ..options })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_acknowledged_once_a_file_is_gone() {
    for name in ["", "lock", "store", "store/db", "store/wal.0", "store/wal.1"] {
        let mut store = still();
        let kept = write(&*store, &resource("kept")).await;
        let (from, aside) = (store.path().join(name), store.path().with_extension("aside"));
        fs::rename(&from, &aside).unwrap();
        if name.starts_with("store/") {
            // Another file under the name is as bad as none.
            fs::copy(&aside, &from).unwrap();
        }
        let refused = store.write_cas(resource("lost")).await.unwrap_err();
        let text = refused.to_string();
        assert!(matches!(refused, StoreError::Poisoned(_)) && text.contains("was moved or removed"), "{name}: {text}");
        let health = store.health().borrow().clone();
        assert!(!health.is_ready() && health.poisoned.is_some_and(|why| why.contains("backup")), "{name}");
        assert_eq!(list(&*store, &everything()).await, std::slice::from_ref(&kept), "{name}: reads go on");
        // A backup is what can be saved.
        let mut snapshot = store.snapshot().await.unwrap();
        assert_eq!((snapshot.head().resources(), snapshot.store_id()), (1, Some(store.id())));
        let mut records = 0;
        while let Some(page) = snapshot.next().await.unwrap() {
            records += page.len();
        }
        assert_eq!(records, 2, "{name}: the resource and its event");
        drop(snapshot);
        if name.starts_with("store/") {
            fs::remove_file(&from).unwrap();
        }
        fs::rename(&aside, &from).unwrap();
        store.shut();
        store.open().unwrap();
        assert!(list(&*store, &everything()).await.contains(&kept), "{name}: it is back");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_store_notices_a_removed_directory_by_itself() {
    let mut store = still();
    write(&*store, &resource("a")).await;
    fs::remove_dir_all(store.path()).unwrap();
    let mut health = store.health();
    let noticed = health.wait_for(|health| health.poisoned.is_some());
    tokio::time::timeout(Duration::from_secs(20), noticed).await.unwrap().unwrap();
    store.shut();
    assert!(!store.path().exists(), "a close makes nothing");
}
