//! Tests of commits of several mutations.

use mortise_resource::pb;

use super::fixtures::{
    Event, assert_silent, commit, delete, everything, id, list, name, next, numbered, read, resource, resource_in,
    tenancy, type_of, ulid, watch, write,
};
use crate::{Backend, Batch, Expectation, ExpectedId, Mutation, StoreError};

fn put(resource: pb::Resource) -> Mutation {
    Mutation::Put(Box::new(resource))
}

fn delete_of(stored: &pb::Resource) -> Mutation {
    Mutation::Delete { id: id(stored), version: stored.version.clone() }
}

fn expecting(expectations: impl IntoIterator<Item = Expectation>, mutation: Mutation) -> Batch {
    Batch { expect: expectations.into_iter().collect(), ..Batch::single(mutation) }
}

fn exists(resource: &pb::Resource) -> Expectation {
    Expectation { id: ExpectedId::from(&id(resource)), generation: None, is_unmarked: false }
}

/// Results come in order: the stored resource of a put, `None` for a delete.
pub async fn results_stand_in_order<B: Backend>(store: &B) {
    let old = write(store, &resource("old")).await;
    let mutations = vec![put(resource("a")), delete_of(&old), put(resource("b"))];
    let results = commit(store, Batch::new(mutations)).await.unwrap();
    let names: Vec<_> = results.iter().map(|result| result.as_ref().map(name)).collect();
    assert_eq!(names, [Some("a".into()), None, Some("b".into())]);
    for stored in results.into_iter().flatten() {
        assert_eq!(read(store, &id(&stored)).await, Some(stored));
    }
    assert_eq!(read(store, &id(&old)).await, None);
    assert_eq!(store.commit(Batch::default()).await.unwrap(), []);
}

/// A failed mutation undoes the whole batch: in resources, indexes and watches.
pub async fn all_or_nothing<B: Backend>(store: &B) {
    let owner = write(store, &resource("owner")).await;
    let old = write(store, &resource("old")).await;
    let (_, mut events) = watch(store, &everything()).await;
    let child = pb::Resource { owner: Some(id(&owner)), ..resource("child") };
    let stale = pb::Resource { version: "nonsense".into(), ..old.clone() };
    let mutations = vec![put(child.clone()), delete_of(&owner), put(numbered(old.clone(), 1)), put(stale)];
    let result = store.commit(Batch::new(mutations)).await;
    assert!(matches!(result, Err(StoreError::CasFailure { mutation: 3 })), "{result:?}");
    assert_eq!(read(store, &id(&child)).await, None);
    assert_eq!(list(store, &everything()).await, [old.clone(), owner.clone()]);
    assert_eq!(store.list_by_owner(&id(&owner)).await.unwrap(), []);
    assert_silent(store, &mut events, &resource("marker")).await;
    // A failed batch does not affect later ones.
    write(store, &numbered(old, 2)).await;
}

/// A mutation sees the earlier ones of its batch.
pub async fn later_mutations_see_earlier_ones<B: Backend>(store: &B) {
    let first = write(store, &resource("a")).await;
    let second = resource("a");
    let results = commit(store, Batch::new(vec![delete_of(&first), put(second.clone())])).await.unwrap();
    let stored = results[1].clone().unwrap();
    assert_eq!(id(&stored), id(&second));
    assert_ne!(stored.version, first.version);
    assert_eq!(read(store, &id(&second)).await, Some(stored));

    let twice = resource("b");
    let mutations = vec![put(twice.clone()), put(twice.clone())];
    let result = store.commit(Batch::new(mutations)).await;
    assert!(matches!(result, Err(StoreError::CasFailure { mutation: 1 })), "{result:?}");
    assert_eq!(read(store, &id(&twice)).await, None);
}

/// Errors have the position of the first failing mutation.
pub async fn failures_name_the_mutation<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    let stale = Mutation::Delete { id: id(&stored), version: "nonsense".into() };
    let result = store.commit(Batch::new(vec![put(resource("b")), stale.clone(), stale])).await;
    assert!(matches!(result, Err(StoreError::CasFailure { mutation: 1 })), "{result:?}");
}

