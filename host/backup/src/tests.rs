//! Tests of backups: taken, altered, and restored.

mod salvage;
mod sources;

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use mortise_resource::pb;
use mortise_store::{
    Backend as _, Batch, Mutation, Options, Record, RecordKind, SledBackend, Snapshot, SnapshotHead, StoreError,
};
use tokio::sync::mpsc;

use crate::{Archive, BackupError, Sources, Target, entry, output::Piece, restore, seal::SEAL_BYTES};

fn resource(name: &str, bytes: usize) -> pb::Resource {
    let text = |text: &str| text.to_owned();
    pb::Resource {
        id: Some(pb::Id {
            uid: format!("uid-of-{name}"),
            name: text(name),
            r#type: Some(pb::Type { group: text("test"), group_version: text("v1"), kind: text("A") }),
            tenancy: Some(pb::Tenancy { partition: text("default"), namespace: text("default") }),
        }),
        generation: text("generation"),
        metadata: [("text".to_owned(), "x".repeat(bytes))].into(),
        ..pb::Resource::default()
    }
}

/// A data directory, a plugin folder and a configuration, all with content.
struct House {
    dir: tempfile::TempDir,
}

impl House {
    fn empty() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn folder(&self) -> PathBuf {
        self.dir.path().join("folder")
    }

    fn target(&self, force: bool) -> Target {
        Target { data_dir: self.data(), plugin_dir: self.folder(), force, keep_id: false }
    }

    fn store(&self) -> SledBackend {
        for _ in 0..200 {
            match SledBackend::open(Options::new(self.data().join("store"))) {
                Ok(store) => return store,
                // Sled closes its files a moment after a store is dropped.
                Err(_) => std::thread::park_timeout(std::time::Duration::from_millis(10)),
            }
        }
        panic!("the store does not open");
    }

    async fn furnished(resources: usize) -> Self {
        let house = Self::empty();
        let store = house.store();
        let put = |n: usize| Mutation::Put(Box::new(resource(&format!("r-{n}"), n % 7 * 1000)));
        store.commit(Batch::new((0..resources).map(put).collect())).await.unwrap();
        drop(store);
        let kept = house.data().join("plugins/demo");
        fs::create_dir_all(&kept).unwrap();
        fs::create_dir_all(house.folder()).unwrap();
        fs::write(kept.join(format!("{}.wasm", "a".repeat(64))), vec![7; 100_000]).unwrap();
        fs::write(house.folder().join("demo.wasm"), b"a component").unwrap();
        fs::write(house.folder().join("notes.txt"), b"not a component").unwrap();
        fs::write(house.dir.path().join("config.toml"), "[log]\n").unwrap();
        house
    }

    async fn backup(&self) -> Vec<u8> {
        let store = self.store();
        backup_of(&store, self).await
    }

    /// Returns every file, except those that a store rewrites at each opening.
    fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![self.dir.path().to_owned()];
        while let Some(dir) = dirs.pop() {
            for path in fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().path()) {
                if path.is_dir() {
                    found.insert(path.clone(), Vec::new());
                    dirs.push(path);
                } else {
                    found.insert(path.clone(), fs::read(path).unwrap());
                }
            }
        }
        found
    }

    async fn contents(&self) -> (u64, Vec<pb::Resource>) {
        let store = self.store();
        let head = store.stats().await.unwrap().head;
        let everywhere = pb::Tenancy { partition: "*".into(), namespace: "*".into() };
        let mut all = Vec::new();
        for type_key in store.types().await.unwrap() {
            let query = mortise_store::Query { type_key, tenancy: everywhere.clone(), name_prefix: String::new() };
            all.extend(store.list(mortise_store::Consistency::Consistent, &query).await.unwrap());
        }
        assert_eq!(store.check().await.unwrap(), []);
        (head.sequence, all)
    }
}

async fn backup_of(store: &SledBackend, house: &House) -> Vec<u8> {
    let snapshot = store.snapshot().await.unwrap();
    let config = house.dir.path().join("config.toml");
    let config = config.exists().then_some(config);
    let sources = Sources::open(&house.data().join("plugins"), &house.folder(), config.as_deref()).unwrap();
    let (pieces, mut received) = mpsc::channel::<Piece>(1);
    let writing = tokio::spawn(crate::stream(snapshot, sources, |_| {}, pieces));
    let mut bytes = Vec::new();
    while let Some(piece) = received.recv().await {
        bytes.extend(piece.bytes);
    }
    writing.await.unwrap().unwrap();
    bytes
}

