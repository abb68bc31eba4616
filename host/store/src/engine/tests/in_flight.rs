//! Tests of reads while a batch is written but not durable, and after its sync failed.

use std::{
    io,
    sync::{Arc, mpsc},
    time::Duration,
};

use super::*;

/// A disk whose syncs wait for the test.
struct Disk {
    begun: mpsc::Receiver<()>,
    results: mpsc::Sender<io::Result<()>>,
}

fn disk() -> (Disk, SyncDisk) {
    let (tell, begun) = mpsc::channel();
    let (results, wait) = mpsc::channel();
    let sync = move |_: &File| {
        tell.send(()).ok();
        // After the end of its test a disk syncs at once.
        wait.recv().unwrap_or(Ok(()))
    };
    (Disk { begun, results }, Box::new(sync))
}

impl Disk {
    fn wait(&self) {
        self.begun.recv_timeout(Duration::from_secs(20)).unwrap();
    }

    fn finish(&self, result: io::Result<()>) {
        self.results.send(result).unwrap();
    }
}

/// Returns everything that readers see.
async fn seen(store: &SledBackend, owner: &pb::Resource) -> Vec<String> {
    let mut seen = Vec::new();
    for name in ["deleted", "owner", "new", "updated", "moved"] {
        let mut wanted = id(&resource(name));
        wanted.uid.clear();
        let found = read(store, &wanted).await;
        seen.push(format!("read {name}: {:?}", found.map(|r| (number(&r), r.version))));
    }
    let listed = list(store, &everything()).await;
    let (snapshot, _events) = watch(store, &everything()).await;
    assert_eq!(listed, snapshot);
    seen.extend(listed.iter().map(|r| format!("list {}: {} at {}", name(r), number(r), r.version)));
    let children = store.list_by_owner(&id(owner)).await.unwrap();
    seen.extend(children.iter().map(|r| format!("child {}: {} at {}", name(r), number(r), r.version)));
    seen.extend(store.types().await.unwrap().iter().map(ToString::to_string));
    seen
}

