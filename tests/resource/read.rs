//! Read: one resource by id.

use crate::support::{
    Server, Setup, album, artist, bad_names, concept, deny_thing, good_names, gvk, id, id_in, id_stairs, invalid,
    make_place, name_rule, refusal, resource, scope_rule, tenancy, with_metadata,
};
use mortise_resource::pb;
use tonic::Code;

const ARTIST: &str = "demo.v2.Artist";

fn not_found(text: &str) -> (Code, String) {
    (Code::NotFound, text.into())
}

fn denied(text: &str) -> (Code, String) {
    (Code::PermissionDenied, format!("Permission denied: {text}"))
}

#[tokio::test]
async fn the_id_is_required_and_checked_in_order_then_the_type() {
    let server = Server::start().await;
    let nothing = server.client().read(pb::ReadRequest { id: None }).await;
    assert_eq!(refusal(nothing), invalid("id is required"));
    assert_eq!(refusal(server.read(&pb::Id::default()).await), invalid("id.type is required"));
    for (id, text) in id_stairs("id") {
        assert_eq!(refusal(server.read(&id).await), invalid(text));
    }
    let unknown = id_in("nope.v1.Nope", "good", "p", "n");
    assert_eq!(refusal(server.read(&unknown).await), invalid("resource type nope.v1.Nope not registered"));
}

#[tokio::test]
async fn names_follow_the_rule() {
    let server = Server::start().await;
    let mut bad = bad_names();
    bad.push(String::new());
    for name in bad {
        let said = refusal(server.read(&id(ARTIST, &name)).await);
        assert_eq!(said, invalid(format!("id.name invalid: {}", name_rule(&name))));
        if !name.is_empty() {
            let said = refusal(server.read(&id_in(ARTIST, "korn", &name, "default")).await);
            assert_eq!(said, invalid(format!("id.tenancy.partition invalid: {}", name_rule(&name))));
            let said = refusal(server.read(&id_in(ARTIST, "korn", "default", &name)).await);
            assert_eq!(said, invalid(format!("id.tenancy.namespace invalid: {}", name_rule(&name))));
        }
    }
    for name in good_names() {
        assert_eq!(refusal(server.read(&id(ARTIST, &name)).await), not_found("resource not found"));
    }
}

#[tokio::test]
async fn types_are_looked_up_whole_and_case_sensitively() {
    let server = Server::start().await;
    for text in
        ["..", "demo..", "demo.v2.", ".v2.Artist", "demo..Artist", "demo.v2.artist", "Demo.v2.Artist", "demo.v3.Artist"]
    {
        let said = refusal(server.read(&id(text, "korn")).await);
        assert_eq!(said, invalid(format!("resource type {text} not registered")));
    }
}

#[tokio::test]
async fn units_beyond_the_scope_are_refused_before_the_place_is_looked_up() {
    let server = Server::start().await;
    for (t, partition, namespace, unit, value) in [
        ("demo.v1.RecordLabel", "", "default", "namespace", "default"),
        ("demo.v1.RecordLabel", "nowhere", "n", "namespace", "n"),
        ("demo.v1.Executive", "default", "", "partition", "default"),
        ("demo.v1.Executive", "p", "n", "partition", "p"),
        ("demo.v1.Executive", "", "n", "namespace", "n"),
    ] {
        let said = refusal(server.read(&id_in(t, "x", partition, namespace)).await);
        assert_eq!(said, invalid(scope_rule(t, unit, value)));
    }
}

#[tokio::test]
async fn empty_units_are_filled_in_and_the_answer_says_so() {
    let server = Server::start().await;
    for (resource, at) in [
        (artist("korn"), tenancy("default", "default")),
        (resource(id("demo.v1.Executive", "boss"), None), tenancy("", "")),
        (resource(id("tenancy.v2beta1.Namespace", "n"), None), tenancy("default", "")),
    ] {
        let short = resource.id.clone().unwrap();
        server.write(resource).await.unwrap();
        for asked in [None, Some(tenancy("", "")), Some(at.clone()), Some(tenancy(&at.partition, ""))] {
            let read = server.read(&pb::Id { tenancy: asked, ..short.clone() }).await.unwrap();
            assert_eq!(read.id.unwrap().tenancy, Some(at.clone()));
        }
    }
}

