//! Tests of closing and opening a store again, and of its lock.

use super::*;

#[tokio::test]
async fn everything_stays() {
    let mut store = TestStore::new(|options| options);
    let owner = write(&*store, &resource("owner")).await;
    let child = write(&*store, &owned(resource("child"), &owner)).await;
    let large = write(&*store, &sized(resource("large"), 50_000)).await;
    let gone = write(&*store, &resource("gone")).await;
    delete(&*store, &gone).await;
    for _ in 0..3 {
        store.reopen();
        assert_eq!(list(&*store, &everything()).await, [child.clone(), large.clone(), owner.clone()]);
        assert_eq!(store.list_by_owner(&id(&owner)).await.unwrap(), std::slice::from_ref(&child));
        assert_eq!(store.types().await.unwrap().len(), 1);
        assert_eq!(store.count(b'e'), 5);
        assert_eq!(store.problems().await, [""; 0]);
    }
    // The deletion was the last commit: its number is not given again.
    let next = write(&*store, &resource("next")).await;
    assert_eq!(next.version, "6");
    write(&*store, &child).await;
}

#[tokio::test]
async fn a_store_that_is_open_is_locked() {
    let mut store = TestStore::new(|options| options);
    let path = store.path();
    match SledBackend::open(Options::new(&path)) {
        Err(StoreError::Locked { path: named }) => assert_eq!(named, path),
        other => panic!("{other:?}"),
    }
    store.shut();
    store.open().unwrap();
}

#[test]
fn creation_that_was_cut_short_starts_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("some/where/data");
    std::fs::create_dir_all(path.join("store.new/blobs")).unwrap();
    std::fs::write(path.join("store.new/conf"), "seg").unwrap();
    let store = SledBackend::open(Options::new(&path)).unwrap();
    assert!(!path.join("store.new").exists());
    assert_eq!(std::fs::read_to_string(path.join("store/format")).unwrap(), "mortise-store 2\n");
    drop(store);
}

#[tokio::test]
async fn an_opening_that_was_cut_short_is_no_damage() {
    let mut store = TestStore::new(|options| options);
    let stored = write(&*store, &resource("a")).await;
    store.shut();
    let unfinished = store.path().join("store/snap.FFFFFFFFFFFFFFFF.generating");
    std::fs::write(&unfinished, "half a snapsh").unwrap();
    store.open().unwrap();
    assert!(!unfinished.exists());
    assert_eq!(list(&*store, &everything()).await, [stored]);
}

#[test]
fn formats_are_judged_before_anything_is_touched() {
    let mut store = TestStore::new(|options| options);
    store.shut();
    let file = store.path().join("store/format");
    std::fs::write(&file, "mortise-store 7\n").unwrap();
    match store.open() {
        Err(error @ StoreError::NewerFormat { found: 7, known: 2, .. }) => {
            assert!(error.to_string().contains("use the release that wrote it"), "{error}");
        }
        other => panic!("{other:?}"),
    }
    for broken in ["", "mortise-store", "mortise-store x\n", "mortise-store 0\n", "something else 1\n", "\u{fffd}"] {
        std::fs::write(&file, broken).unwrap();
        match store.open() {
            Err(StoreError::Corrupt { path, .. }) => assert_eq!(path, file),
            other => panic!("{broken:?}: {other:?}"),
        }
    }
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(store.open(), Err(StoreError::Corrupt { path, .. }) if path == file));
    std::fs::write(&file, "mortise-store 2\n").unwrap();
    store.open().unwrap();
}
