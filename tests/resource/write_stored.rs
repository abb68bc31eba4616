//! Write, second half: the stored resource compared with the written one. Versions, uids, GroupVersions, owners,
//! status.

use std::collections::BTreeSet;

use crate::support::{
    Server, Setup, album, any, artist, at, concept, demo, gvk, id, id_in, invalid, make_place, metadata, noted,
    refusal, resource, tenancy, thing,
};
use mortise_resource::{pb, ulid};
use mortise_test_guests::{Inner, Thing};
use tonic::{Code, Status};

use super::aborted;

const CONCEPT: &str = "demo.v1.Concept";
const STATUS: &str = "resource.status can only be set using the WriteStatus endpoint";
const OWNER: &str = "owner cannot be changed";
const NO_OWNER: &str = "resource.owner does not exist";

fn wrong_uid() -> (Code, String) {
    (Code::FailedPrecondition, "write failed because the given uid doesn't match what is stored".into())
}

fn with_uid(mut resource: pb::Resource, uid: &str) -> pb::Resource {
    resource.id.as_mut().unwrap().uid = uid.into();
    resource
}

fn with_version(mut resource: pb::Resource, version: &str) -> pb::Resource {
    resource.version = version.into();
    resource
}

fn with_status(mut resource: pb::Resource) -> pb::Resource {
    resource.status.insert("k".into(), pb::Status::default());
    resource
}

fn artist_v1(name: &str) -> pb::Resource {
    let data = demo::v1::Artist { name: name.into(), ..Default::default() };
    resource(id("demo.v1.Artist", name), Some(any("hashicorp.consul.internal.demo.v1.Artist", &data)))
}

/// Writes many resources at once.
async fn race(server: &Server, resources: Vec<pb::Resource>) -> Vec<Result<pb::Resource, Status>> {
    let writers = resources.into_iter().map(|resource| {
        let mut client = server.client();
        tokio::spawn(async move { client.write(pb::WriteRequest { resource: Some(resource) }).await })
    });
    let mut answers = Vec::new();
    for writer in writers.collect::<Vec<_>>() {
        answers.push(writer.await.unwrap().map(|answer| answer.into_inner().resource.unwrap()));
    }
    answers
}

#[tokio::test]
async fn every_write_changes_version_and_generation_and_never_the_uid() {
    let server = Server::start().await;
    let mut sent = with_uid(concept("idea"), "mine");
    sent.generation = "mine".into();
    let first = server.write(sent).await.unwrap();
    let uid = first.id.clone().unwrap().uid;
    assert!(ulid::is_valid(&uid) && ulid::is_valid(&first.generation), "what the client made up is dropped");
    assert!(!first.version.is_empty());
    let mut before = first.clone();
    for again in [concept("idea"), first.clone(), with_uid(concept("idea"), &uid)] {
        let after = server.write(with_version(again, "")).await.unwrap();
        assert_eq!(after.id, first.id);
        assert_ne!(after.version, before.version);
        assert_ne!(after.generation, before.generation);
        assert!(ulid::is_valid(&after.generation));
        assert_eq!(server.read(&id(CONCEPT, "idea")).await.unwrap(), after);
        before = after;
    }
    let other = server.write(concept("other")).await.unwrap();
    assert_ne!(other.id.unwrap().uid, uid);
}

#[tokio::test]
async fn data_and_metadata_are_replaced_whole() {
    let server = Server::start().await;
    server.write(noted(album("debut", None), &[("a", "1"), ("b", "2")])).await.unwrap();
    let mut next = noted(album("debut", None), &[("b", "3"), ("", "empty keys are keys")]);
    next.data = None;
    let written = server.write(next.clone()).await.unwrap();
    assert_eq!((&written.metadata, &written.data), (&next.metadata, &None));
    assert_eq!(server.read(&id("demo.v2.Album", "debut")).await.unwrap(), written);
}

#[tokio::test]
async fn a_version_makes_the_write_conditional() {
    let server = Server::start().await;
    let first = server.write(concept("idea")).await.unwrap();
    let second = server.write(first.clone()).await.unwrap();
    for stale in [first.version.as_str(), "nonsense", "0", " "] {
        assert_eq!(refusal(server.write(with_version(concept("idea"), stale)).await), aborted(), "{stale:?}");
    }
    assert_eq!(server.read(&id(CONCEPT, "idea")).await.unwrap(), second, "nothing changed");
    server.write(with_version(concept("idea"), &second.version)).await.unwrap();
    assert_eq!(refusal(server.write(with_version(concept("new"), "1")).await), aborted(), "nothing to compare with");
    assert_eq!(refusal(server.read(&id(CONCEPT, "new")).await).0, Code::NotFound);
}

