//! Tests of the reference index, and of batches' expectations of references.

use mortise_resource::{
    IdRef,
    data::{OnDelete, ReferenceRecord},
    pb,
};

use super::fixtures::{delete, id, name, read, resource, write};
use crate::{Backend, Batch, Expectation, ExpectedId, ExpectedReferrers, Mutation, ReferrerSet, StoreError};

fn to(target: &pb::Resource, on_delete: OnDelete, field: &str) -> ReferenceRecord {
    let id = id(target);
    let (resource_type, tenancy) = (id.r#type.unwrap_or_default(), id.tenancy.unwrap_or_default());
    ReferenceRecord {
        group: resource_type.group,
        kind: resource_type.kind,
        partition: tenancy.partition,
        namespace: tenancy.namespace,
        name: id.name,
        field: field.into(),
        on_delete: on_delete.into(),
        ..ReferenceRecord::default()
    }
}

fn referring(resource: pb::Resource, references: Vec<ReferenceRecord>) -> pb::Resource {
    pb::Resource { references, ..resource }
}

fn expected(target: &pb::Resource) -> ExpectedId {
    ExpectedId { uid: String::new(), ..ExpectedId::from(&id(target)) }
}

async fn referrers<B: Backend>(store: &B, target: &pb::Resource, on_delete: OnDelete) -> Vec<String> {
    let mut scan = store.scan_referrers(&expected(target), on_delete).await.unwrap();
    let mut found = Vec::new();
    while let Some(page) = scan.next().await.unwrap() {
        found.extend(page.iter().map(|referrer| referrer.name().to_owned()));
    }
    found
}

/// Each behaviour has its own index; a resource appears once, however many of its fields refer.
pub async fn are_found_by_behaviour<B: Backend>(store: &B) {
    let target = write(store, &resource("target")).await;
    let other = write(store, &resource("other")).await;
    let twice = vec![
        to(&target, OnDelete::Unset, "a"),
        to(&target, OnDelete::Unset, "b"),
        to(&target, OnDelete::Block, "c"),
        to(&other, OnDelete::Cascade, "d"),
    ];
    write(store, &referring(resource("b"), twice)).await;
    write(store, &referring(resource("a"), vec![to(&target, OnDelete::Unset, "a")])).await;
    assert_eq!(referrers(store, &target, OnDelete::Unset).await, ["a", "b"]);
    assert_eq!(referrers(store, &target, OnDelete::Block).await, ["b"]);
    assert_eq!(referrers(store, &target, OnDelete::Cascade).await, Vec::<String>::new());
    assert_eq!(referrers(store, &other, OnDelete::Cascade).await, ["b"]);
}

/// A new version replaces a resource's references, also in a rewrite; a deleted resource has none.
pub async fn follow_each_write<B: Backend>(store: &B) {
    let target = resource("target");
    let stored = write(store, &referring(resource("a"), vec![to(&target, OnDelete::Block, "a")])).await;
    assert_eq!(referrers(store, &target, OnDelete::Block).await, ["a"]);
    let rewritten = referring(stored, vec![to(&target, OnDelete::Unset, "a")]);
    store.commit(Batch::single(Mutation::Rewrite(Box::new(rewritten.clone())))).await.unwrap();
    assert_eq!(referrers(store, &target, OnDelete::Block).await, Vec::<String>::new());
    assert_eq!(referrers(store, &target, OnDelete::Unset).await, ["a"]);
    delete(store, &rewritten).await;
    assert_eq!(referrers(store, &target, OnDelete::Unset).await, Vec::<String>::new());
}

fn deletion(target: &pb::Resource, at_commit: ReferrerSet, deferred: Option<ReferrerSet>) -> Batch {
    let seen = ExpectedReferrers { id: expected(target), at_commit, deferred };
    let delete = Mutation::Delete { id: id(target), version: target.version.clone() };
    Batch { referrers: vec![seen], ..Batch::single(delete) }
}

async fn is_refused<B: Backend>(store: &B, batch: Batch) -> bool {
    match store.commit(batch).await {
        Ok(_) => false,
        Err(StoreError::ReferrersChanged) => true,
        Err(error) => panic!("{error}"),
    }
}

/// A batch that expects other references than the stored ones changes nothing.
pub async fn that_were_not_seen_fail_a_batch<B: Backend>(store: &B) {
    let target = write(store, &resource("target")).await;
    let block = write(store, &referring(resource("a"), vec![to(&target, OnDelete::Block, "a")])).await;
    assert!(is_refused(store, deletion(&target, ReferrerSet::default(), Some(ReferrerSet::default()))).await);
    assert!(read(store, &id(&target)).await.is_some());
    let set = |on_delete| {
        let mut set = ReferrerSet::default();
        set.add(on_delete, IdRef::from(&id(&block)));
        set
    };
    // A different behaviour counts, and so does a reference removed meanwhile.
    assert!(is_refused(store, deletion(&target, set(OnDelete::Unset), Some(ReferrerSet::default()))).await);
    delete(store, &block).await;
    assert!(is_refused(store, deletion(&target, set(OnDelete::Block), Some(ReferrerSet::default()))).await);
    let later = write(store, &referring(resource("b"), vec![to(&target, OnDelete::AsyncUnset, "a")])).await;
    assert!(is_refused(store, deletion(&target, ReferrerSet::default(), Some(ReferrerSet::default()))).await);
    // Exactly the expected references may exist.
    let mut seen = ReferrerSet::default();
    seen.add(OnDelete::AsyncUnset, IdRef::from(&id(&later)));
    let other = write(store, &referring(resource("c"), vec![to(&target, OnDelete::AsyncUnset, "a")])).await;
    assert!(is_refused(store, deletion(&target, ReferrerSet::default(), Some(seen))).await);
    delete(store, &other).await;
    assert!(!is_refused(store, deletion(&target, ReferrerSet::default(), Some(seen))).await);
    assert_eq!((read(store, &id(&target)).await, name(&later)), (None, "b".to_owned()));
    let target = write(store, &resource("target")).await;
    assert!(!is_refused(store, deletion(&target, ReferrerSet::default(), None)).await);
}

/// A deletion that expects no references, and a write that refers, at once, never both succeed.
pub async fn of_other_batches_are_seen<B: Backend>(store: &B) {
    let mut refused = 0;
    for round in 0..40 {
        let target = write(store, &resource(&format!("target-{round}"))).await;
        let referrer = resource(&format!("referrer-{round}"));
        let referrer = referring(referrer, vec![to(&target, OnDelete::Block, "a")]);
        let expect = vec![Expectation { id: expected(&target), generation: None, is_unmarked: true }];
        let creation = Batch { expect, ..Batch::single(Mutation::Put(Box::new(referrer.clone()))) };
        let removal = deletion(&target, ReferrerSet::default(), Some(ReferrerSet::default()));
        let (created, removed) = match round % 2 {
            0 => tokio::join!(store.commit(creation), store.commit(removal)),
            _ => {
                let (removed, created) = tokio::join!(store.commit(removal), store.commit(creation));
                (created, removed)
            }
        };
        match (created, removed) {
            (Ok(_), Err(StoreError::ReferrersChanged)) => refused += 1,
            (Err(StoreError::ExpectationFailed { expectation: 0 }), Ok(_)) => {}
            both => panic!("{both:?}"),
        }
    }
    assert!(refused > 0, "the deletion was always first");
}

/// An expectation may exclude resources with a deletion mark.
pub async fn a_mark_is_expected_not_to_be_there<B: Backend>(store: &B) {
    let mut target = write(store, &resource("target")).await;
    let expect = || vec![Expectation { id: expected(&resource("target")), generation: None, is_unmarked: true }];
    let put = |name: &str| Mutation::Put(Box::new(resource(name)));
    store.commit(Batch { expect: expect(), ..Batch::single(put("a")) }).await.unwrap();
    target.metadata.insert(mortise_resource::meta::DELETION_TIMESTAMP.to_owned(), String::new());
    write(store, &target).await;
    let result = store.commit(Batch { expect: expect(), ..Batch::single(put("b")) }).await;
    assert!(matches!(result, Err(StoreError::ExpectationFailed { expectation: 0 })), "{result:?}");
}
