//! Stores of every released format must open for ever: one of each is kept in `tests/formats/`.
//!
//! A format that was released is never written again. To add one: raise the format, then run
//! `cargo test -p mortise-store --test format -- --ignored make`, and add its folder here.

#![allow(clippy::unwrap_used, reason = "tests panic to report")]

use std::{fs, path::Path};

use mortise_resource::pb;
use mortise_store::{Backend, Batch, Consistency, Mutation, Options, Query, SledBackend};

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

/// The store of the fixture, commit by commit. Versions follow from the order.
async fn fill(store: &SledBackend) -> Vec<pb::Resource> {
    let owner = store.write_cas(resource("Owner", "", "owner", 1)).await.unwrap();
    let gone = store.write_cas(resource("Thing", "default", "gone", 2)).await.unwrap();
    let child = pb::Resource { owner: owner.id.clone(), ..resource("Thing", "default", "child", 3) };
    let child = store.write_cas(child).await.unwrap();
    let mut large = resource("Thing", "other", "large", 4);
    large.metadata.insert("text".into(), "0123456789".repeat(1_000));
    let large = store.write_cas(large).await.unwrap();
    store.delete_cas(gone.id.as_ref().unwrap(), &gone.version).await.unwrap();
    let put = |resource| Mutation::Put(Box::new(resource));
    let last = pb::Resource { owner: owner.id.clone(), ..resource("Thing", "other", "last", 5) };
    let batch = Batch { expect: vec![], mutations: vec![put(child), put(last)] };
    let results = store.commit(batch).await.unwrap();
    let mut all: Vec<_> = results.into_iter().flatten().collect();
    all.extend([large, owner]);
    all
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
    let dir = tempfile::tempdir().unwrap();
    copy(&folder("store-v1"), &dir.path().join("store"));
    let store = SledBackend::open(Options::new(dir.path())).unwrap();
    assert_eq!(store.check().await.unwrap(), []);

    // What was written is what a store of today, filled alike, has.
    let today = tempfile::tempdir().unwrap();
    let filled = fill(&SledBackend::open(Options::new(today.path())).unwrap()).await;
    let found = contents(&store).await;
    assert_eq!(by_version(found.clone()), by_version(filled));

    let types: Vec<_> = store.types().await.unwrap().iter().map(ToString::to_string).collect();
    assert_eq!(types, ["fixture.Owner", "fixture.Thing"]);
    let owner = found.iter().find_map(|resource| resource.owner.clone()).unwrap();
    assert_eq!(store.list_by_owner(&owner).await.unwrap().len(), 2);
    // The deletion counted, too.
    let next = store.write_cas(resource("Thing", "default", "gone", 6)).await.unwrap();
    assert_eq!(next.version, "8");
    assert_eq!(store.check().await.unwrap(), []);
}

#[tokio::test]
#[ignore = "makes the fixture of the newest format"]
async fn make() {
    let dir = tempfile::tempdir().unwrap();
    let store = SledBackend::open(Options::new(dir.path())).unwrap();
    let _ = fill(&store).await;
    drop(store);
    copy(&dir.path().join("store"), &folder("store-v1"));
}
