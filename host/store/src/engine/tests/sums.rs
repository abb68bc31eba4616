//! Tests of silent losses in sled: the sums that every commit keeps reveal them.

use std::time::Duration;

use super::*;

/// Makes a closed store with resources that the history no longer has, and one with an owner.
async fn closed() -> (TestStore, Vec<pb::Resource>) {
    let mut store = TestStore::new(|options| Options { history_events: 1, scrub_per_second: 0, ..options });
    let first = write(&*store, &resource("a")).await;
    let mut stored = vec![write(&*store, &first).await];
    stored.push(write(&*store, &owned(resource("b"), &stored[0])).await);
    stored.push(write(&*store, &resource("c")).await);
    store.shut();
    (store, stored)
}

fn key(resource: &pb::Resource) -> Vec<u8> {
    keys::resource(&id(resource)).unwrap()
}

fn damage(store: &SledBackend) -> String {
    assert!(!store.health().borrow().is_ready());
    store.health().borrow().damaged.clone().unwrap()
}

#[tokio::test]
async fn lost_or_old_resources_are_noticed_at_the_opening() {
    type Tamper = fn(&sled::Db, &[pb::Resource]);
    let cases: [(Tamper, &str); 4] = [
        (
            |db, stored| drop(db.remove(key(&stored[0])).unwrap()),
            "resources of type test.A: 2 are stored, but 3 are expected",
        ),
        (
            |db, stored| {
                let mut batch = WriteBatch::default();
                let old = pb::Resource { version: "1".into(), ..stored[0].clone() };
                let payload = prost::Message::encode_to_vec(&old);
                crate::engine::tree::record::write(
                    &mut batch,
                    &key(&old),
                    crate::engine::tree::record::Kind::Resource,
                    1,
                    &payload,
                );
                db.apply_batch(batch.into_sled()).unwrap();
            },
            "resources of type test.A: the number is right, but some differ",
        ),
        (
            |db, _| {
                let entry = db.scan_prefix(b"o").keys().next().unwrap().unwrap();
                db.remove(entry).unwrap();
            },
            "resource test/A/default/default/b: the owner index does not have it",
        ),
        (|db, stored| drop(db.remove(key(&stored[2])).unwrap()), "resource test/A/default/default/c: its newest event"),
    ];
    for (tamper, expected) in cases {
        let (mut store, stored) = closed().await;
        store.tamper(|db| tamper(db, &stored));
        store.open().unwrap();
        let damaged = damage(&store);
        assert!(damaged.contains(expected), "{expected}: {damaged}");
        assert!(store.problems().await.iter().any(|problem| problem.contains(expected)), "{expected}");
        // The damage is still reported after writes, and at the next opening.
        write(&*store, &resource("later")).await;
        store.reopen();
        assert!(!store.health().borrow().is_ready());
    }
}

/// A type's sum lost together with its resources, as if they shared a page, is noticed by the counters.
#[tokio::test]
async fn a_sum_that_is_gone_is_noticed() {
    let (mut store, stored) = closed().await;
    store.tamper(|db| {
        let sum = db.scan_prefix(b"h").keys().next().unwrap().unwrap();
        for key in stored.iter().map(key).chain([sum.to_vec()]) {
            db.remove(key).unwrap();
        }
    });
    let error = store.open().unwrap_err().to_string();
    assert!(error.contains("the sums of the types do not add up to its own"), "{error}");
    let problems = SledBackend::check_offline(&store.path(), None).unwrap().problems;
    assert!(problems.iter().any(|problem| problem.fault.contains("do not add up to its own")), "{problems:?}");
}

/// A lost event is noticed, since a resumed watch would miss it.
#[tokio::test]
async fn an_event_that_is_gone_is_noticed_when_the_store_is_opened() {
    let mut store = TestStore::new(|options| Options { scrub_per_second: 0, ..options });
    let mut stored = write(&*store, &resource("a")).await;
    for n in 2..=5 {
        stored = write(&*store, &numbered(stored, n)).await;
    }
    store.reopen();
    assert!(store.health().borrow().is_ready());
    store.shut();
    store.tamper(|db| drop(db.remove(keys::event(3)).unwrap()));
    store.open().unwrap();
    assert!(damage(&store).contains("it counts 5 events, but there are 4"), "{}", damage(&store));
}

#[tokio::test]
async fn the_scrub_finds_an_event_that_is_gone_while_the_store_is_in_use() {
    let mut store = TestStore::new(|options| Options { scrub_per_second: 10_000, ..options });
    let mut stored = write(&*store, &resource("a")).await;
    for n in 2..=5 {
        stored = write(&*store, &numbered(stored, n)).await;
    }
    store.reopen();
    let mut batch = sled::Batch::default();
    batch.remove(keys::event(3));
    store.shared.table.write_through(batch).unwrap();
    let mut health = store.health();
    let found = tokio::time::timeout(Duration::from_secs(30), health.wait_for(|health| health.damaged.is_some())).await;
    drop(found.unwrap().unwrap());
    assert!(damage(&store).contains("the history: 4 events are stored, but 5 are expected"), "{}", damage(&store));
}

