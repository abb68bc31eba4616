//! WatchList: validation, the snapshot and its end, events, permission.

use crate::support::{
    Server, Setup, Watch, any, artist, at, concept, demo, deny_thing, gvk, id, id_of, label, make_place, name_rule,
    names, noted, owned, places, resource, tenancy, thing,
};
use mortise_resource::pb::{self, watch_event::Event};
use tonic::{Code, Status};

const ARTIST: &str = "demo.v2.Artist";
const CONCEPT: &str = "demo.v1.Concept";
const LABEL: &str = "demo.v1.RecordLabel";
const BOSS: &str = "demo.v1.Executive";

/// Errors come with the call or with the first message.
async fn refused(server: &Server, t: &str, tenancy: Option<pb::Tenancy>, prefix: &str) -> (Code, String) {
    first_refusal(server.watch(gvk(t), tenancy, prefix).await).await
}

async fn first_refusal(watch: Result<Watch, Status>) -> (Code, String) {
    let status = match watch {
        Err(status) => status,
        Ok(mut watch) => watch.next().await.expect_err("a refusal"),
    };
    (status.code(), status.message().to_owned())
}

#[tokio::test]
async fn requests_are_validated_in_order() {
    let server = Server::start().await;
    let open = server.client().watch_list(pb::WatchListRequest::default()).await;
    let open = open.map(|answer| Watch(answer.into_inner()));
    assert_eq!(first_refusal(open).await, (Code::InvalidArgument, "type is required".to_owned()));
    let partition = format!("tenancy.partition invalid: {}", name_rule("B_d"));
    let namespace = format!("tenancy.namespace invalid: {}", name_rule("n*"));
    for (t, p, n, prefix, expected) in [
        ("demo.v9.Artist", "B_d", "", "UP", "resource type demo.v9.Artist not registered"),
        (LABEL, "B_d", "n*", "UP", &partition),
        (LABEL, "*", "n*", "UP", &namespace),
        (LABEL, "", "n", "UP", "name_prefix invalid: must be lowercase alphanumeric, got: UP"),
        // The texts are those of a resource; only List names "type".
        (LABEL, "", "n", "up", "partition scoped resource demo.v1.RecordLabel cannot have a namespace. got: n"),
        (BOSS, "p", "n", "", "cluster scoped resource demo.v1.Executive cannot have a partition: p"),
        (BOSS, "*", "n", "", "cluster scoped resource demo.v1.Executive cannot have a namespace: n"),
    ] {
        let found = refused(&server, t, Some(tenancy(p, n)), prefix).await;
        assert_eq!(found, (Code::InvalidArgument, expected.to_owned()));
    }
}

#[tokio::test]
async fn units_beyond_the_scope_are_refused_unless_wildcards() {
    let server = Server::start().await;
    for (t, p, n, expected) in [
        (LABEL, "*", "n", "cannot have a namespace. got: n"),
        (BOSS, "default", "", "cannot have a partition: default"),
        (BOSS, "", "default", "cannot have a namespace: default"),
        (BOSS, "*", "n", "cannot have a namespace: n"),
    ] {
        let (code, message) = refused(&server, t, Some(tenancy(p, n)), "").await;
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains(t) && message.ends_with(expected), "{message}");
    }
    for (t, p, n) in [(LABEL, "*", "*"), (LABEL, "", "*"), (BOSS, "*", "*"), (BOSS, "*", ""), (CONCEPT, "*", "*")] {
        assert!(server.watch(gvk(t), Some(tenancy(p, n)), "").await.unwrap().snapshot().await.is_empty());
    }
}