/// An expected resource must exist; the error names the first that does not, before any mutation is checked.
pub async fn expectations_of_existence<B: Backend>(store: &B) {
    let there = write(store, &resource("there")).await;
    let absent = resource("absent");
    let stale = pb::Resource { version: "nonsense".into(), ..resource("a") };
    let result = store.commit(expecting([exists(&there), exists(&absent), exists(&absent)], put(stale))).await;
    assert!(matches!(result, Err(StoreError::ExpectationFailed { expectation: 1 })), "{result:?}");
    store.commit(expecting([exists(&there)], put(resource("a")))).await.unwrap();
    delete(store, &there).await;
    let result = store.commit(expecting([exists(&there)], put(resource("b")))).await;
    assert!(matches!(result, Err(StoreError::ExpectationFailed { expectation: 0 })), "{result:?}");
}

/// An expectation with a uid needs that incarnation; without one, any.
pub async fn expectations_of_an_incarnation<B: Backend>(store: &B) {
    let first = write(store, &resource("x")).await;
    delete(store, &first).await;
    let _second = write(store, &resource("x")).await;
    let result = store.commit(expecting([exists(&first)], put(resource("a")))).await;
    assert!(matches!(result, Err(StoreError::ExpectationFailed { expectation: 0 })), "{result:?}");
    let mut any = exists(&first);
    any.id.uid.clear();
    store.commit(expecting([any], put(resource("a")))).await.unwrap();
}

/// An expectation with a generation needs that generation, and allows other changes.
pub async fn expectations_of_a_generation<B: Backend>(store: &B) {
    let stored = write(store, &resource("x")).await;
    let expected = Expectation { generation: Some(stored.generation.clone()), ..exists(&stored) };
    let status = write(store, &numbered(stored, 1)).await;
    store.commit(expecting([expected.clone()], put(resource("a")))).await.unwrap();
    write(store, &pb::Resource { generation: ulid(), ..status }).await;
    let result = store.commit(expecting([expected], put(resource("b")))).await;
    assert!(matches!(result, Err(StoreError::ExpectationFailed { expectation: 0 })), "{result:?}");
}

/// A deletion and a creation that expects the deleted resource, at once, never both succeed.
pub async fn expectations_see_other_batches<B: Backend>(store: &B) {
    for round in 0..20 {
        let parent = write(store, &resource(&format!("parent-{round}"))).await;
        let child = resource(&format!("child-{round}"));
        let id_of_parent = id(&parent);
        let removal = store.delete_cas(&id_of_parent, &parent.version);
        let creation = store.commit(expecting([exists(&parent)], put(child.clone())));
        let (removed, created) = tokio::join!(removal, creation);
        removed.unwrap();
        match created {
            // The creation came first.
            Ok(_) => assert!(read(store, &id(&child)).await.is_some()),
            Err(StoreError::ExpectationFailed { expectation: 0 }) => assert_eq!(read(store, &id(&child)).await, None),
            Err(error) => panic!("{error}"),
        }
    }
}

/// Events come one for each change, in the order of the batch, each with its own version.
pub async fn each_change_is_one_event<B: Backend>(store: &B) {
    let old = write(store, &resource("old")).await;
    let (_, mut events) = watch(store, &everything()).await;
    let other_type = resource_in(type_of("v1", "B"), tenancy("default", "default"), "b");
    let again = resource("old");
    let mutations = vec![put(resource("a")), delete_of(&old), put(other_type), put(again), put(resource("c"))];
    let results = commit(store, Batch::new(mutations)).await.unwrap();
    let stored = |position: usize| Event::Upsert(results[position].clone().unwrap());
    assert_eq!(next(&mut events).await, stored(0));
    assert_eq!(next(&mut events).await, Event::Delete(old));
    assert_eq!(next(&mut events).await, stored(3));
    assert_eq!(next(&mut events).await, stored(4));
    let mut versions: Vec<_> = results.iter().flatten().map(|stored| stored.version.clone()).collect();
    versions.sort();
    versions.dedup();
    assert_eq!(versions.len(), 4);
    assert_silent(store, &mut events, &resource("marker")).await;
}

/// A deletion without effect makes no event.
pub async fn nothing_to_do_is_no_event<B: Backend>(store: &B) {
    let stored = write(store, &resource("a")).await;
    let (_, mut events) = watch(store, &everything()).await;
    let mut other = id(&stored);
    other.uid = ulid();
    store.delete_cas(&other, "").await.unwrap();
    store.delete_cas(&id(&resource("absent")), "").await.unwrap();
    assert_silent(store, &mut events, &resource("marker")).await;
}
