//! Delete: validation, idempotence, conditions, permission, finalizers, and concurrent writes.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use crate::support::{
    Server, Setup, album, artist, at, concept, deny_thing, eventually, gvk, hookless, id, id_in, id_of, invalid,
    is_gone, name_rule, noted, owned, refusal, scope_rule, tenancy, thing, tombstone_id, tombstones, until_gone,
    with_needed_data,
};
use mortise_resource::pb::{self, watch_event::Event};
use tonic::Code;

const CAS: &str = "CAS operation failed because the given version doesn't match what is stored";
const ARTIST: &str = "demo.v2.Artist";
const LABEL: &str = "demo.v1.RecordLabel";
const BOSS: &str = "demo.v1.Executive";
const FINALIZERS: (&str, &str) = ("finalizers", "one two");

#[tokio::test]
async fn requests_are_validated_in_order() {
    let server = Server::start().await;
    let no_type = pb::Id { r#type: None, ..id(ARTIST, "No_Name") };
    for (id, expected) in [
        (no_type, "id.type is required".to_owned()),
        (id("demo.v9.Artist", ""), format!("id.name invalid: {}", name_rule(""))),
        (id_in(ARTIST, "Korn", "B_d", "n"), format!("id.name invalid: {}", name_rule("Korn"))),
        (id(ARTIST, "*"), format!("id.name invalid: {}", name_rule("*"))),
        (id_in(ARTIST, "korn", "B_d", "B_d"), format!("id.tenancy.partition invalid: {}", name_rule("B_d"))),
        (id_in(ARTIST, "korn", "*", ""), format!("id.tenancy.partition invalid: {}", name_rule("*"))),
        (id_in("demo.v9.Artist", "korn", "p", "n."), format!("id.tenancy.namespace invalid: {}", name_rule("n."))),
        (id_in(ARTIST, "korn", "p", "*"), format!("id.tenancy.namespace invalid: {}", name_rule("*"))),
        (id("demo.v9.Artist", "korn"), "resource type demo.v9.Artist not registered".to_owned()),
        (id("demo.v2.artist", "korn"), "resource type demo.v2.artist not registered".to_owned()),
        (id_in(LABEL, "korn", "default", "n"), scope_rule(LABEL, "namespace", "n")),
        (id_in(BOSS, "korn", "default", ""), scope_rule(BOSS, "partition", "default")),
        (id_in(BOSS, "korn", "", "default"), scope_rule(BOSS, "namespace", "default")),
    ] {
        assert_eq!(refusal(server.delete(&id, "").await), invalid(expected));
    }
    let nothing = server.client().delete(pb::DeleteRequest::default()).await;
    assert_eq!(refusal(nothing), invalid("id is required"));
}

#[tokio::test]
async fn missing_resources_count_as_deleted() {
    let server = Server::start().await;
    let nobody = id(ARTIST, "nobody");
    server.delete(&nobody, "").await.unwrap();
    server.delete(&nobody, "17").await.unwrap();
    server.delete(&pb::Id { uid: "not even a uid".into(), ..nobody.clone() }, "17").await.unwrap();
    server.delete(&id_in(ARTIST, "korn", "nowhere", "either"), "").await.unwrap();
    let korn = server.write(artist("korn")).await.unwrap();
    for version in ["", "", &korn.version, "17"] {
        server.delete(&id_of(&korn), version).await.unwrap();
        assert!(is_gone(&server, &id(ARTIST, "korn")).await);
    }
    assert_eq!(tombstones(&server).await.len(), 1, "what was not there leaves no tombstone");
}

#[tokio::test]
async fn tenancy_is_defaulted_and_types_of_every_scope_go() {
    let server = Server::start().await;
    for t in ["demo.v1.Concept", "demo.v1.RecordLabel", "demo.v1.Executive"] {
        server.write(with_needed_data(t)).await.unwrap();
        server.delete(&id(t, "x"), "").await.unwrap();
        assert!(is_gone(&server, &id(t, "x")).await, "{t}");
    }
}

#[tokio::test]
async fn another_uid_deletes_nothing_and_is_no_error() {
    let server = Server::start().await;
    let korn = server.write(noted(artist("korn"), &[FINALIZERS])).await.unwrap();
    let other = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..id_of(&korn) };
    server.delete(&other, "").await.unwrap();
    server.delete(&other, &korn.version).await.unwrap();
    // The uid is checked before the GroupVersion.
    server.delete(&pb::Id { uid: other.uid, ..id("demo.v1.Artist", "korn") }, "").await.unwrap();
    assert_eq!(server.read(&id_of(&korn)).await.unwrap(), korn);
    assert!(tombstones(&server).await.is_empty());
}

