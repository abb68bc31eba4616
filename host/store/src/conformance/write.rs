//! Tests of WriteCAS: a commit of one put.

use std::collections::BTreeSet;

use mortise_resource::{meta, pb, proto};
use prost::Message;

use super::fixtures::{
    MAX_RESOURCE_BYTES, delete, everything, id, list, numbered, read, resource, type_of, ulid, write,
};
use crate::{Backend, IdPartError, StoreError};

async fn refused_as_stale<B: Backend>(store: &B, resource: pb::Resource) {
    let result = store.write_cas(resource).await;
    assert!(matches!(result, Err(StoreError::CasFailure { mutation: 0 })), "{result:?}");
}

/// An absent resource is created with an empty version, and with no other.
pub async fn creation_needs_an_empty_version<B: Backend>(store: &B) {
    let resource = resource("a");
    refused_as_stale(store, pb::Resource { version: "1".into(), ..resource.clone() }).await;
    assert_eq!(read(store, &id(&resource)).await, None);
    let stored = write(store, &resource).await;
    assert!(!stored.version.is_empty());
    assert_eq!(pb::Resource { version: String::new(), ..stored }, resource);
}

/// An empty version does not overwrite.
pub async fn creation_over_a_stored_resource_fails<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    refused_as_stale(store, numbered(pb::Resource { version: String::new(), ..stored.clone() }, 1)).await;
    assert_eq!(read(store, &id(&stored)).await, Some(stored));
}

/// An update needs the stored version; an earlier one fails.
pub async fn update_needs_the_stored_version<B: Backend>(store: &B) {
    let first = write(store, &resource("a")).await;
    let second = write(store, &numbered(first.clone(), 2)).await;
    refused_as_stale(store, numbered(first, 3)).await;
    refused_as_stale(store, pb::Resource { version: "nonsense".into(), ..second.clone() }).await;
    assert_eq!(read(store, &id(&second)).await.as_ref(), Some(&second));
    write(store, &numbered(second, 4)).await;
}

/// Every commit changes the version, even one that changes nothing else.
pub async fn every_commit_has_another_version<B: Backend>(store: &B) {
    let mut stored = write(store, &resource("a")).await;
    let mut versions = BTreeSet::from([stored.version.clone()]);
    for _ in 0..20 {
        stored = write(store, &stored).await;
        assert!(versions.insert(stored.version.clone()), "{} again", stored.version);
    }
}

/// A version is never given twice, even after deletions.
pub async fn versions_never_return<B: Backend>(store: &B) {
    let mut versions = BTreeSet::new();
    for _ in 0..10 {
        let stored = write(store, &resource("a")).await;
        assert!(versions.insert(stored.version.clone()), "{} again", stored.version);
        delete(store, &stored).await;
    }
}

/// Another uid than the stored one is reported first, with any version.
pub async fn uid_is_judged_before_version<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    for version in [stored.version.clone(), String::new(), "nonsense".into()] {
        let mut other = pb::Resource { version, ..stored.clone() };
        other.id.as_mut().unwrap().uid = ulid();
        let result = store.write_cas(other).await;
        assert!(matches!(result, Err(StoreError::WrongUid)), "{result:?}");
    }
    assert_eq!(read(store, &id(&stored)).await, Some(stored));
}

/// Once a resource is deleted, its name is free.
pub async fn another_incarnation_can_follow_a_deletion<B: Backend>(store: &B) {
    let first = write(store, &resource("a")).await;
    delete(store, &first).await;
    let second = write(store, &resource("a")).await;
    assert_ne!(id(&first).uid, id(&second).uid);
    assert_eq!(read(store, &id(&first)).await, None);
    assert_eq!(read(store, &id(&second)).await, Some(second));
}

/// v1 over v2 and v2 over v1 share one slot; the last write is stored.
pub async fn group_version_is_overwritten_in_either_direction<B: Backend>(store: &B) {
    let mut stored = write(store, &resource("a")).await;
    for group_version in ["v2", "v1"] {
        stored.id.as_mut().unwrap().r#type = Some(type_of(group_version, "A"));
        stored = write(store, &stored).await;
        assert_eq!(read(store, &id(&stored)).await.as_ref(), Some(&stored));
        assert_eq!(list(store, &everything()).await, [stored.clone()]);
    }
}