#[tokio::test]
async fn the_snapshot_then_its_end_once_then_changes() {
    let server = Server::start().await;
    let mut empty = server.watch(gvk(ARTIST), None, "").await.unwrap();
    assert!(matches!(empty.next().await.unwrap(), Event::EndOfSnapshot(_)), "also when there is nothing");
    let one = server.write(artist("one")).await.unwrap();
    let two = server.write(artist("two")).await.unwrap();
    let mut watch = server.watch(gvk(ARTIST), None, "").await.unwrap();
    assert_eq!(watch.snapshot().await, [one.clone(), two.clone()]);
    let three = server.write(artist("three")).await.unwrap();
    server.delete(&id_of(&one), "").await.unwrap();
    assert_eq!(watch.upsert().await, three);
    assert_eq!(watch.deleted().await, one, "a delete carries the whole last resource");
    watch.shows_next(&server, artist("last")).await;
    for expected in [&one, &two, &three] {
        assert_eq!(&empty.upsert().await, expected);
    }
    assert_eq!(empty.deleted().await, one);
    assert_eq!(id_of(&empty.upsert().await).name, "last");
}

/// Writes one resource in each place, and returns the places in the watch's events.
async fn hears(watch: &mut Watch, server: &Server, mut all: Vec<pb::Resource>, round: &str) -> Vec<String> {
    watch.snapshot().await;
    let mark = all.pop().unwrap();
    for resource in all {
        server.write(noted(resource, &[("round", round)])).await.unwrap();
    }
    let mark = server.write(noted(mark, &[("round", round)])).await.unwrap();
    let mut heard = Vec::new();
    loop {
        let one = watch.upsert().await;
        if one == mark {
            return places(&heard);
        }
        heard.push(one);
    }
}

#[tokio::test]
async fn wildcards_defaults_and_absent_tenancy_by_scope() {
    let server = Server::start().await;
    make_place(&server, "default", "n").await;
    make_place(&server, "p", "n").await;
    let concepts = |last: (&str, &str)| {
        let mut all = Vec::new();
        for (p, n) in [("default", "default"), ("default", "n"), ("p", "default"), ("p", "n")] {
            all.push(at(concept("x"), p, n));
        }
        all.push(at(concept("x-mark"), last.0, last.1));
        all
    };
    let everywhere = ["default/default/x", "default/n/x", "p/default/x", "p/n/x"];
    for (round, (within, expected)) in [
        (None, &everywhere[..]),
        (Some(("*", "*")), &everywhere[..]),
        (Some(("", "")), &everywhere[..1]),
        (Some(("*", "")), &["default/default/x", "p/default/x"][..]),
        (Some(("", "*")), &everywhere[..2]),
        (Some(("p", "n")), &everywhere[3..]),
        (Some(("*", "n")), &["default/n/x", "p/n/x"][..]),
    ]
    .into_iter()
    .enumerate()
    {
        let mark = if within == Some(("p", "n")) || within == Some(("*", "n")) { ("p", "n") } else { ("", "") };
        let within = within.map(|(p, n)| tenancy(p, n));
        let mut watch = server.watch(gvk(CONCEPT), within.clone(), "x").await.unwrap();
        assert_eq!(hears(&mut watch, &server, concepts(mark), &round.to_string()).await, expected, "{within:?}");
        let mut watch = server.watch(gvk(CONCEPT), within, "x").await.unwrap();
        let snapshot = watch.snapshot().await;
        let found: Vec<_> = places(&snapshot).into_iter().filter(|place| !place.ends_with("mark")).collect();
        assert_eq!(found, expected, "the snapshot, as List would have it");
    }
    let labels = || [("p", "x"), ("", "x"), ("", "mark")].map(|(p, n)| label(n, p)).to_vec();
    for (round, (within, expected)) in
        [(None, &["p//x", "default//x"][..]), (Some(tenancy("", "")), &["default//x"][..])].into_iter().enumerate()
    {
        let mut watch = server.watch(gvk(LABEL), within, "").await.unwrap();
        assert_eq!(hears(&mut watch, &server, labels(), &round.to_string()).await, expected);
    }
    let mut watch = server.watch(gvk(BOSS), None, "").await.unwrap();
    let bosses = ["x", "mark"].map(|name| resource(id(BOSS, name), None)).to_vec();
    assert_eq!(hears(&mut watch, &server, bosses, "").await, ["//x"]);
}

