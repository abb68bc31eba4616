//! Write, first half: checks before the stored resource is read. Data and the effect of hooks: `write_data.rs`. The
//! second half: `write_stored.rs`; marked resources: `write_marked.rs`.

use crate::support::{
    Server, Setup, album, any, artist, at, bad_names, concept, demo, deny_thing, eventually, good_names, gvk, id,
    id_in, id_stairs, invalid, make_place, metadata, name_rule, noted, owned, refusal, resource, scope_rule, tenancy,
    with_needed_data,
};
use mortise_resource::pb;
use tonic::Code;

use super::{V2_ALBUM, V2_ARTIST, bytes, nameless, with_data};

const ARTIST: &str = "demo.v2.Artist";

/// Deletes a namespace whose content is kept by a finalizer.
async fn going_place(server: &Server) {
    make_place(server, "default", "going").await;
    let held = noted(at(album("held", None), "default", "going"), &[("finalizers", "hold")]);
    server.write(held).await.unwrap();
    server.delete(&id("tenancy.v2beta1.Namespace", "going"), "").await.unwrap();
}

#[tokio::test]
async fn each_check_comes_before_the_next_one() {
    let server = Server::start().await;
    let said = |resource: pb::Resource| {
        let server = &server;
        async move { refusal(server.write(resource).await) }
    };
    let nothing = server.client().write(pb::WriteRequest { resource: None }).await;
    assert_eq!(refusal(nothing), invalid("resource is required"));

    // The resource has every fault; then one fault after the other is removed.
    let mut all = pb::Resource {
        id: None,
        owner: Some(pb::Id::default()),
        version: "1".into(),
        generation: "nonsense".into(),
        metadata: metadata(&[("deletionTimestamp", "")]),
        status: [("k".to_owned(), pb::Status::default())].into(),
        data: Some(bytes(V2_ALBUM, &[0xff])),
        schema_version: 0,
        references: Vec::new(),
        meta: None,
    };
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
    all.id.as_mut().unwrap().r#type = Some(gvk(ARTIST));
    let wrong = format!("resource.data is of wrong type (expected={V2_ARTIST:?}, got={V2_ALBUM:?})");
    assert_eq!(said(all.clone()).await, invalid(wrong));
    all.data = Some(bytes(V2_ARTIST, &[0xff]));
    let broken = format!("resource.data cannot be decoded as {V2_ARTIST}: ");
    let (code, text) = said(all.clone()).await;
    assert!(code == Code::InvalidArgument && text.starts_with(&broken), "{text}");
    all.data = None;
    let (code, text) = said(all.clone()).await;
    assert!(code == Code::InvalidArgument && text.starts_with("failed mutate hook: "), "{text}");
    all.data = nameless("korn").data;
    assert_eq!(said(all.clone()).await, invalid("artist.name required"));
    all.data = artist("korn").data;
    assert_eq!(said(all.clone()).await, invalid("partition not found: nowhere"));
    all.id.as_mut().unwrap().tenancy = Some(tenancy("", "neither"));
    assert_eq!(said(all.clone()).await, invalid("namespace not found: neither"));
    all.id.as_mut().unwrap().tenancy = None;
    assert_eq!(said(all.clone()).await, invalid("resource.status can only be set using the WriteStatus endpoint"));
    all.status.clear();
    let marked = "resource.metadata.deletionTimestamp can't be set on resource creation";
    assert_eq!(said(all.clone()).await, invalid(marked));
    all.metadata.clear();
    assert_eq!(said(all.clone()).await, invalid("resource.owner does not exist"));
    all.owner = None;
    let cas = "CAS operation failed because the given version doesn't match what is stored";
    assert_eq!(said(all.clone()).await, (Code::Aborted, cas.into()));
    all.version.clear();
    let written = server.write(all).await.unwrap();
    assert_eq!(written.id.unwrap().uid.len(), 26, "the uid that the client made up is dropped");
    assert_eq!(written.generation.len(), 26);
}

