//! Tests of snapshots: everything as of one commit, once, in spite of changes meanwhile.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
};

use mortise_resource::pb;
use prost::Message as _;

use super::fixtures::{delete, everything, id, list, numbered, resource, resource_in, tenancy, type_of, write};
use crate::{Backend, Batch, Comparison, Mutation, Record, RecordKind, Snapshot, SnapshotHead};

/// Returns every record of a snapshot; each must come once, in the numbers of the head.
async fn drain(mut snapshot: Box<dyn Snapshot>) -> (SnapshotHead, Vec<Record>) {
    let head = snapshot.head().clone();
    let mut records = Vec::new();
    while let Some(page) = snapshot.next().await.unwrap() {
        records.extend(page);
    }
    assert!(snapshot.next().await.unwrap().is_none(), "nothing follows the end");
    let mut comparison = Comparison::new(head.clone());
    let (mut sequences, mut events) = (BTreeSet::new(), BTreeSet::new());
    for record in &records {
        comparison.add(record).unwrap();
        if record.kind == RecordKind::Resource {
            assert!(sequences.insert(record.sequence), "resource {} comes twice", record.sequence);
        } else {
            assert!(events.insert(record.sequence), "event {} comes twice", record.sequence);
        }
    }
    comparison.finish().unwrap();
    assert!(
        events.iter().all(|event| (head.first_event..=head.sequence).contains(event)),
        "the events are not in range"
    );
    assert_eq!(events.len() as u64, head.events(), "the events have another number than the head tells");
    (head, records)
}

fn resources(records: &[Record]) -> Vec<pb::Resource> {
    let of_resources = records.iter().filter(|record| record.kind == RecordKind::Resource);
    let mut all: Vec<_> = of_resources.map(|record| pb::Resource::decode(record.payload.as_slice()).unwrap()).collect();
    all.sort_by_key(|resource| id(resource).name);
    all
}

/// Writes more resources than fit into a page.
async fn fill<B: Backend>(store: &B, count: u64) {
    for from in (0..count).step_by(500) {
        let put = |n: u64| Mutation::Put(Box::new(numbered(resource(&format!("r-{n:04}")), n)));
        store.commit(Batch::new((from..from + 500).map(put).collect())).await.unwrap();
    }
}

fn large(mut resource: pb::Resource) -> pb::Resource {
    resource.metadata.insert("text".into(), "x".repeat(20_000));
    resource
}

/// A snapshot of an empty store is empty.
pub async fn of_nothing<B: Backend>(store: &B) {
    let (head, records) = drain(store.snapshot().await.unwrap()).await;
    assert_eq!((head.sequence, head.resources(), head.events(), records.len()), (0, 0, 0, 0));
}

/// A snapshot has resources of every type and place, and their events, deletions included.
pub async fn is_everything<B: Backend>(store: &B) {
    let owner = write(store, &resource("owner")).await;
    write(store, &pb::Resource { owner: Some(id(&owner)), ..resource("child") }).await;
    write(store, &large(resource("large"))).await;
    write(store, &resource_in(type_of("v2", "B"), tenancy("p", ""), "b")).await;
    let gone = write(store, &resource("gone")).await;
    delete(store, &gone).await;
    let (head, records) = drain(store.snapshot().await.unwrap()).await;
    let names: Vec<_> = resources(&records).iter().map(|resource| id(resource).name).collect();
    assert_eq!(names, ["b", "child", "large", "owner"]);
    assert_eq!(head.resources.values().copied().collect::<Vec<_>>(), [3, 1]);
    let deletions: Vec<_> = records.iter().filter(|record| record.kind == RecordKind::Delete).collect();
    assert_eq!(deletions.len(), 1);
    assert_eq!(pb::Resource::decode(deletions[0].payload.as_slice()).unwrap(), gone);
    assert_eq!(store.stats().await.unwrap().head, head);
}

