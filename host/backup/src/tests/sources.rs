//! Backups of stores that are written or altered meanwhile.

use super::*;

/// A backup is the state of one moment, however long the reading takes, and blocks no writer.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn writers_go_on() {
    let house = House::furnished(2_000).await;
    let store = Arc::new(house.store());
    let before = store.stats().await.unwrap().head;
    let snapshot = store.snapshot().await.unwrap();
    let (pieces, mut received) = mpsc::channel::<Piece>(1);
    let sources = Sources::open(&house.data().join("plugins"), &house.folder(), None).unwrap();
    let writing = tokio::spawn(crate::stream(snapshot, sources, |_| {}, pieces));
    let mut bytes = received.recv().await.unwrap().bytes;
    // The backup's reader pauses while every resource is replaced.
    for n in 0..2_000 {
        let id = resource(&format!("r-{n}"), 0).id.unwrap();
        let stored = store.read(mortise_store::Consistency::Eventual, &id).await.unwrap();
        store.delete_cas(stored.id.as_ref().unwrap(), &stored.version).await.unwrap();
    }
    while let Some(piece) = received.recv().await {
        bytes.extend(piece.bytes);
    }
    writing.await.unwrap().unwrap();
    let other = House::empty();
    assert_eq!(restored(&bytes, &other, false).unwrap().manifest.head(), before);
    assert_eq!(other.contents().await.1.len(), 2_000);
}

/// A snapshot of a damaged store: a correct head, with some records altered or missing.
struct Altered {
    snapshot: Box<dyn Snapshot>,
    alter: Alter,
}

/// Change of a record.
type Alter = fn(Record) -> Option<Record>;

#[async_trait::async_trait]
impl Snapshot for Altered {
    fn head(&self) -> &SnapshotHead {
        self.snapshot.head()
    }

    async fn next(&mut self) -> Result<Option<Vec<Record>>, StoreError> {
        let page = self.snapshot.next().await?;
        Ok(page.map(|page| page.into_iter().filter_map(self.alter).collect()))
    }
}

/// A snapshot that a restore would reject makes no backup: the archive gets no seal, and the error names the fault.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_agree_with_itself_is_not_backed_up() {
    /// Replaces the resource of a commit by its former version.
    fn older(record: &mut Record) {
        let mut resource = <pb::Resource as prost::Message>::decode(record.payload.as_slice()).unwrap();
        record.sequence -= 1;
        resource.version = record.sequence.to_string();
        record.payload = prost::Message::encode_to_vec(&resource);
    }
    let house = House::furnished(20).await;
    let store = house.store();
    let cases: [(&str, Alter, &str); 5] = [
        ("nothing altered", Some, ""),
        (
            "a resource is missing",
            |record| (record.kind != RecordKind::Resource || record.sequence != 7).then_some(record),
            "19 found, 20 expected",
        ),
        (
            "a resource is old",
            |mut record| {
                if record.kind == RecordKind::Resource && record.sequence == 7 {
                    older(&mut record);
                }
                Some(record)
            },
            "its version is 6, but its newest event is 7",
        ),
        (
            "an event is missing",
            |record| (record.kind != RecordKind::Upsert || record.sequence != 7).then_some(record),
            "it says 20 events",
        ),
        (
            "a record is cut",
            |mut record| {
                record.payload.truncate(record.payload.len() - 1);
                Some(record)
            },
            "does not decode",
        ),
    ];
    for (what, alter, says) in cases {
        let snapshot = Box::new(Altered { snapshot: store.snapshot().await.unwrap(), alter });
        let (pieces, mut received) = mpsc::channel::<Piece>(1);
        let writing = tokio::spawn(crate::stream(snapshot, Sources::default(), |_| {}, pieces));
        let mut bytes = Vec::new();
        while let Some(piece) = received.recv().await {
            bytes.extend(piece.bytes);
        }
        let made = writing.await.unwrap();
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(Archive::open(&saved(dir.path(), &bytes)).is_ok(), says.is_empty(), "{what}");
        match made {
            Ok(()) => assert!(says.is_empty(), "{what}: it was made"),
            Err(error) => assert!(!says.is_empty() && error.to_string().contains(says), "{what}: {error}"),
        }
    }
}

#[test]
fn a_folder_with_too_many_files_is_refused_and_not_cut() {
    let dir = tempfile::tempdir().unwrap();
    let (kept, folder) = (dir.path().join("kept"), dir.path().join("folder"));
    fs::create_dir(&folder).unwrap();
    for n in 0..2_048 {
        fs::write(folder.join(format!("{n}.wasm")), "").unwrap();
        fs::write(folder.join(format!("{n}.txt")), "").unwrap();
    }
    assert_eq!(Sources::open(&kept, &folder, None).unwrap().files.len(), 2_048);
    fs::write(folder.join("one-more.wasm"), "").unwrap();
    let refused = Sources::open(&kept, &folder, None).unwrap_err().to_string();
    assert!(refused.contains("folder: it has more than 2048 plugin files"), "{refused}");
}

/// A backup tells whose it is; the restored store is another one, unless it takes the place of the first.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_store_has_an_id_of_its_own_unless_it_keeps_that_of_the_backup() {
    let house = House::furnished(3).await;
    let id = house.store().id();
    let bytes = house.backup().await;
    for keep_id in [false, true] {
        let other = House::empty();
        let file = other.dir.path().join("backup");
        fs::write(&file, &bytes).unwrap();
        let archive = Archive::from_file(file.clone(), fs::File::open(&file).unwrap()).unwrap();
        assert_eq!(archive.manifest().store_id, Some(id.to_string()));
        crate::restore(archive, &Target { keep_id, ..other.target(false) }, &mut |_| {}).unwrap();
        assert_eq!(other.store().id() == id, keep_id);
    }
}
