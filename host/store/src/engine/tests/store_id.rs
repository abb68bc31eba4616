//! The id of a store, and files of different stores that were mixed.

use std::fs;

use super::*;

/// Makes a store with `count` resources, and copies its files as a kill leaves them, or closed.
async fn files(count: usize, closed: bool) -> tempfile::TempDir {
    let mut store = TestStore::new(|options| options);
    for n in 0..count {
        write(&*store, &resource(&format!("r-{n}"))).await;
    }
    if closed {
        store.shut();
    }
    let to = tempfile::tempdir().unwrap();
    copy_store(&store.path(), to.path());
    to
}

/// Puts the tree of one store beside the other files of another.
fn mix(tree_of: &Path, into: &Path) {
    for entry in fs::read_dir(tree_of.join("store")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name == "db" || name == "conf" || name.starts_with("snap.") {
            fs::copy(&path, into.join("store").join(&name)).unwrap();
        }
    }
}

fn refusals(path: &Path) -> [String; 2] {
    let opened = SledBackend::open(Options::new(path)).map(drop).unwrap_err();
    [opened.to_string(), SledBackend::check_offline(path, None).map(drop).unwrap_err().to_string()]
}

#[tokio::test]
async fn the_tree_of_another_store_is_refused() {
    for (closed, other_closed) in [(true, true), (true, false), (false, true), (false, false)] {
        let (own, other) = (files(3, closed).await, files(30, other_closed).await);
        mix(other.path(), own.path());
        for text in refusals(own.path()) {
            assert!(
                text.contains("it is of the store") && text.contains("store/db"),
                "{closed} {other_closed}: {text}"
            );
        }
        let mut found = 0;
        let (_, problems) = SledBackend::salvage(own.path(), None, &mut |_| found += 1).unwrap();
        assert!(problems.iter().any(|problem| problem.thing == "the id of the store"), "{problems:?}");
    }
}

/// Without the file of the id, as in a store of an earlier release, the log still tells that the tree is not its own.
#[tokio::test]
async fn the_log_of_another_store_is_refused() {
    for closed in [true, false] {
        let (own, other) = (files(3, closed).await, files(30, false).await);
        for name in wal::FILES {
            fs::copy(other.path().join("store").join(name), own.path().join("store").join(name)).unwrap();
        }
        for text in refusals(own.path()) {
            assert!(
                text.contains("it belongs to the tree of another store") && text.contains("wal.1"),
                "{closed}: {text}"
            );
        }
    }
}

#[tokio::test]
async fn a_store_of_an_earlier_release_gets_an_id_once() {
    let mut store = TestStore::new(|options| options);
    write(&*store, &resource("a")).await;
    let first = store.id();
    let file = store.path().join("store/id");
    assert_eq!(fs::read_to_string(&file).unwrap(), format!("mortise-store-id {first}\n"));
    store.reopen();
    assert_eq!(store.id(), first);
    store.shut();
    store.tamper(|db| drop(db.remove(keys::STORE_ID).unwrap()));
    let [opened, checked] = refusals(&store.path());
    assert!(opened.contains("of another store, or an older copy") && checked == opened, "{opened}");
    fs::remove_file(&file).unwrap();
    assert_eq!(SledBackend::check_offline(&store.path(), None).unwrap().id, None);
    store.open().unwrap();
    let second = store.id();
    assert_ne!(second, first);
    // A kill between the tree and the file: the next opening writes the file.
    store.shut();
    fs::remove_file(&file).unwrap();
    store.open().unwrap();
    assert_eq!((store.id(), fs::read_to_string(&file).unwrap()), (second, format!("mortise-store-id {second}\n")));
    assert_eq!(store.problems().await, [""; 0]);
    store.shut();
    fs::write(&file, "mortise-store-id ?\n").unwrap();
    assert!(store.open().unwrap_err().to_string().contains("if only this file is damaged: remove it"));
}
