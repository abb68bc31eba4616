//! Tests of a full disk: a small tmpfs, where mounting is allowed.

use std::{ffi::CString, fs, io::Write as _, time::Duration};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tracing::{Event, Level, Metadata, span};

use super::*;
use crate::engine::commit::room::Shortage;

/// Levels of logged events.
#[derive(Clone, Default)]
struct Levels(Arc<Mutex<Vec<Level>>>);

impl tracing::Subscriber for Levels {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        self.0.lock().push(*event.metadata().level());
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

/// A file system of its own, in memory.
struct Disk(tempfile::TempDir);

impl Disk {
    /// Makes one of `mib` MiB. Returns `None`, with a message, where mounting is not allowed. Starts no process: until
    /// its `exec`, a child shares the locks on the stores that other tests have open.
    fn new(mib: u64) -> Option<Self> {
        let dir = tempfile::tempdir().unwrap();
        let options = CString::new(format!("size={mib}m")).unwrap();
        if mount("tmpfs", dir.path(), "tmpfs", MountFlags::empty(), options.as_c_str()).is_ok() {
            return Some(Self(dir));
        }
        // On the real stderr: what a passing test prints is swallowed.
        let _ = writeln!(std::io::stderr(), "\nSKIPPED: a tmpfs cannot be mounted (needs root)");
        None
    }

    fn data(&self) -> PathBuf {
        self.0.path().join("data")
    }

    fn ballast(&self) -> PathBuf {
        self.0.path().join("ballast")
    }

    /// Uses all remaining space.
    fn fill(&self) {
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.ballast()).unwrap();
        for piece in [1 << 20, 4096, 1] {
            while file.write_all(&vec![1; piece]).is_ok() {}
        }
    }

    fn make_room(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        unmount(self.0.path(), UnmountFlags::DETACH).ok();
    }
}

fn options(disk: &Disk) -> Options {
    Options { reserve_bytes: 8 << 20, cache_bytes: 1 << 20, ..Options::new(disk.data()) }
}

fn is_full(error: &StoreError) -> bool {
    matches!(error, StoreError::Full { missing, .. } if *missing > 0) && error.to_string().contains("bytes are missing")
}

/// Writes until the disk is full; returns the acknowledged resources.
async fn until_full(store: &SledBackend, begins: &str) -> Vec<pb::Resource> {
    let mut written = Vec::new();
    for n in 0..20_000 {
        match store.write_cas(sized(resource(&format!("{begins}-{n:05}")), 20_000)).await {
            Ok(resource) => written.push(resource),
            Err(error) => {
                assert!(is_full(&error), "{error}");
                return written;
            }
        }
    }
    panic!("the disk is never full");
}

