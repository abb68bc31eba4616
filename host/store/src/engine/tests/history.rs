//! Tests of the event log and its bounds.

use super::*;

/// Returns the first and the last kept event.
fn kept(store: &TestStore) -> (u64, u64) {
    let events: Vec<_> = store
        .shared
        .table
        .range(vec![b'e']..vec![b'f'])
        .map(|item| keys::event_seq(&item.unwrap().0).unwrap())
        .collect();
    (events.first().copied().unwrap_or(0), events.last().copied().unwrap_or(0))
}

#[tokio::test]
async fn the_newest_events_are_kept() {
    let mut store = TestStore::new(|options| Options { history_events: 10, ..options });
    let mut stored = write(&*store, &resource("a")).await;
    for n in 2..=25 {
        stored = write(&*store, &numbered(stored, n)).await;
        if n == 15 {
            // Lengths that a process does not hold are read.
            store.reopen();
        }
        assert_eq!(kept(&store), (n.saturating_sub(9).max(1), n));
        assert_eq!(store.problems().await, [""; 0]);
    }
}

#[tokio::test]
async fn their_bytes_are_bounded_too() {
    let store = TestStore::new(|options| Options { history_bytes: 100_000, ..options });
    let mut stored = write(&*store, &resource("a")).await;
    for n in 2..=20 {
        stored = write(&*store, &sized(stored, 30_000)).await;
        assert!(kept(&store).1 - kept(&store).0 < 4);
        assert_eq!(kept(&store).1, n);
    }
    // An event larger than the bound leaves no event.
    stored = write(&*store, &sized(stored, 120_000)).await;
    assert_eq!(kept(&store), (0, 0));
    assert_eq!(store.problems().await, [""; 0]);
    write(&*store, &sized(stored, 10)).await;
    assert_eq!(kept(&store), (22, 22));
}

#[tokio::test]
async fn a_batch_may_be_longer_than_the_log() {
    let mut store = TestStore::new(|options| Options { history_events: 5, ..options });
    write(&*store, &resource("first")).await;
    let mutations = (0..20).map(|n| Mutation::Put(Box::new(resource(&format!("r-{n}"))))).collect();
    store.commit(Batch::new(mutations)).await.unwrap();
    assert_eq!(kept(&store), (17, 21));
    assert_eq!(store.problems().await, [""; 0]);
    store.reopen();
    assert_eq!(write(&*store, &resource("last")).await.version, "22");
    assert_eq!(kept(&store), (18, 22));
}

#[tokio::test]
async fn there_need_be_none_and_bounds_may_change() {
    let mut store = TestStore::new(|options| Options { history_events: 0, ..options });
    write(&*store, &resource("a")).await;
    assert_eq!(kept(&store), (0, 0));
    for (bound, name, expected) in [(3, "b", (2, 2)), (3, "c", (2, 3)), (1, "d", (4, 4)), (0, "e", (0, 0))] {
        store.options.history_events = bound;
        store.reopen();
        write(&*store, &resource(name)).await;
        assert_eq!(kept(&store), expected, "{name}");
        assert_eq!(store.problems().await, [""; 0]);
    }
}

/// A damaged event that is no longer needed does not block a write.
#[tokio::test]
async fn a_damaged_event_is_trimmed_like_any_other() {
    let mut store = TestStore::new(|options| Options { history_events: 3, ..options });
    let mut stored = write(&*store, &sized(resource("a"), 20_000)).await;
    for _ in 0..2 {
        stored = write(&*store, &sized(stored, 20_000)).await;
    }
    store.shut();
    store.tamper(|db| {
        db.remove(keys::event(1)).unwrap();
        db.insert(keys::event(2), "no head").unwrap();
    });
    store.open().unwrap();
    for n in 4..=9 {
        stored = write(&*store, &numbered(stored, n)).await;
        assert_eq!(stored.version, n.to_string());
    }
    assert_eq!(store.poisoned(), None);
    assert_eq!(kept(&store), (7, 9));
    let left = store.shared.table.range(vec![b'c']..vec![b'd']).filter(|item| {
        let (seq, kind, _) = keys::chunk_parts(&item.as_ref().unwrap().0).unwrap();
        kind == keys::EVENT && seq < 7
    });
    assert_eq!(left.count(), 0, "no chunk of one that went is left");
}