#[tokio::test]
async fn a_place_that_does_not_exist_yet_can_be_watched() {
    let server = Server::start().await;
    let mut watch = server.watch(gvk(CONCEPT), Some(tenancy("p", "n")), "").await.unwrap();
    assert!(watch.snapshot().await.is_empty());
    make_place(&server, "p", "n").await;
    let written = server.write(at(concept("x"), "p", "n")).await.unwrap();
    assert_eq!(watch.upsert().await, written);
}

#[tokio::test]
async fn a_prefix_filters_snapshot_and_events() {
    let server = Server::start().await;
    for name in ["foo", "foo-1", "fo"] {
        server.write(concept(name)).await.unwrap();
    }
    let mut watch = server.watch(gvk(CONCEPT), None, "foo").await.unwrap();
    assert_eq!(names(&watch.snapshot().await), ["foo", "foo-1"]);
    for name in ["fo", "barfoo", "foo"] {
        server.write(concept(name)).await.unwrap();
        server.delete(&id(CONCEPT, name), "").await.unwrap();
    }
    assert_eq!(id_of(&watch.upsert().await).name, "foo");
    assert_eq!(id_of(&watch.deleted().await).name, "foo");
    watch.shows_next(&server, concept("foo-last")).await;
}

#[tokio::test]
async fn every_commit_is_an_event() {
    let server = Server::start().await;
    let mut watch = server.watch(gvk(ARTIST), None, "").await.unwrap();
    watch.snapshot().await;
    let held = || noted(artist("korn"), &[("finalizers", "me")]);
    let first = server.write(held()).await.unwrap();
    assert_eq!(watch.upsert().await, first);
    let same = server.write(held()).await.unwrap();
    assert_eq!(watch.upsert().await, same, "a write that changes nothing");
    let status = pb::Status { observed_generation: same.generation.clone(), ..Default::default() };
    let request = || pb::WriteStatusRequest {
        id: same.id.clone(),
        version: String::new(),
        key: "k".into(),
        status: Some(status.clone()),
    };
    for _ in 0..2 {
        let noted = server.write_status(request()).await.unwrap();
        assert_eq!(watch.upsert().await, noted, "a status, the same one too");
    }
    server.delete(&id_of(&first), "").await.unwrap();
    let marked = watch.upsert().await;
    assert!(marked.metadata.contains_key("deletionTimestamp"), "marking");
    let noted_again = server.write_status(request()).await.unwrap();
    assert_eq!(watch.upsert().await, noted_again);
    server.write(noted(artist("korn"), &[("finalizers", "")])).await.unwrap();
    assert_eq!(watch.deleted().await, noted_again, "with the last finalizer it goes, as it was stored last");
    assert!(server.delete(&id_of(&first), "9").await.is_ok());
    assert!(server.write(pb::Resource { version: "9".into(), ..artist("korn") }).await.is_err());
    // Failed writes, and writes without effect, make no events.
    watch.shows_next(&server, artist("last")).await;
}

#[tokio::test]
async fn other_group_versions_are_left_out() {
    let server = Server::start().await;
    let v1 = |name| {
        let data = demo::v1::Artist { name: "x".into(), ..Default::default() };
        resource(id("demo.v1.Artist", name), Some(any("hashicorp.consul.internal.demo.v1.Artist", &data)))
    };
    server.write(artist("new")).await.unwrap();
    server.write(v1("old")).await.unwrap();
    let mut of_v1 = server.watch(gvk("demo.v1.Artist"), None, "").await.unwrap();
    let mut of_v2 = server.watch(gvk(ARTIST), None, "").await.unwrap();
    assert_eq!(names(&of_v1.snapshot().await), ["old"]);
    assert_eq!(names(&of_v2.snapshot().await), ["new"]);
    server.write(artist("new2")).await.unwrap();
    server.write(v1("old2")).await.unwrap();
    server.delete(&id(ARTIST, "new"), "").await.unwrap();
    server.delete(&id("demo.v1.Artist", "old"), "").await.unwrap();
    assert_eq!(id_of(&of_v1.upsert().await).name, "old2");
    assert_eq!(id_of(&of_v1.deleted().await).name, "old");
    assert_eq!(id_of(&of_v2.upsert().await).name, "new2");
    assert_eq!(id_of(&of_v2.deleted().await).name, "new");
    of_v1.shows_next(&server, v1("last")).await;
    of_v2.shows_next(&server, artist("last2")).await;
}

