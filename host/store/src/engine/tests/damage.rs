//! Tests of damage: it is found and named, and the rest survives.

use std::{io::Write as _, os::unix::fs::FileExt as _};

use super::*;
use crate::WatchEvent;

fn named(error: &StoreError) -> bool {
    matches!(error, StoreError::Corrupt { path, .. } if path.ends_with("store/db"))
        && error.to_string().contains("restore a backup")
}

#[tokio::test]
async fn a_damaged_record_is_a_named_error_and_others_are_readable() {
    let mut store = TestStore::new(|options| options);
    let a = write(&*store, &resource("a")).await;
    let b = write(&*store, &resource("b")).await;
    store.shut();
    let key = keys::resource(&id(&a)).unwrap();
    store.tamper(|db| {
        let mut value = db.get(&key).unwrap().unwrap().to_vec();
        *value.last_mut().unwrap() ^= 1;
        db.insert(&key, value).unwrap();
    });
    store.open().unwrap();
    let errors = [
        store.read(Consistency::Eventual, &id(&a)).await.unwrap_err(),
        store.list(Consistency::Eventual, &everything()).await.unwrap_err(),
        store.write_cas(a.clone()).await.unwrap_err(),
    ];
    for error in errors {
        assert!(named(&error), "{error}");
        assert!(error.to_string().contains("resource test/A/default/default/a: the checksum"), "{error}");
    }
    assert_eq!(read(&*store, &id(&b)).await, Some(b.clone()));
    write(&*store, &b).await;
    assert_eq!(store.problems().await.len(), 1);
}