#[tokio::test]
async fn names_follow_the_rule() {
    let server = Server::start().await;
    let mut bad = bad_names();
    bad.push(String::new());
    for name in bad {
        let said = refusal(server.write(concept(&name)).await);
        assert_eq!(said, invalid(format!("resource.id.name invalid: {}", name_rule(&name))));
        let said = refusal(server.write(owned(concept("idea"), &id("demo.v1.Concept", &name))).await);
        assert_eq!(said, invalid(format!("resource.owner.name invalid: {}", name_rule(&name))));
        if !name.is_empty() {
            let said = refusal(server.write(at(concept("idea"), &name, "")).await);
            assert_eq!(said, invalid(format!("resource.id.tenancy.partition invalid: {}", name_rule(&name))));
            let owner = id_in("demo.v1.Concept", "idea", "default", &name);
            let said = refusal(server.write(owned(concept("idea"), &owner)).await);
            assert_eq!(said, invalid(format!("resource.owner.tenancy.namespace invalid: {}", name_rule(&name))));
        }
    }
    for name in good_names() {
        let written = server.write(concept(&name)).await.unwrap();
        assert_eq!(server.read(&id("demo.v1.Concept", &name)).await.unwrap(), written);
    }
}

#[tokio::test]
async fn types_are_looked_up_whole_and_case_sensitively() {
    let server = Server::start().await;
    for text in ["..", "demo..", "demo..Concept", "demo.v1.concept", "DEMO.v1.Concept", "demo.v9.Concept"] {
        let said = refusal(server.write(resource(id(text, "idea"), None)).await);
        assert_eq!(said, invalid(format!("resource type {text} not registered")));
    }
}

#[tokio::test]
async fn units_beyond_the_scope_are_refused_in_the_words_of_read() {
    let server = Server::start().await;
    for (t, partition, namespace, unit, value) in [
        ("demo.v1.RecordLabel", "", "x", "namespace", "x"),
        ("demo.v1.Executive", "default", "", "partition", "default"),
        ("demo.v1.Executive", "nowhere", "x", "partition", "nowhere"),
        ("demo.v1.Executive", "", "default", "namespace", "default"),
    ] {
        // The data's type is wrong, too, but is checked later.
        let wrong = resource(id_in(t, "one", partition, namespace), artist("x").data);
        assert_eq!(refusal(server.write(wrong).await), invalid(scope_rule(t, unit, value)));
    }
}

#[tokio::test]
async fn empty_units_are_filled_in_and_the_answer_says_so() {
    let server = Server::start().await;
    make_place(&server, "here", "home").await;
    for (t, given, filled) in [
        ("demo.v1.Concept", tenancy("", ""), tenancy("default", "default")),
        ("demo.v1.Concept", tenancy("here", ""), tenancy("here", "default")),
        ("demo.v1.Concept", tenancy("here", "home"), tenancy("here", "home")),
        ("demo.v1.RecordLabel", tenancy("", ""), tenancy("default", "")),
        ("demo.v1.RecordLabel", tenancy("here", ""), tenancy("here", "")),
        ("demo.v1.Executive", tenancy("", ""), tenancy("", "")),
    ] {
        let one = pb::Id { tenancy: Some(given), ..id(t, "one") };
        let sent = pb::Resource { id: Some(one), ..with_needed_data(t) };
        let written = server.write(sent).await.unwrap();
        assert_eq!(written.id.unwrap().tenancy, Some(filled), "{t}");
    }
    let written = server.write(concept("two")).await.unwrap();
    assert_eq!(written.id.unwrap().tenancy, Some(tenancy("default", "default")), "without any tenancy");
}

#[tokio::test]
async fn a_missing_place_is_invalid_the_partition_first() {
    let server = Server::start().await;
    make_place(&server, "here", "home").await;
    for (partition, namespace, text) in [
        ("nowhere", "neither", "partition not found: nowhere"),
        ("nowhere", "", "partition not found: nowhere"),
        ("", "neither", "namespace not found: neither"),
        ("default", "home", "namespace not found: home"),
        ("here", "neither", "namespace not found: neither"),
    ] {
        assert_eq!(refusal(server.write(at(concept("idea"), partition, namespace)).await), invalid(text));
    }
    let label = resource(id_in("demo.v1.RecordLabel", "sub-pop", "nowhere", ""), None);
    assert_eq!(refusal(server.write(label).await), invalid("partition not found: nowhere"));
    let namespace = resource(id_in("tenancy.v2beta1.Namespace", "n", "nowhere", ""), None);
    assert_eq!(refusal(server.write(namespace).await), invalid("partition not found: nowhere"));
}