fn saved(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("backup.tar.gz");
    fs::write(&path, bytes).unwrap();
    path
}

fn restored(bytes: &[u8], house: &House, force: bool) -> Result<crate::Restored, BackupError> {
    let dir = tempfile::tempdir().unwrap();
    restore(Archive::open(&saved(dir.path(), bytes))?, &house.target(force), &mut |_| {})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_has_the_same_content() {
    let house = House::furnished(500).await;
    let bytes = house.backup().await;
    let other = House::empty();
    let done = restored(&bytes, &other, false).unwrap();
    assert_eq!((done.manifest.commit, done.manifest.resources[0].count, done.manifest.events), (500, 500, 500));
    assert_eq!((done.manifest.kept_components, done.manifest.folder_files, done.manifest.config), (1, 1, true));
    assert_eq!((done.folder.as_slice(), done.replaced), (&["demo.wasm".to_owned()][..], false));
    assert_eq!(fs::read_to_string(done.config.unwrap()).unwrap(), "[log]\n");
    assert_eq!(fs::read(other.folder().join("demo.wasm")).unwrap(), b"a component");
    let kept = format!("plugins/demo/{}.wasm", "a".repeat(64));
    assert_eq!(fs::read(other.data().join(kept)).unwrap(), vec![7; 100_000]);
    assert_eq!(other.contents().await, house.contents().await);
    for gone in ["restore.new", "restore.ready", "replaced"] {
        assert!(!other.data().join(gone).exists());
    }
    // Versions continue, and a backup of the restored store is the same except for its time.
    let again = other.backup().await;
    let third = House::empty();
    restored(&again, &third, false).unwrap();
    let written = third.store().write_cas(resource("next", 1)).await.unwrap();
    assert_eq!(written.version, "501");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_server_can_be_backed_up() {
    let house = House::empty();
    let bytes = house.backup().await;
    let other = House::empty();
    let done = restored(&bytes, &other, false).unwrap();
    assert_eq!((done.manifest.commit, done.folder.len(), done.config), (0, 0, None));
    assert_eq!(other.contents().await, (0, vec![]));
}

/// A restore names an obstacle and leaves it as it is, to the byte; `--force` replaces it, any number of times.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_overwritten_without_force() {
    let bytes = House::furnished(20).await.backup().await;
    let busy = House::furnished(3).await;
    let before = busy.files();
    let error = restored(&bytes, &busy, false).unwrap_err().to_string();
    assert!(
        error.contains("it holds a store already; choose an empty directory, or replace it with --force"),
        "{error}"
    );
    assert_eq!(busy.files(), before);

    let strange = House::empty();
    fs::create_dir_all(strange.data()).unwrap();
    fs::write(strange.data().join("thesis.tex"), "mine").unwrap();
    let error = restored(&bytes, &strange, false).unwrap_err().to_string();
    assert!(error.contains("it is not empty, thesis.tex is in it"), "{error}");

    let folder = House::empty();
    fs::create_dir_all(folder.folder()).unwrap();
    fs::write(folder.folder().join("demo.wasm"), "another").unwrap();
    let error = restored(&bytes, &folder, false).unwrap_err().to_string();
    assert!(error.contains("demo.wasm: the plugin folder has a different file of that name"), "{error}");
    assert!(!folder.data().exists());

    let open = busy.store();
    assert!(matches!(restored(&bytes, &busy, true), Err(BackupError::Store(_))), "a server has it");
    drop(open);
    for _ in 0..2 {
        assert!(restored(&bytes, &busy, true).unwrap().replaced);
        assert_eq!(busy.contents().await.1.len(), 20);
        assert!(!busy.data().join("replaced").exists());
    }
    assert_eq!(fs::read(strange.data().join("thesis.tex")).unwrap(), b"mine");
    restored(&bytes, &strange, true).unwrap();
    assert_eq!(fs::read(strange.data().join("thesis.tex")).unwrap(), b"mine");
}

/// A restore notices every cut and every flipped bit, anywhere, before it changes anything.
#[tokio::test(flavor = "multi_thread")]
async fn altered_backups_are_refused_without_changes() {
    let bytes = House::furnished(30).await.backup().await;
    let target = House::empty();
    let before = target.files();
    let refused = |altered: &[u8], what: &str| {
        match restored(altered, &target, true) {
            Err(BackupError::NotABackup { .. } | BackupError::Unsealed { .. } | BackupError::Altered { .. }) => {}
            other => panic!("{what}: {other:?}"),
        }
        assert_eq!(target.files(), before, "{what}");
    };
    for len in (0..bytes.len()).step_by(97).chain(bytes.len() - 2 * SEAL_BYTES..bytes.len()) {
        refused(&bytes[..len], &format!("cut to {len} of {}", bytes.len()));
    }
    let ends = (0..200).chain(bytes.len() - 2 * SEAL_BYTES..bytes.len());
    let mut random = fastrand::Rng::with_seed(5);
    let anywhere: Vec<_> = std::iter::repeat_with(|| random.usize(..bytes.len())).take(300).collect();
    for offset in ends.chain(anywhere) {
        let mut altered = bytes.clone();
        altered[offset] ^= 1 << random.u8(..8);
        refused(&altered, &format!("a bit of byte {offset}"));
    }
    for added in [&b"\0"[..], b"more", &bytes, &bytes[bytes.len() - SEAL_BYTES..]] {
        refused(&[&bytes, added].concat(), "something added");
    }
    for other in [&b"hello"[..], &[0; 5000], b"\x1f\x8b"] {
        refused(other, "something else");
    }
    assert!(restored(&bytes, &target, false).is_ok());
}

type Entries = Vec<(String, Vec<u8>)>;

/// The entries of a backup.
fn unpacked(backup: &[u8]) -> Entries {
    let mut entries = Entries::new();
    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(backup));
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let name = entry.path().unwrap().to_string_lossy().into_owned();
        let mut content = Vec::new();
        std::io::Read::read_to_end(&mut entry, &mut content).unwrap();
        entries.push((name, content));
    }
    entries
}

