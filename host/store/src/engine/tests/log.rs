//! Tests of the write-ahead log in front of the tree: opening a store that was not closed, and the bounds of log and
//! memory.

use std::{fs, os::unix::fs::FileExt as _, time::Duration};

use super::*;

/// Copies the store's files while nothing changes: the state that a kill leaves.
fn killed(store: &TestStore) -> tempfile::TempDir {
    let to = tempfile::tempdir().unwrap();
    copy_store(&store.path(), to.path());
    to
}

fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(dir.join("store"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.is_file())
        .map(|path| (path.display().to_string(), fs::read(&path).unwrap()))
        .collect();
    found.sort();
    found
}

fn log_bytes(path: &Path) -> u64 {
    wal::size_on_disk(&path.join("store"))
}

async fn filled() -> (TestStore, Vec<pb::Resource>) {
    let store = TestStore::new(|options| options);
    let owner = write(&*store, &resource("owner")).await;
    write(&*store, &owned(sized(resource("large"), 20_000), &owner)).await;
    let gone = write(&*store, &resource("gone")).await;
    delete(&*store, &gone).await;
    let listed = list(&*store, &everything()).await;
    (store, listed)
}

#[tokio::test]
async fn closing_leaves_everything_in_the_tree_and_nothing_in_the_log() {
    let (mut store, listed) = filled().await;
    assert!(log_bytes(&store.path()) > 0);
    store.shut();
    assert_eq!(log_bytes(&store.path()), 0);
    store.tamper(|db| {
        assert_eq!(db.scan_prefix(b"r").count(), listed.len());
        assert_eq!(db.scan_prefix(b"e").count(), 4);
        let (checkpoint, end) = CheckpointPosition::decode(&db.get(keys::CHECKPOINT).unwrap().unwrap()).unwrap();
        assert_eq!((checkpoint.generation, checkpoint.number), (1, 4));
        assert_eq!((end.number, end.lengths), (4, [0, 0]));
    });
    for path in ["store/wal.0", "store/wal.1"] {
        // The files are not needed, either.
        fs::remove_file(store.path().join(path)).unwrap();
    }
    store.open().unwrap();
    assert_eq!(list(&*store, &everything()).await, listed);
}

#[tokio::test]
async fn an_unclosed_store_is_read_from_the_log() {
    let (store, listed) = filled().await;
    let copy = killed(&store);
    let before = contents(copy.path());
    let report = SledBackend::check_offline(copy.path(), None).unwrap();
    assert_eq!((report.problems.as_slice(), report.sequence), (&[][..], 4));
    assert_eq!(contents(copy.path()), before, "a check leaves everything as it is");
    for _ in 0..2 {
        let opened = SledBackend::open(Options::new(copy.path())).unwrap();
        assert_eq!(list(&opened, &everything()).await, listed);
        assert_eq!(opened.check().await.unwrap(), []);
        drop(opened);
        assert_eq!(log_bytes(copy.path()), 0);
    }
}

#[tokio::test]
async fn a_damaged_log_is_a_named_error() {
    let (store, _) = filled().await;
    let copy = killed(&store);
    let log = copy.path().join("store/wal.1");
    let handle = fs::OpenOptions::new().write(true).open(&log).unwrap();
    handle.write_all_at(b"????", 100).unwrap();
    let before = contents(copy.path());
    let opened = SledBackend::open(Options::new(copy.path())).map(drop);
    for error in [opened.unwrap_err(), SledBackend::check_offline(copy.path(), None).unwrap_err()] {
        assert!(matches!(&error, StoreError::Corrupt { path, .. } if *path == log), "{error}");
        let text = error.to_string();
        assert!(text.contains("record 0 of the write-ahead log") && text.contains("restore a backup"), "{text}");
    }
    let logs = |contents: Vec<(String, Vec<u8>)>| -> Vec<_> {
        contents.into_iter().filter(|(name, _)| name.contains("wal.")).collect()
    };
    assert_eq!(logs(contents(copy.path())), logs(before), "nothing is thrown away");
}

#[tokio::test]
async fn a_mark_that_is_gone_is_noticed_while_there_is_a_log() {
    for broken in [false, true] {
        let (mut store, listed) = filled().await;
        let log = fs::read(store.path().join("store/wal.1")).unwrap();
        store.shut();
        store.tamper(|db| match broken {
            true => drop(db.insert(keys::CHECKPOINT, "x").unwrap()),
            false => drop(db.remove(keys::CHECKPOINT).unwrap()),
        });
        if !broken {
            // A store from before the log, or a loaded one, has no checkpoint position.
            store.open().unwrap();
            assert_eq!(list(&*store, &everything()).await, listed);
            store.shut();
            store.tamper(|db| drop(db.remove(keys::CHECKPOINT).unwrap()));
        }
        fs::write(store.path().join("store/wal.1"), &log).unwrap();
        let error = store.open().unwrap_err().to_string();
        assert!(error.contains("the mark of the write-ahead log"), "{error}");
    }
}

