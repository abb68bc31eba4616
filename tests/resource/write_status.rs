//! WriteStatus: one controller's entry, and nothing else.

use crate::support::{
    Server, Setup, album, artist, at, bad_names, concept, deny_thing, gvk, hookless, id, id_in, id_of, id_stairs,
    invalid, make_place, name_rule, noted, refusal, scope_rule, tenancy, thing, with_needed_data,
};
use mortise_resource::pb::{self, condition::State};
use tonic::Code;
use tonic_types::StatusExt as _;

use super::aborted;

const ULID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
const CONCEPT: &str = "demo.v1.Concept";

fn not_found() -> (Code, String) {
    (Code::NotFound, "resource not found".into())
}

fn condition(t: &str, resource: Option<pb::Reference>) -> pb::Condition {
    let (reason, message) = ("Because".into(), "it is so".into());
    pb::Condition { r#type: t.into(), state: State::True.into(), reason, message, resource }
}

fn reference(t: &str, name: &str, partition: &str, namespace: &str) -> pb::Reference {
    let tenancy = Some(tenancy(partition, namespace));
    pb::Reference { r#type: Some(gvk(t)), tenancy, name: name.into(), section: String::new() }
}

fn status(conditions: Vec<pb::Condition>) -> pb::Status {
    pb::Status { observed_generation: ULID.into(), conditions, updated_at: None }
}

fn request(id: &pb::Id, key: &str, conditions: Vec<pb::Condition>) -> pb::WriteStatusRequest {
    pb::WriteStatusRequest {
        id: Some(id.clone()),
        version: String::new(),
        key: key.into(),
        status: Some(status(conditions)),
    }
}

fn full(id: pb::Id) -> pb::Id {
    pb::Id { uid: ULID.into(), ..id }
}

#[tokio::test]
async fn each_check_comes_before_the_next_one() {
    let server = Server::start().await;
    let said = |request: &pb::WriteStatusRequest| {
        let (server, request) = (&server, request.clone());
        async move { refusal(server.write_status(request).await) }
    };
    let mut all = pb::WriteStatusRequest::default();
    assert_eq!(said(&all).await, invalid("id is required"));
    all.id = Some(pb::Id::default());
    assert_eq!(said(&all).await, invalid("id.type is required"));
    all.id = Some(id("nope.v1.Nope", ""));
    assert_eq!(said(&all).await, invalid("id.name is required"));
    all.id = Some(id_in("nope.v1.Nope", "Bad", "P", "N"));
    assert_eq!(said(&all).await, invalid("id.uid is required"));
    all.id.as_mut().unwrap().uid = "nonsense".into();
    assert_eq!(said(&all).await, invalid("key is required"));
    all.key = "any key at all".into();
    assert_eq!(said(&all).await, invalid("status is required"));
    let now = Some(prost_types::Timestamp::default());
    all.status = Some(pb::Status { updated_at: now, conditions: vec![condition("", None)], ..Default::default() });
    assert_eq!(said(&all).await, invalid("status.observed_generation is required"));
    all.status.as_mut().unwrap().observed_generation = "nonsense".into();
    assert_eq!(said(&all).await, invalid("status.conditions[0].type is required"));
    all.status.as_mut().unwrap().conditions = vec![condition("A", Some(pb::Reference::default()))];
    assert_eq!(said(&all).await, invalid("status.conditions[0].resource.type is required"));
    let mut towards = pb::Reference { r#type: Some(gvk("nope.v1.Nope")), ..Default::default() };
    all.status.as_mut().unwrap().conditions = vec![condition("A", Some(towards.clone()))];
    assert_eq!(said(&all).await, invalid("status.conditions[0].resource.tenancy is required"));
    towards.tenancy = Some(tenancy("P", "N"));
    all.status.as_mut().unwrap().conditions = vec![condition("A", Some(towards.clone()))];
    assert_eq!(said(&all).await, invalid("status.conditions[0].resource.name is required"));
    towards.name = "Bad".into();
    all.status.as_mut().unwrap().conditions = vec![condition("A", Some(towards))];
    let automatic = "status.updated_at is automatically set and cannot be provided";
    assert_eq!(said(&all).await, invalid(automatic));
    all.status.as_mut().unwrap().updated_at = None;
    assert_eq!(said(&all).await, invalid("status.observed_generation is not valid"));
    all.status.as_mut().unwrap().observed_generation = ULID.into();
    for (id, text) in id_stairs("id").into_iter().skip(1) {
        all.id = Some(id);
        assert_eq!(said(&all).await, invalid(text));
    }
    all.id = Some(full(id_in("nope.v1.Nope", "x", "nowhere", "neither")));
    let to = |name: &str, partition: &str, namespace: &str| {
        vec![condition("A", Some(reference("nope.v1.Nope", name, partition, namespace)))]
    };
    for (conditions, field, value) in [
        (to("Bad", "P", "N"), "name", "Bad"),
        (to("good", "P", "N"), "tenancy.partition", "P"),
        (to("good", "p", "N"), "tenancy.namespace", "N"),
    ] {
        all.status = Some(status(conditions));
        let text = format!("status.conditions[0].resource.{field} invalid: {}", name_rule(value));
        assert_eq!(said(&all).await, invalid(text));
    }
    all.status = Some(status(to("good", "p", "n")));
    assert_eq!(said(&all).await, invalid("resource type nope.v1.Nope not registered"));
    all.id.as_mut().unwrap().r#type = Some(gvk("demo.v1.RecordLabel"));
    assert_eq!(said(&all).await, invalid(scope_rule("demo.v1.RecordLabel", "namespace", "neither")));
    all.id.as_mut().unwrap().r#type = Some(gvk(CONCEPT));
    assert_eq!(said(&all).await, invalid("partition not found: nowhere"));
    all.id.as_mut().unwrap().tenancy = Some(tenancy("", "neither"));
    assert_eq!(said(&all).await, invalid("namespace not found: neither"));
    all.id.as_mut().unwrap().tenancy = None;
    all.version = "wrong".into();
    assert_eq!(said(&all).await, not_found());
    let stored = server.write(concept("x")).await.unwrap();
    assert_eq!(said(&all).await, not_found(), "another uid");
    all.id = stored.id;
    assert_eq!(said(&all).await, aborted());
    all.version.clear();
    assert_eq!(server.write_status(all).await.unwrap().status.len(), 1);
}

#[tokio::test]
async fn an_empty_condition_type_ends_the_scan_while_the_last_bad_reference_is_named() {
    let server = Server::start().await;
    let at = full(id(CONCEPT, "x"));
    let said = |conditions| {
        let (server, request) = (&server, request(&at, "k", conditions));
        async move { refusal(server.write_status(request).await) }
    };
    let nothing = || Some(pb::Reference::default());
    let nowhere = || Some(pb::Reference { r#type: Some(gvk(CONCEPT)), ..Default::default() });
    let both = vec![condition("A", nothing()), condition("B", None), condition("C", nowhere())];
    assert_eq!(said(both.clone()).await, invalid("status.conditions[2].resource.tenancy is required"));
    let mut all = both;
    all.push(condition("", nothing()));
    all.push(condition("D", nothing()));
    assert_eq!(said(all).await, invalid("status.conditions[3].type is required"));
    assert_eq!(
        said(vec![condition("A", None), condition("", None)]).await,
        invalid("status.conditions[1].type is required")
    );
}

#[tokio::test]
async fn names_follow_the_rule() {
    let server = Server::start().await;
    let at = full(id(CONCEPT, "x"));
    for name in bad_names() {
        let said = refusal(server.write_status(request(&full(id(CONCEPT, &name)), "k", vec![])).await);
        assert_eq!(said, invalid(format!("id.name invalid: {}", name_rule(&name))));
        let conditions = vec![condition("A", None), condition("B", Some(reference(CONCEPT, &name, "p", "n")))];
        let said = refusal(server.write_status(request(&at, "k", conditions)).await);
        assert_eq!(said, invalid(format!("status.conditions[1].resource.name invalid: {}", name_rule(&name))));
    }
    // A reference names every unit of its type's scope.
    for (t, partition, namespace, unit) in [
        ("demo.v1.RecordLabel", "", "", "partition"),
        ("demo.v1.RecordLabel", "", "n", "partition"),
        (CONCEPT, "", "", "partition"),
        (CONCEPT, "", "n", "partition"),
        (CONCEPT, "p", "", "namespace"),
    ] {
        let conditions = vec![condition("A", Some(reference(t, "label", partition, namespace)))];
        let said = refusal(server.write_status(request(&at, "k", conditions)).await);
        assert_eq!(said, invalid(format!("status.conditions[0].resource.tenancy.{unit} invalid: {}", name_rule(""))));
    }
}

#[tokio::test]
async fn a_condition_is_about_a_resource_of_any_scope_and_has_a_known_state() {
    let server = Server::start().await;
    let stored = id_of(&server.write(concept("x")).await.unwrap());
    let mut conditions = vec![
        condition("Cluster", Some(reference("demo.v1.Executive", "ceo", "", ""))),
        condition("NoTenancy", Some(pb::Reference { tenancy: None, ..reference("demo.v1.Executive", "ceo", "", "") })),
        condition("Partition", Some(reference("demo.v1.RecordLabel", "label", "p", ""))),
        condition("Namespace", Some(reference(CONCEPT, "other", "p", "n"))),
        condition("Unregistered", Some(reference("nope.v1.Nope", "other", "", ""))),
        // More units than the scope has, as Consul takes them.
        condition("More", Some(reference("demo.v1.Executive", "ceo", "default", "default"))),
    ];
    let written = server.write_status(request(&stored, "k", conditions.clone())).await.unwrap();
    assert_eq!(written.status["k"].conditions, conditions);
    for state in [3, -1, i32::MAX] {
        conditions[1].state = state;
        let refused = server.write_status(request(&stored, "k", conditions.clone())).await.unwrap_err();
        let fault = format!("{state} is not a state; use 0 (unknown), 1 (true) or 2 (false)");
        assert_eq!(refused.code(), Code::InvalidArgument);
        assert_eq!(refused.message(), format!("status.conditions[1].state invalid: {fault}"));
        let violations = refused.get_details_bad_request().unwrap().field_violations;
        assert_eq!((&*violations[0].field, violations.len()), ("status.conditions[1].state", 1));
    }
    assert_eq!(server.read(&stored).await.unwrap(), written);
}

#[tokio::test]
async fn the_observed_generation_is_a_strict_ulid_and_no_more() {
    let server = Server::start().await;
    let stored = id_of(&server.write(concept("x")).await.unwrap());
    let with = |generation: &str| {
        let mut request = request(&stored, "k", vec![]);
        request.status.as_mut().unwrap().observed_generation = generation.into();
        request
    };
    for bad in [
        "1",
        &ULID[1..],
        &format!("{ULID}0"),
        "01ARZ3NDEKTSV4RRFFQ69G5FAU",
        "81ARZ3NDEKTSV4RRFFQ69G5FAV",
        "01ARZ3NDEKTSV4RRFFQ69G5F-V",
        "é1ARZ3NDEKTSV4RRFFQ69G5FA",
    ] {
        let said = refusal(server.write_status(with(bad)).await);
        assert_eq!(said, invalid("status.observed_generation is not valid"), "{bad:?}");
    }
    for good in [ULID, "00000000000000000000000000", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ", &ULID.to_lowercase()] {
        let written = server.write_status(with(good)).await.unwrap();
        assert_eq!(written.status["k"].observed_generation, good, "it need not be the resource's");
    }
}

#[tokio::test]
async fn units_beyond_the_scope_are_refused_and_empty_ones_filled_in() {
    let server = Server::start().await;
    make_place(&server, "here", "home").await;
    for (t, partition, namespace, unit, value) in [
        ("demo.v1.RecordLabel", "", "x", "namespace", "x"),
        ("demo.v1.Executive", "p", "", "partition", "p"),
        ("demo.v1.Executive", "", "n", "namespace", "n"),
    ] {
        let at = full(id_in(t, "x", partition, namespace));
        let said = refusal(server.write_status(request(&at, "k", vec![])).await);
        assert_eq!(said, invalid(scope_rule(t, unit, value)));
    }
    for (t, given, filled) in [
        (CONCEPT, None, tenancy("default", "default")),
        (CONCEPT, Some(tenancy("here", "")), tenancy("here", "default")),
        ("demo.v1.Album", Some(tenancy("here", "home")), tenancy("here", "home")),
        ("demo.v1.RecordLabel", None, tenancy("default", "")),
        ("demo.v1.Executive", None, tenancy("", "")),
    ] {
        let short = pb::Id { tenancy: given.clone(), ..id(t, "x") };
        let sent = pb::Resource { id: Some(short.clone()), ..with_needed_data(t) };
        let uid = id_of(&server.write(sent).await.unwrap()).uid;
        let written = server.write_status(request(&pb::Id { uid, ..short }, "k", vec![])).await.unwrap();
        assert_eq!(id_of(&written).tenancy, Some(filled), "{t}");
    }
    let missing = full(id_in(CONCEPT, "x", "here", "neither"));
    assert_eq!(
        refusal(server.write_status(request(&missing, "k", vec![])).await),
        invalid("namespace not found: neither")
    );
}

#[tokio::test]
async fn one_key_changes_with_version_and_time_and_nothing_else() {
    let server = Server::start().await;
    let stored = server.write(noted(album("debut", None), &[("k", "v"), ("finalizers", "a")])).await.unwrap();
    let one = server.write_status(request(&id_of(&stored), "one", vec![condition("A", None)])).await.unwrap();
    assert_ne!(one.version, stored.version);
    let times = one.status["one"].updated_at.unwrap();
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert!(now.abs_diff(u64::try_from(times.seconds).unwrap()) < 60, "the server's clock");
    let mut rest = pb::Resource { version: stored.version.clone(), status: stored.status.clone(), ..one.clone() };
    // Fields of `meta` that follow the version.
    let (known, noted) = (stored.meta.as_ref().unwrap(), rest.meta.as_mut().unwrap());
    assert_eq!(std::mem::replace(&mut noted.resource_version, known.resource_version.clone()), one.version);
    let before = std::mem::replace(&mut noted.update_time, known.update_time).map(|time| time.seconds);
    assert!(before >= known.update_time.map(|time| time.seconds));
    assert_eq!(rest, stored, "generation, data, metadata, owner");
    assert_eq!(server.read(&id_of(&stored)).await.unwrap(), one);

    let conditions = vec![condition("B", Some(reference("nope.v1.Nope", "n", "p", "n"))), condition("B", None)];
    let two = server.write_status(request(&id_of(&stored), "two", conditions.clone())).await.unwrap();
    assert_eq!(two.status["one"], one.status["one"], "the other key");
    assert_eq!(two.status["two"].conditions, conditions, "whatever the reference means");
    // An entry is replaced whole; omitted conditions are gone.
    let bare = server.write_status(request(&id_of(&stored), "one", vec![])).await.unwrap();
    assert_eq!(bare.status["one"].conditions, []);
    assert_eq!(bare.status["two"], two.status["two"]);
}

#[tokio::test]
async fn the_same_status_again_is_a_new_version_and_an_event() {
    let server = Server::start().await;
    let stored = server.write(concept("x")).await.unwrap();
    let same = request(&id_of(&stored), "k", vec![condition("A", None)]);
    let one = server.write_status(same.clone()).await.unwrap();
    let mut watch = server.watch(gvk(CONCEPT), None, "").await.unwrap();
    assert_eq!(watch.snapshot().await, std::slice::from_ref(&one));
    let two = server.write_status(same).await.unwrap();
    assert_ne!(two.version, one.version);
    assert_eq!(two.generation, stored.generation);
    assert_eq!(watch.upsert().await, two);
}

#[tokio::test]
async fn missing_resources_and_other_incarnations_are_not_found() {
    let server = Server::start().await;
    let stored = id_of(&server.write(concept("x")).await.unwrap());
    for other in
        [full(stored.clone()), full(id(CONCEPT, "absent")), pb::Id { uid: stored.uid.to_lowercase(), ..stored.clone() }]
    {
        assert_eq!(refusal(server.write_status(request(&other, "k", vec![])).await), not_found());
    }
    let text = r#"failed read: resource was requested with GroupVersion="v1", but stored with GroupVersion="v2""#;
    let v2 = id_of(&server.write(album("debut", None)).await.unwrap());
    let v1 = pb::Id { r#type: Some(gvk("demo.v1.Album")), ..v2 };
    assert_eq!(refusal(server.write_status(request(&v1, "k", vec![])).await), invalid(text));
    assert_eq!(refusal(server.write_status(request(&full(v1), "k", vec![])).await), not_found(), "the uid comes first");
    server.delete(&stored, "").await.unwrap();
    server.write(concept("x")).await.unwrap();
    assert_eq!(refusal(server.write_status(request(&stored, "k", vec![])).await), not_found());
}

#[tokio::test]
async fn a_version_makes_it_conditional_and_conflicts_are_hidden_without_one() {
    let server = Server::start().await;
    let stored = server.write(concept("x")).await.unwrap();
    let versioned =
        |version: &str| pb::WriteStatusRequest { version: version.into(), ..request(&id_of(&stored), "k", vec![]) };
    let next = server.write_status(versioned(&stored.version)).await.unwrap();
    assert_eq!(refusal(server.write_status(versioned(&stored.version)).await), aborted());
    assert_eq!(server.read(&id_of(&stored)).await.unwrap(), next);

    // Few enough writers that five attempts suffice for each on a busy machine.
    let writers = (0..8).map(|n| {
        let (mut client, request) = (server.client(), request(&id_of(&stored), &format!("key-{n}"), vec![]));
        tokio::spawn(async move { client.write_status(request).await })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(server.read(&id_of(&stored)).await.unwrap().status.len(), 9, "no entry is lost");
}

#[tokio::test]
async fn permission_is_asked_of_the_stored_resource_after_it_was_found_and_before_its_version() {
    let data = tempfile::tempdir().unwrap();
    let plant = Setup::new().data_dir(data.path()).component("plant", hookless(&["deny.v1.ById"])).start().await;
    let frozen = id_of(&plant.write(deny_thing("ById", "frozen-lake", "")).await.unwrap());
    let by_text = id_of(&plant.write(deny_thing("ById", "lake", "frozen")).await.unwrap());
    assert!(plant.stop().await.success());

    let server = Setup::new().data_dir(data.path()).guest("deny").start().await;
    let denied = (Code::PermissionDenied, "Permission denied: this is frozen".to_owned());
    for id in [&frozen, &by_text] {
        assert_eq!(refusal(server.write_status(request(id, "k", vec![])).await), denied);
        let stale = pb::WriteStatusRequest { version: "wrong".into(), ..request(id, "k", vec![]) };
        assert_eq!(refusal(server.write_status(stale).await), denied);
    }
    assert_eq!(refusal(server.write_status(request(&full(frozen.clone()), "k", vec![])).await), not_found());
    let absent = full(id("deny.v1.ById", "frozen-sea"));
    assert_eq!(refusal(server.write_status(request(&absent, "k", vec![])).await), not_found());
    let nowhere = pb::Id { tenancy: Some(tenancy("nowhere", "")), ..frozen };
    assert_eq!(
        refusal(server.write_status(request(&nowhere, "k", vec![])).await),
        invalid("partition not found: nowhere")
    );
    // Reading is a separate permission.
    let secret = id_of(&server.write(deny_thing("ById", "secret-plan", "")).await.unwrap());
    assert!(server.write_status(request(&secret, "k", vec![])).await.is_ok());
}

#[tokio::test]
async fn hooks_that_judge_content_are_not_asked() {
    let server = Setup::new().guest("mutate-twice").start().await;
    let one = thing("mutate_twice", "boom", &mortise_test_guests::Thing::default());
    let stored = server.write(one).await.unwrap();
    let written = server.write_status(request(&id_of(&stored), "k", vec![])).await.unwrap();
    assert_eq!(written.data, stored.data);
}

#[tokio::test]
async fn statuses_can_be_written_during_deletions() {
    let server = Server::start().await;
    let held = server.write(noted(artist("korn"), &[("finalizers", "a")])).await.unwrap();
    server.delete(&id_of(&held), "").await.unwrap();
    let marked = server.read(&id_of(&held)).await.unwrap();
    let written = server.write_status(request(&id_of(&held), "k", vec![])).await.unwrap();
    assert_eq!((&written.metadata, &written.generation), (&marked.metadata, &marked.generation));

    make_place(&server, "default", "going").await;
    let inside = server.write(noted(at(artist("korn"), "default", "going"), &[("finalizers", "a")])).await.unwrap();
    server.delete(&id("tenancy.v2beta1.Namespace", "going"), "").await.unwrap();
    assert!(server.write_status(request(&id_of(&inside), "k", vec![])).await.is_ok());
}
