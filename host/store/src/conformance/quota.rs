//! Tests of quotas: limits for batches, and reports of usage.

use std::collections::BTreeMap;

use mortise_resource::{meta, pb};

use super::fixtures::{
    QUOTAS, assert_silent, commit, decoded, delete, everything, id, list, query, read, resource, resource_in, tenancy,
    type_of, watch, write,
};
use crate::{Backend, Batch, Mutation, Quota, QuotaExceeded, StoreError};

type Written = Result<Vec<Option<pb::Resource>>, StoreError>;

fn put(resource: &pb::Resource) -> Mutation {
    Mutation::Put(Box::new(resource.clone()))
}

fn delete_of(stored: &pb::Resource) -> Mutation {
    Mutation::Delete { id: id(stored), version: stored.version.clone() }
}

async fn limited<B: Backend>(store: &B, mutations: Vec<Mutation>) -> Written {
    commit(store, Batch::new(mutations).limited()).await
}

/// Writes a limited resource, successfully.
async fn taken<B: Backend>(store: &B, resource: &pb::Resource) -> pb::Resource {
    decoded(&store.put_limited(resource.clone()).await.unwrap())
}

#[track_caller]
fn refused(result: Written) -> QuotaExceeded {
    match result {
        Err(StoreError::QuotaExceeded(refusal)) => *refusal,
        other => panic!("{other:?}"),
    }
}

/// Returns the resource with a text of this many bytes.
fn with_text(resource: &pb::Resource, bytes: usize) -> pb::Resource {
    let mut resource = resource.clone();
    resource.metadata.insert("text".into(), "x".repeat(bytes));
    resource
}

/// Writes `r-1` and so on, without quotas.
async fn fill<B: Backend>(store: &B, count: u64) -> Vec<pb::Resource> {
    let resources: Vec<_> = (1..=count).map(|n| put(&resource(&format!("r-{n}")))).collect();
    commit(store, Batch::new(resources)).await.unwrap().into_iter().flatten().collect()
}

/// The last resource that fits is accepted and the next refused, only for this type and tenancy, and only in limited
/// batches.
pub async fn resources_are_taken_to_the_limit<B: Backend>(store: &B) {
    let mut stored = fill(store, QUOTAS.resources - 1).await;
    stored.push(taken(store, &resource("last")).await);
    let refusal = refused(limited(store, vec![put(&resource("more"))]).await);
    let expected = QuotaExceeded {
        quota: Quota::Resources,
        type_key: Some(everything().type_key),
        tenancy: tenancy("default", "default"),
        used: QUOTAS.resources,
        added: 1,
        limit: QUOTAS.resources,
    };
    assert_eq!(refusal, expected);
    assert_eq!(read(store, &id(&resource("more"))).await, None);
    // Stored resources may be replaced.
    taken(store, &stored[0]).await;
    taken(store, &resource_in(type_of("v1", "B"), tenancy("default", "default"), "more")).await;
    for (partition, namespace) in [("default", ""), ("", ""), ("default", "defaul"), ("default", "default-2")] {
        taken(store, &resource_in(type_of("v1", "A"), tenancy(partition, namespace), "more")).await;
    }
    // Another GroupVersion counts as the same type.
    let v2 = resource_in(type_of("v2", "A"), tenancy("default", "default"), "more");
    assert_eq!(refused(limited(store, vec![put(&v2)]).await), expected);
    write(store, &resource("unlimited")).await;
    for stored in &stored[1..3] {
        delete(store, stored).await;
    }
    taken(store, &resource("more")).await;
}