/// Makes a sealed file of these entries.
fn packed(entries: Entries) -> Vec<u8> {
    use sha2::Digest as _;
    let gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    let mut builder = tar::Builder::new(gzip);
    for (name, content) in entries {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        // Not by the setter, which rejects some names.
        header.as_gnu_mut().unwrap().name[..name.len().min(100)]
            .copy_from_slice(&name.as_bytes()[..name.len().min(100)]);
        header.set_cksum();
        builder.append(&header, content.as_slice()).unwrap();
    }
    let mut bytes = builder.into_inner().unwrap().finish().unwrap();
    let seal = crate::seal::seal(&sha2::Sha256::digest(&bytes).into(), bytes.len() as u64);
    bytes.extend(seal);
    bytes
}

/// Archives with a valid seal and invalid content are refused.
#[tokio::test(flavor = "multi_thread")]
async fn sealed_nonsense_is_refused() {
    let mut entries = unpacked(&House::furnished(30).await.backup().await);
    let names: Vec<_> = entries.iter().map(|(name, _)| name.as_str()).collect();
    let kept = format!("plugins/kept/demo/{}.wasm", "a".repeat(64));
    assert_eq!(
        names,
        ["manifest.json", "config.toml", &kept, "plugins/folder/demo.wasm", "records/00000001", "SHA256SUMS"]
    );
    let summed = |mut entries: Entries| {
        use sha2::Digest as _;
        let hex = |bytes: &[u8]| sha2::Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect::<String>();
        let text = entries.iter().filter(|(name, _)| name != "SHA256SUMS");
        let text: String = text.map(|(name, bytes)| format!("{}  {name}\n", hex(bytes))).collect();
        if let Some(last) = entries.iter_mut().find(|(name, _)| name == "SHA256SUMS") {
            last.1 = text.into_bytes();
        }
        entries
    };
    entries.retain(|(name, _)| *name != kept);
    assert!(restored(&packed(summed(entries.clone())), &House::empty(), false).is_ok());
    let manifest = |from: &'static str, to: &'static str| {
        move |entries: &mut Entries| {
            let text = String::from_utf8(entries[0].1.clone()).unwrap();
            assert!(text.contains(from), "{text}");
            entries[0].1 = text.replacen(from, to, 1).into_bytes();
        }
    };
    type Change = Arc<dyn Fn(&mut Entries)>;
    let cases: Vec<(&str, bool, Change)> = vec![
        ("backup format 2", true, Arc::new(manifest("\"format_version\": 1", "\"format_version\": 2"))),
        ("describes something else", true, Arc::new(manifest("mortise-backup", "other"))),
        ("store format 9", true, Arc::new(manifest("\"store_format\": 1", "\"store_format\": 9"))),
        ("its counts do not agree", true, Arc::new(manifest("\"events\": 30", "\"events\": 31"))),
        ("it says 29 events", true, Arc::new(manifest("\"events\": 30", "\"events\": 29"))),
        ("30 found, 29 expected", true, Arc::new(manifest("\"count\": 30", "\"count\": 29"))),
        (
            "its sequence is outside",
            true,
            Arc::new(move |entries| {
                manifest("\"commit\": 30", "\"commit\": 29")(entries);
                manifest("\"events\": 30", "\"events\": 29")(entries);
            }),
        ),
        (
            "some resources or versions differ",
            true,
            Arc::new(|entries| {
                let mut manifest: serde_json::Value = serde_json::from_slice(&entries[0].1).unwrap();
                manifest["resources_hash"] = "0".repeat(32).into();
                entries[0].1 = serde_json::to_vec(&manifest).unwrap();
            }),
        ),
        (
            // Like a backup by a release without this check, of a store that had lost a resource.
            "is not a deletion, but the resource is missing",
            true,
            Arc::new(|entries| {
                let mut manifest: serde_json::Value = serde_json::from_slice(&entries[0].1).unwrap();
                manifest["resources"][0]["count"] = 29.into();
                manifest.as_object_mut().unwrap().remove("resources_hash");
                entries[0].1 = serde_json::to_vec(&manifest).unwrap();
                let (mut rest, mut kept, mut dropped) = (&*entries[3].1.clone(), Vec::new(), false);
                while !rest.is_empty() {
                    let record = crate::entry::decode(&mut rest).unwrap().record;
                    match record.kind == mortise_store::RecordKind::Resource && !dropped {
                        true => dropped = true,
                        false => crate::entry::encode(record, &mut kept),
                    }
                }
                assert!(dropped);
                entries[3].1 = kept;
            }),
        ),
        (
            "does not match its checksum",
            true,
            Arc::new(|entries| {
                let name = entries[3].1.windows(3).position(|offset| offset == b"r-7").unwrap();
                entries[3].1[name + 2] = b'8';
            }),
        ),
        ("is not JSON", true, Arc::new(|entries| entries[0].1.truncate(5))),
        ("instead of manifest.json", true, Arc::new(|entries| drop(entries.remove(0)))),
        ("it comes twice", true, Arc::new(|entries| entries.insert(1, entries[0].clone()))),
        ("it comes twice", true, Arc::new(|entries| entries.insert(2, entries[1].clone()))),
        ("backups have no such entry", true, Arc::new(|entries| entries[1].0 = "../../etc/passwd".into())),
        ("backups have no such entry", true, Arc::new(|entries| entries[1].0 = "plugins/folder/x\ty.wasm".into())),
        ("number 1 is missing", true, Arc::new(|entries| entries[3].0 = "records/00000002".into())),
        ("does not decode", true, Arc::new(|entries| entries[3].1.truncate(100))),
        ("its checksum does not match", false, Arc::new(|entries| entries[2].1.push(b'x'))),
        ("it is missing", false, Arc::new(|entries| drop(entries.remove(2)))),
        ("SHA256SUMS: it is missing", true, Arc::new(|entries| drop(entries.pop()))),
        ("something follows it", false, Arc::new(|entries| entries.push(("records/00000002".into(), vec![])))),
        ("it is empty", true, Arc::new(|entries| entries.insert(4, ("records/00000002".into(), vec![])))),
        (
            "more than 4194304",
            true,
            Arc::new(|entries| entries[0].1 = format!("{{\"x\":[{}0]}}", "0,".repeat(4 << 20)).into_bytes()),
        ),
        ("more than 16777216", true, Arc::new(|entries| entries[1].1 = vec![b'#'; (16 << 20) + 1])),
    ];
    for (expected, sums, change) in cases {
        let mut altered = summed(entries.clone());
        change(&mut altered);
        if sums {
            altered = summed(altered);
        }
        let target = House::empty();
        let error = restored(&packed(altered), &target, true).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(!target.data().exists(), "{expected}");
    }
}

