//! Tests of closed stores: checked and salvaged, however damaged.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{FileExt as _, PermissionsExt as _},
};

use super::*;
use crate::{
    Record,
    check::Problem,
    engine::{open::SKIPPED_SEQUENCES, tree::sled_messages},
};

/// Makes a closed store of 60 resources, every third larger than a page of the tree.
async fn closed() -> (TestStore, Vec<pb::Resource>) {
    let mut store = TestStore::new(|options| options);
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
async fn salvage_reads_all_of_a_sound_store_and_the_rest_of_a_damaged_one() {
    let (store, stored) = closed().await;
    assert_eq!(salvaged(&store.path()), (stored.clone(), 60, vec![]));
    store.tamper(|db| {
        let key = keys::resource(&id(&stored[7])).unwrap();
        let mut value = db.get(&key).unwrap().unwrap().to_vec();
        value[30] ^= 1;
        db.insert(key, value).unwrap();
        // The sixteenth and the nineteenth have chunks; one chunk is removed.
        db.remove(keys::chunk(16, b'r', 1)).unwrap();
        db.remove(keys::chunk(19, b'r', 1)).unwrap();
        db.remove(keys::META).unwrap();
        // The history lacks two of them, too.
        db.remove(keys::event(8)).unwrap();
        db.remove(keys::event(16)).unwrap();
    });
    let (mut found, highest, problems) = salvaged(&store.path());
    found.sort_by_key(name);
    let expected: Vec<_> = stored.iter().filter(|r| !["r-07", "r-15"].contains(&&*name(r))).cloned().collect();
    assert_eq!((found, highest), (expected, 60));
    for expected in ["default/r-07: ", "default/r-15: ", "the counters: "] {
        assert!(problems.iter().any(|problem| problem.contains(expected)), "{expected}: {problems:?}");
    }
    let taken = |problem: &String| problem.contains("default/r-18: this is its version of commit 19");
    assert!(problems.iter().any(taken), "the history has it: {problems:?}");
}

/// A resource that the history shows as deleted does not come back with an older page.
#[tokio::test]
async fn deleted_resources_stay_deleted() {
    let (mut store, stored) = closed().await;
    let key = keys::resource(&id(&stored[7])).unwrap();
    let mut value = None;
    store.tamper(|db| value = db.get(&key).unwrap());
    store.open().unwrap();
    delete(&*store, &stored[7]).await;
    store.shut();
    store.tamper(|db| drop(db.insert(&key, value.unwrap()).unwrap()));
    let (found, _, problems) = salvaged(&store.path());
    let expected: Vec<_> = stored.iter().filter(|r| name(r) != "r-07").cloned().collect();
    assert_eq!(found, expected, "{problems:?}");
    assert!(!problems.is_empty());
}

#[tokio::test]
async fn salvage_reads_the_log_up_to_its_damage() {
    let store = TestStore::new(|options| options);
    let mut stored = Vec::new();
    for n in 0..20 {
        stored.push(write(&*store, &resource(&format!("r-{n:02}"))).await);
    }
    let dir = tempfile::tempdir().unwrap();
    copy_store(&store.path(), dir.path());
    // The end of the log may be lost in any case.
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

/// A check can work on a read-only medium, and without files that sled makes when needed.
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

/// Any damage of a file leaves the check with a verdict, and salvage with stored resources only.
#[tokio::test]
async fn damaged_files_get_a_verdict() {
    let (mut store, mut stored) = closed().await;
    // Several openings, so that sled has more than one segment, and an older state to fall back to.
    for life in 0..4 {
        store.open().unwrap();
        for resource in &mut stored {
            *resource = write(&*store, &sized(resource.clone(), 500 + life * 2_000)).await;
        }
        store.shut();
    }
    let stored: BTreeMap<_, _> = stored.into_iter().map(|resource| (name(&resource), resource)).collect();
    let mut random = fastrand::Rng::with_seed(5);
    let (mut refused, mut damaged, mut sound, mut lost, mut older, mut nothing) = (0, 0, 0, 0, 0, 0);
    for round in 0..150 {
        let dir = tempfile::tempdir().unwrap();
        copy_store(&store.path(), dir.path());
        let file = dir.path().join("store/db");
        let mut bytes = fs::read(&file).unwrap();
        let used = bytes.iter().rposition(|byte| *byte != 0).unwrap();
        let offset = random.usize(..used);
        match round % 3 {
            0 => bytes[offset] ^= 1 << random.u8(..8),
            1 => bytes[offset..used.min(offset + 3_000)].fill(random.u8(..)),
            _ => bytes.truncate(offset),
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
        let mut found = BTreeMap::new();
        let salvaged = SledBackend::salvage(dir.path(), None, &mut |record| {
            let resource = <pb::Resource as prost::Message>::decode(&*record.payload).unwrap();
            let known: &mut (u64, pb::Resource) = found.entry(name(&resource)).or_default();
            if record.sequence > known.0 {
                *known = (record.sequence, resource);
            }
        });
        let Ok((_, problems)) = salvaged else {
            nothing += 1;
            continue;
        };
        let old = found.iter().filter(|(name, (_, resource))| stored.get(*name) != Some(resource)).count();
        let words = ["may be old", "a newer one may be lost", "but it was closed with commit"];
        let says_old = |problem: &Problem| words.iter().any(|words| problem.to_string().contains(words));
        assert!(
            old == 0 || problems.iter().any(says_old),
            "round {round}: {old} older ones without a word: {problems:?}"
        );
        assert!(found.len() == stored.len() || !problems.is_empty(), "round {round}: {} without a word", found.len());
        lost += usize::from(found.len() < stored.len());
        older += usize::from(old > 0);
    }
    println!(
        "refused {refused}, damaged {damaged}, sound {sound}; {lost} emptied with losses, {older} with older ones, {nothing} not"
    );
    assert!(refused > 10 && damaged > 10 && lost > 2, "{refused} {damaged} {lost}");
    assert!(older > 0 && nothing < 75, "{older}, {nothing}: more than those that were cut");
}

/// Makes a closed store of five types with 200 resources each and a tenth of them in the history; also returns its data
/// file and that file's content.
async fn closed_with_types() -> (TestStore, PathBuf, Vec<u8>) {
    let mut store = TestStore::new(|options| Options { history_events: 100, ..options });
    for n in 0..200 {
        for kind in ["A", "B", "C", "D", "E"] {
            let resource = resource_in(type_of("v1", kind), tenancy("default", "default"), &format!("r-{n:03}"));
            write(&*store, &sized(resource, 200)).await;
        }
    }
    // After a second opening sled has a snapshot of its page positions.
    store.reopen();
    store.shut();
    let db = store.path().join("store/db");
    let bytes = fs::read(&db).unwrap();
    (store, db, bytes)
}

/// Returns the number of salvaged resources, and the problems.
fn count_salvaged(store: &TestStore) -> (usize, Vec<String>) {
    let mut found = 0;
    let (_, problems) = SledBackend::salvage(&store.path(), None, &mut |_| found += 1).unwrap();
    (found, problems.iter().map(ToString::to_string).collect())
}

/// Salvage of a store with one wrong bit, anywhere, returns all the rest.
#[tokio::test]
async fn losses_by_one_wrong_bit_are_small_and_listed() {
    const STEP: usize = 20_011;
    let (store, db, whole) = closed_with_types().await;
    let mut costs = Vec::new();
    for offset in (0..whole.len()).step_by(STEP).filter(|offset| whole[*offset] != 0) {
        let mut damaged = whole.clone();
        damaged[offset] ^= 4;
        fs::write(&db, &damaged).unwrap();
        let (found, problems) = count_salvaged(&store);
        assert!(
            found == 1_000 || !problems.is_empty(),
            "{} are missing, and nothing is said, at {offset}",
            1_000 - found
        );
        costs.push(1_000 - found);
    }
    let count = |few: std::ops::RangeInclusive<usize>| costs.iter().filter(|cost| few.contains(cost)).count();
    let (flips, none, single, most) = (costs.len(), count(0..=0), count(1..=1), costs.iter().max().unwrap());
    println!("{flips} flips: {none} cost no resource, {single} cost one, the others at most {most}");
    assert!(flips > 30, "{flips} flips");
    // The others hit an inner page, or the bounds of a page.
    assert!(none + single > flips * 9 / 10, "{costs:?}");
}

/// An unreadable page costs only its own content.
#[tokio::test]
async fn a_page_that_cannot_be_read_hides_none_behind_it() {
    let (store, db, whole) = closed_with_types().await;
    let pages = sled_messages::large_messages(&whole);
    let (mut tried, mut gaps, mut least) = (0, 0, 1_000);
    for (_, body) in pages.iter().step_by(17) {
        let offset = body.start;
        let mut damaged = whole.clone();
        // The length of the page's first field.
        damaged[offset..offset + 9].fill(0xFF);
        fs::write(&db, &damaged).unwrap();
        let (found, problems) = count_salvaged(&store);
        assert!(
            found == 1_000 || !problems.is_empty(),
            "{} are missing, and nothing is said, at {offset}",
            1_000 - found
        );
        tried += 1;
        gaps += usize::from(problems.iter().any(|problem| problem.contains("what follows")));
        least = least.min(found);
    }
    println!("{tried} pages: {gaps} in the way of a walk, {least} of 1,000 at least");
    assert!(tried > 30 && gaps > 5, "{gaps} of {tried}");
    assert!(least > 750, "{least} of 1,000");
}

/// An unreadable page with a gap of millions of sequences, as each kill leaves, costs only its own content, and no
/// search through all the sequences.
#[tokio::test]
async fn an_unreadable_page_with_skipped_sequences_hides_none_behind_it() {
    const KILLS: u64 = 16;
    let mut store = TestStore::new(|options| options);
    let numbers = async |store: &TestStore, numbers: std::ops::Range<u32>| {
        for n in numbers {
            write(&**store, &sized(resource(&format!("r-{n:03}")), 200)).await;
        }
    };
    numbers(&store, 0..300).await;
    for _ in 0..KILLS {
        let killed = tempfile::tempdir().unwrap();
        copy_store(&store.path(), killed.path());
        store.shut();
        fs::remove_dir_all(store.path().join("store")).unwrap();
        copy_store(killed.path(), &store.path());
        store.open().unwrap();
    }
    numbers(&store, 300..600).await;
    // Only the history has the newest ones.
    store.shut();
    store.tamper(|db| {
        for n in 590..600 {
            db.remove(keys::resource(&id(&resource(&format!("r-{n:03}")))).unwrap()).unwrap();
        }
    });
    // After a second opening sled has a snapshot of its page positions.
    store.tamper(|_| {});
    let db = store.path().join("store/db");
    let whole = fs::read(&db).unwrap();
    let (found, highest, _) = salvaged(&store.path());
    assert_eq!((found.len(), highest), (600, 600 + KILLS * SKIPPED_SEQUENCES));

    // Damages the pages at both ends of the gap, in the history and in the resources.
    let at_gap = |body: &[u8]| [b"r-299", b"r-300"].iter().any(|name| body.windows(5).any(|bytes| bytes == *name));
    let pages = sled_messages::large_messages(&whole);
    let mut behind = std::collections::BTreeSet::new();
    for (_, body) in pages.iter().filter(|(_, body)| at_gap(&whole[body.clone()])) {
        let mut damaged = whole.clone();
        damaged[body.start..body.start + 9].fill(0xFF);
        fs::write(&db, &damaged).unwrap();
        let (path, (done, ended)) = (store.path(), std::sync::mpsc::channel());
        std::thread::spawn(move || done.send(salvaged(&path)));
        let (found, _, problems) =
            ended.recv_timeout(std::time::Duration::from_secs(20)).expect("it does not try them all");
        let after = problems.iter().find_map(|problem| problem.strip_prefix("what follows event "));
        behind.extend(after.map(|after| after.split_once(':').unwrap().0.parse::<u64>().unwrap()));
        assert_eq!(found.len(), 600, "{problems:?}");
    }
    println!("what the history of {highest} commits has behind events {behind:?} cannot be read");
    assert!(behind.iter().any(|after| *after < 300), "none in front of the gap: {behind:?}");
}