/// A tenancy grows up to the limit, to the byte, over all types; other tenancies have limits of their own.
pub async fn bytes_are_taken_to_the_limit<B: Backend>(store: &B) {
    let other = resource_in(type_of("v1", "B"), tenancy("default", "default"), "b");
    taken(store, &with_text(&other, 1_000)).await;
    let used = async || {
        let largest = store.usage(1).await.unwrap().largest;
        usize::try_from(largest[0].bytes).unwrap()
    };
    let limit = usize::try_from(QUOTAS.bytes).unwrap();
    // The limit that one more write of this length would reach. A version may be longer than its predecessor.
    let mut text = 6_000;
    let mut stored = write(store, &with_text(&resource("a"), text)).await;
    for _ in 0..5 {
        text = text + limit - used().await;
        stored = write(store, &with_text(&stored, text)).await;
    }
    assert_eq!(used().await, limit);
    stored = taken(store, &with_text(&stored, text - 300)).await;
    stored = taken(store, &with_text(&stored, text - 100)).await;
    let now = used().await;
    let refusal = refused(limited(store, vec![put(&with_text(&stored, text + 1))]).await);
    assert!(refusal.added > 100 && refusal.used + refusal.added <= QUOTAS.bytes + 2, "{refusal:?}");
    let expected = QuotaExceeded {
        quota: Quota::Bytes,
        type_key: None,
        tenancy: tenancy("default", "default"),
        used: now as u64,
        added: refusal.added,
        limit: QUOTAS.bytes,
    };
    assert_eq!(refusal, expected);
    refused(limited(store, vec![put(&with_text(&resource("c"), 200))]).await);
    let elsewhere = resource_in(type_of("v1", "A"), tenancy("default", "other"), "a");
    taken(store, &with_text(&elsewhere, 6_000)).await;
    assert_eq!(read(store, &id(&stored)).await, Some(stored));
}

/// A deletion makes room for additions in the same batch, in any order, and for no more than that.
pub async fn the_net_effect_of_a_batch_counts<B: Backend>(store: &B) {
    let stored = fill(store, QUOTAS.resources).await;
    let batch = |from: usize, creations: &[&str]| {
        let creations = creations.iter().map(|name| put(&resource(name)));
        creations.chain(stored[from..from + 2].iter().map(delete_of)).collect::<Vec<_>>()
    };
    limited(store, batch(0, &["a", "b"])).await.unwrap();
    let refusal = refused(limited(store, batch(2, &["c", "d", "e"])).await);
    assert_eq!((refusal.used, refusal.added), (QUOTAS.resources, 1));
    // A resource replaced by another incarnation counts once.
    limited(store, vec![delete_of(&stored[2]), put(&resource("r-3"))]).await.unwrap();
    // A creation that the batch undoes does not count; nor do large texts that it removes again.
    let large = with_text(&stored[4], 7_000);
    let written = limited(store, vec![put(&large)]).await.unwrap();
    let smaller = with_text(&written[0].clone().unwrap(), 100);
    limited(store, vec![put(&smaller), put(&with_text(&stored[5], 6_500))]).await.unwrap();
    assert_eq!(list(store, &everything()).await.len() as u64, QUOTAS.resources);
}

/// A refused batch stores no resource, event or usage, even if only one of several tenancies is full.
pub async fn a_refused_batch_changes_nothing<B: Backend>(store: &B) {
    let stored = fill(store, QUOTAS.resources).await;
    let before = (list(store, &everything()).await, store.usage(10).await.unwrap());
    let (_, mut events) = watch(store, &everything()).await;
    let elsewhere = resource_in(type_of("v1", "A"), tenancy("default", "other"), "a");
    refused(limited(store, vec![put(&elsewhere), put(&stored[0]), put(&resource("more"))]).await);
    assert_eq!((list(store, &everything()).await, store.usage(10).await.unwrap()), before);
    assert_silent(store, &mut events, &resource("marker")).await;
    taken(store, &stored[0]).await;
}

/// A tenancy over its limit accepts writes that do not grow, marks and deletions.
pub async fn resources_over_the_limit_may_stay_shrink_and_go<B: Backend>(store: &B) {
    let mut stored = fill(store, QUOTAS.resources + 2).await;
    stored[0] = write(store, &with_text(&stored[0], 9_000)).await;
    refused(limited(store, vec![put(&resource("more"))]).await);
    refused(limited(store, vec![put(&with_text(&stored[0], 9_001))]).await);
    refused(limited(store, vec![put(&with_text(&stored[1], 1))]).await);
    for _ in 0..15 {
        stored[0] = taken(store, &stored[0]).await;
    }
    stored[0] = taken(store, &with_text(&stored[0], 8_900)).await;
    let mut marked = stored[0].clone();
    marked.metadata.insert(meta::DELETION_TIMESTAMP.into(), "2026-11-23T06:00:00.000000000Z".into());
    stored[0] = taken(store, &marked).await;
    let same = vec![put(&with_text(&stored[0], 8_800)), put(&with_text(&stored[1], 50))];
    stored[0] = limited(store, same).await.unwrap()[0].clone().unwrap();
    // Rewrites are the host's own, and unlimited.
    let rewritten = pb::Resource { version: stored[0].version.clone(), ..with_text(&stored[0], 9_500) };
    store.commit(Batch::single(Mutation::Rewrite(Box::new(rewritten)))).await.unwrap();
    for stored in [&stored[0], &stored[2], &stored[3]] {
        limited(store, vec![delete_of(stored)]).await.unwrap();
    }
    taken(store, &resource("more")).await;
}