#[tokio::test]
async fn a_missing_place_is_not_found_the_partition_first() {
    let server = Server::start().await;
    make_place(&server, "here", "home").await;
    for (partition, namespace, text) in [
        ("nowhere", "neither", "partition not found: nowhere"),
        ("nowhere", "default", "partition not found: nowhere"),
        ("default", "neither", "namespace not found: neither"),
        ("", "neither", "namespace not found: neither"),
        ("default", "home", "namespace not found: home"),
        ("here", "neither", "namespace not found: neither"),
        ("here", "home", "resource not found"),
        ("here", "", "resource not found"),
        ("default", "default", "resource not found"),
    ] {
        assert_eq!(refusal(server.read(&id_in(ARTIST, "korn", partition, namespace)).await), not_found(text));
    }
    let label = id_in("demo.v1.RecordLabel", "sub-pop", "nowhere", "");
    assert_eq!(refusal(server.read(&label).await), not_found("partition not found: nowhere"));
    assert_eq!(refusal(server.read(&id("demo.v1.Executive", "boss")).await), not_found("resource not found"));
}

#[tokio::test]
async fn a_name_means_another_resource_in_another_place() {
    let server = Server::start().await;
    make_place(&server, "default", "other").await;
    server.write(artist("korn")).await.unwrap();
    let there = id_in(ARTIST, "korn", "default", "other");
    assert_eq!(refusal(server.read(&there).await), not_found("resource not found"));
    assert_eq!(refusal(server.read(&id("demo.v2.Album", "korn")).await), not_found("resource not found"));
    let mut second = artist("korn");
    second.id = Some(there.clone());
    let second = server.write(second).await.unwrap();
    assert_eq!(server.read(&there).await.unwrap(), second);
    assert_ne!(server.read(&id(ARTIST, "korn")).await.unwrap(), second);
}

#[tokio::test]
async fn another_uid_is_not_found_and_no_uid_means_any() {
    let server = Server::start().await;
    let written = server.write(artist("korn")).await.unwrap();
    let full = written.id.clone().unwrap();
    assert_eq!(server.read(&full).await.unwrap(), written);
    assert_eq!(server.read(&id(ARTIST, "korn")).await.unwrap(), written);
    for uid in ["01ARZ3NDEKTSV4RRFFQ69G5FAV", "no ulid at all", &full.uid.to_lowercase()] {
        let other = pb::Id { uid: uid.into(), ..full.clone() };
        assert_eq!(refusal(server.read(&other).await), not_found("resource not found"));
    }
    server.delete(&full, "").await.unwrap();
    server.write(artist("korn")).await.unwrap();
    assert_eq!(refusal(server.read(&full).await), not_found("resource not found"), "an earlier incarnation");
}

#[tokio::test]
async fn another_group_version_is_invalid_unless_the_uid_differs() {
    let server = Server::start().await;
    let written = server.write(album("debut", None)).await.unwrap();
    let mut old = written.id.unwrap();
    old.r#type = Some(gvk("demo.v1.Album"));
    let text = r#"resource was requested with GroupVersion="v1", but stored with GroupVersion="v2""#;
    assert_eq!(refusal(server.read(&old).await), invalid(text));
    assert_eq!(refusal(server.read(&id("demo.v1.Album", "debut")).await), invalid(text));
    old.uid = "another".into();
    assert_eq!(refusal(server.read(&old).await), not_found("resource not found"));
}

