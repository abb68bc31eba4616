//! Tests of the log's end after a kill: a loss is noticed where possible, and no version is given twice.

use std::{fs, os::unix::fs::FileExt as _};

use super::*;

/// Makes a killed store that had a checkpoint with records written meanwhile; also returns the last version.
async fn killed() -> (tempfile::TempDir, Options, u64) {
    let store = TestStore::new(|options| Options { cache_bytes: 256 << 10, ..options });
    let mut last = 0;
    for n in 0..4_000 {
        let written = write(&*store, &sized(numbered(resource(&format!("r-{n:04}")), n), 3_000)).await;
        last = written.version.parse().unwrap();
        let has_a_mark = || {
            let (position, end) = CheckpointPosition::read(&store.shared.table).unwrap().unwrap();
            end.number > position.number && end.lengths.iter().all(|length| *length > 0)
        };
        // During the next checkpoint a copy would mix two moments, since the log's files change places.
        if has_a_mark() && is_at_rest(&store).await && has_a_mark() {
            // No record may follow the end in the mark.
            let dir = tempfile::tempdir().unwrap();
            copy_store(&store.path(), dir.path());
            let options = Options { path: dir.path().to_owned(), ..store.options.clone() };
            return (dir, options, last);
        }
    }
    panic!("no checkpoint ended while records came, of {last} commits");
}

/// Whether no checkpoint is running; none begins before the next write.
async fn is_at_rest(store: &TestStore) -> bool {
    // One may begin right after the answer to a write, before the answer to the next request.
    store.stats().await.unwrap();
    store.shared.table.recent().layers().by_age().1.is_none()
}

/// Returns the file of the log with the records after the mark.
fn newest(dir: &Path) -> PathBuf {
    let table =
        Table::new(sled_file::open_sled(&dir.join("store"), &dir.join("store/db"), 1 << 20).unwrap(), dir.to_owned());
    let (position, _) = CheckpointPosition::read(&table).unwrap().unwrap();
    dir.join("store").join(wal::FILES[(position.generation as usize + 1) % 2])
}

#[tokio::test]
async fn a_log_without_durable_records_is_noticed() {
    let (dir, options, _) = killed().await;
    let file = newest(dir.path());
    let whole = fs::read(&file).unwrap();
    type Damage = fn(&Path, &[u8]);
    let cases: [(&str, Damage); 4] = [
        ("was cut", |file, _| fs::OpenOptions::new().write(true).open(file).unwrap().set_len(4096).unwrap()),
        ("was cut", |file, whole| {
            fs::OpenOptions::new().write(true).open(file).unwrap().set_len(whole.len() as u64 - 1).unwrap();
        }),
        ("it was cut, or is an old copy", |file, whole| fs::write(file, vec![0; whole.len()]).unwrap()),
        ("it was cut, or is an old copy", |file, whole| {
            // As a generation ago: without a record of this one.
            let older = fs::OpenOptions::new().write(true).open(file).unwrap();
            older.write_all_at(&[0x55; 8], 0).unwrap();
            for offset in (0..whole.len()).step_by(4096) {
                older.write_all_at(&[0x55; 8], offset as u64).unwrap();
            }
        }),
    ];
    for (expected, damage) in cases {
        damage(&file, &whole);
        let error = SledBackend::open(options.clone()).unwrap_err();
        assert!(matches!(&error, StoreError::Corrupt { path, .. } if path.starts_with(dir.path())), "{error}");
        assert!(error.to_string().contains(expected), "{expected}: {error}");
        fs::write(&file, &whole).unwrap();
    }
    SledBackend::open(options).unwrap();
}