/// Names longer than a tar header have entries of their own, which are bounded, too.
#[tokio::test(flavor = "multi_thread")]
async fn long_names_come_back_and_endless_ones_do_not() {
    use sha2::Digest as _;
    let house = House::furnished(3).await;
    let long = house.data().join("plugins").join("p".repeat(60));
    fs::create_dir_all(&long).unwrap();
    fs::write(long.join(format!("{}.wasm", "b".repeat(64))), b"b").unwrap();
    let bytes = house.backup().await;
    let target = House::empty();
    restored(&bytes, &target, false).unwrap();
    let there = target.data().join("plugins").join("p".repeat(60)).join(format!("{}.wasm", "b".repeat(64)));
    assert_eq!(fs::read(there).unwrap(), b"b");

    let mut builder = tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    for kind in [tar::EntryType::GNULongName, tar::EntryType::XHeader] {
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(64 << 20);
        header.set_cksum();
        builder.append(&header, std::io::Read::take(std::io::repeat(b'x'), 64 << 20)).unwrap();
    }
    let mut bytes = builder.into_inner().unwrap().finish().unwrap();
    let seal = crate::seal::seal(&sha2::Sha256::digest(&bytes).into(), bytes.len() as u64);
    bytes.extend(seal);
    let error = restored(&bytes, &House::empty(), false).unwrap_err().to_string();
    assert!(error.contains("a name: it takes 67108864 bytes, more than 4096"), "{error}");
}