#[tokio::test]
async fn a_rule_of_the_id_is_asked_before_the_place_and_the_resource_are_looked_up() {
    let server = Setup::new().guest("deny").start().await;
    let secret = id("deny.v1.ById", "secret-plan");
    assert_eq!(refusal(server.read(&secret).await), denied("this is secret"), "absent");
    let nowhere = id_in("deny.v1.ById", "secret-plan", "nowhere", "");
    assert_eq!(refusal(server.read(&nowhere).await), denied("this is secret"));
    server.write(deny_thing("ById", "secret-plan", "")).await.unwrap();
    assert_eq!(refusal(server.read(&secret).await), denied("this is secret"), "present");
    let other = pb::Id { uid: "another".into(), ..secret };
    assert_eq!(refusal(server.read(&other).await), denied("this is secret"), "another incarnation");

    let bad = id("deny.v1.ById", "secret-Plan");
    assert_eq!(refusal(server.read(&bad).await).0, Code::InvalidArgument, "the request's shape comes first");
    let typo = id("deny.v1.Byid", "secret-plan");
    assert_eq!(refusal(server.read(&typo).await), invalid("resource type deny.v1.Byid not registered"));
    let open = id_in("deny.v1.ById", "plan", "nowhere", "");
    assert_eq!(refusal(server.read(&open).await), not_found("partition not found: nowhere"));
}

#[tokio::test]
async fn a_rule_of_the_content_shows_whether_the_resource_exists() {
    let server = Setup::new().guest("deny").start().await;
    let secret = id("deny.v1.ByContent", "secret-plan");
    assert_eq!(refusal(server.read(&secret).await), not_found("resource not found"));
    let nowhere = id_in("deny.v1.ByContent", "secret-plan", "nowhere", "");
    assert_eq!(refusal(server.read(&nowhere).await), not_found("partition not found: nowhere"));
    server.write(deny_thing("ByContent", "secret-plan", "")).await.unwrap();
    assert_eq!(refusal(server.read(&secret).await), denied("this is secret"));
    let other = pb::Id { uid: "another".into(), ..secret };
    assert_eq!(refusal(server.read(&other).await), not_found("resource not found"));

    for (kind, name) in [("ByContent", "plan"), ("ById", "need-plan")] {
        let place = id(&format!("deny.v1.{kind}"), name);
        server.write(deny_thing(kind, name, "secret")).await.unwrap();
        assert_eq!(refusal(server.read(&place).await), denied("this is secret"), "{kind}");
        let open = server.write(deny_thing(kind, name, "open")).await.unwrap();
        assert_eq!(server.read(&place).await.unwrap(), open, "the decision follows the content");
    }
    // If the id decides, the content is not read.
    server.write(deny_thing("ById", "plan", "secret")).await.unwrap();
    assert!(server.read(&id("deny.v1.ById", "plan")).await.is_ok());
}

#[tokio::test]
async fn every_consistency_mode_and_token_reads_what_was_written() {
    let server = Server::start().await;
    let written = server.write(concept("idea")).await.unwrap();
    for (key, value) in [
        ("x-consul-consistency-mode", "consistent"),
        ("x-consul-consistency-mode", "Consistent"),
        ("x-consul-consistency-mode", "stale"),
        ("x-consul-token", ""),
        ("x-consul-token", "anything: access control is off"),
    ] {
        let request = with_metadata(pb::ReadRequest { id: Some(id("demo.v1.Concept", "idea")) }, key, value);
        let read = server.client().read(request).await.unwrap().into_inner().resource;
        assert_eq!(read.as_ref(), Some(&written), "{key}: {value}");
    }
}

#[tokio::test]
async fn the_tombstone_type_has_no_scope_nothing_is_filled_in_or_looked_up() {
    let server = Server::start().await;
    let stone = |partition: &str, namespace: &str| id_in("internal.v1.Tombstone", "stone", partition, namespace);
    for place in [stone("", ""), stone("nowhere", "neither")] {
        assert_eq!(refusal(server.read(&place).await), not_found("resource not found"));
        let written = server.write(resource(place.clone(), None)).await;
        if let Ok(written) = written {
            assert_eq!(written.id.unwrap().tenancy, place.tenancy);
        }
    }
    assert_eq!(refusal(server.read(&stone("default", "default")).await), not_found("resource not found"));
}