#[tokio::test]
async fn another_uid_is_refused_before_the_version_is_looked_at() {
    let server = Server::start().await;
    let stored = server.write(concept("idea")).await.unwrap();
    let other = with_uid(concept("idea"), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    assert_eq!(refusal(server.write(other.clone()).await), wrong_uid());
    assert_eq!(refusal(server.write(with_version(other.clone(), &stored.version)).await), wrong_uid());
    assert_eq!(refusal(server.write(with_version(other.clone(), "wrong")).await), wrong_uid());
    assert_eq!(
        refusal(server.write(with_version(stored.clone(), "wrong")).await),
        aborted(),
        "right uid, wrong version"
    );
    // The faults of a creation come first: status, mark, owner.
    let mut all = noted(with_status(other), &[("deletionTimestamp", "")]);
    all.owner = Some(id(CONCEPT, "nobody"));
    assert_eq!(refusal(server.write(all.clone()).await), invalid(STATUS));
    all.status.clear();
    let marked = "resource.metadata.deletionTimestamp can't be set on resource creation";
    assert_eq!(refusal(server.write(all.clone()).await), invalid(marked));
    all.metadata.clear();
    assert_eq!(refusal(server.write(all).await), invalid(NO_OWNER));
    assert_eq!(server.read(&id(CONCEPT, "idea")).await.unwrap(), stored);
}

#[tokio::test]
async fn a_stale_uid_creates_anew_unless_a_version_forbids_it() {
    let server = Server::start().await;
    let first = server.write(concept("idea")).await.unwrap();
    let uid = first.id.clone().unwrap().uid;
    server.delete(&id(CONCEPT, "idea"), "").await.unwrap();
    assert_eq!(refusal(server.write(first.clone()).await), aborted());
    let second = server.write(with_version(first, "")).await.unwrap();
    assert_ne!(second.id.unwrap().uid, uid);
    assert_eq!(refusal(server.write(with_uid(concept("idea"), &uid)).await), wrong_uid());
}

#[tokio::test]
async fn blanket_writers_of_one_name_all_succeed() {
    let server = Server::start().await;
    for round in ["creating", "updating"] {
        let writers = (0..32).map(|n| noted(concept("idea"), &[("writer", &format!("{round} {n}"))])).collect();
        let written = race(&server, writers).await.into_iter().map(Result::unwrap).collect::<Vec<_>>();
        let uids = written.iter().map(|r| r.id.clone().unwrap().uid).collect::<BTreeSet<_>>();
        assert_eq!(uids.len(), 1, "{round}: one incarnation");
        let versions = written.iter().map(|r| r.version.clone()).collect::<BTreeSet<_>>();
        assert_eq!(versions.len(), 32, "{round}: each is a commit of its own");
        assert!(written.contains(&server.read(&id(CONCEPT, "idea")).await.unwrap()), "{round}");
    }
}

#[tokio::test]
async fn of_conditional_writers_one_succeeds() {
    let server = Server::start().await;
    let stored = server.write(concept("idea")).await.unwrap();
    let answers = race(&server, vec![stored; 16]).await;
    let (won, lost): (Vec<_>, Vec<_>) = answers.into_iter().partition(Result::is_ok);
    assert_eq!(won.len(), 1);
    assert!(lost.into_iter().all(|answer| refusal(answer) == aborted()));
}

#[tokio::test]
async fn a_write_under_another_group_version_stores_that_one() {
    let server = Server::start().await;
    let old = server.write(noted(artist("korn"), &[("finalizers", "a")])).await.unwrap();
    let new = server.write(artist_v1("korn")).await.unwrap();
    let (old_id, new_id) = (old.id.clone().unwrap(), new.id.clone().unwrap());
    assert_eq!(new_id.r#type, Some(gvk("demo.v1.Artist")));
    assert_eq!(new_id.uid, old_id.uid, "it is the same resource");
    assert_eq!(new.metadata, old.metadata, "as with any blanket write");
    assert_eq!(server.read(&new_id).await.unwrap(), new);
    let text = r#"resource was requested with GroupVersion="v2", but stored with GroupVersion="v1""#;
    assert_eq!(refusal(server.read(&old_id).await), invalid(text));
    assert_eq!(server.list(gvk("demo.v1.Artist"), tenancy("", ""), "").await.unwrap(), std::slice::from_ref(&new));
    // The rules of versions and uids are the same across GroupVersions.
    assert_eq!(refusal(server.write(old.clone()).await), aborted());
    assert_eq!(refusal(server.write(with_uid(artist("korn"), "another")).await), wrong_uid());
    let back = server.write(with_version(artist("korn"), &new.version)).await.unwrap();
    assert_eq!(back.id, old.id);
}

#[tokio::test]
async fn an_owner_without_uid_is_looked_up_exactly_where_the_client_says() {
    let server = Server::start().await;
    make_place(&server, "default", "other").await;
    let korn = server.write(artist("korn")).await.unwrap().id.unwrap();
    let named = id_in("demo.v2.Artist", "korn", "default", "default");
    let debut = server.write(album("debut", Some(&named))).await.unwrap();
    assert_eq!(debut.owner, Some(korn.clone()), "the uid is filled in");

    for missing in [
        id("demo.v2.Artist", "korn"),
        id_in("demo.v2.Artist", "korn", "default", ""),
        id_in("demo.v2.Artist", "korn", "", "default"),
        id_in("demo.v2.Artist", "korn", "default", "other"),
        id_in("demo.v2.Artist", "korn", "nowhere", "neither"),
        id_in("demo.v2.Artist", "slipknot", "default", "default"),
        id_in("nope.v1.Nope", "korn", "default", "default"),
    ] {
        assert_eq!(refusal(server.write(album("second", Some(&missing))).await), invalid(NO_OWNER), "{missing:?}");
    }
    let older = id_in("demo.v1.Artist", "korn", "default", "default");
    let version = r#"resource was requested with GroupVersion="v1", but stored with GroupVersion="v2""#;
    let text = format!("resource.owner: {version}");
    assert_eq!(refusal(server.write(album("second", Some(&older))).await), invalid(text));

    // An owner may be elsewhere, and of another scope.
    let far = at(album("far", Some(&named)), "default", "other");
    assert_eq!(server.write(far).await.unwrap().owner, Some(korn));
    let boss = server.write(resource(id("demo.v1.Executive", "boss"), None)).await.unwrap().id;
    let bossed = server.write(album("bossed", Some(&id("demo.v1.Executive", "boss")))).await.unwrap();
    assert_eq!(bossed.owner, boss);
}

#[tokio::test]
async fn an_owner_with_uid_is_not_looked_up() {
    let server = Server::start().await;
    for owner in [
        pb::Id { uid: "nobody".into(), ..id_in("demo.v2.Artist", "korn", "default", "default") },
        pb::Id { uid: "nobody".into(), ..id_in("nope.v1.Nope", "korn", "nowhere", "neither") },
        pb::Id { uid: "nobody".into(), tenancy: Some(tenancy("", "")), ..id("demo.v2.Artist", "korn") },
    ] {
        let written = server.write(album("debut", Some(&owner))).await.unwrap();
        assert_eq!(written.owner, Some(owner.clone()));
        let again = pb::Id { uid: String::new(), ..owner.clone() };
        let again = server.write(album("debut", Some(&again))).await.unwrap();
        assert_eq!(again.owner, Some(owner), "an update takes the uid from what is stored");
        server.delete(&id("demo.v2.Album", "debut"), "").await.unwrap();
    }
}

#[tokio::test]
async fn an_owner_cannot_be_changed_added_or_left_out() {
    let server = Server::start().await;
    let korn = server.write(artist("korn")).await.unwrap().id.unwrap();
    let other = server.write(artist("other")).await.unwrap().id.unwrap();
    server.write(album("debut", Some(&korn))).await.unwrap();
    for owner in [
        None,
        Some(other.clone()),
        Some(pb::Id { uid: String::new(), ..other }),
        Some(pb::Id { uid: "another".into(), ..korn.clone() }),
        Some(pb::Id { tenancy: None, ..korn.clone() }),
        Some(pb::Id { tenancy: Some(tenancy("default", "")), ..korn.clone() }),
        Some(pb::Id { r#type: Some(gvk("demo.v1.Artist")), ..korn.clone() }),
    ] {
        assert_eq!(refusal(server.write(album("debut", owner.as_ref())).await), invalid(OWNER), "{owner:?}");
    }
    server.write(album("free", None)).await.unwrap();
    assert_eq!(refusal(server.write(album("free", Some(&korn))).await), invalid(OWNER));
    // The version is checked before the owner, the owner before the status.
    assert_eq!(refusal(server.write(with_version(album("debut", None), "wrong")).await), aborted());
    assert_eq!(refusal(server.write(with_status(album("debut", None))).await), invalid(OWNER));
    assert_eq!(server.read(&id("demo.v2.Album", "free")).await.unwrap().owner, None);
    let boss = server.write(resource(id("demo.v1.Executive", "boss"), None)).await.unwrap().id.unwrap();
    server.write(album("bossed", Some(&boss))).await.unwrap();
    let short = pb::Id { tenancy: None, ..boss };
    assert!(server.write(album("bossed", Some(&short))).await.is_ok(), "an absent tenancy is an empty one");
}

#[tokio::test]
async fn status_is_kept_and_may_be_sent_back_but_not_changed() {
    let server = Server::start().await;
    let stored = server.write(concept("idea")).await.unwrap();
    assert_eq!(refusal(server.write(with_status(stored.clone())).await), invalid(STATUS), "on an update");
    let status = pb::Status { observed_generation: stored.generation.clone(), ..Default::default() };
    let request =
        pb::WriteStatusRequest { id: stored.id, key: "k".into(), status: Some(status), version: String::new() };
    let stored = server.write_status(request).await.unwrap();
    let kept = server.write(concept("idea")).await.unwrap();
    assert_eq!(kept.status, stored.status, "left out");
    let kept = server.write(kept).await.unwrap();
    assert_eq!(kept.status, stored.status, "sent back");

    let mut later = kept.clone();
    later.status.get_mut("k").unwrap().updated_at.as_mut().unwrap().nanos ^= 1;
    let mut undated = kept.clone();
    undated.status.get_mut("k").unwrap().updated_at = None;
    let mut more = kept.clone();
    more.status.insert("l".into(), pb::Status::default());
    for changed in [later, undated, more.clone()] {
        assert_eq!(refusal(server.write(changed).await), invalid(STATUS));
    }
    // The version is checked before it; the rules of deletion after it.
    assert_eq!(refusal(server.write(with_version(more.clone(), "wrong")).await), aborted());
    more.metadata = metadata(&[("deletionTimestamp", ""), ("more", "")]);
    assert_eq!(refusal(server.write(more).await), invalid(STATUS));
    assert_eq!(server.read(&id(CONCEPT, "idea")).await.unwrap(), kept);
}

#[tokio::test]
async fn validation_sees_the_stored_resource_after_a_race() {
    let server = Setup::new().guest("prior").start().await;
    let year = |number| thing("prior", "album", &Thing { number, ..Default::default() });
    let warning = |response: pb::WriteResponse| response.warnings[0].summary.clone();
    assert_eq!(warning(server.write_full(year(1994)).await.unwrap()), "there was no year");
    assert_eq!(warning(server.write_full(year(1996)).await.unwrap()), "the year was 1994");
    assert_eq!(refusal(server.write(year(1995)).await), invalid("the year goes back from 1996 to 1995"));
    // Validation comes before the version.
    let stale = with_version(year(1995), "wrong");
    assert_eq!(refusal(server.write(stale).await), invalid("the year goes back from 1996 to 1995"));
    // A write that loses the race is validated again, so the year never decreases.
    let mut watch = server.watch(gvk("prior.v1.Thing"), None, "").await.unwrap();
    let mut years =
        watch.snapshot().await.iter().map(|r| crate::support::decoded::<Thing>(r).number).collect::<Vec<_>>();
    let answers = race(&server, (2000..2016).rev().map(year).collect()).await;
    for _ in answers.iter().filter(|answer| answer.is_ok()) {
        years.push(crate::support::decoded::<Thing>(&watch.upsert().await).number);
    }
    assert!(years.is_sorted() && years.last() == Some(&2015), "{years:?}");
}

#[tokio::test]
async fn immutable_fields_stay_as_they_were_created() {
    let server = Setup::new().guest("immutable-field").start().await;
    let one = |number, inner: &str, text: &str| {
        let inner = Some(Inner { text: inner.into() });
        thing("immutable_field", "one", &Thing { number, inner, text: text.into(), ..Default::default() })
    };
    let stored = server.write(one(1, "a", "x")).await.unwrap();
    server.write(one(1, "a", "y")).await.unwrap();
    let (code, text) = refusal(server.write(one(2, "a", "y")).await);
    assert!(code == Code::InvalidArgument && text.starts_with("data.number cannot be changed"), "{text}");
    let (code, text) = refusal(server.write(one(1, "b", "y")).await);
    assert!(code == Code::InvalidArgument && text.starts_with("data.inner.text cannot be changed"), "{text}");
    assert_eq!(refusal(server.write(with_version(one(2, "a", "y"), &stored.version)).await), aborted());
}