/// Resources that are changed, rewritten, deleted, recreated or added later are as at the start of the snapshot.
pub async fn excludes_later_changes<B: Backend>(store: &B) {
    fill(store, 6_000).await;
    write(store, &large(resource("z-large"))).await;
    let before = list(store, &everything()).await;
    let mut snapshot = store.snapshot().await.unwrap();
    let mut taken = snapshot.next().await.unwrap().unwrap();
    // Twice, so that rewritten resources are rewritten again, then replaced, and recreated ones are replaced.
    for round in 0..2 {
        for (n, resource) in list(store, &everything()).await.iter().enumerate().skip(round) {
            if n % 97 > 6 && n < before.len() - 10 {
                continue;
            }
            match n % 4 {
                0 => drop(write(store, &numbered(resource.clone(), 1_000_000)).await),
                1 => delete(store, resource).await,
                2 => {
                    let other = numbered(resource.clone(), 2_000_000);
                    store.commit(Batch::single(Mutation::Rewrite(Box::new(other)))).await.unwrap();
                    if round == 1 {
                        write(store, &numbered(resource.clone(), 3_000_000)).await;
                    }
                }
                _ => {
                    delete(store, resource).await;
                    write(store, &super::fixtures::resource(&id(resource).name)).await;
                }
            }
        }
        write(store, &resource(&format!("later-{round}"))).await;
    }
    while let Some(page) = snapshot.next().await.unwrap() {
        taken.extend(page);
    }
    let mut seen = BTreeSet::new();
    assert!(taken.iter().all(|r| seen.insert((r.kind == RecordKind::Resource, r.sequence))), "a record comes twice");
    let found = resources(&taken);
    assert_eq!(found.len(), before.len());
    for (found, before) in found.iter().zip(&before) {
        assert_eq!(found, before);
    }
}

/// Each snapshot under load is of one commit: a sum that every batch keeps is kept, and no record comes twice.
pub async fn is_of_one_commit_under_load<B: Backend>(store: &B) {
    const ACCOUNTS: usize = 200;
    for n in 0..ACCOUNTS {
        write(store, &large(numbered(resource(&format!("a-{n:03}")), 100))).await;
    }
    let done = AtomicBool::new(false);
    let writer = |seed: u64| {
        let done = &done;
        async move {
            let mut state = seed;
            let mut pick = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                usize::try_from(state >> 33).unwrap() % ACCOUNTS
            };
            while !done.load(Ordering::SeqCst) {
                let (from, to) = (pick(), pick());
                if from == to {
                    continue;
                }
                let named = |n: usize| pb::Id { uid: String::new(), ..id(&resource(&format!("a-{n:03}"))) };
                let (a, b) =
                    (super::fixtures::read(store, &named(from)).await, super::fixtures::read(store, &named(to)).await);
                let (a, b) = (a.unwrap(), b.unwrap());
                let moved = |r: &pb::Resource, by: i64| {
                    let n = super::fixtures::number(r).checked_add_signed(by);
                    n.map(|n| Mutation::Put(Box::new(numbered(r.clone(), n))))
                };
                let (Some(a), Some(b)) = (moved(&a, -1), moved(&b, 1)) else { continue };
                // Another writer may have been faster.
                store.commit(Batch::new(vec![a, b])).await.ok();
            }
        }
    };
    let reader = async {
        for _ in 0..8 {
            let (_, records) = drain(store.snapshot().await.unwrap()).await;
            let found = resources(&records);
            assert_eq!(found.len(), ACCOUNTS);
            assert_eq!(found.iter().map(super::fixtures::number).sum::<u64>(), 100 * ACCOUNTS as u64);
        }
        done.store(true, Ordering::SeqCst);
    };
    tokio::join!(reader, writer(1), writer(2), writer(3), writer(4), writer(5), writer(6), writer(7), writer(8));
}

/// A snapshot without a reader blocks no writer, and ends when it is dropped.
pub async fn an_idle_snapshot_blocks_no_writer<B: Backend>(store: &B) {
    fill(store, 3_000).await;
    let mut idle = store.snapshot().await.unwrap();
    idle.next().await.unwrap().unwrap();
    for resource in list(store, &everything()).await {
        write(store, &numbered(resource, 7)).await;
    }
    assert_eq!(store.stats().await.unwrap().snapshots, 1);
    drop(idle);
    assert_eq!(store.stats().await.unwrap().snapshots, 0);
}