/// Racing writers of the last places, or bytes, succeed exactly as often as there is room.
pub async fn racing_writers_share_the_rest<B: Backend>(store: &B) {
    let free = 4;
    fill(store, QUOTAS.resources - free).await;
    let places = race(store, (0..24).map(|n| resource(&format!("w-{n}"))).collect()).await;
    assert_eq!(places, (free, 24 - free));
    assert_eq!(list(store, &query("*", "*", "w-")).await.len() as u64, free);
    // Two of them take more than two thirds, three more than everything.
    let text = usize::try_from(QUOTAS.bytes).unwrap() * 4 / 10;
    let large = |n| with_text(&resource_in(type_of("v1", "A"), tenancy("default", "large"), &format!("l-{n}")), text);
    assert_eq!(race(store, (0..QUOTAS.resources).map(large).collect()).await, (2, QUOTAS.resources - 2));
}

/// Starts limited writes at once; returns how many were accepted and refused.
async fn race<B: Backend>(store: &B, resources: Vec<pb::Resource>) -> (u64, u64) {
    let mut writers: Vec<_> = resources.into_iter().map(|resource| Box::pin(store.put_limited(resource))).collect();
    let (mut taken, mut refused) = (0, 0);
    for result in join_all(&mut writers).await {
        match result {
            Ok(_) => taken += 1,
            Err(StoreError::QuotaExceeded(_)) => refused += 1,
            Err(error) => panic!("{error}"),
        }
    }
    (taken, refused)
}

async fn join_all<F: Future + Unpin>(futures: &mut [F]) -> Vec<F::Output> {
    let mut outputs: Vec<Option<F::Output>> = futures.iter().map(|_| None).collect();
    std::future::poll_fn(|context| {
        for (future, output) in futures.iter_mut().zip(&mut outputs) {
            if output.is_none()
                && let std::task::Poll::Ready(done) = std::pin::Pin::new(future).poll(context)
            {
                *output = Some(done);
            }
        }
        if outputs.iter().all(Option::is_some) { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    outputs.into_iter().flatten().collect()
}

/// The usage has the totals and the fullest places, after creations, changes of length, and deletions.
pub async fn usage_equals_the_content<B: Backend>(store: &B) {
    assert_eq!(store.usage(10).await.unwrap(), crate::Usage { quotas: QUOTAS, ..Default::default() });
    for (namespace, count) in [("a", 1), ("b", 2), ("", 3)] {
        for n in 0..count {
            let stored = resource_in(type_of("v1", "A"), tenancy("default", namespace), &format!("r-{n}"));
            let stored = write(store, &with_text(&stored, 500)).await;
            write(store, &with_text(&stored, 100 * (n + 1))).await;
        }
        let gone = resource_in(type_of("v1", "B"), tenancy("default", namespace), "gone");
        delete(store, &write(store, &gone).await).await;
    }
    let usage = store.usage(2).await.unwrap();
    let mut bytes = BTreeMap::<_, u64>::new();
    for stored in list(store, &everything()).await {
        let namespace = id(&stored).tenancy.unwrap().namespace;
        *bytes.entry(namespace).or_default() += prost::Message::encoded_len(&stored) as u64;
    }
    assert_eq!((usage.tenancies, usage.resources, usage.bytes), (3, 6, bytes.values().sum()));
    let largest: Vec<_> =
        usage.largest.iter().map(|entry| (entry.tenancy.namespace.as_str(), entry.resources, entry.bytes)).collect();
    assert_eq!(largest, [("", 3, bytes[""]), ("b", 2, bytes["b"])]);
    let most: Vec<_> =
        usage.most.iter().map(|entry| (entry.tenancy.namespace.as_str(), entry.resources, entry.bytes)).collect();
    assert_eq!(most, largest);
    assert!(usage.most.iter().all(|entry| entry.type_key == everything().type_key));
}
