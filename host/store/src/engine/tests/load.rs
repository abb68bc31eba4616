//! Tests of stores made from snapshots, and of checks of closed stores.

use super::*;
use crate::{Loader, Record, RecordKind, SnapshotHead};

async fn taken(store: &SledBackend) -> (SnapshotHead, Vec<Record>) {
    let mut snapshot = store.snapshot().await.unwrap();
    let head = snapshot.head().clone();
    let mut records = Vec::new();
    while let Some(page) = snapshot.next().await.unwrap() {
        records.extend(page);
    }
    (head, records)
}

async fn filled() -> TestStore {
    let store = TestStore::new(|options| Options { history_events: 6, ..options });
    let owner = write(&*store, &resource("owner")).await;
    for n in 0..40 {
        write(&*store, &owned(sized(numbered(resource(&format!("r-{n}")), n), 6_000), &owner)).await;
    }
    let gone = write(&*store, &resource("gone")).await;
    delete(&*store, &gone).await;
    store
}

fn load(path: &Path, head: &SnapshotHead, records: &[Record]) -> Result<(), StoreError> {
    let mut loader = Loader::create(path, head.clone())?;
    records.iter().try_for_each(|record| loader.add(record))?;
    loader.finish()
}

#[tokio::test]
async fn a_loaded_store_is_the_same_store() {
    let store = filled().await;
    let (head, records) = taken(&store).await;
    assert_eq!((head.first_event, head.events()), (38, 6));
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), &head, &records).unwrap();
    let loaded = SledBackend::open(Options::new(dir.path())).unwrap();
    assert_eq!(list(&loaded, &everything()).await, list(&*store, &everything()).await);
    assert_eq!(loaded.check().await.unwrap(), []);
    let all = |store: &SledBackend| {
        let items = store.shared.table.range(Vec::new()..).map(Result::unwrap);
        // Each store has its own log, and its own id.
        let items = items.filter(|(key, _)| *key != keys::CHECKPOINT && *key != keys::STORE_ID);
        items.map(|(key, value)| (key.to_vec(), value.to_vec())).collect::<Vec<_>>()
    };
    for (loaded, stored) in all(&loaded).into_iter().zip(all(&store)) {
        assert_eq!(loaded, stored, "key by key, byte by byte");
    }
    assert_eq!(all(&loaded).len(), all(&store).len());
    // Versions continue.
    assert_eq!(write(&loaded, &resource("next")).await.version, (head.sequence + 1).to_string());
    assert!(matches!(load(dir.path(), &head, &records), Err(StoreError::Locked { .. })));
    drop(loaded);
    assert!(matches!(load(dir.path(), &head, &records), Err(StoreError::Exists { .. })));
}

/// Missing, doubled or changed records make no store.
#[tokio::test]
async fn records_that_do_not_agree_are_refused() {
    let store = filled().await;
    let (head, records) = taken(&store).await;
    type Change = fn(&mut SnapshotHead, &mut Vec<Record>);
    let position = |kind| records.iter().position(|record| record.kind == kind).unwrap();
    let (first_resource, first_event) = (position(RecordKind::Resource), position(RecordKind::Upsert));
    assert_eq!((first_event, records[first_resource].kind), (0, RecordKind::Resource));
    let cases: [(&str, Change); 8] = [
        ("40 found, 41 expected", |_, records| drop(records.pop())),
        ("it says 6 events", |_, records| drop(records.remove(0))),
        ("it comes twice", |_, records| records.push(records[0].clone())),
        ("it comes twice", |_, records| records.push(records[20].clone())),
        ("it does not decode", |_, records| records[0].payload.truncate(9)),
        ("its version is", |_, records| records[20].sequence += 1),
        ("its sequence is outside", |head, _| head.sequence -= 1),
        ("event 43 is not a deletion", |_, records| {
            let deletion = records.iter_mut().find(|record| record.kind == RecordKind::Delete).unwrap();
            let other = Record { kind: RecordKind::Upsert, ..deletion.clone() };
            let mut resource = <pb::Resource as prost::Message>::decode(other.payload.as_slice()).unwrap();
            resource.version = other.sequence.to_string();
            *deletion = Record { payload: prost::Message::encode_to_vec(&resource), ..other };
        }),
    ];
    for (expected, change) in cases {
        let dir = tempfile::tempdir().unwrap();
        let (mut head, mut records) = (head.clone(), records.clone());
        change(&mut head, &mut records);
        let error = load(dir.path(), &head, &records).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!dir.path().join("store").exists());
    }
}

/// A duplicate event in place of another of the same length is noticed without a store.
#[tokio::test]
async fn an_event_that_comes_twice_in_place_of_another_is_refused() {
    let store = TestStore::new(|options| options);
    let mut stored = write(&*store, &numbered(resource("a"), 1)).await;
    for n in 2..=3 {
        stored = write(&*store, &numbered(stored, n)).await;
    }
    let (head, mut records) = taken(&store).await;
    let compared = |records: &[Record]| {
        let mut comparison = Comparison::new(head.clone());
        records.iter().try_for_each(|record| comparison.add(record))?;
        comparison.finish()
    };
    compared(&records).unwrap();
    records[0] = records[1].clone();
    let error = compared(&records).unwrap_err().to_string();
    assert!(error.contains("event 2") && error.contains("it comes twice"), "{error}");
}

