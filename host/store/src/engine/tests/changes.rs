//! Tests of watches of changes over trims, restarts and time.

use mortise_resource::goten::Meta;
use prost_types::Timestamp;

use super::*;
use crate::{ChangeStep, ChangeWatch, Position, PriorState, ScanPart};

async fn here(store: &SledBackend) -> Position {
    store.open_changes(&everything(), &ScanPart::default(), &[]).await.unwrap().position
}

async fn after(store: &SledBackend, position: Position) -> Option<Box<dyn ChangeWatch>> {
    store.changes_after(&everything(), &ScanPart::default(), &[], position).await.unwrap()
}

/// Returns the sequences up to the end of the replay, and whether the earlier state is known.
async fn replayed(store: &SledBackend, position: Position) -> Vec<(u64, bool)> {
    let mut watch = after(store, position).await.unwrap();
    let mut found = Vec::new();
    while let ChangeStep::Change(change) = watch.next().await.unwrap() {
        found.push((change.sequence, change.before != PriorState::Unknown));
    }
    found
}

#[tokio::test]
async fn positions_outlive_the_process_and_end_with_the_history() {
    let mut store = TestStore::new(|options| Options { history_events: 10, ..options });
    let mut stored = write(&*store, &resource("a")).await;
    let other = write(&*store, &resource("b")).await;
    let mut positions = vec![(2, here(&store).await)];
    for n in 3..=25 {
        stored = write(&*store, &numbered(stored, n)).await;
        positions.push((n, here(&store).await));
    }
    let mut followed = 0;
    for restarted in [false, true] {
        for (n, position) in &positions {
            assert_eq!(position.sequence, *n);
            // The history has 16 to 25; of the event before the first only the number is known.
            if *n < 16 {
                assert!(after(&store, *position).await.is_none());
                continue;
            }
            assert_eq!(replayed(&store, *position).await, (n + 1..=25).map(|n| (n, true)).collect::<Vec<_>>());
            followed += 1;
        }
        if !restarted {
            store.reopen();
            assert_eq!(here(&store).await, positions.last().unwrap().1);
        }
    }
    assert_eq!(followed, 20);
    // The last resource written before the history begins.
    write(&*store, &numbered(other, 26)).await;
    let (_, last) = positions.last().unwrap();
    assert_eq!(replayed(&store, *last).await, [(26, false)]);
}

#[tokio::test]
async fn trimming_during_a_replay_is_an_error() {
    let store = TestStore::new(|options| Options { history_events: 1_000, ..options });
    let mut stored = write(&*store, &resource("a")).await;
    let from = here(&store).await;
    for n in 0..900 {
        stored = write(&*store, &numbered(stored, n)).await;
    }
    let mut watch = after(&store, from).await.unwrap();
    for n in 0..512 {
        assert!(matches!(watch.next().await.unwrap(), ChangeStep::Change(_)), "{n}");
    }
    for n in 0..1_000 {
        stored = write(&*store, &numbered(stored, n)).await;
    }
    assert!(matches!(watch.next().await, Err(StoreError::HistoryTrimmed)));
}

#[tokio::test]
async fn a_time_is_a_position() {
    let store = TestStore::new(|options| Options { history_events: 6, ..options });
    let time = |seconds| Timestamp { seconds, nanos: 5 };
    let touched = |stored: pb::Resource, seconds| pb::Resource {
        meta: Some(Box::new(Meta { update_time: Some(time(seconds)), ..Meta::default() })),
        ..stored
    };
    assert_eq!(store.position_before(time(0)).await.unwrap(), Some(Position::default()));
    let mut stored = write(&*store, &touched(resource("a"), 100)).await;
    for n in 1..4 {
        stored = write(&*store, &touched(stored, 100 + 10 * n)).await;
    }
    delete(&*store, &stored).await;
    write(&*store, &touched(resource("b"), 150)).await;
    let found = async |seconds| store.position_before(time(seconds)).await.unwrap().map(|position| position.sequence);
    for (seconds, sequence) in [(50, 0), (100, 0), (101, 1), (110, 1), (130, 3), (131, 4), (150, 4), (151, 6)] {
        assert_eq!(found(seconds).await, Some(sequence), "{seconds}");
    }
    // Trims the first two events.
    write(&*store, &touched(resource("c"), 160)).await;
    write(&*store, &touched(resource("d"), 170)).await;
    assert_eq!([found(120).await, found(121).await, found(171).await], [None, Some(3), Some(8)]);
}
