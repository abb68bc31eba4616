//! A test for deadlocks: sled 0.34 deadlocks within minutes when small batches are written in another way than ours.
//! Runs many small commits with their checkpoints, then many small batches like those of a checkpoint, with readers and
//! scans beside them and a cache that is too small.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use super::*;

/// Number of groups, each with several commits: a few seconds' worth; more by `MORTISE_STALL_GROUPS`.
const GROUPS: u64 = 5_000;
/// Time after which a wait counts as a stall.
const PATIENCE: Duration = Duration::from_secs(20);

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn many_small_commits_with_readers_and_scans_do_not_stall() {
    let wanted = std::env::var("MORTISE_STALL_GROUPS").map_or(GROUPS, |groups| groups.parse().unwrap());
    let groups = Arc::new(AtomicU64::new(0));
    let sync: SyncDisk = {
        let groups = groups.clone();
        // The disk is not tested here; without it, there are more batches in the same time.
        Box::new(move |_| {
            groups.fetch_add(1, Ordering::Relaxed);
            Ok(())
        })
    };
    let store = Arc::new(TestStore::with(
        |options| Options { cache_bytes: 256 << 10, history_events: 2_000, ..options },
        Some(sync),
    ));
    let done = Arc::new(AtomicBool::new(false));
    let commits = Arc::new(AtomicU64::new(0));
    let mut tasks = Vec::new();
    for writer in 0..8_u64 {
        let (store, done, commits) = (store.clone(), done.clone(), commits.clone());
        tasks.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(writer);
            let mut stored: Vec<Option<pb::Resource>> = vec![None; 150];
            while !done.load(Ordering::Relaxed) {
                let slot = random.usize(..stored.len());
                stored[slot] = match stored[slot].take() {
                    Some(old) if random.u8(..) < 50 => {
                        delete(&**store, &old).await;
                        None
                    }
                    Some(old) => Some(write(&**store, &sized(old, random.usize(..800))).await),
                    None => Some(write(&**store, &resource(&format!("w{writer}-{slot}"))).await),
                };
                commits.fetch_add(1, Ordering::Relaxed);
            }
        }));
    }
    for reader in 0..2_u64 {
        let (store, done) = (store.clone(), done.clone());
        tasks.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(100 + reader);
            while !done.load(Ordering::Relaxed) {
                let mut wanted = id(&resource(&format!("w{}-{}", random.u8(..8), random.u8(..150))));
                wanted.uid.clear();
                read(&**store, &wanted).await;
                if random.u8(..) < 2 {
                    list(&**store, &everything()).await;
                }
                tokio::task::yield_now().await;
            }
        }));
    }
    let (mut last, mut moved) = (0, Instant::now());
    while groups.load(Ordering::Relaxed) < wanted {
        tokio::time::sleep(Duration::from_millis(50)).await;
        let now = groups.load(Ordering::Relaxed);
        if now > last {
            (last, moved) = (now, Instant::now());
        }
        assert!(moved.elapsed() < PATIENCE, "no commit since {PATIENCE:?}, after {now} groups");
    }
    done.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    println!("{} commits in {} groups", commits.load(Ordering::Relaxed), groups.load(Ordering::Relaxed));
    assert_eq!(store.problems().await, [""; 0]);
    let file = std::fs::metadata(store.path().join("store/db")).unwrap().len();
    assert!(file < 64 << 20, "the file grew to {file} bytes");
}

/// Number of batches: a few seconds' worth; more by `MORTISE_STALL_GROUPS`, too.
const BATCHES: u64 = 3_000;

/// Writes like a checkpoint, but in many more and smaller batches.
#[test]
fn many_small_batches_with_readers_do_not_stall() {
    let wanted = std::env::var("MORTISE_STALL_GROUPS").map_or(BATCHES, |groups| groups.parse().unwrap());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("db");
    let table = Table::new(sled_file::open_sled(dir.path(), &file, 256 << 10).unwrap(), file);
    let key = |n: u64| format!("r{:04}", n * 7_919 % 2_000).into_bytes();
    let (done, written) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut threads = Vec::new();
    for reader in 0..2 {
        let (table, done) = (table.clone(), done.clone());
        threads.push(std::thread::spawn(move || {
            for n in reader.. {
                table.get(&key(n)).unwrap();
                if n % 500 == 0 {
                    table.range(Vec::new()..).for_each(|item| drop(item.unwrap()));
                }
                if done.load(Ordering::Relaxed) {
                    return;
                }
            }
        }));
    }
    threads.push(std::thread::spawn({
        let (done, written) = (done.clone(), written.clone());
        move || {
            for n in 0..wanted {
                let mut batch = WriteBatch::default();
                batch.insert(key(n), vec![n as u8; 700]);
                batch.insert(keys::event(n), vec![n as u8; 700]);
                batch.remove(keys::event(n.saturating_sub(1_000)));
                table.write_through(batch.into_sled()).unwrap();
                written.store(n, Ordering::Relaxed);
            }
            done.store(true, Ordering::Relaxed);
        }
    }));
    let (mut last, mut moved) = (0, Instant::now());
    while !done.load(Ordering::Relaxed) {
        std::thread::park_timeout(Duration::from_millis(50));
        let now = written.load(Ordering::Relaxed);
        if now > last {
            (last, moved) = (now, Instant::now());
        }
        assert!(moved.elapsed() < PATIENCE, "no batch since {PATIENCE:?}, after {now}");
    }
    for thread in threads {
        thread.join().unwrap();
    }
}
