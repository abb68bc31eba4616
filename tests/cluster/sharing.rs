//! What one server stores, every other one reads, lists and watches, with the same versions.

use mortise_resource::pb;
use tonic::Code;

use super::{Shared, members};
use crate::support::{Server, Setup, album, artist, concept, gvk, id_of, mortise, tenancy, until, with_metadata};

/// A status about this state of a resource, for this version of it.
fn seen(of: &pb::Resource, version: &str) -> pb::WriteStatusRequest {
    let status = pb::Status { observed_generation: of.generation.clone(), ..pb::Status::default() };
    pb::WriteStatusRequest { id: of.id.clone(), version: version.into(), key: "seen".into(), status: Some(status) }
}

/// Reads consistently.
async fn consistent(server: &Server, id: &pb::Id) -> pb::Resource {
    let request = pb::ReadRequest { id: Some(id.clone()) };
    let request = with_metadata(request, "x-consul-consistency-mode", "consistent");
    server.client().read(request).await.unwrap().into_inner().resource.unwrap()
}

#[tokio::test]
async fn a_write_is_read_listed_and_watched_on_the_other_server() {
    let Some(shared) = Shared::new() else { return };
    let (one, other) = (shared.start().await, shared.start().await);
    let mut watch = other.watch(gvk("demo.v2.Artist"), Some(tenancy("*", "*")), "").await.unwrap();
    assert_eq!(watch.snapshot().await, []);
    for n in 0..10 {
        let stored = one.write(artist(&format!("artist-{n}"))).await.unwrap();
        assert_eq!(consistent(&other, &id_of(&stored)).await, stored);
        assert_eq!(watch.upsert().await, stored);
    }
    let list = pb::ListRequest {
        r#type: Some(gvk("demo.v2.Artist")),
        tenancy: Some(tenancy("*", "*")),
        name_prefix: String::new(),
    };
    let stored = one.write(artist("last")).await.unwrap();
    let listed = other.client().list(with_metadata(list, "x-consul-consistency-mode", "consistent")).await.unwrap();
    assert_eq!(listed.into_inner().resources.len(), 11);

    other.delete(&id_of(&stored), &stored.version).await.unwrap();
    let read = pb::ReadRequest { id: Some(id_of(&stored)) };
    let gone = one.client().read(with_metadata(read, "x-consul-consistency-mode", "consistent")).await;
    assert_eq!(gone.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_client_brings_its_version_to_the_other_server() {
    let Some(shared) = Shared::new() else { return };
    let (one, other) = (shared.start().await, shared.start().await);
    let mut stored = one.write(artist("a")).await.unwrap();
    for _ in 0..20 {
        let read = pb::ReadRequest { id: Some(id_of(&stored)) };
        let read = with_metadata(read, "x-mortise-at-least", &stored.version);
        assert_eq!(other.client().read(read).await.unwrap().into_inner().resource.unwrap(), stored);
        stored = one.write(stored).await.unwrap();
    }
}

#[tokio::test]
async fn of_writers_with_one_version_on_two_servers_one_wins() {
    let Some(shared) = Shared::new() else { return };
    let (one, other) = (shared.start().await, shared.start().await);
    let mut stored = one.write(artist("a")).await.unwrap();
    for _ in 0..20 {
        let (a, b) = tokio::join!(one.write(stored.clone()), other.write(stored.clone()));
        let (won, lost) = match (a, b) {
            (Ok(won), Err(lost)) | (Err(lost), Ok(won)) => (won, lost),
            both => panic!("{both:?}"),
        };
        assert_eq!(lost.code(), Code::Aborted, "{lost}");
        stored = won;
    }
}

#[tokio::test]
async fn a_write_asks_etcd_for_nothing_but_its_transaction() {
    const WRITES: usize = 100;
    let Some(shared) = Shared::new() else { return };
    let server = shared.start().await;
    let asked = async || server.metric("mortise_etcd_reads_total").await.unwrap_or_default();
    let mut stored = server.write(concept("a")).await.unwrap();
    let before = asked().await;
    for _ in 0..WRITES {
        stored = server.write(stored).await.unwrap();
    }
    let written = asked().await - before;
    let before = asked().await;
    for _ in 0..WRITES {
        stored = server.write_status(seen(&stored, "")).await.unwrap();
    }
    let statuses = asked().await - before;
    let before = asked().await;
    let refused = server.write(pb::Resource { version: "1".into(), ..stored }).await.unwrap_err();
    assert_eq!(refused.code(), Code::Aborted);
    let after = asked().await - before;
    println!("{WRITES} writes asked {written} times, as many statuses {statuses} times, a refused write {after} times");
    // Controllers of the host ask meanwhile, too.
    assert!(written.max(statuses) < WRITES as f64 / 4.0 && after >= 1.0);
}

/// Each step depends on what the other server has just acknowledged, and the copy of this one may lack.
#[tokio::test]
async fn no_write_is_judged_by_what_was_before_the_call() {
    const ROUNDS: usize = 100;
    let Some(shared) = Shared::new() else { return };
    let (one, other) = (shared.start().await, shared.start().await);
    for n in 0..ROUNDS {
        let name = format!("concept-{n}");
        let made = one.write(concept(&name)).await.unwrap();
        let next = other.write(made.clone()).await.unwrap();
        let late = one.write_status(seen(&made, &made.version)).await.unwrap_err();
        assert_eq!(late.code(), Code::Aborted, "round {n}: {late}");
        let old = one.write(made).await.unwrap_err();
        assert_eq!(old.code(), Code::Aborted, "round {n}: {old}");
        let child = one.write(album(&name, Some(&pb::Id { uid: String::new(), ..id_of(&next) }))).await.unwrap();
        assert_eq!(child.owner, next.id, "round {n}");
        let noted = one.write_status(seen(&next, "")).await.unwrap();
        other.delete(&id_of(&next), &noted.version).await.unwrap();
        let lost = one.write_status(seen(&next, "")).await.unwrap_err();
        assert_eq!(lost.code(), Code::NotFound, "round {n}: {lost}");
        let new = other.write(concept(&name)).await.unwrap();
        other.write_status(seen(&new, "")).await.unwrap();
        assert_ne!(id_of(&new).uid, id_of(&next).uid, "round {n}");
        let gone = one.write(next).await.unwrap_err();
        assert_eq!(gone.code(), Code::FailedPrecondition, "round {n}: {gone}");
    }
}

#[tokio::test]
async fn a_server_keeps_its_data_in_etcd_and_fills_its_copy_again() {
    let Some(shared) = Shared::new() else { return };
    let server = shared.start().await;
    let stored = server.write(artist("kept")).await.unwrap();
    assert!(server.stop().await.success());
    // Another data directory, so another copy.
    let server = shared.start().await;
    assert_eq!(server.read(&id_of(&stored)).await.unwrap(), stored);
    assert!(server.data_dir.join("copy").exists() && !server.data_dir.join("store/store").exists());
}

#[tokio::test]
async fn servers_know_each_other() {
    let Some(shared) = Shared::new() else { return };
    let (first, second) = (shared.start().await, shared.start().await);
    let found = members(&first, 2).await;
    let addresses: Vec<_> = found.iter().map(|member| member.grpc_address.clone()).collect();
    assert_eq!(addresses, [first.grpc.to_string(), second.grpc.to_string()], "in the order of their names");
    assert!(found.iter().all(|member| member.version == env!("CARGO_PKG_VERSION") && member.started_at.is_some()));
    assert_eq!(found.iter().map(|member| member.is_this).collect::<Vec<_>>(), [true, false]);
    assert!(found.iter().any(|member| !member.holds.is_empty()), "a controller runs somewhere: {found:?}");
    let (code, table, _) = mortise(&["members", "--grpc-addr", &second.grpc.to_string()], &[]).await;
    assert!(code == Some(0) && table.contains(&format!("{} (this)", found[1].id)), "{table}");
    assert!(first.stop().await.success());
    until("it is alone, and has everything", async || {
        let left = members(&second, 1).await;
        if left[0].is_this && left[0].lag == 0 { Ok(()) } else { Err(left) }
    })
    .await;
}

#[tokio::test]
async fn a_server_with_a_store_of_its_own_is_alone() {
    let server = Setup::new().start().await;
    let found = members(&server, 1).await;
    assert_eq!((found[0].grpc_address.as_str(), found[0].is_this), (&*server.grpc.to_string(), true));
}
