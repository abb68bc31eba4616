//! Partitions and namespaces: existing ones, resources that need them, and effects of a creation. Deletion:
//! `deletion.rs`.

use crate::support::{
    Server, Setup, at, concept, deny_thing, gvk, id, id_in, id_of, invalid, label, make_place, names, noted, places,
    refusal, resource, tenancy, until_gone,
};
use mortise_resource::pb;
use tonic::Code;

const CONCEPT: &str = "demo.v1.Concept";
const PARTITION: &str = "tenancy.v2beta1.Partition";
const NAMESPACE: &str = "tenancy.v2beta1.Namespace";
const UID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn partition(name: &str) -> pb::Resource {
    resource(id(PARTITION, name), None)
}

fn namespace(partition: &str, name: &str) -> pb::Resource {
    resource(id_in(NAMESPACE, name, partition, ""), None)
}

fn status_of(id: pb::Id) -> pb::WriteStatusRequest {
    let status = pb::Status { observed_generation: UID.into(), ..Default::default() };
    pb::WriteStatusRequest { id: Some(id), version: String::new(), key: "k".into(), status: Some(status) }
}

#[tokio::test]
async fn default_exists_always() {
    let server = Server::start().await;
    for (p, n) in [("", ""), ("default", ""), ("", "default"), ("default", "default")] {
        let written = server.write(at(concept("x"), p, n)).await.unwrap();
        assert_eq!(id_of(&written).tenancy, Some(tenancy("default", "default")));
    }
    server.write(label("x", "")).await.unwrap();
    server.write(namespace("", "n")).await.unwrap();
    server.write(at(concept("x"), "", "n")).await.unwrap();
}

#[tokio::test]
async fn default_cannot_be_deleted() {
    let server = Server::start().await;
    server.write(partition("p")).await.unwrap();
    for (unit, unit_resource) in [
        ("partition", partition("default")),
        ("namespace", namespace("default", "default")),
        ("namespace", namespace("p", "default")),
    ] {
        let refused = invalid(format!("{unit} \"default\" always exists and cannot be deleted"));
        // Before its first write a deletion has no effect; afterwards it is refused.
        server.delete(&unit_resource.id.clone().unwrap(), "").await.unwrap();
        assert!(server.write(noted(unit_resource.clone(), &[("deletionTimestamp", "x")])).await.is_err());
        let stored = server.write(unit_resource.clone()).await.unwrap();
        for (uid, version) in [("", ""), (id_of(&stored).uid.as_str(), ""), ("", stored.version.as_str())] {
            let id = pb::Id { uid: uid.into(), ..id_of(&stored) };
            assert_eq!(refusal(server.delete(&id, version).await), refused);
        }
        let mut by_hand = stored.clone();
        by_hand.metadata.insert("deletionTimestamp".into(), "x".into());
        assert_eq!(refusal(server.write(by_hand.clone()).await), refused);
        by_hand.version = String::new();
        assert_eq!(refusal(server.write(by_hand).await), refused);
        assert_eq!(server.read(&id_of(&stored)).await.unwrap(), stored);
        let without = server.write(noted(unit_resource, &[("finalizers", "")])).await.unwrap();
        assert_eq!(refusal(server.delete(&id_of(&without), "").await), refused);
    }
    server.write(concept("x")).await.unwrap();
    server.write(at(concept("x"), "p", "default")).await.unwrap();
}

#[tokio::test]
async fn writes_into_missing_units_are_refused() {
    let server = Server::start().await;
    server.write(partition("p")).await.unwrap();
    for (p, n, expected) in [
        ("nowhere", "", "partition not found: nowhere"),
        ("nowhere", "default", "partition not found: nowhere"),
        ("nowhere", "either", "partition not found: nowhere"),
        ("p", "n", "namespace not found: n"),
        ("", "n", "namespace not found: n"),
        ("default", "n", "namespace not found: n"),
    ] {
        let there = at(concept("x"), p, n);
        let expected = invalid(expected);
        assert_eq!(refusal(server.write(there.clone()).await), expected);
        assert_eq!(refusal(server.mutate_and_validate(there.clone()).await), expected);
        let id = pb::Id { uid: UID.into(), ..id_of(&there) };
        assert_eq!(refusal(server.write_status(status_of(id)).await), expected);
        // A read returns NotFound; the other calls do not check.
        assert_eq!(refusal(server.read(&id_of(&there)).await), (Code::NotFound, expected.1));
        server.delete(&id_of(&there), "").await.unwrap();
        assert!(server.list(gvk(CONCEPT), tenancy(p, n), "").await.unwrap().is_empty());
        assert!(server.list_by_owner(&pb::Id { uid: UID.into(), ..id_of(&there) }).await.unwrap().is_empty());
    }
    for there in [label("x", "nowhere"), namespace("nowhere", "n")] {
        assert_eq!(refusal(server.write(there).await), invalid("partition not found: nowhere"));
    }
}

