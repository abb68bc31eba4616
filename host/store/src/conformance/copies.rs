//! Tests of copying scans: they return the bytes of a scan's resources.

use mortise_resource::{EncodedResource, PIECE_BYTES, pb};
use prost::Message as _;

use super::fixtures::{delete, everything, query, resource_in, tenancy, type_of, write};
use crate::{Backend, Batch, CopiedPart, CopyCursor, CopyRequest, Mutation, Query};

/// Number of resources above that of a page.
const MANY: u32 = 3_000;

/// Tag of the resources in a `ListResponse`.
const TAG: u8 = 1 << 3 | 2;

/// Writes resources of two GroupVersions, some of them with an older schema version.
async fn fill<B: Backend>(store: &B) {
    for from in (0..MANY).step_by(500) {
        let put = |n: u32| {
            let group_version = if n.is_multiple_of(7) { "v2" } else { "v1" };
            let namespace = if n.is_multiple_of(2) { "even" } else { "odd" };
            let name = format!("r-{n:05}");
            let mut resource = resource_in(type_of(group_version, "A"), tenancy("default", namespace), &name);
            resource.schema_version = if n.is_multiple_of(11) { 1 } else { 2 };
            // Most are in the head of a record, some in chunks.
            let filling = if n.is_multiple_of(100) { 9_000 } else { 200 };
            resource.metadata.insert("text".to_owned(), "x".repeat(filling));
            Mutation::Put(Box::new(resource))
        };
        store.commit(Batch::new((from..from + 500).map(put).collect())).await.unwrap();
    }
}

fn request(group_version: &str, schema_version: u32) -> CopyRequest {
    CopyRequest { tag: TAG, group_version: group_version.into(), schema_version }
}

/// Reads the rest of a scan; resources with an older schema version, and the others.
async fn rest(cursor: &mut dyn CopyCursor) -> Vec<(pb::Resource, bool)> {
    let mut found = Vec::new();
    while let Some(parts) = cursor.next().await.unwrap() {
        for part in parts {
            match part {
                CopiedPart::Fields(bytes) => {
                    assert!(bytes.len() < PIECE_BYTES + 16_000, "{}", bytes.len());
                    let fields = pb::ListResponse::decode(bytes).unwrap().resources;
                    found.extend(fields.into_iter().map(|resource| (resource, false)));
                }
                CopiedPart::Older(resource) => found.push((resource.decode().unwrap(), true)),
            }
        }
    }
    assert!(cursor.next().await.unwrap().is_none() && cursor.is_at_end(), "an end stays one");
    found
}

async fn copies<B: Backend>(store: &B, query: &Query, request: CopyRequest) -> Vec<(pb::Resource, bool)> {
    rest(&mut *store.scan_copies(query, request).await.unwrap()).await
}

/// Returns what a copying scan should return, by a scan.
async fn expected<B: Backend>(store: &B, query: &Query, request: &CopyRequest) -> Vec<(pb::Resource, bool)> {
    let mut found = Vec::new();
    let mut cursor = store.scan(query).await.unwrap();
    let is_wanted = |resource: &EncodedResource| resource.id().group_version == request.group_version;
    while let Some(page) = cursor.next().await.unwrap() {
        let wanted = page.iter().filter(|resource| is_wanted(resource));
        found.extend(wanted.map(|r| (r.decode().unwrap(), r.schema_version() < request.schema_version)));
    }
    found
}

/// Copies are the resources of a scan, of one GroupVersion, in its order.
pub async fn equal_a_scan<B: Backend>(store: &B) {
    assert_eq!(copies(store, &everything(), request("v1", 1)).await, []);
    fill(store).await;
    for query in [everything(), query("default", "odd", ""), query("*", "odd", "r-012"), query("*", "*", "r-0")] {
        for request in [request("v1", 1), request("v1", 2), request("v2", 2), request("v2", 3), request("v3", 1)] {
            let expected = expected(store, &query, &request).await;
            assert_eq!(copies(store, &query, request.clone()).await, expected, "{query:?} {request:?}");
        }
    }
    let (mut nothing, mut pages) = (store.scan_copies(&everything(), request("v3", 1)).await.unwrap(), 0);
    while let Some(parts) = nothing.next().await.unwrap() {
        assert_eq!(parts, []);
        pages += 1;
    }
    assert!(pages > 1, "a page counts, though all of its resources are left out");
}

/// Copies show the state of the scan's commit, in spite of changes before, at and behind its place.
pub async fn show_the_commit_of_the_opening<B: Backend>(store: &B) {
    fill(store).await;
    let before = expected(store, &everything(), &request("v1", 2)).await;
    let mut untouched = store.scan_copies(&everything(), request("v1", 2)).await.unwrap();
    for (n, (stored, _)) in before.iter().enumerate().step_by(5) {
        let id = stored.id.clone().unwrap();
        match n % 3 {
            0 => delete(store, stored).await,
            1 => drop(write(store, &pb::Resource { schema_version: 1, ..stored.clone() }).await),
            _ => {
                delete(store, stored).await;
                write(store, &resource_in(type_of("v2", "A"), id.tenancy.unwrap(), &id.name)).await;
            }
        }
    }
    assert_ne!(copies(store, &everything(), request("v1", 2)).await, before);
    assert_eq!(rest(&mut *untouched).await, before);
}

/// A future dropped before it is done loses no page.
pub async fn of_a_call_that_is_given_up_are_not_lost<B: Backend>(store: &B) {
    fill(store).await;
    let expected = expected(store, &everything(), &request("v1", 1)).await;
    let mut cursor = store.scan_copies(&everything(), request("v1", 1)).await.unwrap();
    let mut count = 0;
    loop {
        let waker = std::task::Waker::noop();
        let polled = cursor.next().as_mut().poll(&mut std::task::Context::from_waker(waker));
        let std::task::Poll::Ready(parts) = polled else {
            tokio::task::yield_now().await;
            continue;
        };
        let Some(parts) = parts.unwrap() else { break };
        for part in parts {
            let CopiedPart::Fields(bytes) = part else { panic!("{part:?} is not older") };
            count += pb::ListResponse::decode(bytes).unwrap().resources.len();
        }
    }
    assert_eq!(count, expected.len());
}