#[tokio::test]
async fn versions_that_may_have_been_given_are_not_given_again() {
    let store = TestStore::new(|options| Options { history_events: 12, ..options });
    for n in 0..10 {
        write(&*store, &numbered(resource(&format!("r-{n}")), n)).await;
    }
    let mut given = 10;
    let mut dir = tempfile::tempdir().unwrap();
    copy_store(&store.path(), dir.path());
    for life in 0..4 {
        // The end of the log is lost unnoticed: records after the fifth block are zeros.
        for name in wal::FILES {
            let path = dir.path().join("store").join(name);
            let mut log = fs::read(&path).unwrap_or_default();
            if life == 0 && log.len() > 5 * 4096 {
                log[5 * 4096..].fill(0);
                fs::write(&path, log).unwrap();
            } else {
                fs::write(&path, []).unwrap();
            }
        }
        let options = Options { path: dir.path().to_owned(), ..store.options.clone() };
        let opened = SledBackend::open(options).unwrap();
        assert_eq!(list(&opened, &everything()).await.len(), 5, "what is before the cut");
        assert_eq!(opened.check().await.unwrap(), []);
        // A kill right after the opening leads to no repeated version, either.
        for n in 0..2_u64 {
            let written = write(&opened, &resource(&format!("later-{life}-{n}"))).await;
            let version: u64 = written.version.parse().unwrap();
            assert!(version > given, "{version} after {given}, in life {life}");
            given = version;
        }
        assert_eq!(opened.check().await.unwrap(), []);
        let next = tempfile::tempdir().unwrap();
        copy_store(dir.path(), next.path());
        drop(opened);
        dir = next;
    }
}

/// A store whose log lost everything does not repeat versions.
#[tokio::test]
async fn a_log_that_lost_everything_gives_no_version_again() {
    let store = TestStore::new(|options| options);
    for n in 0..10 {
        write(&*store, &numbered(resource(&format!("r-{n}")), n)).await;
    }
    let dir = tempfile::tempdir().unwrap();
    copy_store(&store.path(), dir.path());
    for name in wal::FILES {
        fs::write(dir.path().join("store").join(name), []).unwrap();
    }
    let opened = SledBackend::open(Options { path: dir.path().to_owned(), ..store.options.clone() }).unwrap();
    assert_eq!(list(&opened, &everything()).await, []);
    let version: u64 = write(&opened, &resource("later")).await.version.parse().unwrap();
    assert!(version > 10, "{version}");
}