#[tokio::test]
async fn another_group_version_is_the_callers_error() {
    let server = Server::start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    let expected = r#"failed read: resource was requested with GroupVersion="v1", but stored with GroupVersion="v2""#;
    for uid in ["", &id_of(&korn).uid] {
        let v1 = pb::Id { uid: uid.to_owned(), ..id("demo.v1.Artist", "korn") };
        assert_eq!(refusal(server.delete(&v1, "").await), invalid(expected));
    }
    assert_eq!(server.read(&id_of(&korn)).await.unwrap(), korn);
}

#[tokio::test]
async fn a_version_is_honoured_with_and_without_uid() {
    let server = Server::start().await;
    let old = server.write(artist("korn")).await.unwrap();
    let korn = server.write(artist("korn")).await.unwrap();
    // Difference 5 from Consul: without a uid too.
    for id in [id_of(&korn), id(ARTIST, "korn")] {
        for version in [old.version.as_str(), "0", "no number"] {
            assert_eq!(refusal(server.delete(&id, version).await), (Code::Aborted, CAS.to_owned()));
        }
    }
    assert_eq!(server.read(&id_of(&korn)).await.unwrap(), korn);
    assert!(tombstones(&server).await.is_empty(), "a failed deletion leaves no tombstone");
    server.delete(&id(ARTIST, "korn"), &korn.version).await.unwrap();
    assert!(is_gone(&server, &id(ARTIST, "korn")).await);
    let again = server.write(artist("korn")).await.unwrap();
    server.delete(&id_of(&again), &again.version).await.unwrap();
    assert!(is_gone(&server, &id(ARTIST, "korn")).await);
}

#[tokio::test]
async fn recreation_is_another_incarnation() {
    let server = Server::start().await;
    let old = server.write(noted(artist("korn"), &[("k", "v")])).await.unwrap();
    server.delete(&id_of(&old), "").await.unwrap();
    let new = server.write(artist("korn")).await.unwrap();
    assert_ne!(id_of(&new).uid, id_of(&old).uid);
    assert_ne!(new.generation, old.generation);
    assert!(new.metadata.is_empty() && new.status.is_empty());
    server.delete(&id_of(&old), "").await.unwrap();
    server.delete(&id_of(&old), &old.version).await.unwrap();
    assert_eq!(server.read(&id(ARTIST, "korn")).await.unwrap(), new, "the old uid no longer deletes anything");
}

#[tokio::test]
async fn with_finalizers_it_is_marked_once() {
    let server = Server::start().await;
    let korn = server.write(noted(artist("korn"), &[FINALIZERS, ("k", "v")])).await.unwrap();
    let mut watch = server.watch(gvk(ARTIST), None, "").await.unwrap();
    watch.snapshot().await;
    server.delete(&id(ARTIST, "korn"), "").await.unwrap();
    let marked = server.read(&id_of(&korn)).await.unwrap();
    assert_ne!(marked.version, korn.version);
    assert_ne!(marked.generation, korn.generation);
    assert_eq!(marked.data, korn.data);
    assert_eq!((marked.metadata["finalizers"].as_str(), marked.metadata["k"].as_str()), ("one two", "v"));
    let stamp = &marked.metadata["deletionTimestamp"];
    let parts: Vec<_> = stamp.split(['T', 'Z', '+']).collect();
    assert_eq!((parts[0].len(), parts[1].len()), (10, 8), "RFC 3339, to the second: {stamp}");
    assert!(parts[1].split(':').all(|p| p.len() == 2 && p.parse::<u8>().is_ok()), "{stamp}");
    assert_eq!(watch.upsert().await, marked);

    for id in [id(ARTIST, "korn"), id_of(&korn)] {
        server.delete(&id, "").await.unwrap();
        server.delete(&id, &marked.version).await.unwrap();
    }
    assert_eq!(server.read(&id_of(&korn)).await.unwrap(), marked, "marking again changes nothing");
    watch.shows_next(&server, artist("last")).await;
    assert!(tombstones(&server).await.is_empty());
}

