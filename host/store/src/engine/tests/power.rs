//! Tests of a loss of power while a checkpoint copies the log to the tree: any page that was not synced may or may not
//! be on the disk.
//!
//! The log's records are synced before they are acknowledged, so the log is whole. Each page of sled's file may be as
//! at its last sync, or as written since. Sled does not open again when that affects more than one batch, so a
//! checkpoint syncs after each.
//!
//! The worst case is an opening after a kill: the last record of the log may have been written and not synced.

use std::{fs, os::unix::fs::FileExt as _};

use super::*;

const PAGE_BYTES: usize = 4096;
/// Mixtures of synced and written pages, for each sync.
const MIXES: usize = 12;

fn db(dir: &Path) -> PathBuf {
    dir.join("store/db")
}

/// Writes a file into `dir` with some pages of `before` and the others of `after`.
fn mix(dir: &Path, before: &[u8], after: &[u8], random: &mut fastrand::Rng) {
    let file = fs::OpenOptions::new().write(true).open(db(dir)).unwrap();
    let len = if random.bool() { after.len() } else { before.len().max(after.len()) };
    file.set_len(0).unwrap();
    file.set_len(len as u64).unwrap();
    // Sometimes almost all pages reached the disk, sometimes almost none.
    let chance = random.u8(..);
    for offset in (0..len).step_by(PAGE_BYTES) {
        let page = |bytes: &[u8]| bytes.get(offset..(offset + PAGE_BYTES).min(bytes.len())).map(<[u8]>::to_vec);
        let (old, new) = (page(before), page(after));
        let page = if random.u8(..) < chance { new.or(old) } else { old };
        if let Some(page) = page {
            file.write_all_at(&page, offset as u64).unwrap();
        }
    }
}

/// Copies the log to the tree as a checkpoint does. Returns sled's file at each sync, first that from before all syncs.
fn checkpoint(dir: &Path) -> Vec<Vec<u8>> {
    let store = dir.join("store");
    let mut images = vec![fs::read(db(dir)).unwrap()];
    let table = Table::new(sled_file::open_sled(&store, &db(dir), 1 << 20).unwrap(), db(dir));
    // An opening syncs, too, before it copies.
    images.push(fs::read(db(dir)).unwrap());
    let (checkpoint, end) = CheckpointPosition::read(&table).unwrap().unwrap();
    let recovered = wal::recover(&store, checkpoint, end).unwrap();
    assert!(recovered.checkpoint.generation > checkpoint.generation);
    let sync = || {
        images.push(fs::read(db(dir))?);
        Ok(())
    };
    checkpoint::copy(&table, || Ok(()), sync, recovered.states.into_iter(), recovered.checkpoint, || end).unwrap();
    images
}

#[tokio::test]
async fn power_that_goes_during_a_checkpoint_costs_nothing() {
    let mut random = fastrand::Rng::with_seed(11);
    let mut store = TestStore::new(|options| Options { history_events: 100, ..options });
    let mut stored = Vec::new();
    for n in 0..150 {
        stored.push(write(&*store, &sized(numbered(resource(&format!("r-{n:03}")), n), random.usize(..6_000))).await);
    }
    // Several openings, so that sled reuses parts of its file.
    for life in 0..4 {
        store.reopen();
        for n in 0..200_usize {
            let slot = random.usize(..stored.len());
            let next = numbered(stored[slot].clone(), life * 1_000 + n as u64);
            stored[slot] = write(&*store, &sized(next, random.usize(..6_000))).await;
        }
    }
    let expected = list(&*store, &everything()).await;
    let [killed, copied] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    for dir in [&killed, &copied] {
        copy_store(&store.path(), dir.path());
    }
    let images = checkpoint(copied.path());
    assert!(images.len() > 4, "{} syncs", images.len());
    for (sync, images) in images.windows(2).enumerate() {
        for round in 0..MIXES {
            let dir = tempfile::tempdir().unwrap();
            copy_store(killed.path(), dir.path());
            mix(dir.path(), &images[0], &images[1], &mut random);
            let opened = SledBackend::open(Options::new(dir.path()));
            let opened = opened.unwrap_or_else(|error| panic!("after sync {sync}, round {round}: {error}"));
            assert_eq!(list(&opened, &everything()).await, expected, "after sync {sync}, round {round}");
            assert_eq!(opened.check().await.unwrap(), [], "after sync {sync}, round {round}");
        }
    }
}

/// An opening after a kill: the last record of the log is only in the kernel's memory, then a part of it in the tree,
/// when the power fails.
#[tokio::test]
async fn power_that_goes_while_a_kill_is_mended_leaves_no_half_of_a_commit() {
    let mut random = fastrand::Rng::with_seed(12);
    let store = TestStore::new(|options| Options { history_events: 20, ..options });
    for n in 0..30 {
        write(&*store, &sized(numbered(resource(&format!("r-{n:03}")), n), 5_000)).await;
    }
    let acknowledged = list(&*store, &everything()).await;
    let [before, after] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    copy_store(&store.path(), before.path());
    let batch: Vec<_> =
        (0..30).map(|n| Mutation::Put(Box::new(sized(resource(&format!("s-{n:03}")), 6_000)))).collect();
    store.commit(Batch::new(batch)).await.unwrap();
    let all = list(&*store, &everything()).await;
    copy_store(&store.path(), after.path());
    let log = |dir: &Path| fs::read(dir.join("store/wal.1")).unwrap();
    let (log_before, log_after) = (log(before.path()), log(after.path()));

    // The steps of an opening, up to each sync of the tree. The log is secured before the first.
    let mended = tempfile::tempdir().unwrap();
    copy_store(after.path(), mended.path());
    let images = checkpoint(mended.path());
    assert!(images.len() > 3, "{} syncs", images.len());
    let mut torn = 0;
    for (sync, images) in images.windows(2).enumerate() {
        for _ in 0..MIXES {
            let dir = tempfile::tempdir().unwrap();
            copy_store(after.path(), dir.path());
            mix(dir.path(), &images[0], &images[1], &mut random);
            let opened = SledBackend::open(Options::new(dir.path())).unwrap();
            assert_eq!(list(&opened, &everything()).await, all, "after sync {sync}");
            assert_eq!(opened.check().await.unwrap(), []);
        }
    }
    // Before that, the record may be torn, and then the tree has no part of it.
    for _ in 0..MIXES {
        let dir = tempfile::tempdir().unwrap();
        copy_store(before.path(), dir.path());
        let file = fs::OpenOptions::new().write(true).open(dir.path().join("store/wal.1")).unwrap();
        for offset in (0..log_after.len()).step_by(512) {
            let source = if random.u8(..) < 250 { &log_after } else { &log_before };
            if let Some(sector) = source.get(offset..offset + 512) {
                file.write_all_at(sector, offset as u64).unwrap();
            }
        }
        let opened = SledBackend::open(Options::new(dir.path())).unwrap();
        let found = list(&opened, &everything()).await;
        torn += u32::from(found == acknowledged);
        assert!(found == acknowledged || found == all);
        assert_eq!(opened.check().await.unwrap(), []);
    }
    assert!(torn > 0);
}