/// A read returns every written field.
pub async fn every_field_comes_back<B: Backend>(store: &B) {
    let mut full = resource("a");
    full.owner = Some(id(&resource("owner")));
    full.metadata.insert("key".into(), "välue".into());
    let condition = pb::Condition { r#type: "Accepted".into(), state: 1, ..pb::Condition::default() };
    let status = pb::Status { observed_generation: ulid(), conditions: vec![condition], ..pb::Status::default() };
    full.status.insert("controller".into(), status);
    // An `Any`, without a dependency on the crate that defines it: type_url and value.
    let tombstone = proto::hashicorp::consul::resource::Tombstone { owner: Some(id(&full)), ..Default::default() };
    full.data = Some(Default::default());
    if let Some(data) = &mut full.data {
        data.type_url = "type.googleapis.com/hashicorp.consul.resource.Tombstone".into();
        data.value = tombstone.encode_to_vec();
    }
    let stored = write(store, &full).await;
    assert_eq!(pb::Resource { version: String::new(), ..stored.clone() }, full);
    assert_eq!(read(store, &id(&full)).await, Some(stored));
}

/// Sizes around an engine's thresholds of storage, growing and shrinking, are stored whole.
pub async fn large_resources_come_back_whole<B: Backend>(store: &B) {
    let mut stored = write(store, &resource("a")).await;
    for size in [100, 4_000, 4_096, 5_000, 100_000, 8_192, 60_000, 3_000, 90_000, 1] {
        let text: String = (0..size).map(|n| char::from(b'a' + (n % 23) as u8)).collect();
        stored.metadata.insert("text".into(), text);
        stored = write(store, &stored).await;
        assert_eq!(read(store, &id(&stored)).await.as_ref(), Some(&stored), "{size}");
        assert_eq!(list(store, &everything()).await, [stored.clone()], "{size}");
    }
}

/// An id without type, tenancy, name or uid is refused.
pub async fn incomplete_ids_are_refused<B: Backend>(store: &B) {
    let without = |part: fn(&mut pb::Id)| {
        let mut resource = resource("a");
        part(resource.id.as_mut().unwrap());
        resource
    };
    let cases = [
        ("id", pb::Resource { id: None, ..resource("a") }),
        ("type", without(|id| id.r#type = None)),
        ("tenancy", without(|id| id.tenancy = None)),
        ("name", without(|id| id.name.clear())),
        ("uid", without(|id| id.uid.clear())),
    ];
    for (part, resource) in cases {
        let result = store.write_cas(resource).await;
        assert!(
            matches!(result, Err(StoreError::IncompleteId(IdPartError(what))) if what == part),
            "{part}: {result:?}"
        );
    }
}

/// A resource over the limit is refused with both sizes; one at the limit is stored.
pub async fn too_large_is_refused<B: Backend>(store: &B) {
    let sized = |size: usize| {
        let mut resource = resource("a");
        resource.metadata.insert("text".into(), String::new());
        // Two rounds, since lengths are varints, and the first round makes them longer.
        for _ in 0..4 {
            let missing = size as i64 - resource.encoded_len() as i64;
            let text = resource.metadata.get_mut("text").unwrap();
            let len = (text.len() as i64 + missing).max(0) as usize;
            *text = "x".repeat(len);
        }
        assert_eq!(resource.encoded_len(), size);
        resource
    };
    match store.write_cas(sized(MAX_RESOURCE_BYTES + 1)).await {
        Err(StoreError::TooLarge { size, limit }) => {
            assert_eq!((size, limit), (MAX_RESOURCE_BYTES + 1, MAX_RESOURCE_BYTES));
        }
        other => panic!("{other:?}"),
    }
    let stored = write(store, &sized(MAX_RESOURCE_BYTES)).await;
    let mut stored = write(store, &stored).await;
    // A resource at the limit can be marked, and a marked one can shrink.
    stored.metadata.insert(meta::DELETION_TIMESTAMP.into(), "2026-01-01T00:00:00.000000000Z".into());
    let mut stored = write(store, &stored).await;
    stored.metadata.insert("one".into(), "more".into());
    assert!(matches!(store.write_cas(stored.clone()).await, Err(StoreError::TooLarge { .. })));
    // Other content in the mark counts.
    stored.metadata.remove("one");
    stored.metadata.insert(meta::DELETION_TIMESTAMP.into(), "x".repeat(50));
    assert!(matches!(store.write_cas(stored.clone()).await, Err(StoreError::TooLarge { .. })));
    stored.metadata.remove("text");
    write(store, &stored).await;
}

/// An owner's id is part of keys, so its length is limited.
pub async fn an_owner_that_no_key_can_hold_is_refused<B: Backend>(store: &B) {
    let owner = write(store, &resource("owner")).await;
    for uid in ["x".repeat(2_000), "a\0b".to_owned()] {
        let mut child = resource("child");
        child.owner = Some(pb::Id { uid, ..id(&owner) });
        assert!(matches!(store.write_cas(child).await, Err(StoreError::IncompleteId(IdPartError("owner")))));
    }
}

/// Exactly one of many concurrent updates of a version succeeds.
pub async fn one_of_many_racing_writers_wins<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    let attempt = |n| store.write_cas(numbered(stored.clone(), n));
    let (a, b, c, d) = tokio::join!(attempt(1), attempt(2), attempt(3), attempt(4));
    let results = [a, b, c, d];
    let won: Vec<_> = results.iter().flatten().collect();
    assert_eq!(won.len(), 1, "{results:?}");
    let lost = results.iter().filter(|result| matches!(result, Err(StoreError::CasFailure { .. }))).count();
    assert_eq!(lost, 3, "{results:?}");
    assert_eq!(read(store, &id(&stored)).await.as_ref(), Some(won[0]));
}