#[tokio::test]
async fn a_version_is_honoured_with_finalizers_too() {
    let server = Server::start().await;
    let old = server.write(noted(artist("korn"), &[FINALIZERS])).await.unwrap();
    let korn = server.write(noted(artist("korn"), &[FINALIZERS])).await.unwrap();
    // Difference 6 from Consul.
    for id in [id_of(&korn), id(ARTIST, "korn")] {
        assert_eq!(refusal(server.delete(&id, &old.version).await), (Code::Aborted, CAS.to_owned()));
    }
    assert_eq!(server.read(&id_of(&korn)).await.unwrap(), korn, "it is not marked");
    server.delete(&id(ARTIST, "korn"), &korn.version).await.unwrap();
    let marked = server.read(&id_of(&korn)).await.unwrap();
    assert!(marked.metadata.contains_key("deletionTimestamp"));
}

#[tokio::test]
async fn blank_finalizers_are_none() {
    let server = Server::start().await;
    for blank in ["", " ", " \t\n "] {
        server.write(noted(concept("x"), &[("finalizers", blank)])).await.unwrap();
        server.delete(&id("demo.v1.Concept", "x"), "").await.unwrap();
        assert!(is_gone(&server, &id("demo.v1.Concept", "x")).await);
    }
}

#[tokio::test]
async fn resources_marked_by_hand_go_at_once_without_finalizers() {
    let server = Server::start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    server.write(noted(artist("korn"), &[("deletionTimestamp", "any value")])).await.unwrap();
    server.delete(&id_of(&korn), "").await.unwrap();
    assert!(is_gone(&server, &id(ARTIST, "korn")).await);
}

#[tokio::test]
async fn the_last_finalizer_takes_it_along_and_another_delete_succeeds() {
    let server = Server::start().await;
    let korn = server.write(noted(artist("korn"), &[FINALIZERS])).await.unwrap();
    let child = server.write(owned(album("follow", None), &id_of(&korn))).await.unwrap();
    server.delete(&id_of(&korn), "").await.unwrap();
    server.write(noted(artist("korn"), &[("finalizers", "two")])).await.unwrap();
    assert!(!is_gone(&server, &id(ARTIST, "korn")).await, "one is left");
    // Difference 12 from Consul.
    server.write(noted(artist("korn"), &[("finalizers", "")])).await.unwrap();
    assert!(is_gone(&server, &id(ARTIST, "korn")).await);
    assert!(server.read(&tombstone_id(&id_of(&korn))).await.is_ok(), "it leaves a tombstone as any");
    until_gone(&server, &id_of(&child)).await;
    server.delete(&id_of(&korn), "").await.unwrap();
    server.delete(&id(ARTIST, "korn"), "").await.unwrap();
}

#[tokio::test]
async fn marking_runs_the_hooks_again() {
    let server = Setup::new().guest("log-flood").start().await;
    let data = mortise_test_guests::Thing { number: 1, ..Default::default() };
    let lines = || server.log().matches("flood flood").count();
    for (count, name) in (0..).zip(["boom-mutate", "boom-validate", "boom-write"]) {
        let before = lines();
        assert_eq!(before == 0, count == 0);
        let thing = server.write(noted(thing("log_flood", name, &data), &[FINALIZERS])).await.unwrap();
        eventually("the first write's line", || async { lines() > before }).await;
        let written = lines();
        server.delete(&id_of(&thing), "").await.unwrap();
        eventually("the marking's line", || async { lines() > written }).await;
    }
}

#[tokio::test]
async fn permission_is_checked_for_the_stored_resource_only() {
    let dir = tempfile::tempdir().unwrap();
    let types = ["deny.v1.ById", "deny.v1.ByContent"];
    let server = Setup::new().component("open", hookless(&types)).data_dir(dir.path()).start().await;
    let by_name = server.write(deny_thing("ById", "frozen-name", "")).await.unwrap();
    let by_text = server.write(deny_thing("ByContent", "text", "frozen")).await.unwrap();
    let held = server.write(noted(deny_thing("ById", "held", "frozen"), &[FINALIZERS])).await.unwrap();
    assert!(server.stop().await.success());

    let server = Setup::new().guest("deny").data_dir(dir.path()).start().await;
    server.delete(&id("deny.v1.ById", "frozen-absent"), "").await.unwrap();
    let other = pb::Id { uid: "other".into(), ..id_of(&by_name) };
    server.delete(&other, "").await.unwrap();
    let denied = (Code::PermissionDenied, "Permission denied: this is frozen".to_owned());
    for stored in [&by_name, &by_text, &held] {
        for version in ["", "before the version is looked at", &stored.version] {
            assert_eq!(refusal(server.delete(&id_of(stored), version).await), denied);
        }
        assert_eq!(&server.read(&id_of(stored)).await.unwrap(), stored);
    }
    // The authorizer is asked, and allows everything while access control is off; the rule about secrets affects only
    // reads.
    for name in ["ask-x", "secret-x"] {
        server.write(deny_thing("ById", name, "")).await.unwrap();
        server.delete(&id("deny.v1.ById", name), "").await.unwrap();
    }
    assert!(is_gone(&server, &id("deny.v1.ById", "ask-x")).await);
    assert!(server.list(gvk("deny.v1.ById"), tenancy("", ""), "ask").await.unwrap().is_empty());
}