/// Makes a store with resources, and a batch that changes each of them in a different way.
async fn prepared(disk: &Disk, store: &SledBackend) -> (pb::Resource, Batch) {
    let write = async |resource: pb::Resource| {
        let (stored, ()) = tokio::join!(write(store, &resource), async {
            tokio::task::block_in_place(|| disk.wait());
            disk.finish(Ok(()));
        });
        stored
    };
    let owner = write(resource("owner")).await;
    let deleted = write(owned(resource("deleted"), &owner)).await;
    let updated = write(sized(owned(resource("updated"), &owner), 10_000)).await;
    let moved = write(owned(resource("moved"), &owner)).await;
    let last = write(resource_in(type_of("v1", "Last"), tenancy("", ""), "last")).await;
    let put = |resource: pb::Resource| Mutation::Put(Box::new(resource));
    let delete = |stored: &pb::Resource| Mutation::Delete { id: id(stored), version: stored.version.clone() };
    let mutations = vec![
        delete(&deleted),
        put(owned(resource("deleted"), &owner)),
        delete(&last),
        put(numbered(owned(resource("new"), &owner), 1)),
        put(sized(numbered(updated, 2), 20_000)),
        put(pb::Resource { owner: None, ..numbered(moved, 3) }),
        put(resource_in(type_of("v1", "First"), tenancy("", ""), "first")),
    ];
    (owner, Batch::new(mutations))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_batch_in_flight_is_invisible_and_then_whole() {
    let (disk, sync) = disk();
    let store = Arc::new(TestStore::with(|options| options, Some(sync)));
    let (owner, batch) = prepared(&disk, &store).await;
    let (_, mut events) = watch(&**store, &everything()).await;
    let before = seen(&store, &owner).await;

    let committing = tokio::spawn({
        let store = store.clone();
        async move { store.commit(batch).await }
    });
    disk.wait();
    assert_eq!(seen(&store, &owner).await, before);
    // A watch opened now gets the old state, then the batch as events.
    let (_, mut late) = watch(&**store, &everything()).await;
    assert!(tokio::time::timeout(Duration::from_millis(50), events.next()).await.is_err());
    assert!(!committing.is_finished());

    disk.finish(Ok(()));
    let results = committing.await.unwrap().unwrap();
    assert_eq!(results.len(), 7);
    let after = seen(&store, &owner).await;
    let expected = [
        "read deleted: Some((0, \"7\"))",
        "read owner: Some((0, \"1\"))",
        "read new: Some((1, \"9\"))",
        "read updated: Some((2, \"10\"))",
        "read moved: Some((3, \"11\"))",
        "list deleted: 0 at 7",
        "list moved: 3 at 11",
        "list new: 1 at 9",
        "list owner: 0 at 1",
        "list updated: 2 at 10",
        "child deleted: 0 at 7",
        "child new: 1 at 9",
        "child updated: 2 at 10",
        "test.A",
        "test.First",
    ];
    assert_eq!(after, expected);
    for watch in [&mut events, &mut late] {
        assert!(matches!(next(watch).await, Event::Delete(r) if name(&r) == "deleted"));
        for expected in ["deleted", "new", "updated", "moved"] {
            assert!(matches!(next(watch).await, Event::Upsert(r) if name(&r) == expected));
        }
    }
    drop(disk);
    assert_eq!(store.problems().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_failed_sync_poisons_and_shows_nothing() {
    let (disk, sync) = disk();
    let mut store = TestStore::with(|options| options, Some(sync));
    let (owner, batch) = prepared(&disk, &store).await;
    let before = seen(&store, &owner).await;
    let (result, ()) = tokio::join!(store.commit(batch.clone()), async {
        tokio::task::block_in_place(|| disk.wait());
        disk.finish(Err(io::Error::other("the disk is on fire")));
    });
    assert!(matches!(&result, Err(StoreError::Poisoned(why)) if why.contains("on fire")), "{result:?}");
    assert!(store.poisoned().is_some_and(|why| why.contains("store/wal.1: sync: the disk is on fire")));
    assert_eq!(seen(&store, &owner).await, before);
    let result = store.commit(batch).await;
    assert!(matches!(result, Err(StoreError::Poisoned(_))), "{result:?}");
    assert_eq!(seen(&store, &owner).await, before);
    // The batch may or may not be on the disk, but only as a whole.
    store.reopen();
    let after = seen(&store, &owner).await;
    assert!(after == before || after.contains(&"read new: Some((1, \"9\"))".to_owned()), "{after:?}");
    assert_eq!(store.problems().await, [""; 0]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_panic_of_the_commit_thread_answers_all_callers() {
    let store = TestStore::with(|options| options, Some(Box::new(|_| panic!("a bug"))));
    for _ in 0..2 {
        let result = store.write_cas(resource("a")).await;
        assert!(matches!(&result, Err(StoreError::Poisoned(why)) if why.contains("a bug")), "{result:?}");
    }
    assert!(list(&*store, &everything()).await.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn batches_that_wait_are_committed_by_one_sync() {
    let (disk, sync) = disk();
    let store = Arc::new(TestStore::with(|options| options, Some(sync)));
    let write = |n: u64| {
        let store = store.clone();
        tokio::spawn(async move { store.write_cas(numbered(resource(&format!("r-{n}")), n)).await })
    };
    let first = write(0);
    disk.wait();
    let rest: Vec<_> = (1..=30).map(write).collect();
    // Gives all of them time to get into the queue.
    tokio::time::sleep(Duration::from_millis(500)).await;
    disk.finish(Ok(()));
    disk.wait();
    disk.finish(Ok(()));
    first.await.unwrap().unwrap();
    for watch in rest {
        watch.await.unwrap().unwrap();
    }
    assert_eq!(list(&**store, &everything()).await.len(), 31);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn closing_finishes_accepted_batches_and_ends_watches() {
    let (disk, sync) = disk();
    let store = Arc::new(TestStore::with(|options| options, Some(sync)));
    let (_, mut events) = watch(&**store, &everything()).await;
    let writing = tokio::spawn({
        let store = store.clone();
        async move { store.write_cas(resource("a")).await }
    });
    disk.wait();
    let closing = tokio::task::spawn_blocking({
        let store = store.clone();
        move || store.close()
    });
    while !store.shared.queue.is_closed() {
        tokio::task::yield_now().await;
    }
    tokio::time::sleep(Duration::from_millis(20)).await;
    assert!(!closing.is_finished());
    assert!(matches!(store.write_cas(resource("b")).await, Err(StoreError::Closed)));
    disk.finish(Ok(()));
    let stored = writing.await.unwrap().unwrap();
    closing.await.unwrap();
    assert_eq!(next(&mut events).await, Event::Upsert(stored.clone()));
    assert!(matches!(events.next().await, Err(StoreError::Closed)));
    assert!(matches!(store.watch_list(&everything(), None).await, Err(StoreError::Closed)));
    assert_eq!(read(&**store, &id(&stored)).await, Some(stored), "reads go on");
    // A forgotten watch does not keep the directory locked.
    let path = store.path();
    let mut store = Arc::into_inner(store).unwrap();
    store.shut();
    assert!(SledBackend::open(Options::new(path)).is_ok());
}

#[tokio::test]
async fn an_unwatched_type_has_no_hub() {
    let store = TestStore::new(|options| options);
    let (_, first) = watch(&*store, &everything()).await;
    let (_, second) = watch(&*store, &query("p", "n", "")).await;
    assert_eq!(store.shared.publisher.hubs_and_windows(), (2, 0));
    drop(first);
    assert_eq!(store.shared.publisher.hubs_and_windows(), (1, 0));
    drop(second);
    assert_eq!(store.shared.publisher.hubs_and_windows(), (0, 0));
    // A call cancelled during its scan leaves nothing behind.
    let everything = everything();
    let mut call = store.watch_list(&everything, None);
    let waker = std::task::Waker::noop();
    assert!(call.as_mut().poll(&mut std::task::Context::from_waker(waker)).is_ready());
    drop(call);
    assert_eq!(store.shared.publisher.hubs_and_windows(), (0, 0));
}
