//! Stores of every released format must open for ever: `formats`, beside this file, has two of each.
//!
//! A released format is never written again. To add one: raise the format, then run `cargo test -p mortise-store --test
//! format -- --ignored make`, and add its folders here: a store that was closed, and one that was not.

#![allow(clippy::unwrap_used, reason = "tests panic to report")]

use std::{fs, path::Path};

use mortise_resource::{
    data::{OnDelete, ReferenceRecord},
    goten::Meta,
    pb,
};
use mortise_store::{Backend, Batch, Consistency, ExpectedId, Health, Mutation, Options, Query, ScanPart, SledBackend};

fn resource(kind: &str, namespace: &str, name: &str, uid: u32) -> pb::Resource {
    let mut resource = pb::Resource {
        id: Some(pb::Id {
            uid: format!("{uid:026}"),
            name: name.into(),
            r#type: Some(pb::Type { group: "fixture".into(), group_version: "v1".into(), kind: kind.into() }),
            tenancy: Some(pb::Tenancy { partition: "default".into(), namespace: namespace.into() }),
        }),
        generation: format!("{:026}", uid + 1000),
        ..pb::Resource::default()
    };
    resource.metadata.insert("colour".into(), format!("blue-{uid}"));
    resource
}

/// Fills the store of the fixture, commit by commit. Versions follow from the order.
async fn fill(store: &SledBackend) -> Vec<pb::Resource> {
    let owner = store.write_cas(resource("Owner", "", "owner", 1)).await.unwrap();
    let gone = store.write_cas(resource("Thing", "default", "gone", 2)).await.unwrap();
    let child = pb::Resource { owner: owner.id.clone(), ..resource("Thing", "default", "child", 3) };
    let mut child = store.write_cas(child).await.unwrap();
    child.meta = Some(Box::new(labelled("env", "prod")));
    child.references.push(ReferenceRecord {
        group: "fixture".into(),
        kind: "Owner".into(),
        partition: "default".into(),
        name: "owner".into(),
        field: "owner".into(),
        on_delete: OnDelete::Block.into(),
        ..ReferenceRecord::default()
    });
    let mut large = resource("Thing", "other", "large", 4);
    large.metadata.insert("text".into(), "0123456789".repeat(1_000));
    let large = store.write_cas(large).await.unwrap();
    store.delete_cas(gone.id.as_ref().unwrap(), &gone.version).await.unwrap();
    let put = |resource| Mutation::Put(Box::new(resource));
    let last = pb::Resource { owner: owner.id.clone(), ..resource("Thing", "other", "last", 5) };
    let batch = Batch::new(vec![put(child), put(last)]);
    let results = store.commit(batch).await.unwrap();
    let mut all: Vec<_> = results.iter().flatten().map(|stored| stored.decode().unwrap()).collect();
    all.extend([large, owner]);
    all
}

fn labelled(label: &str, value: &str) -> Meta {
    Meta { labels: [(label.to_owned(), value.to_owned())].into(), ..Meta::default() }
}

async fn contents(store: &SledBackend) -> Vec<pb::Resource> {
    let mut all = Vec::new();
    for type_key in store.types().await.unwrap() {
        let tenancy = pb::Tenancy { partition: "*".into(), namespace: "*".into() };
        let query = Query { type_key, tenancy, name_prefix: String::new() };
        all.extend(store.list(Consistency::Consistent, &query).await.unwrap());
    }
    all
}

fn by_version(mut resources: Vec<pb::Resource>) -> Vec<pb::Resource> {
    resources.sort_by_key(|resource| resource.version.parse::<u64>().unwrap());
    resources
}

fn folder(format: &str) -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats").join(format)
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        if path.is_file() {
            fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
        }
    }
}

#[tokio::test]
async fn format_1_opens() {
    opens("store-v1", "8").await;
}

#[tokio::test]
async fn format_1_opens_after_a_crash() {
    assert!(fs::metadata(folder("store-v1-killed").join("wal.1")).unwrap().len() > 1_000);
    opens("store-v1-killed", "4194312").await;
}

/// Opens a fixture. `expected` is the next version: a store that was not closed cleanly may have lost its end, and
/// skips some.
async fn opens(format: &str, expected: &str) {
    let dir = tempfile::tempdir().unwrap();
    copy(&folder(format), &dir.path().join("store"));
    let store = SledBackend::open(Options::new(dir.path())).unwrap();
    assert_eq!(store.check().await.unwrap(), []);
    assert_eq!(*store.health().borrow(), Health::default());
    assert_eq!(fs::read_to_string(dir.path().join("store/format")).unwrap(), "mortise-store 1\n");

    // The content is that of a new store, filled in the same way.
    let today = tempfile::tempdir().unwrap();
    let filled = fill(&SledBackend::open(Options::new(today.path())).unwrap()).await;
    let found = contents(&store).await;
    assert_eq!(by_version(found.clone()), by_version(filled));
    let usage = store.usage(10).await.unwrap();
    let used =
        usage.largest.iter().map(|entry| (entry.tenancy.namespace.as_str(), entry.resources)).collect::<Vec<_>>();
    assert_eq!(used, [("other", 2), ("default", 1), ("", 1)]);
    assert_eq!(usage.bytes, found.iter().map(|resource| prost::Message::encoded_len(resource) as u64).sum::<u64>());

    let types: Vec<_> = store.types().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(types, ["fixture.Owner", "fixture.Thing"]);
    let owner = found.iter().find_map(|resource| resource.owner.clone()).unwrap();
    assert_eq!(store.list_by_owner(&owner).await.unwrap().len(), 2);
    let query = Query {
        type_key: (&resource("Thing", "", "", 0).id.unwrap().r#type.unwrap()).into(),
        tenancy: pb::Tenancy { partition: "*".into(), namespace: "*".into() },
        name_prefix: String::new(),
    };
    let part = ScanPart { label: Some(("env".into(), "prod".into())), after: None };
    let page = store.scan_part(&query, &part).await.unwrap().next().await.unwrap();
    assert_eq!(page.map_or(0, |page| page.len()), 1);
    let owner = ExpectedId { uid: String::new(), ..ExpectedId::from(&owner) };
    let page = store.scan_referrers(&owner, OnDelete::Block).await.unwrap().next().await.unwrap();
    assert_eq!(page.map_or(0, |page| page.len()), 1);
    // The deletion counted, too.
    let next = store.write_cas(resource("Thing", "default", "gone", 6)).await.unwrap();
    assert_eq!(next.version, expected);
    assert_eq!(store.check().await.unwrap(), []);
}

#[tokio::test]
#[ignore = "writes the fixtures of a new format into the source tree: by hand, once for each format"]
async fn make() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledBackend::open(Options::new(dir.path())).unwrap();
    let _ = fill(&store).await;
    let killed = folder("store-v1-killed");
    copy(&dir.path().join("store"), &killed);
    // The log's extension consists of zeros, and is not needed.
    let log = fs::read(killed.join("wal.1")).unwrap();
    let written = log.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    fs::write(killed.join("wal.1"), &log[..written.next_multiple_of(4096)]).unwrap();
    drop(store);
    copy(&dir.path().join("store"), &folder("store-v1"));
}
