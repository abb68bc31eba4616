//! Stores that no server has open: checked and emptied of what can be read, however damaged.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileExt as _, PermissionsExt as _},
};

use super::*;
use crate::Record;

/// A closed store of 60 resources, every third larger than a page of the tree.
async fn closed() -> (Fresh, Vec<pb::Resource>) {
    let mut store = Fresh::new(|options| options);
    let mut stored = Vec::new();
    for n in 0..60 {
        let bytes = if n % 3 == 0 { 9_000 } else { 100 };
        stored.push(write(&*store, &sized(numbered(resource(&format!("r-{n:02}")), n), bytes)).await);
    }
    store.shut();
    (store, stored)
}

fn salvaged(path: &Path) -> (Vec<pb::Resource>, u64, Vec<String>) {
    let mut found = Vec::new();
    let mut take = |record: Record| found.push(<pb::Resource as prost::Message>::decode(&*record.payload).unwrap());
    let (highest, problems) = SledBackend::salvage(path, None, &mut take).unwrap();
    (found, highest, problems.iter().map(ToString::to_string).collect())
}

#[tokio::test]
async fn everything_is_got_out_of_a_sound_store_and_what_is_readable_of_a_damaged_one() {
    let (store, stored) = closed().await;
    assert_eq!(salvaged(&store.path()), (stored.clone(), 60, vec![]));
    store.tamper(|db| {
        let key = keys::resource(&id(&stored[7])).unwrap();
        let mut value = db.get(&key).unwrap().unwrap().to_vec();
        value[30] ^= 1;
        db.insert(key, value).unwrap();
        // The sixteenth has chunks; one of them is gone.
        db.remove(keys::chunk(16, b'r', 1)).unwrap();
        db.remove(keys::META).unwrap();
    });
    let (found, highest, problems) = salvaged(&store.path());
    let expected: Vec<_> = stored.iter().filter(|r| !["r-07", "r-15"].contains(&&*name(r))).cloned().collect();
    assert_eq!((found, highest), (expected, 60));
    for expected in ["default/r-07: ", "default/r-15: ", "the counters: "] {
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
}

#[tokio::test]
async fn what_a_log_has_in_front_of_its_damage_is_got_out() {
    let store = Fresh::new(|options| options);
    let mut stored = Vec::new();
    for n in 0..20 {
        stored.push(write(&*store, &resource(&format!("r-{n:02}"))).await);
    }
    let dir = tempfile::tempdir().unwrap();
    copy_store(&store.path(), dir.path());
    // The end of the log may be lost, whatever is found.
    let highest = 20 + (1 << 22);
    assert_eq!(salvaged(dir.path()), (stored.clone(), highest, vec![]));
    let log = fs::OpenOptions::new().write(true).open(dir.path().join("store/wal.1")).unwrap();
    log.write_all_at(b"????", 9 * 4096 + 100).unwrap();
    let (found, given, problems) = salvaged(dir.path());
    assert_eq!(found, stored[..9]);
    assert!(given > 20, "{given}");
    let expected = "record 9 of the write-ahead log, at or before byte 40960, is damaged";
    assert!(problems.len() == 1 && problems[0].contains(expected), "{problems:?}");
}

/// What it works on may be on a medium that cannot be written, and lack what sled makes anew.
#[tokio::test]
async fn a_read_only_store_is_checked_with_a_directory_to_work_in() {
    let (store, _) = closed().await;
    fs::remove_dir(store.path().join("store/blobs")).unwrap();
    let work = tempfile::tempdir().unwrap();
    let modes = |mode| {
        for path in [store.path(), store.path().join("store")] {
            fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
        }
        for entry in fs::read_dir(store.path().join("store")).unwrap() {
            fs::set_permissions(entry.unwrap().path(), fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    modes(0o555);
    let report = SledBackend::check_offline(&store.path(), Some(&work.path().join("made")));
    let untouched = fs::read_dir(store.path()).unwrap().count();
    modes(0o755);
    assert_eq!(report.unwrap().problems, []);
    assert_eq!(untouched, 2, "lock and store");
    assert_eq!(fs::read_dir(work.path().join("made")).unwrap().count(), 0);
}

/// Whatever a file suffers, the check gives a verdict, and what is got out is what was stored.
#[tokio::test]
async fn damaged_files_get_a_verdict() {
    let (mut store, mut stored) = closed().await;
    // Several lives, so that sled has more than one segment, and an older state to fall back to.
    for life in 0..4 {
        store.open().unwrap();
        for resource in &mut stored {
            *resource = write(&*store, &sized(resource.clone(), 500 + life * 2_000)).await;
        }
        store.shut();
    }
    let stored: BTreeMap<_, _> = stored.into_iter().map(|resource| (name(&resource), resource)).collect();
    let mut random = fastrand::Rng::with_seed(5);
    let (mut refused, mut damaged, mut sound, mut lost) = (0, 0, 0, 0);
    for round in 0..150 {
        let dir = tempfile::tempdir().unwrap();
        copy_store(&store.path(), dir.path());
        let file = dir.path().join("store/db");
        let mut bytes = fs::read(&file).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let at = random.usize(..used);
        match round % 3 {
            0 => bytes[at] ^= 1 << random.u8(..8),
            1 => bytes[at..used.min(at + 3_000)].fill(random.u8(..)),
            _ => bytes.truncate(at),
        }
        fs::write(&file, bytes).unwrap();
        match SledBackend::check_offline(dir.path(), None) {
            Err(error) => {
                refused += 1;
                assert!(matches!(error, StoreError::Corrupt { .. } | StoreError::Io { .. }), "{error:?}");
            }
            Ok(report) if report.problems.is_empty() => sound += 1,
            Ok(_) => damaged += 1,
        }
        let mut found = 0;
        let salvaged = SledBackend::salvage(dir.path(), None, &mut |record| {
            let resource = <pb::Resource as prost::Message>::decode(&*record.payload).unwrap();
            assert_eq!(stored.get(&name(&resource)), Some(&resource));
            found += 1;
        });
        if let Ok((_, problems)) = salvaged {
            assert!(found == stored.len() || !problems.is_empty(), "round {round}: {found} without a word");
            lost += usize::from(found < stored.len());
        }
    }
    println!("refused {refused}, damaged {damaged}, sound {sound}; {lost} emptied with losses");
    assert!(refused > 10 && damaged > 10 && lost > 10, "{refused} {damaged} {lost}");
}