/// A scrub stays right while events come and go, wherever its pass is, and over skipped sequences.
#[tokio::test]
async fn a_history_that_moves_amid_a_scrub_is_whole() {
    let store = TestStore::new(|options| Options { history_events: 20, scrub_per_second: 0, ..options });
    for n in 0..10 {
        write(&*store, &resource(&format!("r-{n}"))).await;
    }
    let killed = tempfile::tempdir().unwrap();
    copy_store(&store.path(), killed.path());
    let store = SledBackend::open(Options { path: killed.path().to_owned(), ..store.options.clone() }).unwrap();
    for n in 0..300 {
        store.shared.queue.push(Job::Scrub(7)).await.unwrap();
        let many = if n % 10 == 9 { 25 } else { 1 };
        let put = |m| Mutation::Put(Box::new(resource(&format!("s-{m}"))));
        let written = commit(&store, Batch::new((0..many).map(put).collect())).await.unwrap();
        store.shared.queue.push(Job::Scrub(7)).await.unwrap();
        let delete = |written: &pb::Resource| Mutation::Delete { id: id(written), version: written.version.clone() };
        store.commit(Batch::new(written.iter().flatten().map(delete).collect())).await.unwrap();
        assert!(store.health().borrow().is_ready(), "{n}: {:?}", store.health().borrow());
    }
}

/// Comparing a large store takes time, so an opening after a clean close skips it.
#[tokio::test]
async fn a_large_store_is_compared_after_an_unclean_close_and_on_request() {
    let mut store =
        TestStore::new(|options| Options { history_events: 1, scrub_per_second: 0, ..Options::new(options.path) });
    let gone = write(&*store, &resource("a")).await;
    for n in 0..20 {
        write(&*store, &sized(resource(&format!("r-{n:02}")), 1_000_000)).await;
    }
    store.shut();
    assert!(std::fs::metadata(store.path().join("store/db")).unwrap().len() > 16 << 20, "it is not large");
    store.tamper(|db| drop(db.remove(key(&gone)).unwrap()));
    let expected = "resources of type test.A: 20 are stored, but 21 are expected";
    for compare_at_start in [false, true, false] {
        store.options.compare_at_start = compare_at_start;
        store.open().unwrap();
        assert_eq!(store.health().borrow().is_ready(), !compare_at_start);
        assert!(!compare_at_start || damage(&store).contains(expected));
        store.shut();
    }
    store.open().unwrap();
    let killed = tempfile::tempdir().unwrap();
    copy_store(&store.path(), killed.path());
    let opened = SledBackend::open(Options { path: killed.path().to_owned(), ..store.options.clone() }).unwrap();
    assert!(damage(&opened).contains(expected));
}

#[tokio::test]
async fn the_scrub_finds_lost_resources_in_a_store_in_use() {
    let (mut store, stored) = closed().await;
    store.options.scrub_per_second = 10_000;
    store.open().unwrap();
    // Writes meanwhile are no damage, wherever the scrub is.
    for n in 0..300_u64 {
        let written = write(&*store, &owned(resource(&format!("n-{}", n % 50)), &stored[0])).await;
        delete(&*store, &written).await;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    assert!(store.health().borrow().is_ready(), "{:?}", store.health().borrow());
    let mut batch = sled::Batch::default();
    batch.remove(key(&stored[0]));
    store.shared.table.write_through(batch).unwrap();
    let mut health = store.health();
    let found = tokio::time::timeout(Duration::from_secs(30), health.wait_for(|health| health.damaged.is_some())).await;
    drop(found.unwrap().unwrap());
    assert!(damage(&store).contains("resources of type test.A: 2 are stored, but 3 are expected"));
}

/// Only the number in the file differs between the two formats that unit tests know.
#[tokio::test]
async fn an_older_format_is_raised_when_everything_is_in_the_tree() {
    let (mut store, _) = closed().await;
    let format = store.path().join("store/format");
    std::fs::write(&format, "mortise-store 1\n").unwrap();
    store.open().unwrap();
    assert_eq!(store.problems().await, [""; 0]);
    assert_eq!(std::fs::read_to_string(&format).unwrap(), "mortise-store 2\n");
}

/// A refusal for want of space undoes the counting.
#[test]
fn a_step_that_is_undone_leaves_the_sums_as_they_were() {
    use crate::{engine::tree::sums::Sums, set_hash::Step};
    let mut sums = Sums::default();
    let (a, b) = (b"rg\0K\0p\0n\0a\0", b"rg\0K\0p\0n\0b\0");
    sums.step(Step::Add, a, 1);
    let before = sums.clone();
    for step in [Step::Add, Step::Add.inverse()] {
        sums.step(step, b, 2);
    }
    assert_eq!(sums, before);
}
