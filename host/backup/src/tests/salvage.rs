//! Salvage of backups and stores.

use super::*;

/// Salvage saves the content before the damage, and reports the rest as missing.
#[tokio::test(flavor = "multi_thread")]
async fn salvage_saves_the_readable_part_of_a_damaged_backup() {
    let bytes = House::furnished(2_000).await.backup().await;
    let dir = tempfile::tempdir().unwrap();
    let all = salvaged(&saved(dir.path(), &bytes), 2_000).await;
    assert_eq!((all.commit, all.kept_components), (2_000, 0), "{all:?}");
    // The kept component's name is not its hash; salvage leaves out the plugin folder.
    assert_eq!(all.left_out.len(), 2, "{:?}", all.left_out);
    let mut saved_some = 0;
    for (cut, flip) in
        [(bytes.len() * 3 / 4, None), (bytes.len() - 300, None), (bytes.len(), Some(bytes.len() * 2 / 3))]
    {
        let mut damaged = bytes[..cut].to_vec();
        if let Some(offset) = flip {
            damaged[offset] ^= 4;
        }
        let file = saved(dir.path(), &damaged);
        assert!(Archive::open(&file).is_err());
        let target = House::empty();
        let salvaged = crate::salvage(&file, &target.data()).unwrap();
        let count = salvaged.resources.values().sum::<u64>();
        println!(
            "cut at {cut}, flipped {flip:?}: {count} of 2000; {:?}",
            salvaged.left_out.iter().map(ToString::to_string).collect::<Vec<_>>()
        );
        // Some bits of compressed data do not change the decompressed data.
        assert!(salvaged.left_out.len() > 2 || (flip.is_some() && count == 2_000));
        let (commit, resources) = target.contents().await;
        assert_eq!((commit, resources.len() as u64), (2_000, count));
        for found in resources {
            let name = found.id.clone().unwrap().name;
            let n: usize = name.strip_prefix("r-").unwrap().parse().unwrap();
            assert_eq!(found, pb::Resource { version: found.version.clone(), ..resource(&name, n % 7 * 1000) });
        }
        saved_some += u32::from(count > 0 && count < 2_000);
    }
    assert!(saved_some > 0);
    let nothing = crate::salvage(&saved(dir.path(), b"nonsense"), &House::empty().data());
    assert!(matches!(nothing, Err(BackupError::NotABackup { .. })), "{nothing:?}");
    let occupied = House::furnished(1).await;
    let refused = crate::salvage(&saved(dir.path(), &bytes), &occupied.data());
    assert!(matches!(refused, Err(BackupError::Occupied { .. })), "{refused:?}");
}

/// Salvage leaves out, and reports, records that decode but contradict their checksum or version.
#[tokio::test(flavor = "multi_thread")]
async fn salvage_leaves_out_contradictory_records() {
    /// Rewrites the records; `by` encodes that of the seventh commit.
    fn rewrite(entries: &mut Entries, by: fn(Record, &mut Vec<u8>)) {
        let records = entries.iter_mut().find(|(name, _)| name == "records/00000001").unwrap();
        let (mut rest, mut bytes, mut rewritten) = (records.1.as_slice(), Vec::new(), 0);
        while !rest.is_empty() {
            let record = entry::decode(&mut rest).unwrap().record;
            if record.kind == RecordKind::Resource && record.sequence == 7 {
                by(record, &mut bytes);
                rewritten += 1;
            } else {
                entry::encode(record, &mut bytes);
            }
        }
        assert_eq!(rewritten, 1);
        records.1 = bytes;
    }
    fn renamed(mut record: Record, into: &mut Vec<u8>) {
        let mut resource = <pb::Resource as prost::Message>::decode(record.payload.as_slice()).unwrap();
        resource.id.as_mut().unwrap().name = "another".to_owned();
        record.payload = prost::Message::encode_to_vec(&resource);
        entry::encode(record, into);
    }
    fn misdated(record: Record, into: &mut Vec<u8>) {
        entry::encode(Record { sequence: 8, ..record }, into);
    }
    fn bare(record: Record, into: &mut Vec<u8>) {
        let earlier =
            entry::WireRecord { kind: 1, sequence: record.sequence, resource: record.payload, checksum: None };
        into.extend(prost::Message::encode_length_delimited_to_vec(&earlier));
    }
    fn without_sums(entries: &mut Entries) {
        entries.retain(|(name, _)| name != "SHA256SUMS");
    }
    let house = House::furnished(40).await;
    let entries = unpacked(&house.backup().await);
    type Change = fn(&mut Entries);
    let cases: [(&str, Change, usize, bool, &str); 5] = [
        ("as it was", |_| {}, 40, true, ""),
        (
            "another configuration",
            |entries| entries.iter_mut().find(|(name, _)| name == "config.toml").unwrap().1.push(b'#'),
            40,
            false,
            "config.toml: its checksum does not match: nothing in it is taken",
        ),
        ("another resource", |entries| rewrite(entries, renamed), 0, true, "records/00000001: its checksum"),
        (
            "a resource without a checksum",
            |entries| {
                rewrite(entries, bare);
                without_sums(entries);
            },
            39,
            true,
            "the record of commit 7 in records/00000001: it has no checksum, though others have one",
        ),
        (
            "a resource of another commit",
            |entries| {
                rewrite(entries, misdated);
                without_sums(entries);
            },
            39,
            true,
            "the resource of commit 8: its version is \"7\"",
        ),
    ];
    for (what, alter, count, configured, says) in cases {
        let mut altered = entries.clone();
        alter(&mut altered);
        let (dir, target) = (tempfile::tempdir().unwrap(), House::empty());
        let salvaged = crate::salvage(&saved(dir.path(), &packed(altered)), &target.data()).unwrap();
        let problems: String = salvaged.left_out.iter().map(|problem| format!("{problem}\n")).collect();
        assert!(problems.contains(says), "{what}: {problems}");
        assert_eq!(target.data().join("restored/config.toml").exists(), configured, "{what}");
        let (_, resources) = target.contents().await;
        assert_eq!(resources.len(), count, "{what}: {problems}");
        let expected: Vec<_> = (0..40).map(|n| format!("r-{n}")).collect();
        assert!(resources.iter().all(|found| expected.contains(&found.id.as_ref().unwrap().name)), "{what}");
    }
}

