//! Tombstones: the records of deletions, until all owned resources are gone.

use crate::support::{
    Server, Setup, any, artist, at, concept, decoded, eventually, gvk, id, id_in, id_of, is_gone, label, make_place,
    name_rule, names, noted, owned, places, refusal, resource, tenancy, tombstone_id, tombstones, until_gone,
};
use mortise_resource::pb::{self, condition::State, watch_event::Event};
use tonic::Code;

const TOMBSTONE: &str = "internal.v1.Tombstone";

#[tokio::test]
async fn a_deletion_leaves_one_tombstone() {
    let server = Server::start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    server.delete(&id_of(&korn), "").await.unwrap();

    let tombstone = server.read(&tombstone_id(&id_of(&korn))).await.unwrap();
    let id = id_of(&tombstone);
    assert_eq!(id.name, format!("tombstone-korn-{}", id_of(&korn).uid.to_lowercase()));
    assert_eq!(id.tenancy, Some(tenancy("default", "default")));
    assert!(mortise_resource::ulid::is_valid(&id.uid) && id.uid != id_of(&korn).uid);
    assert!(mortise_resource::ulid::is_valid(&tombstone.generation));
    assert_eq!(tombstone.owner, None);
    let data: pb::Tombstone = decoded(&tombstone);
    assert_eq!(data.owner, korn.id, "the full id");
    assert_eq!(tombstone.data.unwrap().type_url, "type.googleapis.com/hashicorp.consul.resource.Tombstone");
    assert_eq!(tombstone.metadata.keys().collect::<Vec<_>>(), ["generated_at"]);
    let stamp = &tombstone.metadata["generated_at"];
    assert!(stamp.len() >= 20 && &stamp[10..11] == "T" && !stamp.contains('.'), "RFC 3339, to the second: {stamp}");
    assert_eq!(tombstones(&server).await.len(), 1);
}