#[tokio::test]
async fn unreadable_resources_are_dropped() {
    let server = Setup::new().guest("deny").start().await;
    let kinds = ["ById", "ByContent"];
    let write = async |name: &str, text: &str| {
        for kind in kinds {
            server.write(deny_thing(kind, name, text)).await.unwrap();
        }
    };
    write("secret-a", "").await;
    write("b", "secret").await;
    write("c", "").await;
    let mut watches = Vec::new();
    for kind in kinds {
        let mut watch = server.watch(gvk(&format!("deny.v1.{kind}")), None, "").await.unwrap();
        assert_eq!(names(&watch.snapshot().await), ["c"]);
        watches.push(watch);
    }
    write("secret-d", "").await;
    write("c", "secret").await;
    write("need-e", "").await;
    write("c", "").await;
    for kind in kinds {
        for name in ["secret-a", "b", "need-e"] {
            server.delete(&id(&format!("deny.v1.{kind}"), name), "").await.unwrap();
        }
    }
    write("last", "").await;
    for watch in &mut watches {
        assert_eq!(id_of(&watch.upsert().await).name, "need-e");
        assert_eq!(id_of(&watch.upsert().await).name, "c", "each event is judged by itself");
        assert_eq!(id_of(&watch.deleted().await).name, "need-e");
        assert_eq!(id_of(&watch.upsert().await).name, "last");
    }
}

#[tokio::test]
async fn the_list_rule_is_asked_at_the_start() {
    let server = Setup::new().guest("deny").guest("panic").start().await;
    let denied = (Code::PermissionDenied, "Permission denied: no lists here".to_owned());
    for (p, n) in [("nolist", ""), ("", "nolist"), ("*", "nolist")] {
        assert_eq!(refused(&server, "deny.v1.ById", Some(tenancy(p, n)), "").await, denied);
    }
    let (code, message) = refused(&server, "deny.v1.ById", Some(tenancy("", "nolist")), "UP").await;
    assert!(code == Code::InvalidArgument && message.starts_with("name_prefix invalid"), "{message}");
    let mut asked = server.watch(gvk("deny.v1.ById"), Some(tenancy("", "asklist")), "").await.unwrap();
    assert!(asked.snapshot().await.is_empty());
    let (code, message) = refused(&server, "panicking.v1.Thing", Some(tenancy("", "boom-list")), "").await;
    assert!(code == Code::Internal && message.starts_with("failed list acl: "), "{code} {message}");
}

#[tokio::test]
async fn a_read_rule_that_fails_ends_the_watch() {
    let server = Setup::new().guest("panic").start().await;
    let mut watch = server.watch(gvk("panicking.v1.Thing"), None, "").await.unwrap();
    watch.snapshot().await;
    server.write(thing("panicking", "honest", &Default::default())).await.unwrap();
    server.write(thing("panicking", "boom-read", &Default::default())).await.unwrap();
    assert_eq!(id_of(&watch.upsert().await).name, "honest");
    let status = watch.next().await.unwrap_err();
    assert_eq!(status.code(), Code::Internal);
    assert!(status.message().starts_with("failed read acl: "), "{status}");
}

#[tokio::test]
async fn an_owners_end_is_heard_before_its_childrens() {
    let server = Server::start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    let child = server.write(owned(artist("child"), &id_of(&korn))).await.unwrap();
    let mut watch = server.watch(gvk(ARTIST), None, "").await.unwrap();
    watch.snapshot().await;
    server.delete(&id_of(&korn), "").await.unwrap();
    assert_eq!(watch.deleted().await, korn);
    assert_eq!(watch.deleted().await, child);
    watch.shows_next(&server, artist("last")).await;
}
