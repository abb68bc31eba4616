//! Resources for tests, and short forms of calls.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use mortise_resource::{EncodedResource, pb};

use crate::{Backend, Batch, Consistency, Cursor, Query, StoreError, TypeKey, Watch, WatchEvent};

/// Most events that a watch of a store under test may be behind.
pub const WATCH_BUFFER: usize = 64;

/// The resource size limit of a store under test.
pub const MAX_RESOURCE_BYTES: usize = 128 << 10;

/// The quotas of a store under test.
pub const QUOTAS: crate::Quotas = crate::Quotas { resources: 10, bytes: 8 << 10 };

/// A [`WatchEvent`] whose resource is decoded.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The resource was created or replaced, or is part of the snapshot.
    Upsert(pb::Resource),
    /// The resource was deleted.
    Delete(pb::Resource),
    /// The snapshot is complete.
    EndOfSnapshot,
}

/// Makes a string in the form of a ULID, unique in this process.
#[must_use]
pub fn ulid() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    format!("{:026}", NEXT.fetch_add(1, Ordering::Relaxed))
}

/// Makes a type of the group `test`.
#[must_use]
pub fn type_of(group_version: &str, kind: &str) -> pb::Type {
    pb::Type { group: "test".into(), group_version: group_version.into(), kind: kind.into() }
}

/// Makes a tenancy.
#[must_use]
pub fn tenancy(partition: &str, namespace: &str) -> pb::Tenancy {
    pb::Tenancy { partition: partition.into(), namespace: namespace.into() }
}

/// Makes a new resource of any type and place, without a version.
#[must_use]
pub fn resource_in(r#type: pb::Type, tenancy: pb::Tenancy, name: &str) -> pb::Resource {
    pb::Resource {
        id: Some(pb::Id { uid: ulid(), name: name.into(), r#type: Some(r#type), tenancy: Some(tenancy) }),
        generation: ulid(),
        ..pb::Resource::default()
    }
}

/// Makes a new resource `test.v1.A` in default/default.
#[must_use]
pub fn resource(name: &str) -> pb::Resource {
    resource_in(type_of("v1", "A"), tenancy("default", "default"), name)
}

/// Returns the resource with a label.
#[must_use]
pub fn labelled(mut resource: pb::Resource, label: &str, value: &str) -> pb::Resource {
    resource.meta.get_or_insert_default().labels.insert(label.into(), value.into());
    resource
}

/// Returns the resource's id.
#[must_use]
pub fn id(resource: &pb::Resource) -> pb::Id {
    resource.id.clone().unwrap()
}

/// Returns the resource's name.
#[must_use]
pub fn name(resource: &pb::Resource) -> String {
    id(resource).name
}

/// Returns the resource with a counter in its metadata.
#[must_use]
pub fn numbered(mut resource: pb::Resource, number: u64) -> pb::Resource {
    resource.metadata.insert("n".into(), number.to_string());
    resource
}

/// Returns the counter in a resource's metadata; 0 without one.
#[must_use]
pub fn number(resource: &pb::Resource) -> u64 {
    resource.metadata.get("n").map_or(0, |n| n.parse().unwrap())
}

/// Makes a query for `test.*.A`.
#[must_use]
pub fn query(partition: &str, namespace: &str, prefix: &str) -> Query {
    Query {
        type_key: TypeKey { group: "test".into(), kind: "A".into() },
        tenancy: tenancy(partition, namespace),
        name_prefix: prefix.into(),
    }
}

/// Makes a query for `test.*.A` everywhere.
#[must_use]
pub fn everything() -> Query {
    query("*", "*", "")
}

/// Decodes the whole resource.
#[must_use]
pub fn decoded(resource: &EncodedResource) -> pb::Resource {
    resource.decode().unwrap()
}

/// Applies a batch.
pub async fn commit<B: Backend>(store: &B, batch: Batch) -> Result<Vec<Option<pb::Resource>>, StoreError> {
    let stored = store.commit(batch).await?;
    Ok(stored.iter().map(|stored| stored.as_ref().map(decoded)).collect())
}

/// Stores a resource as given.
pub async fn write<B: Backend>(store: &B, resource: &pb::Resource) -> pb::Resource {
    store.write_cas(resource.clone()).await.unwrap()
}

/// Deletes the stored resource.
pub async fn delete<B: Backend>(store: &B, stored: &pb::Resource) {
    store.delete_cas(&id(stored), &stored.version).await.unwrap();
}

/// Reads the resource under an id; `None` if it is absent.
pub async fn read<B: Backend>(store: &B, id: &pb::Id) -> Option<pb::Resource> {
    match store.read(Consistency::Eventual, id).await {
        Ok(resource) => Some(resource),
        Err(StoreError::NotFound) => None,
        Err(error) => panic!("{error}"),
    }
}

/// Lists resources.
pub async fn list<B: Backend>(store: &B, query: &Query) -> Vec<pb::Resource> {
    store.list(Consistency::Consistent, query).await.unwrap()
}

/// Returns `partition/namespace/name` of each resource.
#[must_use]
pub fn places(resources: &[pb::Resource]) -> Vec<String> {
    let place = |resource: &pb::Resource| {
        let id = id(resource);
        let tenancy = id.tenancy.unwrap();
        format!("{}/{}/{}", tenancy.partition, tenancy.namespace, id.name)
    };
    resources.iter().map(place).collect()
}

/// Returns the next page of a scan; `None` after the last.
pub async fn page(cursor: &mut Box<dyn Cursor>) -> Option<Vec<pb::Resource>> {
    cursor.next().await.unwrap().map(|page| page.iter().map(decoded).collect())
}

/// Returns the next event, which must come soon.
pub async fn next(watch: &mut Box<dyn Watch>) -> Event {
    match tokio::time::timeout(Duration::from_secs(20), watch.next()).await.expect("an event in time").unwrap() {
        WatchEvent::Upsert(resource) => Event::Upsert(decoded(&resource)),
        WatchEvent::Delete(resource) => Event::Delete(decoded(&resource)),
        WatchEvent::EndOfSnapshot => Event::EndOfSnapshot,
    }
}

/// Opens a watch and reads its snapshot.
pub async fn watch<B: Backend>(store: &B, query: &Query) -> (Vec<pb::Resource>, Box<dyn Watch>) {
    let mut watch = store.watch_list(query, None).await.unwrap();
    let mut snapshot = Vec::new();
    loop {
        match next(&mut watch).await {
            Event::Upsert(resource) => snapshot.push(resource),
            Event::Delete(resource) => panic!("a deletion in a snapshot: {resource:?}"),
            Event::EndOfSnapshot => return (snapshot, watch),
        }
    }
}

/// Fails if the watch has an event before that of the marker resource, which is written here.
pub async fn assert_silent<B: Backend>(store: &B, watch: &mut Box<dyn Watch>, marker: &pb::Resource) {
    let marker = write(store, marker).await;
    assert_eq!(next(watch).await, Event::Upsert(marker));
}