/// A plugin folder inside a directory that a restore replaces is refused.
#[tokio::test(flavor = "multi_thread")]
async fn a_plugin_folder_inside_a_replaced_directory_is_refused() {
    let house = House::furnished(3).await;
    let bytes = house.backup().await;
    let dir = tempfile::tempdir().unwrap();
    let archive = || Archive::open(&saved(dir.path(), &bytes)).unwrap();
    std::os::unix::fs::symlink(house.data(), house.dir.path().join("link")).unwrap();
    let before = house.files();
    for within in ["data/plugins", "data/plugins/deeper", "data/store", "data/../data/plugins", "link/restored/x"] {
        for force in [false, true] {
            let plugin_dir = house.dir.path().join(within);
            let target = Target { data_dir: house.data(), plugin_dir, force, keep_id: false };
            let error = restore(archive(), &target, &mut |_| {}).unwrap_err();
            assert!(matches!(error, BackupError::Nested { .. }), "{within}: {error}");
        }
    }
    assert_eq!(house.files(), before);
    let target =
        Target { data_dir: house.data(), plugin_dir: house.data().join("plugin-folder"), force: true, keep_id: false };
    restore(archive(), &target, &mut |_| {}).unwrap();
    assert!(target.plugin_dir.join("demo.wasm").exists());
}

/// A restore that was interrupted after its decision succeeds when repeated, with the plugin folder's files.
#[tokio::test(flavor = "multi_thread")]
async fn the_same_again_after_an_interruption_is_no_fault() {
    let bytes = House::furnished(30).await.backup().await;
    let target = House::empty();
    restored(&bytes, &target, false).unwrap();
    // As if the interruption came before the first move.
    let ready = target.data().join("restore.ready");
    fs::create_dir_all(ready.join("store")).unwrap();
    for name in ["store/store", "plugins", "restored"] {
        fs::rename(target.data().join(name), ready.join(name)).unwrap();
    }
    fs::rename(target.folder(), ready.join("folder")).unwrap();
    fs::write(ready.join("folder.path"), target.folder().as_os_str().as_encoded_bytes()).unwrap();
    let done = restored(&bytes, &target, false).unwrap();
    assert_eq!(done.folder, ["demo.wasm"]);
    assert!(done.config.unwrap().exists() && target.folder().join("demo.wasm").exists());
    assert!(!ready.exists() && !target.data().join("replaced").exists());
    assert_eq!(target.contents().await.1.len(), 30);
    // A different backup is restored from the start.
    let other = House::furnished(7).await.backup().await;
    assert!(matches!(restored(&other, &target, false), Err(BackupError::Occupied { .. })));
}