/// Writes a resource repeatedly from several tasks, until the flag is set.
fn writers(server: &Server, resource: &pb::Resource) -> (Arc<AtomicBool>, tokio::task::JoinSet<()>) {
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = tokio::task::JoinSet::new();
    for pace in [11, 13, 17] {
        let (stop, mut client, resource) = (stop.clone(), server.client(), resource.clone());
        tasks.spawn(async move {
            while !stop.load(Ordering::Relaxed) {
                let request = pb::WriteRequest { resource: Some(resource.clone()) };
                if let Err(status) = client.write(request).await {
                    assert_eq!(status.code(), Code::InvalidArgument, "{status}");
                }
                // Each at its own pace, so that they meet the deletions at different moments.
                tokio::time::sleep(Duration::from_millis(pace)).await;
            }
        });
    }
    (stop, tasks)
}

#[tokio::test]
async fn blanket_deletes_succeed_under_concurrent_writers() {
    let server = Server::start().await;
    let (stop, tasks) = writers(&server, &artist("korn"));
    for _ in 0..30 {
        server.delete(&id(ARTIST, "korn"), "").await.unwrap();
    }
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    // The same where a deletion marks the resource.
    let held = noted(at(artist("held"), "default", "default"), &[("finalizers", "one")]);
    server.write(held.clone()).await.unwrap();
    let (stop, tasks) = writers(&server, &held);
    server.delete(&id(ARTIST, "held"), "").await.unwrap();
    stop.store(true, Ordering::Relaxed);
    tasks.join_all().await;
    assert!(server.read(&id(ARTIST, "held")).await.unwrap().metadata.contains_key("deletionTimestamp"));
}

#[tokio::test]
async fn of_many_deletes_at_once_one_deletes_and_all_succeed() {
    let server = Server::start().await;
    let mut watch = server.watch(gvk(ARTIST), None, "").await.unwrap();
    watch.snapshot().await;
    let korn = server.write(artist("korn")).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..32 {
        let (mut client, id) = (server.client(), Some(id_of(&korn)));
        tasks.spawn(async move { client.delete(pb::DeleteRequest { id, version: String::new() }).await.map(drop) });
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    assert_eq!(watch.upsert().await, korn);
    assert!(matches!(watch.next().await.unwrap(), Event::Delete(delete) if delete.resource.as_ref() == Some(&korn)));
    watch.shows_next(&server, artist("last")).await;
    assert_eq!(tombstones(&server).await.len(), 1);
}

/// An unconditional deletion hides conflicts, including a faster deletion by another client while the hooks ran for its
/// mark.
#[tokio::test]
async fn a_deletion_that_finds_the_resource_gone_has_succeeded() {
    let server = Setup::new().guest("log-flood").start().await;
    let data = mortise_test_guests::Thing { number: 500, ..Default::default() };
    let slow = id("log_flood.v1.Thing", "boom-write");
    for round in 0..4 {
        let stored = server.write(noted(thing("log_flood", "boom-write", &data), &[FINALIZERS])).await.unwrap();
        let mut client = server.client();
        let request = pb::DeleteRequest { id: Some(slow.clone()), version: String::new() };
        let deletion = tokio::spawn(async move { client.delete(request).await });
        let mut released = stored;
        released.metadata.clear();
        // Either call may be first; each round tries another moment.
        tokio::time::sleep(std::time::Duration::from_millis(round * 5)).await;
        if server.write(released).await.is_ok() {
            server.delete(&slow, "").await.unwrap();
        }
        deletion.await.unwrap().unwrap();
        // Whichever was first, the resource is gone or marked.
        if let Ok(mut left) = server.read(&slow).await {
            left.metadata.insert("finalizers".into(), String::new());
            server.write(left).await.unwrap();
        }
        until_gone(&server, &slow).await;
    }
}