#[tokio::test]
async fn the_first_pass_is_noted_in_its_status() {
    let server = Server::start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    server.delete(&id_of(&korn), "").await.unwrap();
    let id = tombstone_id(&id_of(&korn));
    eventually("the first pass", || async { !server.read(&id).await.unwrap().status.is_empty() }).await;
    let tombstone = server.read(&id).await.unwrap();
    assert_eq!(tombstone.status.len(), 1);
    let status = &tombstone.status["consul.io/reaper-controller"];
    assert_eq!(status.observed_generation, tombstone.generation);
    assert!(status.updated_at.is_some());
    assert_eq!(status.conditions.len(), 1);
    let condition = &status.conditions[0];
    assert_eq!((condition.r#type.as_str(), condition.reason.as_str()), ("FirstPassCompleted", "Success"));
    assert_eq!(condition.state(), State::True);
}

#[tokio::test]
async fn a_tombstone_is_in_the_deleted_resources_tenancy() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    for owner in [at(concept("a"), "p", "n"), label("b", "p"), resource(id("demo.v1.Executive", "c"), None)] {
        let owner = id_of(&server.write(owner).await.unwrap());
        server.delete(&owner, "").await.unwrap();
        let tombstone = server.read(&tombstone_id(&owner)).await.unwrap();
        assert_eq!(id_of(&tombstone).tenancy.unwrap_or_default(), owner.tenancy.clone().unwrap_or_default());
        assert_eq!(decoded::<pb::Tombstone>(&tombstone).owner, Some(owner));
    }
}

#[tokio::test]
async fn names_are_legal_however_long_the_owners_are() {
    let server = Server::start().await;
    for name in ["x".repeat(26), "x".repeat(27), format!("{}-{}", "y".repeat(25), "z".repeat(37)), "w".repeat(63)] {
        let owner = id_of(&server.write(concept(&name)).await.unwrap());
        server.delete(&owner, "").await.unwrap();
        let found = tombstones(&server).await;
        let tombstone = found.iter().find(|t| decoded::<pb::Tombstone>(t).owner.as_ref() == Some(&owner)).unwrap();
        let id = id_of(tombstone);
        assert!(mortise_resource::name::is_valid(&id.name), "{}", id.name);
        assert!(id.name.starts_with(&format!("tombstone-{}", &name[..10])), "{}", id.name);
        // The uid distinguishes it from tombstones of names with the same beginning.
        assert!(id.name.ends_with(&format!("-{}", owner.uid.to_lowercase())), "{}", id.name);
        if name.len() <= 26 {
            assert_eq!(id.name, tombstone_id(&owner).name, "the documented form where it fits");
        }
        assert_eq!(id_of(&server.read(&id).await.unwrap()), id);
    }
    let names: std::collections::HashSet<_> = names(&tombstones(&server).await).into_iter().collect();
    assert_eq!(names.len(), 4);
}

#[tokio::test]
async fn tenancy_is_never_defaulted() {
    let server = Server::start().await;
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    let boss = id_of(&server.write(resource(id("demo.v1.Executive", "boss"), None)).await.unwrap());
    for owner in [&korn, &boss] {
        server.delete(owner, "").await.unwrap();
    }
    let full = tombstone_id(&korn);
    for part in [None, Some(tenancy("", "")), Some(tenancy("default", "")), Some(tenancy("", "default"))] {
        let id = pb::Id { tenancy: part, ..full.clone() };
        assert_eq!(refusal(server.read(&id).await), (Code::NotFound, "resource not found".to_owned()));
        server.delete(&id, "").await.unwrap();
    }
    assert!(server.read(&full).await.is_ok());
    let of = async |p, n| names(&server.list(gvk(TOMBSTONE), tenancy(p, n), "").await.unwrap());
    assert_eq!(of("", "").await, [tombstone_id(&boss).name]);
    assert_eq!(of("default", "default").await, std::slice::from_ref(&full.name));
    assert_eq!(of("default", "*").await, std::slice::from_ref(&full.name));
    assert_eq!(of("*", "").await, [tombstone_id(&boss).name]);
    assert_eq!(of("*", "*").await.len(), 2);
    assert_eq!(of("nowhere", "*").await.len(), 0);
    // The usual rules for names apply.
    let bad = pb::Id { name: "Tombstone_".into(), ..full };
    let expected = format!("id.name invalid: {}", name_rule("Tombstone_"));
    assert_eq!(refusal(server.read(&bad).await), (Code::InvalidArgument, expected));
}

#[tokio::test]
async fn watched_and_deleted_as_any_resource_and_deleting_one_makes_none() {
    let server = Server::start().await;
    let mut watch = server.watch(gvk(TOMBSTONE), None, "tombstone-").await.unwrap();
    assert!(watch.snapshot().await.is_empty());
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    server.delete(&korn, "").await.unwrap();
    let made = watch.upsert().await;
    assert_eq!(id_of(&made).name, tombstone_id(&korn).name);
    let noted = watch.upsert().await;
    assert_eq!(noted.status.len(), 1, "the first pass");
    server.delete(&id_of(&made), "").await.unwrap();
    assert_eq!(watch.deleted().await, noted);
    assert!(tombstones(&server).await.is_empty());
    let again = id_of(&server.write(artist("korn")).await.unwrap());
    server.delete(&again, "").await.unwrap();
    let next = id_of(&watch.upsert().await).name;
    assert_eq!(next, tombstone_id(&again).name, "no tombstone of a tombstone came before");
    assert_eq!(names(&tombstones(&server).await), [tombstone_id(&again).name]);
}

#[tokio::test]
async fn a_tombstone_goes_after_the_second_pass() {
    let server = Setup::new().env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 300).start().await;
    let mut watch = server.watch(gvk(TOMBSTONE), None, "").await.unwrap();
    watch.snapshot().await;
    for name in ["a", "b"] {
        server.write(concept(name)).await.unwrap();
        server.delete(&id("demo.v1.Concept", name), "").await.unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..6 {
        seen.push(watch.next().await.unwrap());
    }
    assert_eq!(seen.iter().filter(|event| matches!(event, Event::Delete(_))).count(), 2);
    assert!(tombstones(&server).await.is_empty());
    let last = id_of(&server.write(concept("last")).await.unwrap());
    server.delete(&last, "").await.unwrap();
    assert_eq!(id_of(&watch.upsert().await).name, tombstone_id(&last).name);
}

/// A tombstone that a user could write.
fn by_hand(name: &str, owner: Option<pb::Id>) -> pb::Resource {
    let data = pb::Tombstone { owner, ..Default::default() };
    let data = any("hashicorp.consul.resource.Tombstone", &data);
    resource(id_in(TOMBSTONE, name, "default", "default"), Some(data))
}

#[tokio::test]
async fn users_may_write_tombstones_that_the_reaper_ignores() {
    let server = Setup::new().env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 300).start().await;
    let odd = id("NoSuch.v1.Type", "No_Name");
    server.write(by_hand("nothing", None)).await.unwrap();
    server.write(by_hand("no-uid", Some(id("demo.v1.Concept", "x")))).await.unwrap();
    server
        .write(by_hand("no-type", Some(pb::Id { uid: "u".into(), name: "x".into(), ..Default::default() })))
        .await
        .unwrap();
    server.write(by_hand("odd", Some(pb::Id { uid: "u".into(), ..odd }))).await.unwrap();
    let zero = pb::Id { uid: "u\0u".into(), ..id_in("demo.v1.Concept", "x\0", "\0", "\0") };
    server.write(by_hand("zero", Some(zero))).await.unwrap();
    server.write(resource(id_in(TOMBSTONE, "no-data", "default", "default"), None)).await.unwrap();
    server.write(resource(id_in(TOMBSTONE, "nowhere", "nowhere", "either"), None)).await.unwrap();
    let wrong = at(artist("x"), "default", "default").data;
    let refused = server.write(resource(id_in(TOMBSTONE, "wrong", "default", "default"), wrong)).await;
    let expected = r#"resource.data is of wrong type (expected="hashicorp.consul.resource.Tombstone", got="hashicorp.consul.internal.demo.v2.Artist")"#;
    assert_eq!(refusal(refused), (Code::InvalidArgument, expected.to_owned()));
    // The reaper still works, and the rest can be deleted.
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    let child = owned(concept("child"), &korn);
    let child = id_of(&server.write(child).await.unwrap());
    server.delete(&korn, "").await.unwrap();
    until_gone(&server, &child).await;
    until_gone(&server, &tombstone_id(&korn)).await;
    for tombstone in tombstones(&server).await {
        server.delete(&id_of(&tombstone), "").await.unwrap();
    }
    assert_eq!(places(&tombstones(&server).await), Vec::<String>::new());
}

#[tokio::test]
async fn a_tombstone_with_finalizers_is_only_marked() {
    let server = Setup::new().env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 100).start().await;
    let gone =
        pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..id_in("demo.v1.Concept", "x", "default", "default") };
    let tombstone = noted(by_hand("held", Some(gone)), &[("finalizers", "me")]);
    let held = id_of(&server.write(tombstone).await.unwrap());
    let marked = || async { server.read(&held).await.unwrap().metadata.contains_key("deletionTimestamp") };
    eventually("the second pass marks it", marked).await;
    let mut free = server.read(&held).await.unwrap();
    free.metadata.insert("finalizers".into(), String::new());
    server.write(free).await.unwrap();
    assert!(is_gone(&server, &held).await);
    assert!(tombstones(&server).await.is_empty());
}