/// Checkpoints run beside writes of more data than memory and log together may hold, and a kill between two of them
/// loses nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_and_log_are_bounded_under_load() {
    let change = |options: Options| Options { cache_bytes: 256 << 10, history_events: 50, ..options };
    let store = TestStore::new(change);
    let bound = 128 << 10;
    let mut stored: Vec<Option<pb::Resource>> = vec![None; 100];
    let mut most = 0;
    for n in 0..3_000_u64 {
        let slot = (n * 7 % 100) as usize;
        let next = stored[slot].take().unwrap_or_else(|| resource(&format!("r-{slot}")));
        stored[slot] = Some(write(&*store, &sized(numbered(next, n), 3_000)).await);
        let held = {
            let layers = store.shared.table.recent().layers();
            let (active, frozen) = layers.by_age();
            active.bytes() + frozen.map_or(0, |frozen| frozen.bytes())
        };
        most = most.max(held);
        if n % 500 == 499 {
            let copied = killed_at_rest(&store).await;
            let opened = SledBackend::open(change(Options::new(copied.path()))).unwrap();
            assert_eq!(list(&opened, &everything()).await, list(&*store, &everything()).await);
            assert_eq!(opened.check().await.unwrap(), []);
        }
    }
    assert!(most > bound && most < 4 * bound + (64 << 10), "{most} bytes in memory");
    let log = log_bytes(&store.path());
    assert!(log <= 2 * 2 * 4 * bound as u64 + (4 << 20), "{log} bytes of log");
    assert_eq!(store.problems().await, [""; 0]);
}

/// Copies the files as [`killed`], once no checkpoint is running.
async fn killed_at_rest(store: &TestStore) -> tempfile::TempDir {
    // One may begin right after the answer to a write, before the answer to the next request.
    store.stats().await.unwrap();
    while store.shared.table.recent().layers().by_age().1.is_some() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    killed(store)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failed_checkpoint_refuses_writes_and_shows_what_is_published() {
    let (mut store, listed) = filled().await;
    // This file cannot be synced.
    let data = File::open("/dev/null").unwrap();
    let mut checkpoints = checkpoint_thread::Checkpoints::start(store.shared.clone(), data, &store.path()).unwrap();
    let checkpoint = CheckpointPosition { generation: 1, ..CheckpointPosition::new() };
    assert!(checkpoints.is_idle());
    checkpoints.begin(store.shared.table.recent().freeze(), checkpoint);
    assert!(!checkpoints.wait(&store.shared.room) && !checkpoints.is_idle());
    checkpoints.end();
    let error = store.write_cas(resource("a")).await.unwrap_err();
    assert!(matches!(&error, StoreError::Poisoned(why) if why.contains("store/db: sync")), "{error}");
    assert_eq!(list(&*store, &everything()).await, listed);
    store.reopen();
    assert_eq!(list(&*store, &everything()).await, listed);
    write(&*store, &resource("a")).await;
}

/// A missing file of the log, or one in the place of the other, is damage: both are made before either is written to,
/// and each generation has its own.
#[tokio::test]
async fn a_file_of_the_log_that_is_gone_or_in_the_others_place_is_noticed() {
    let (store, listed) = filled().await;
    let copy = killed(&store);
    let refused = |what: &str, name: &str| {
        let error = SledBackend::open(Options::new(copy.path())).unwrap_err().to_string();
        assert!(error.contains(what) && error.contains(name), "{error}");
    };
    let (even, odd) = (copy.path().join("store/wal.0"), copy.path().join("store/wal.1"));
    let aside = copy.path().join("aside");
    for (file, name) in [(&even, "wal.0"), (&odd, "wal.1")] {
        fs::rename(file, &aside).unwrap();
        if name == "wal.0" || fs::metadata(&even).unwrap().len() > 0 {
            refused("it is missing, with the newest", name);
        }
        fs::rename(&aside, file).unwrap();
    }
    fs::rename(&even, &aside).unwrap();
    fs::rename(&odd, &even).unwrap();
    fs::rename(&aside, &odd).unwrap();
    refused("which belongs in the other file", "wal.0");
    fs::rename(&odd, &aside).unwrap();
    fs::rename(&even, &odd).unwrap();
    fs::rename(&aside, &even).unwrap();
    let opened = SledBackend::open(Options::new(copy.path())).unwrap();
    assert_eq!(list(&opened, &everything()).await, listed);
}
