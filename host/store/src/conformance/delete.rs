//! Tests of DeleteCAS: a commit of one delete.

use super::fixtures::{delete, everything, id, list, numbered, read, resource, type_of, ulid, write};
use crate::{Backend, StoreError};

/// A deleted resource is gone from reads and lists.
pub async fn deletes<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    delete(store, &stored).await;
    assert_eq!(read(store, &id(&stored)).await, None);
    assert_eq!(list(store, &everything()).await, []);
}

/// Deleting an absent resource succeeds, with any version.
pub async fn absent_succeeds<B: Backend>(store: &B) {
    let absent = id(&resource("a"));
    store.delete_cas(&absent, "").await.unwrap();
    store.delete_cas(&absent, "1").await.unwrap();
}

/// Deleting under another uid, even an empty one, succeeds without effect, with any version.
pub async fn another_uid_has_no_effect<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    for uid in [ulid(), String::new()] {
        let mut other = id(&stored);
        other.uid = uid;
        store.delete_cas(&other, &stored.version).await.unwrap();
        store.delete_cas(&other, "nonsense").await.unwrap();
    }
    assert_eq!(read(store, &id(&stored)).await, Some(stored));
}

/// Another version, even an empty one, fails.
pub async fn another_version_fails<B: Backend>(store: &B) {
    let first = write(store, &resource("a")).await;
    let second = write(store, &numbered(first.clone(), 2)).await;
    for version in [first.version.as_str(), "", "nonsense"] {
        let result = store.delete_cas(&id(&second), version).await;
        assert!(matches!(result, Err(StoreError::CasFailure { mutation: 0 })), "{version:?}: {result:?}");
    }
    assert_eq!(read(store, &id(&second)).await, Some(second));
}

/// The id's GroupVersion does not matter.
pub async fn group_version_is_ignored<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    let mut other = id(&stored);
    other.r#type = Some(type_of("v2", "A"));
    store.delete_cas(&other, &stored.version).await.unwrap();
    assert_eq!(read(store, &id(&stored)).await, None);
}