/// The files stay the same, to the byte, and nothing is left beside them.
#[tokio::test]
async fn the_check_of_a_closed_store_changes_nothing() {
    let mut store = filled().await;
    match SledBackend::check_offline(&store.path(), None) {
        Err(StoreError::Locked { .. }) => {}
        other => panic!("{other:?}"),
    }
    store.shut();
    let tamper = |db: &sled::Db| drop(db.remove(keys::event(40)).unwrap());
    let files = |path: &Path| {
        let mut files = Vec::new();
        for entry in std::fs::read_dir(path.join("store")).unwrap().chain(std::fs::read_dir(path).unwrap()) {
            let path = entry.unwrap().path();
            files.push((path.clone(), std::fs::read(path).unwrap_or_default()));
        }
        files.sort();
        files
    };
    // Sled closes its files a moment after the store is dropped.
    store.tamper(|_| {});
    let report = SledBackend::check_offline(&store.path(), None).unwrap();
    assert_eq!((report.problems.len(), report.sequence, report.first_event), (0, 43, 38));
    store.tamper(tamper);
    let before = files(&store.path());
    let report = SledBackend::check_offline(&store.path(), None).unwrap();
    assert!(report.problems.iter().any(|p| p.fault.contains("it counts 6 events, but there are 5")), "{report:?}");
    assert_eq!(files(&store.path()), before);
    let nowhere = store.path().join("nowhere");
    assert!(matches!(SledBackend::check_offline(&nowhere, None), Err(StoreError::Absent { .. })));
    assert!(!nowhere.exists());
}

/// A snapshot includes events that the log trims while it is read, also more of them than memory may hold.
#[tokio::test]
async fn trimmed_events_are_kept_for_the_snapshot() {
    let store = TestStore::new(|options| Options { history_events: 3_000, ..options });
    for n in 0..400 {
        write(&*store, &sized(numbered(resource(&format!("r-{n}")), n), 20_000)).await;
    }
    let before = list(&*store, &everything()).await;
    let mut snapshot = store.snapshot().await.unwrap();
    let head = snapshot.head().clone();
    let mut records = snapshot.next().await.unwrap().unwrap();
    for from in (0..3_200).step_by(400) {
        let put = |resource: &pb::Resource| {
            Mutation::Put(Box::new(pb::Resource {
                metadata: [("n".into(), format!("{from}"))].into(),
                ..resource.clone()
            }))
        };
        let mutations = list(&*store, &everything()).await.iter().map(put).collect();
        store.commit(Batch::new(mutations)).await.unwrap();
    }
    assert_eq!(store.stats().await.unwrap().head.first_event, 601, "the log dropped what the snapshot has");
    while let Some(page) = snapshot.next().await.unwrap() {
        records.extend(page);
    }
    assert_eq!((head.resources(), head.events()), (400, 400));
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), &head, &records).unwrap();
    let loaded = SledBackend::open(Options::new(dir.path())).unwrap();
    assert_eq!(list(&loaded, &everything()).await, before);
}

#[tokio::test]
async fn snapshots_are_bounded_and_a_poisoned_store_has_none() {
    let store = TestStore::new(|options| options);
    write(&*store, &resource("a")).await;
    let mut open = Vec::new();
    for _ in 0..4 {
        open.push(store.snapshot().await.unwrap());
    }
    assert!(matches!(store.snapshot().await.err(), Some(StoreError::TooManySnapshots { limit: 4 })));
    open.pop();
    open.push(store.snapshot().await.unwrap());
    let failing = Box::new(|_: &File| Err(std::io::Error::other("no")));
    let poisoned = TestStore::with(|options| options, Some(failing));
    assert!(poisoned.write_cas(resource("a")).await.is_err());
    assert!(matches!(poisoned.snapshot().await.err(), Some(StoreError::Poisoned(_))));
    assert!(poisoned.stats().await.unwrap().health.poisoned.is_some());
}

/// A record from elsewhere may contain a message several times, which protobuf merges: the stored length is counted and
/// removed, not the length of a new encoding.
#[tokio::test]
async fn a_record_that_is_encoded_otherwise_goes_whole() {
    let store = TestStore::new(|options| options);
    write(&*store, &sized(resource("a"), 10_000)).await;
    let (head, mut records) = taken(&store).await;
    let record = records.iter_mut().find(|record| record.kind == RecordKind::Resource).unwrap();
    let stored = <pb::Resource as prost::Message>::decode(record.payload.as_slice()).unwrap();
    let again = prost::Message::encode_to_vec(&pb::Resource { id: stored.id.clone(), ..pb::Resource::default() });
    (0..300).for_each(|_| record.payload.extend(&again));
    let dir = tempfile::tempdir().unwrap();
    load(dir.path(), &head, &records).unwrap();
    let loaded = SledBackend::open(Options::new(dir.path())).unwrap();
    assert_eq!(loaded.read(Consistency::Eventual, stored.id.as_ref().unwrap()).await.unwrap(), stored);
    let small = pb::Resource { data: None, metadata: [].into(), ..stored };
    let small = loaded.write_cas(small).await.unwrap();
    assert_eq!(loaded.check().await.unwrap(), [], "no chunk is left over");
    let usage = loaded.usage(10).await.unwrap();
    assert_eq!(usage.bytes, prost::Message::encoded_len(&small) as u64);
}