/// Without the list of checksums each record is proven by its own: a flipped bit in the records loses records, and
/// makes no false ones. Records of earlier releases have no checksums; salvage takes them as they read, and reports
/// that.
#[tokio::test(flavor = "multi_thread")]
async fn salvage_proves_each_record_without_the_list_of_checksums() {
    const RECORDS: &str = "records/00000001";
    let mut entries = unpacked(&House::furnished(40).await.backup().await);
    entries.retain(|(name, _)| name == "manifest.json" || name == RECORDS);
    let dir = tempfile::tempdir().unwrap();
    let texts = |salvaged: &crate::Salvaged| {
        let lines = salvaged.left_out.iter().map(ToString::to_string).collect::<Vec<_>>();
        lines.join("\n")
    };
    let whole = crate::salvage(&saved(dir.path(), &packed(entries.clone())), &House::empty().data()).unwrap();
    assert_eq!(whole.resources.values().sum::<u64>(), 40);
    assert!(texts(&whole).contains("each resource is proven by its own checksum"), "{}", texts(&whole));

    let (mut flips, mut fewer) = (0, 0);
    let bits = entries[1].1.len() * 8;
    for bit in (0..bits).step_by(bits / 100) {
        let mut altered = entries.clone();
        altered[1].1[bit / 8] ^= 1 << (bit % 8);
        let target = House::empty();
        let salvaged = crate::salvage(&saved(dir.path(), &packed(altered)), &target.data()).unwrap();
        let (_, resources) = target.contents().await;
        assert!(salvaged.left_out.len() > 1, "bit {bit}: {}", texts(&salvaged));
        for found in &resources {
            let name = &found.id.as_ref().unwrap().name;
            let n: usize = name.strip_prefix("r-").unwrap().parse().unwrap();
            let expected = pb::Resource { version: found.version.clone(), ..resource(name, n % 7 * 1000) };
            assert_eq!(*found, expected, "bit {bit}");
        }
        flips += 1;
        fewer += u32::from(resources.len() < 40);
    }
    println!("{flips} flips, of which {fewer} cost resources");
    assert!(flips >= 100 && fewer > 0);

    let (mut rest, mut earlier) = (entries[1].1.as_slice(), Vec::new());
    while !rest.is_empty() {
        let record = <entry::WireRecord as prost::Message>::decode_length_delimited(&mut rest).unwrap();
        let record = entry::WireRecord { checksum: None, ..record };
        earlier.extend(prost::Message::encode_length_delimited_to_vec(&record));
    }
    entries[1].1 = earlier;
    let salvaged = crate::salvage(&saved(dir.path(), &packed(entries)), &House::empty().data()).unwrap();
    assert_eq!(salvaged.resources.values().sum::<u64>(), 40);
    assert!(texts(&salvaged).contains("only the compression's own checks prove"), "{}", texts(&salvaged));
}

/// Salvage reads a store that is too damaged to open.
#[tokio::test(flavor = "multi_thread")]
async fn salvage_saves_the_readable_part_of_a_damaged_store() {
    let house = House::furnished(300).await;
    let kept = house.data().join("plugins/demo");
    let digest = format!("{:x}", <sha2::Sha256 as sha2::Digest>::digest(b"good"));
    fs::write(kept.join(format!("{digest}.wasm")), b"good").unwrap();
    fs::write(house.data().join("store/store/closed-at"), "mortise-commit 400\n").unwrap();
    assert!(SledBackend::open(Options::new(house.data().join("store"))).is_err());
    let files = house.files();
    let result = salvaged(&house.data(), 300).await;
    assert_eq!((result.commit, result.kept_components), (400, 1));
    let problems: Vec<_> = result.left_out.iter().map(ToString::to_string).collect();
    assert!(
        problems.iter().any(|problem| problem.contains("closed with commit 400")) && problems.len() == 2,
        "{problems:?}"
    );
    assert_eq!(house.files(), files, "the damaged store stays as it is");
}

/// Salvages into a new directory, and checks the number of resources.
async fn salvaged(source: &Path, count: usize) -> crate::Salvaged {
    let target = House::empty();
    let salvaged = crate::salvage(source, &target.data()).unwrap();
    let (commit, resources) = target.contents().await;
    assert_eq!((commit, resources.len()), (salvaged.commit, count));
    assert!(!target.data().join("restore.new").exists() && !target.data().join("restore.ready").exists());
    salvaged
}