#[tokio::test]
async fn a_place_that_is_on_its_way_out_takes_nothing_new() {
    let server = Server::start().await;
    going_place(&server).await;
    let gone = r#"tenancy marked for deletion: partition:"default" namespace:"going""#;
    assert_eq!(refusal(server.write(at(artist("korn"), "default", "going")).await), invalid(gone));
    // Validation and the status rule come before it; the rules of the mark and the owner come after it.
    let nameless = at(nameless("korn"), "default", "going");
    assert_eq!(refusal(server.write(nameless).await), invalid("artist.name required"));
    let mut all = noted(at(artist("korn"), "default", "going"), &[("deletionTimestamp", "")]);
    all.owner = Some(id(ARTIST, "nobody"));
    assert_eq!(refusal(server.write(all.clone()).await), invalid(gone));
    all.status.insert("k".into(), pb::Status::default());
    let status = "resource.status can only be set using the WriteStatus endpoint";
    assert_eq!(refusal(server.write(all).await), invalid(status));
    // The finalizer can be removed, and then the namespace goes.
    let held = noted(at(album("held", None), "default", "going"), &[("finalizers", "")]);
    server.write(held).await.unwrap();
    eventually("the namespace is gone", || async {
        server.read(&id("tenancy.v2beta1.Namespace", "going")).await.is_err()
    })
    .await;
}

#[tokio::test]
async fn permission_is_asked_after_the_shape_and_before_the_place_and_what_is_stored() {
    let data = tempfile::tempdir().unwrap();
    // Another plugin may provide the types of a removed one.
    let hookless = crate::support::hookless(&["deny.v1.ById", "deny.v1.ByContent"]);
    let plant = Setup::new().data_dir(data.path()).component("plant", hookless).start().await;
    plant.write(deny_thing("ById", "frozen-lake", "")).await.unwrap();
    plant.write(deny_thing("ById", "lake", "frozen")).await.unwrap();
    assert!(plant.stop().await.success());

    let server = Setup::new().data_dir(data.path()).guest("deny").start().await;
    let denied = (Code::PermissionDenied, "Permission denied: this is frozen".to_owned());
    let frozen = deny_thing("ById", "frozen-lake", "");
    assert_eq!(refusal(server.write(deny_thing("ById", "frozen-sea", "")).await), denied, "absent");
    assert_eq!(refusal(server.write(frozen.clone()).await), denied, "present");
    assert_eq!(refusal(server.write(deny_thing("ByContent", "sea", "frozen")).await), denied, "by content");

    let wrong = with_data(frozen.clone(), any(V2_ALBUM, &demo::v2::Album::default()));
    let text = format!("resource.data is of wrong type (expected=\"mortise.test.v1.Thing\", got={V2_ALBUM:?})");
    assert_eq!(refusal(server.write(wrong).await), invalid(text));
    let broken = with_data(frozen.clone(), bytes("mortise.test.v1.Thing", &[0xff]));
    assert_eq!(refusal(server.write(broken).await).0, Code::InvalidArgument);

    assert_eq!(refusal(server.write(at(frozen.clone(), "nowhere", "")).await), denied);
    let fine = at(deny_thing("ById", "sea", ""), "nowhere", "");
    assert_eq!(refusal(server.write(fine).await), invalid("partition not found: nowhere"));

    let mut later = frozen;
    later.version = "wrong".into();
    later.status.insert("k".into(), pb::Status::default());
    later.owner = Some(id(ARTIST, "nobody"));
    assert_eq!(refusal(server.write(later.clone()).await), denied, "version, status, owner");
    later.id.as_mut().unwrap().uid = "wrong".into();
    assert_eq!(refusal(server.write(later).await), denied, "uid");

    // The incoming resource is authorized, not the stored one.
    let thawed = server.write(deny_thing("ById", "lake", "")).await.unwrap();
    assert_eq!(refusal(server.write(deny_thing("ById", "lake", "frozen")).await), denied);
    assert_eq!(server.read(&id("deny.v1.ById", "lake")).await.unwrap(), thawed);
}