/// Each damage, and a part of the check's finding.
#[tokio::test]
async fn the_check_finds_every_contradiction() {
    type Tamper = fn(&sled::Db, &[u8]);
    let cases: [(&str, Tamper); 14] = [
        ("a chunk is missing", |db, _| drop(db.remove(keys::chunk(3, b'r', 1)).unwrap())),
        ("a chunk is missing", |db, _| drop(db.remove(keys::chunk(3, b'e', 0)).unwrap())),
        ("chunk 7 of version 99: nothing refers to it", |db, _| {
            drop(db.insert(keys::chunk(99, b'r', 7), "x").unwrap());
        }),
        ("the child does not exist", |db, child| drop(db.remove(child).unwrap())),
        ("its newest event is not a deletion", |db, child| drop(db.remove(child).unwrap())),
        ("the owner index does not have it", |db, _| {
            let entry = db.scan_prefix([b'o']).next().unwrap().unwrap().0;
            db.remove(entry).unwrap();
        }),
        ("the child has another owner", |db, _| {
            let owner = pb::Id { uid: "u".into(), ..id(&resource("owner")) };
            let child = keys::resource(&id(&resource("child"))).unwrap();
            db.insert(keys::ownership(&owner, &child).unwrap(), &[]).unwrap();
        }),
        ("the label index does not have it", |db, _| {
            let entry = db.scan_prefix([b'p']).next().unwrap().unwrap().0;
            db.remove(entry).unwrap();
        }),
        ("the resource has another label", |db, child| {
            drop(db.insert(keys::label(child, "env", "test").unwrap(), &[]).unwrap());
        }),
        ("it counts 3 events, but there are 2", |db, _| drop(db.remove(keys::event(2)).unwrap())),
        ("event bytes, but", |db, _| drop(db.remove(keys::event(1)).unwrap())),
        ("a store has no such key", |db, _| drop(db.insert("zebra", "x").unwrap())),
        ("its head is malformed", |db, child| drop(db.insert(child, "x").unwrap())),
        ("its key is malformed", |db, _| drop(db.insert("ox", &[]).unwrap())),
    ];
    for (expected, tamper) in cases {
        let mut store = TestStore::new(|options| options);
        let owner = write(&*store, &resource("owner")).await;
        let child = write(&*store, &labelled(owned(resource("child"), &owner), "env", "prod")).await;
        write(&*store, &sized(resource("large"), 20_000)).await;
        store.shut();
        store.tamper(|db| tamper(db, &keys::resource(&id(&child)).unwrap()));
        store.open().unwrap();
        let problems = store.problems().await;
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
}

#[tokio::test]
async fn damaged_counters_are_noticed_at_opening() {
    for tamper in [|db: &sled::Db| drop(db.remove(keys::META)), |db: &sled::Db| drop(db.insert(keys::META, "x"))] {
        let mut store = TestStore::new(|options| options);
        store.shut();
        store.tamper(tamper);
        let error = store.open().unwrap_err();
        assert!(named(&error) && error.to_string().contains("the meta record"), "{error}");
    }
}

/// Any damage to the files of a closed store ends in an error that names a file, or in the complete content.
#[tokio::test]
async fn damaged_files_are_an_error_or_work() {
    let mut random = fastrand::Rng::with_seed(7);
    let mut refused = 0;
    for round in 0..60 {
        let mut store = TestStore::new(|options| options);
        for n in 0..40 {
            write(&*store, &sized(numbered(resource(&format!("r-{n}")), n), 1_000)).await;
        }
        store.shut();
        let files = ["db", "db", "db", "conf", "format", "closed-at"];
        let file = store.path().join("store").join(files[round % files.len()]);
        let handle = std::fs::OpenOptions::new().read(true).write(true).open(&file).unwrap();
        let len = handle.metadata().unwrap().len();
        match round % 3 {
            0 => handle.set_len(random.u64(0..len)).unwrap(),
            1 => {
                let offset = random.u64(0..len.min(60_000));
                handle.write_all_at(&vec![random.u8(..); 1 + random.usize(0..4_000)], offset).unwrap();
            }
            _ => {
                let offset = random.u64(0..len.min(60_000));
                let mut byte = [0];
                handle.read_exact_at(&mut byte, offset).unwrap();
                handle.write_all_at(&[byte[0] ^ (1 << random.u8(0..8))], offset).unwrap();
            }
        }
        drop(handle);
        match store.open() {
            Err(error) => {
                refused += 1;
                let text = error.to_string();
                assert!(text.contains("store/") && text.len() < 500, "{text}");
            }
            Ok(()) => match store.list(Consistency::Eventual, &everything()).await {
                Ok(listed) => {
                    assert_eq!(listed.len(), 40, "{} was damaged, and some are lost", file.display());
                    assert!(listed.iter().all(|r| format!("r-{}", number(r)) == name(r)));
                }
                Err(error) => assert!(named(&error), "{error}"),
            },
        }
    }
    assert!(refused > 5, "{refused}");
}

/// Sled takes a damaged end for one that a crash cut off, and accepts what comes before it.
#[tokio::test]
async fn a_lost_end_is_noticed() {
    let mut store = TestStore::new(|options| options);
    write(&*store, &resource("a")).await;
    store.reopen();
    write(&*store, &resource("b")).await;
    store.shut();
    let closed_at = store.path().join("store/closed-at");
    assert_eq!(std::fs::read_to_string(&closed_at).unwrap(), "mortise-commit 2\n");
    assert!(!store.path().join("store/closed-at.new").exists());
    assert_eq!(SledBackend::check_offline(&store.path(), None).unwrap().problems, []);

    std::fs::write(&closed_at, "mortise-commit 3\n").unwrap();
    let error = store.open().unwrap_err();
    assert!(named(&error), "{error}");
    let expected = "its last commit is 2, but it was closed with commit 3: its end is damaged (to go on without what is lost, remove";
    assert!(error.to_string().contains(expected), "{error}");
    let problems = SledBackend::check_offline(&store.path(), None).unwrap().problems;
    assert!(problems.len() == 1 && problems[0].fault.contains(expected), "{problems:?}");

    for broken in ["", "mortise-commit", "mortise-commit -1\n", "3\n"] {
        std::fs::write(&closed_at, broken).unwrap();
        let error = store.open().unwrap_err();
        assert!(error.to_string().contains("closed-at is damaged: it holds"), "{error}");
    }
    // Removing the file accepts the loss.
    std::fs::remove_file(&closed_at).unwrap();
    store.open().unwrap();
    assert_eq!(store.list(Consistency::Eventual, &everything()).await.unwrap().len(), 2);
    // After a crash the number is lower, but still a valid bound.
    std::fs::write(&closed_at, "mortise-commit 1\n").unwrap();
    store.shut();
    store.open().unwrap();
    // A store still knows its last close after a crash.
    let killed = tempfile::tempdir().unwrap();
    copy_store(&store.path(), killed.path());
    std::fs::write(killed.path().join("store/opened-at"), "mortise-commit 3\n").unwrap();
    let error = SledBackend::open(Options::new(killed.path())).unwrap_err().to_string();
    assert!(error.contains(expected) && error.contains("store/opened-at)"), "{error}");
}

/// A check that was interrupted: the next check, or the next start, removes its copy.
#[tokio::test]
async fn copies_of_checks_that_ended_early_go() {
    let mut store = TestStore::new(|options| options);
    let copy = store.path().join("check-x1");
    for by_check in [true, false] {
        store.shut();
        std::fs::create_dir_all(copy.join("blobs")).unwrap();
        std::fs::write(copy.join("db"), "x").unwrap();
        if by_check {
            assert_eq!(SledBackend::check_offline(&store.path(), None).unwrap().problems, []);
        } else {
            store.open().unwrap();
        }
        assert!(!copy.exists());
    }
}

/// A store that does not know what is durable must not note a clean close.
#[tokio::test]
async fn a_poisoned_store_notes_nothing() {
    let mut store = TestStore::with(|options| options, Some(Box::new(|_| Err(std::io::Error::other("gone")))));
    assert!(store.health().borrow().is_ready());
    store.write_cas(resource("a")).await.unwrap_err();
    assert!(!store.health().borrow().is_ready() && store.health().borrow().poisoned.is_some());
    store.shut();
    assert!(!store.path().join("store/closed-at").exists());
}

#[test]
fn a_directory_that_cannot_be_used_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    std::fs::File::create(&path).unwrap().write_all(b"x").unwrap();
    match SledBackend::open(Options::new(&path)) {
        Err(StoreError::Io { path: named, .. }) => assert_eq!(named, path),
        other => panic!("{other:?}"),
    }
}