async fn eventually_writes(store: &SledBackend, name: &str) -> pb::Resource {
    for _ in 0..200 {
        match store.write_cas(resource(name)).await {
            Ok(written) => return written,
            Err(error) => assert!(is_full(&error), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("there is room, and nothing can be written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_refuses_what_needs_room_and_nothing_else() {
    let Some(disk) = Disk::new(96) else { return };
    let store = SledBackend::open(options(&disk)).unwrap();
    let mut kept = until_full(&store, "a").await;
    assert!(kept.len() > 200, "{}", kept.len());
    // Refused as a whole: no part of it is stored. A checkpoint may have freed some space.
    for n in 0.. {
        let pair = [resource(&format!("x-{n:05}")), sized(resource(&format!("y-{n:05}")), 20_000)];
        let mutations = pair.map(|resource| Mutation::Put(Box::new(resource)));
        match commit(&store, Batch::new(mutations.into())).await {
            Ok(written) => kept.extend(written.into_iter().flatten()),
            Err(error) => {
                assert!(is_full(&error), "{error}");
                break;
            }
        }
    }
    assert_eq!(list(&store, &everything()).await.len(), kept.len());
    assert!(store.health().borrow().is_ready());
    assert_eq!(store.poisoned(), None);
    // A batch with a delete goes to the log, which has no space for this one. Its effects are undone.
    let mutations = (0..400).map(|n| Mutation::Put(Box::new(sized(resource(&format!("z-{n:05}")), 20_000))));
    let deletion = kept.last().map(|last| Mutation::Delete { id: id(last), version: last.version.clone() });
    let error = store.commit(Batch::new(mutations.chain(deletion).collect())).await.unwrap_err();
    assert!(is_full(&error), "{error}");
    let bytes = kept.iter().map(|resource| prost::Message::encoded_len(resource) as u64).sum();
    let usage = store.usage(1).await.unwrap();
    assert_eq!((usage.resources, usage.bytes), (kept.len() as u64, bytes));

    // Deletions go on, with the rest of their batches; so do writes that do not grow.
    for _ in 0..100 {
        delete(&store, &kept.pop().unwrap()).await;
    }
    let last = kept.pop().unwrap();
    let tombstone = Batch::new(vec![
        Mutation::Delete { id: id(&last), version: last.version.clone() },
        Mutation::Put(Box::new(resource("tombstone"))),
    ]);
    kept.push(commit(&store, tombstone).await.unwrap().remove(1).unwrap());
    let smaller = pb::Resource { metadata: Default::default(), ..kept[0].clone() };
    kept[0] = write(&store, &smaller).await;

    kept.sort_by_key(name);
    assert_eq!(list(&store, &everything()).await, kept);
    assert_eq!(store.check().await.unwrap(), []);
    drop(store);
    let store = SledBackend::open(options(&disk)).unwrap();
    assert_eq!(list(&store, &everything()).await, kept);
    assert_eq!(store.check().await.unwrap(), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn writes_go_on_by_themselves_once_there_is_room() {
    let Some(disk) = Disk::new(96) else { return };
    let store = SledBackend::open(options(&disk)).unwrap();
    let first = write(&store, &resource("first")).await;
    for round in 0..3 {
        disk.fill();
        let mut kept = until_full(&store, &format!("b{round}")).await;
        assert!(kept.len() < 2_000, "{} writes on a full disk", kept.len());
        // This may free space, once a checkpoint has copied them to the tree.
        for _ in 0..kept.len() / 2 {
            delete(&store, &kept.pop().unwrap()).await;
        }
        disk.make_room();
        eventually_writes(&store, &format!("c{round}")).await;
        assert_eq!(store.stats().await.unwrap().health, Health::default());
    }
    assert_eq!(read(&store, &id(&first)).await, Some(first));
    assert_eq!(store.check().await.unwrap(), []);
}

/// A process was killed, then the disk was filled: the log cannot be copied to the tree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_on_a_full_disk_opens_for_reading() {
    let Some(disk) = Disk::new(96) else { return };
    let (store, listed) = {
        let store = TestStore::new(|options| options);
        for n in 0..200 {
            write(&*store, &sized(resource(&format!("r-{n:03}")), 10_000)).await;
        }
        let listed = list(&*store, &everything()).await;
        (store, listed)
    };
    copy_store(&store.path(), &disk.data());
    // The spare file, as the last opening left it.
    crate::engine::files::reserve::keep_spare(&disk.data().join("store"), 2 << 20).unwrap();
    disk.fill();
    for _ in 0..2 {
        let opened = SledBackend::open(options(&disk)).unwrap();
        assert_eq!(list(&opened, &everything()).await, listed);
        for refused in
            [opened.write_cas(resource("a")).await.map(drop), opened.write_cas(listed[0].clone()).await.map(drop)]
        {
            assert!(is_full(&refused.unwrap_err()));
        }
        assert!(opened.health().borrow().full.is_some() && opened.health().borrow().is_ready());
    }
    let opened = SledBackend::open(options(&disk)).unwrap();
    disk.make_room();
    eventually_writes(&opened, "a").await;
    delete(&opened, &listed[0]).await;
    assert_eq!(list(&opened, &everything()).await.len(), listed.len());
    assert_eq!(opened.check().await.unwrap(), []);
    drop(opened);
    let opened = SledBackend::open(options(&disk)).unwrap();
    assert_eq!(list(&opened, &everything()).await.len(), listed.len());
    assert_eq!(opened.check().await.unwrap(), []);
}

/// A store of an earlier format opens, too; its format is raised once the disk has space for the content of its log.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_of_an_earlier_format_on_a_full_disk_opens_for_reading() {
    let Some(disk) = Disk::new(96) else { return };
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats/store-v1-killed");
    let store = disk.data().join("store");
    fs::create_dir_all(&store).unwrap();
    for entry in fs::read_dir(fixture).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, store.join(path.file_name().unwrap())).unwrap();
    }
    crate::engine::files::reserve::keep_spare(&store, 2 << 20).unwrap();
    disk.fill();
    let format = || fs::read_to_string(store.join("format")).unwrap();
    for _ in 0..2 {
        let opened = SledBackend::open(options(&disk)).unwrap();
        assert_eq!(opened.stats().await.unwrap().head.resources(), 4);
        assert!(is_full(&opened.write_cas(resource("a")).await.unwrap_err()));
        assert!(opened.health().borrow().is_ready());
        assert_eq!(format(), "mortise-store 1\n");
    }
    let opened = SledBackend::open(options(&disk)).unwrap();
    disk.make_room();
    eventually_writes(&opened, "a").await;
    assert_eq!(format(), "mortise-store 2\n");
    drop(opened);
    let opened = SledBackend::open(options(&disk)).unwrap();
    assert_eq!(opened.stats().await.unwrap().head.resources(), 5);
    assert_eq!(opened.check().await.unwrap(), []);
}

/// The commit thread logs a shortage that the checkpoint thread noted first.
#[test]
fn a_shortage_is_logged_once() {
    let store = TestStore::new(|options| options);
    let shortage = Shortage::of(&StoreError::Full { path: store.path(), missing: 1 });
    store.shared.room.note(shortage.clone());
    let levels = Levels::default();
    tracing::subscriber::with_default(levels.clone(), || {
        for shortage in [shortage.clone(), shortage, None, None] {
            store.shared.note_shortage(shortage);
        }
    });
    assert_eq!(*levels.0.lock(), [Level::ERROR, Level::INFO]);
}

#[tokio::test]
async fn batches_of_a_deletion_are_accepted_on_a_full_disk() {
    let Some(disk) = Disk::new(64) else { return };
    let store = SledBackend::open(options(&disk)).unwrap();
    disk.fill();
    until_full(&store, "a").await;
    let put = |name: &str| Batch::single(Mutation::Put(Box::new(resource(name))));
    assert!(is_full(&store.commit(put("x")).await.unwrap_err()));
    store.commit(Batch { belongs_to_deletion: true, ..put("x") }).await.unwrap();
}
