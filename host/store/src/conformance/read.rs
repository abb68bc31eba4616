//! Tests of Read.

use super::fixtures::{decoded, id, numbered, read, resource, type_of, ulid, write};
use crate::{Backend, Consistency, StoreError};

/// Reading an absent resource fails.
pub async fn absent_is_not_found<B: Backend>(store: &B) {
    for consistency in [Consistency::Eventual, Consistency::Consistent] {
        let result = store.read(consistency, &id(&resource("absent"))).await;
        assert!(matches!(result, Err(StoreError::NotFound)), "{result:?}");
    }
}

/// An empty uid finds any stored incarnation.
pub async fn empty_uid_matches_any_incarnation<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    let mut wanted = id(&stored);
    wanted.uid.clear();
    assert_eq!(read(store, &wanted).await.as_ref(), Some(&stored));
    assert_eq!(read(store, &id(&stored)).await, Some(stored));
}

/// A uid other than the stored one finds nothing.
pub async fn another_uid_is_not_found<B: Backend>(store: &B) {
    let mut wanted = id(&write(store, &resource("a")).await);
    wanted.uid = ulid();
    assert_eq!(read(store, &wanted).await, None);
}

/// A read under another GroupVersion fails and returns the stored resource.
pub async fn another_group_version_returns_the_stored_resource<B: Backend>(store: &B) {
    let resource = write(store, &resource("a")).await;
    let mut wanted = id(&resource);
    wanted.r#type = Some(type_of("v2", "A"));
    for uid in [String::new(), wanted.uid.clone()] {
        wanted.uid = uid;
        match store.read(Consistency::Eventual, &wanted).await {
            Err(StoreError::GroupVersionMismatch { requested, stored }) => {
                assert_eq!((requested.as_str(), decoded(&stored)), ("v2", resource.clone()));
            }
            other => panic!("{other:?}"),
        }
    }
}

/// A read with another uid and another GroupVersion finds nothing.
pub async fn uid_is_judged_before_group_version<B: Backend>(store: &B) {
    let mut wanted = id(&write(store, &resource("a")).await);
    wanted.uid = ulid();
    wanted.r#type = Some(type_of("v2", "A"));
    let result = store.read(Consistency::Eventual, &wanted).await;
    assert!(matches!(result, Err(StoreError::NotFound)), "{result:?}");
}

/// A consistent read shows every write acknowledged before it.
pub async fn every_acknowledged_write_is_shown<B: Backend>(store: &B) {
    let mut stored = write(store, &resource("a")).await;
    for n in 1..50 {
        stored = write(store, &numbered(stored, n)).await;
        assert_eq!(store.read(Consistency::Consistent, &id(&stored)).await.unwrap(), stored);
    }
    store.delete_cas(&id(&stored), &stored.version).await.unwrap();
    let result = store.read(Consistency::Consistent, &id(&stored)).await;
    assert!(matches!(result, Err(StoreError::NotFound)), "{result:?}");
}
