//! Compaction of closed stores.

use std::fs;

use rustix::io::Errno;

use super::*;
use crate::{SnapshotHead, engine::compact::compact_with};

/// Makes a closed store whose tree has much free space, and what it should show.
async fn wasteful() -> (TestStore, Vec<pb::Resource>) {
    let mut store = TestStore::new(|options| Options { cache_bytes: 256 << 10, history_events: 10, ..options });
    // All of them are there at once: how soon the tree uses freed space again depends on the machine.
    let mut made = Vec::new();
    for n in 0..500_u64 {
        made.push(write(&*store, &sized(numbered(resource(&format!("r-{n}")), n), 20_000)).await);
    }
    for each in made.iter().skip(10) {
        delete(&*store, each).await;
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

/// NFS and others cannot exchange two names in one step; two renames do, and a kill between them loses nothing.
#[tokio::test]
async fn a_file_system_without_an_exchange_of_names_is_served_by_two_renames() {
    let (mut store, listed) = wasteful().await;
    let former = store.path().join("store.former");
    let done = compact_with(&store.path(), |_, _| Err(Errno::INVAL)).unwrap();
    assert!(done.after < done.before / 2, "{done:?}");
    assert!(!former.exists() && !store.path().join("store.new").exists());
    store.open().unwrap();
    assert_eq!(list(&*store, &everything()).await, listed);
    store.shut();

    // Killed between the renames: the former store, which is whole, is the store again, also for those that only look.
    fs::rename(store.path().join("store"), &former).unwrap();
    fs::create_dir(store.path().join("store.new")).unwrap();
    assert_eq!(SledBackend::check_offline(&store.path(), None).unwrap().problems, []);
    assert!(matches!(Loader::create(&store.path(), SnapshotHead::default()).map(drop), Err(StoreError::Exists { .. })));
    store.open().unwrap();
    assert_eq!(list(&*store, &everything()).await, listed);
    assert!(!former.exists() && !store.path().join("store.new").exists());
    store.shut();
    fs::rename(store.path().join("store"), &former).unwrap();
    SledBackend::compact(&store.path()).unwrap();
    assert!(!former.exists());

    // Killed behind them: the new store counts.
    fs::create_dir(&former).unwrap();
    fs::write(former.join("db"), "spoilt").unwrap();
    store.open().unwrap();
    assert_eq!(list(&*store, &everything()).await, listed);
    assert!(!former.exists());
}

/// A fault of the file system is an error that names it, and the store is as it was.
#[tokio::test]
async fn a_failed_exchange_leaves_the_store() {
    let (mut store, listed) = wasteful().await;
    let error = compact_with(&store.path(), |_, _| Err(Errno::IO)).unwrap_err().to_string();
    assert!(error.contains("exchange with the compacted store: "), "{error}");
    // A file in the way of the first rename, and one in the way of the second.
    let former = store.path().join("store.former");
    let blocked = compact_with(&store.path(), |_, _| {
        fs::create_dir_all(former.join("in the way")).unwrap();
        Err(Errno::NOSYS)
    });
    assert!(blocked.unwrap_err().to_string().contains("rename to store.former"));
    let blocked = compact_with(&store.path(), |new, _| {
        fs::remove_dir_all(new).unwrap();
        Err(Errno::NOTSUP)
    });
    assert!(blocked.unwrap_err().to_string().contains("store.new: rename to store: "));
    assert!(!former.exists() && !store.path().join("store.new").exists());
    store.open().unwrap();
    assert_eq!(list(&*store, &everything()).await, listed);
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
