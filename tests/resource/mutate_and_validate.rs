//! MutateAndValidate: returns the resource that Write would store, without storing it or reading the stored one.

use crate::support::{
    Server, Setup, album, any, artist, at, bad_names, concept, decoded, demo, deny_thing, gvk, id, id_in, id_stairs,
    invalid, make_place, metadata, name_rule, noted, refusal, resource, scope_rule, tenancy, thing, with_needed_data,
};
use mortise_resource::pb;
use mortise_test_guests::Thing;
use tonic::Code;
use tonic_types::StatusExt as _;

use super::{V2_ALBUM, V2_ARTIST, bytes, nameless};

const ARTIST: &str = "demo.v2.Artist";

#[tokio::test]
async fn each_check_comes_before_the_next_one() {
    let server = Server::start().await;
    let said = |resource: pb::Resource| {
        let server = &server;
        async move { refusal(server.mutate_and_validate(resource).await) }
    };
    let nothing = server.client().mutate_and_validate(pb::MutateAndValidateRequest { resource: None }).await;
    assert_eq!(refusal(nothing), invalid("resource is required"));
    let data = |value: &[u8]| Some(bytes(V2_ARTIST, value));
    let mut all = pb::Resource { owner: Some(pb::Id::default()), data: album("x", None).data, ..Default::default() };
    assert_eq!(said(all.clone()).await, invalid("resource.id is required"));
    for (id, text) in id_stairs("resource.id") {
        all.id = Some(id);
        assert_eq!(said(all.clone()).await, invalid(text));
    }
    all.id = Some(id_in("nope.v1.Nope", "korn", "nowhere", "neither"));
    for (owner, text) in id_stairs("resource.owner") {
        all.owner = Some(owner);
        assert_eq!(said(all.clone()).await, invalid(text));
    }
    all.owner = Some(id("nope.v1.Nope", "nobody"));
    assert_eq!(said(all.clone()).await, invalid("resource type nope.v1.Nope not registered"));
    all.id.as_mut().unwrap().r#type = Some(gvk("demo.v1.RecordLabel"));
    assert_eq!(said(all.clone()).await, invalid(scope_rule("demo.v1.RecordLabel", "namespace", "neither")));
    all.id.as_mut().unwrap().r#type = Some(gvk("demo.v1.Executive"));
    assert_eq!(said(all.clone()).await, invalid(scope_rule("demo.v1.Executive", "partition", "nowhere")));
    all.id.as_mut().unwrap().r#type = Some(gvk(ARTIST));
    let wrong = format!("resource.data is of wrong type (expected={V2_ARTIST:?}, got={V2_ALBUM:?})");
    assert_eq!(said(all.clone()).await, invalid(wrong));
    all.data = data(&[0x0a, 1, 0xff]);
    let (code, text) = said(all.clone()).await;
    assert!(code == Code::InvalidArgument && text.ends_with("data.name: is not UTF-8"), "{text}");
    all.data = None;
    let (code, text) = said(all.clone()).await;
    assert!(code == Code::InvalidArgument && text.starts_with("failed mutate hook: "), "{text}");
    all.data = data(&[]);
    assert_eq!(said(all.clone()).await, invalid("artist.name required"));
    all.data = artist("korn").data;
    assert_eq!(said(all.clone()).await, invalid("partition not found: nowhere"));
    all.id.as_mut().unwrap().tenancy = Some(tenancy("", "neither"));
    assert_eq!(said(all.clone()).await, invalid("namespace not found: neither"));
    all.id.as_mut().unwrap().tenancy = None;
    assert!(server.mutate_and_validate(all).await.is_ok());
}

#[tokio::test]
async fn names_follow_the_rule() {
    let server = Server::start().await;
    for name in bad_names() {
        let said = refusal(server.mutate_and_validate(concept(&name)).await);
        assert_eq!(said, invalid(format!("resource.id.name invalid: {}", name_rule(&name))));
    }
    let longest = concept(&"x".repeat(63));
    assert!(server.mutate_and_validate(longest).await.is_ok());
}

#[tokio::test]
async fn the_answer_has_the_defaults() {
    let server = Server::start().await;
    let bare = demo::v2::Artist { name: "Korn".into(), ..Default::default() };
    let bare = resource(id(ARTIST, "korn"), Some(any(V2_ARTIST, &bare)));
    let dry = server.mutate_and_validate(bare.clone()).await.unwrap().resource.unwrap();
    assert_eq!(decoded::<demo::v2::Artist>(&dry).genre(), demo::v2::Genre::Disco);
    assert_eq!(dry.id, Some(id_in(ARTIST, "korn", "default", "default")), "no uid is made up");
    assert_eq!((dry.version.as_str(), dry.generation.as_str()), ("", ""));
    let wet = server.write(bare).await.unwrap();
    assert_eq!((wet.data, wet.metadata), (dry.data, dry.metadata), "what Write stores");
    for (t, filled) in [("demo.v1.RecordLabel", tenancy("default", "")), ("demo.v1.Executive", tenancy("", ""))] {
        let sent = pb::Resource { id: Some(id(t, "x")), ..with_needed_data(t) };
        let dry = server.mutate_and_validate(sent).await.unwrap().resource.unwrap();
        assert_eq!(dry.id.unwrap().tenancy, Some(filled));
    }
}