/// A scan past damaged resources returns all others, and reports each damaged one.
#[tokio::test]
async fn a_damaged_resource_hides_none_of_the_others() {
    const ALL: usize = 300;
    const DAMAGED: [usize; 4] = [0, 100, 101, 299];
    let mut store = TestStore::new(|options| options);
    let name = |n: usize| format!("r-{n:03}");
    for n in 0..ALL {
        write(&*store, &resource(&name(n))).await;
    }
    store.shut();
    store.tamper(|db| {
        for n in DAMAGED {
            let key = keys::resource(&id(&resource(&name(n)))).unwrap();
            let mut value = db.get(&key).unwrap().unwrap().to_vec();
            *value.last_mut().unwrap() ^= 1;
            db.insert(&key, value).unwrap();
        }
    });
    store.open().unwrap();
    let (mut after, mut got, mut missed) = (None, Vec::new(), Vec::new());
    loop {
        let mut watch = store.watch_list(&everything(), after.as_ref()).await.unwrap();
        let fault = loop {
            match watch.next().await {
                Ok(WatchEvent::Upsert(resource)) => got.push(resource.name().to_owned()),
                Ok(_) => break None,
                Err(fault) => break Some(fault),
            }
        };
        let Some(fault) = fault else {
            // A watch ends with an error before the damaged resource, too.
            write(&*store, &resource("a")).await;
            let last = write(&*store, &resource("z")).await;
            assert_eq!(next(&mut watch).await, Event::Upsert(last));
            break;
        };
        assert!(fault.to_string().contains("the checksum"), "{fault}");
        let StoreError::Unreadable { place, .. } = fault else { panic!("{fault:?}") };
        missed.push(place.name.clone());
        after = Some(*place);
    }
    let expected: Vec<_> = (0..ALL).filter(|n| !DAMAGED.contains(n)).map(name).collect();
    assert_eq!((got, missed), (expected, DAMAGED.map(name).to_vec()));
}