/// The same after a clean close, which leaves a tree that looks closed as long as the log is empty.
#[tokio::test]
async fn a_log_that_lost_everything_after_a_clean_close_gives_no_version_again() {
    let empty = |file: &Path| fs::write(file, []).unwrap();
    let remove = |file: &Path| fs::remove_file(file).unwrap();
    type Loss<'l> = &'l dyn Fn(&Path);
    let cases: [(bool, Loss<'_>, bool); 4] =
        [(true, &empty, true), (true, &remove, false), (false, &empty, true), (false, &remove, true)];
    for (closed_before, lose, opens) in cases {
        let mut store = TestStore::new(|options| options);
        if closed_before {
            write(&*store, &resource("before")).await;
            store.reopen();
        }
        let mut given = 0;
        for n in 0..10 {
            given = write(&*store, &numbered(resource(&format!("r-{n}")), n)).await.version.parse::<u64>().unwrap();
        }
        let dir = tempfile::tempdir().unwrap();
        copy_store(&store.path(), dir.path());
        for name in wal::FILES {
            lose(&dir.path().join("store").join(name));
        }
        match SledBackend::open(Options { path: dir.path().to_owned(), ..store.options.clone() }) {
            Ok(opened) => {
                assert!(opens);
                let version: u64 = write(&opened, &resource("later")).await.version.parse().unwrap();
                assert!(version > given, "{version} after {given}");
                assert_eq!(opened.check().await.unwrap(), []);
            }
            Err(error) => assert!(!opens && error.to_string().contains("it is missing, with the"), "{error}"),
        }
    }
}

/// A process killed before its first commit costs versions only; a closed one costs none.
#[tokio::test]
async fn an_opening_without_a_commit_changes_nothing() {
    let mut store = TestStore::new(|options| options);
    let stored = write(&*store, &resource("a")).await;
    store.reopen();
    store.reopen();
    let dir = tempfile::tempdir().unwrap();
    copy_store(&store.path(), dir.path());
    let files = |path: &Path| ["closed-at", "opened-at"].map(|name| path.join("store").join(name).exists());
    assert_eq!(files(dir.path()), [false, true]);
    store.shut();
    assert_eq!(files(&store.path()), [true, false]);
    store.open().unwrap();
    assert_eq!(write(&*store, &resource("b")).await.version, "2");
    store.shut();
    assert_eq!(files(&store.path()), [true, false]);

    let opened = SledBackend::open(Options { path: dir.path().to_owned(), ..store.options.clone() }).unwrap();
    assert_eq!(list(&opened, &everything()).await, [stored]);
    assert!(opened.health().borrow().is_ready());
    assert!(write(&opened, &resource("b")).await.version.parse::<u64>().unwrap() > 1 << 22);
    assert_eq!(opened.check().await.unwrap(), []);
}

/// The history continues over skipped sequences: it is trimmed, backed up and loaded with them.
#[tokio::test]
async fn a_history_with_gaps_is_whole() {
    let store = TestStore::new(|options| Options { history_events: 12, ..options });
    for n in 0..5 {
        write(&*store, &numbered(resource(&format!("r-{n}")), n)).await;
    }
    let mut dir = tempfile::tempdir().unwrap();
    copy_store(&store.path(), dir.path());
    let mut gaps = 0;
    for life in 0..6_u64 {
        let options = Options { path: dir.path().to_owned(), ..store.options.clone() };
        let opened = SledBackend::open(options).unwrap();
        for n in 0..life {
            write(&opened, &resource(&format!("later-{life}-{n}"))).await;
            assert_eq!(opened.check().await.unwrap(), [], "in life {life}");
        }
        let mut snapshot = opened.snapshot().await.unwrap();
        let head = snapshot.head().clone();
        let written = 5 + (0..=life).sum::<u64>();
        assert_eq!(head.events(), written.min(12), "in life {life}");
        gaps += u64::from(head.skipped > 0);
        let loaded = tempfile::tempdir().unwrap();
        let mut loader = Loader::create(loaded.path(), head.clone()).unwrap();
        while let Some(page) = snapshot.next().await.unwrap() {
            page.iter().for_each(|record| loader.add(record).unwrap());
        }
        loader.finish().unwrap();
        let loaded = SledBackend::open(Options::new(loaded.path())).unwrap();
        assert_eq!(loaded.snapshot().await.unwrap().head(), &head);
        assert_eq!(loaded.check().await.unwrap(), []);
        drop(snapshot);
        let next = tempfile::tempdir().unwrap();
        copy_store(dir.path(), next.path());
        drop(opened);
        dir = next;
    }
    assert!(gaps > 2, "{gaps} of 6 lives had gaps in their history");
}

/// A snapshot has each event once even when the history is trimmed over a gap meanwhile.
#[tokio::test]
async fn a_snapshot_over_a_gap_survives_its_trimming() {
    let store = TestStore::new(|options| Options { history_events: 20, ..options });
    for n in 0..10 {
        write(&*store, &numbered(resource(&format!("r-{n}")), n)).await;
    }
    let dir = tempfile::tempdir().unwrap();
    copy_store(&store.path(), dir.path());
    let opened = SledBackend::open(Options { path: dir.path().to_owned(), ..store.options.clone() }).unwrap();
    for n in 0..5 {
        write(&opened, &resource(&format!("later-{n}"))).await;
    }
    let mut snapshot = opened.snapshot().await.unwrap();
    assert_eq!((snapshot.head().events(), snapshot.head().skipped), (15, 1 << 22));
    for n in 0..40 {
        write(&opened, &resource(&format!("much-later-{n}"))).await;
    }
    let mut comparison = Comparison::new(snapshot.head().clone());
    while let Some(page) = snapshot.next().await.unwrap() {
        page.iter().for_each(|record| comparison.add(record).unwrap());
    }
    comparison.finish().unwrap();
    assert_eq!(opened.check().await.unwrap(), []);
}

/// Writes never change a block of the disk with an acknowledged record.
#[tokio::test]
async fn records_share_no_block_of_the_disk() {
    let store = TestStore::new(|options| options);
    let mut before = Vec::new();
    for n in 0..20 {
        write(&*store, &sized(resource(&format!("r-{n}")), (n * 700) as usize)).await;
        let after = fs::read(store.path().join("store/wal.1")).unwrap();
        let used = |log: &[u8]| log.iter().rposition(|byte| *byte != 0).map_or(0, |last| last / 4096 + 1);
        let first = before.chunks(4096).zip(after.chunks(4096)).take_while(|(a, b)| a == b).count();
        assert!(first >= used(&before) && used(&after) > used(&before), "record {n} changes block {first}");
        before = after;
    }
}