#[tokio::test]
async fn nothing_is_stored_or_changed() {
    let server = Server::start().await;
    let mut watch = server.watch(gvk(ARTIST), None, "").await.unwrap();
    watch.snapshot().await;
    server.mutate_and_validate(artist("korn")).await.unwrap();
    assert_eq!(refusal(server.read(&id(ARTIST, "korn")).await).0, Code::NotFound);
    let stored = server.write(artist("korn")).await.unwrap();
    assert_eq!(watch.upsert().await, stored, "the write is the first event");
    server.mutate_and_validate(noted(stored.clone(), &[("new", "")])).await.unwrap();
    assert_eq!(server.read(&id(ARTIST, "korn")).await.unwrap(), stored);
    watch.shows_next(&server, artist("last")).await;
}

#[tokio::test]
async fn checks_of_writes_alone_are_skipped() {
    let server = Server::start().await;
    let stored = server.write(noted(album("debut", None), &[("finalizers", "a")])).await.unwrap();
    server.delete(&id("demo.v2.Album", "debut"), "").await.unwrap();
    // Wrong uid and version, a status, a new owner that does not exist, a removed mark, a write without effect.
    let mut sent = stored;
    sent.id.as_mut().unwrap().uid = "another".into();
    sent.version = "wrong".into();
    sent.status.insert("k".into(), pb::Status::default());
    sent.owner = Some(id_in(ARTIST, "nobody", "nowhere", "neither"));
    let dry = server.mutate_and_validate(sent.clone()).await.unwrap();
    assert_eq!(dry.resource, Some(sent));
    // A mark on a missing resource; another GroupVersion than the stored one.
    let dry = server.mutate_and_validate(noted(concept("new"), &[("deletionTimestamp", "")])).await.unwrap();
    assert_eq!(dry.resource.unwrap().metadata, metadata(&[("deletionTimestamp", "")]));
    assert!(server.mutate_and_validate(resource(id("demo.v1.Album", "debut"), None)).await.is_ok());
}

#[tokio::test]
async fn validation_says_which_field_and_warns_of_what_it_lets_pass() {
    let server = Setup::new().guest("prior").start().await;
    let status = server.mutate_and_validate(nameless("korn")).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "artist.name required"));
    let violations = status.get_details_bad_request().unwrap().field_violations;
    assert_eq!(violations.iter().map(|v| v.field.as_str()).collect::<Vec<_>>(), ["data.name"]);

    let early = demo::v2::Album { year_of_release: 1500, ..Default::default() };
    let early = resource(id("demo.v2.Album", "debut"), Some(any(V2_ALBUM, &early)));
    let warnings = server.mutate_and_validate(early).await.unwrap().warnings;
    assert_eq!(warnings.iter().map(|w| w.path.as_str()).collect::<Vec<_>>(), ["data.year_of_release"]);

    // The stored resource is not read, so a year may decrease.
    let year = |number| thing("prior", "album", &Thing { number, ..Default::default() });
    server.write(year(1996)).await.unwrap();
    let dry = server.mutate_and_validate(year(1994)).await.unwrap();
    assert_eq!(dry.warnings[0].summary, "there was no year");
}

#[tokio::test]
async fn permission_to_write_is_asked_before_the_place_is_looked_up() {
    let server = Setup::new().guest("deny").start().await;
    let denied = (Code::PermissionDenied, "Permission denied: this is frozen".to_owned());
    let frozen = deny_thing("ById", "frozen-lake", "");
    assert_eq!(refusal(server.mutate_and_validate(frozen.clone()).await), denied);
    assert_eq!(refusal(server.mutate_and_validate(deny_thing("ById", "lake", "frozen")).await), denied);
    assert_eq!(refusal(server.mutate_and_validate(at(frozen.clone(), "nowhere", "")).await), denied);
    let fine = at(deny_thing("ById", "lake", ""), "nowhere", "");
    assert_eq!(refusal(server.mutate_and_validate(fine).await), invalid("partition not found: nowhere"));
    let wrong = pb::Resource { data: album("x", None).data, ..frozen };
    assert_eq!(refusal(server.mutate_and_validate(wrong).await).0, Code::InvalidArgument);
    assert!(server.mutate_and_validate(deny_thing("ById", "secret-plan", "secret")).await.is_ok(), "not to read");
}

#[tokio::test]
async fn a_place_that_is_on_its_way_out_is_named_with_a_slash() {
    let server = Server::start().await;
    make_place(&server, "here", "going").await;
    let held = noted(at(album("held", None), "here", "going"), &[("finalizers", "hold")]);
    server.write(held.clone()).await.unwrap();
    server.delete(&id_in("tenancy.v2beta1.Namespace", "going", "here", ""), "").await.unwrap();
    let gone = "tenancy marked for deletion: here/going";
    assert_eq!(refusal(server.mutate_and_validate(at(concept("new"), "here", "going")).await), invalid(gone));
    assert_eq!(refusal(server.mutate_and_validate(held).await), invalid(gone), "what is there already too");
    let nameless = at(nameless("korn"), "here", "going");
    assert_eq!(refusal(server.mutate_and_validate(nameless).await), invalid("artist.name required"));
    assert!(server.mutate_and_validate(at(concept("new"), "here", "")).await.is_ok(), "its neighbour stays");
}

#[tokio::test]
async fn mutate_runs_once() {
    let server = Setup::new().guest("mutate-twice").start().await;
    let dry = server.mutate_and_validate(thing("mutate_twice", "boom", &Thing::default())).await.unwrap();
    assert_eq!(decoded::<Thing>(&dry.resource.unwrap()).items, ["again"]);
}