#[tokio::test]
async fn permission_is_asked_before_the_place_but_for_a_status_after() {
    let server = Setup::new().guest("deny").start().await;
    let frozen = at(deny_thing("ById", "frozen-x", ""), "default", "nowhere");
    let denied = (Code::PermissionDenied, "Permission denied: this is frozen".to_owned());
    assert_eq!(refusal(server.write(frozen.clone()).await), denied);
    assert_eq!(refusal(server.mutate_and_validate(frozen.clone()).await), denied);
    let status = status_of(pb::Id { uid: UID.into(), ..id_of(&frozen) });
    assert_eq!(refusal(server.write_status(status).await), invalid("namespace not found: nowhere"));
    let secret = at(deny_thing("ById", "secret-x", ""), "default", "nowhere");
    let denied = (Code::PermissionDenied, "Permission denied: this is secret".to_owned());
    assert_eq!(refusal(server.read(&id_of(&secret)).await), denied);
}

#[tokio::test]
async fn creating_a_unit_makes_it_usable() {
    let server = Server::start().await;
    let p = server.write(partition("p")).await.unwrap();
    assert!(!id_of(&p).uid.is_empty());
    // A partition contains `default` from the start.
    for n in ["", "default"] {
        let written = server.write(at(concept("x"), "p", n)).await.unwrap();
        assert_eq!(id_of(&written).tenancy, Some(tenancy("p", "default")));
    }
    server.write(label("x", "p")).await.unwrap();
    server.write(namespace("p", "n")).await.unwrap();
    let written = server.write(at(concept("x"), "p", "n")).await.unwrap();
    assert_eq!(server.read(&id_of(&written)).await.unwrap(), written);
    server.mutate_and_validate(at(concept("y"), "p", "n")).await.unwrap();
    server.write_status(status_of(id_of(&written))).await.unwrap();
    // A namespace belongs to its partition alone.
    assert_eq!(refusal(server.write(at(concept("x"), "default", "n")).await), invalid("namespace not found: n"));
    server.write(partition("q")).await.unwrap();
    assert_eq!(refusal(server.write(at(concept("x"), "q", "n")).await), invalid("namespace not found: n"));
}

#[tokio::test]
async fn units_are_resources_of_their_scopes() {
    let server = Server::start().await;
    for (unit, expected) in [
        (
            resource(id_in(PARTITION, "p", "default", ""), None),
            "cluster scoped resource tenancy.v2beta1.Partition cannot have a partition: default",
        ),
        (
            resource(id_in(NAMESPACE, "n", "default", "n"), None),
            "partition scoped resource tenancy.v2beta1.Namespace cannot have a namespace. got: n",
        ),
    ] {
        assert_eq!(refusal(server.write(unit).await), invalid(expected));
    }
    make_place(&server, "p", "n").await;
    server.write(namespace("", "m")).await.unwrap();
    assert_eq!(names(&server.list(gvk(PARTITION), tenancy("", ""), "").await.unwrap()), ["p"]);
    assert_eq!(places(&server.list(gvk(NAMESPACE), tenancy("*", ""), "").await.unwrap()), ["default//m", "p//n"]);
    assert_eq!(places(&server.list(gvk(NAMESPACE), tenancy("", ""), "").await.unwrap()), ["default//m"]);
}

#[tokio::test]
async fn names_of_units_may_be_long() {
    let server = Server::start().await;
    let (p, n) = ("p".repeat(63), "n".repeat(63));
    make_place(&server, &p, &n).await;
    let written = server.write(at(concept(&"x".repeat(63)), &p, &n)).await.unwrap();
    assert_eq!(server.read(&id_of(&written)).await.unwrap(), written);
    server.delete(&id(PARTITION, &p), "").await.unwrap();
    until_gone(&server, &id(PARTITION, &p)).await;
    assert!(server.list(gvk(CONCEPT), tenancy("*", "*"), "").await.unwrap().is_empty());
}

#[tokio::test]
async fn cluster_types_and_tombstones_need_no_place() {
    let server = Server::start().await;
    server.write(resource(id("demo.v1.Executive", "x"), None)).await.unwrap();
    server.write(resource(id_in("internal.v1.Tombstone", "x", "nowhere", "either"), None)).await.unwrap();
    server.read(&id_in("internal.v1.Tombstone", "x", "nowhere", "either")).await.unwrap();
}

#[tokio::test]
async fn changing_a_unit_disturbs_no_writes_into_it() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    let mut tasks = tokio::task::JoinSet::new();
    for worker in 0..4 {
        let mut client = server.client();
        tasks.spawn(async move {
            for round in 0..50 {
                let resource = Some(at(concept(&format!("x-{worker}-{round}")), "p", "n"));
                client.write(pb::WriteRequest { resource }).await.unwrap();
            }
        });
    }
    for round in 0..25 {
        server.write(noted(partition("p"), &[("round", &round.to_string())])).await.unwrap();
        server.write(noted(namespace("p", "n"), &[("round", &round.to_string())])).await.unwrap();
    }
    tasks.join_all().await;
    assert_eq!(server.list(gvk(CONCEPT), tenancy("p", "n"), "").await.unwrap().len(), 200);
}
