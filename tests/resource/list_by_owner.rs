//! ListByOwner: validation, children of an incarnation, permission.

use crate::support::{
    Server, Setup, album, artist, at, concept, deny_thing, eventually, gvk, hookless, id, id_in, id_of, invalid, label,
    make_place, name_rule, names, noted, owned, places, refusal, resource, scope_rule, tenancy,
};
use mortise_resource::pb;
use tonic::Code;

const ARTIST: &str = "demo.v2.Artist";
const LABEL: &str = "demo.v1.RecordLabel";
const BOSS: &str = "demo.v1.Executive";
const UID: &str = "01ARZ3NDEKTSV4RRFFQ69G5FAV";

fn with_uid(id: pb::Id) -> pb::Id {
    pb::Id { uid: UID.into(), ..id }
}

#[tokio::test]
async fn requests_are_validated_in_order() {
    let server = Server::start().await;
    let no_type = pb::Id { r#type: None, ..id(ARTIST, "No_Name") };
    for (owner, expected) in [
        (no_type, "owner.type is required".to_owned()),
        (id_in(ARTIST, "", "B_d", ""), format!("owner.name invalid: {}", name_rule(""))),
        (id_in(ARTIST, "korn", "*", "B_d"), format!("owner.tenancy.partition invalid: {}", name_rule("*"))),
        (id_in(ARTIST, "korn", "", "*"), format!("owner.tenancy.namespace invalid: {}", name_rule("*"))),
        (id("demo.v9.Artist", "korn"), "owner uid is required".to_owned()),
        (id_in("demo.v1.RecordLabel", "x", "", "n"), "owner uid is required".to_owned()),
        (with_uid(id("demo.v9.Artist", "korn")), "resource type demo.v9.Artist not registered".to_owned()),
        (with_uid(id_in(LABEL, "x", "", "n")), scope_rule(LABEL, "namespace", "n")),
        (with_uid(id_in(BOSS, "x", "default", "n")), scope_rule(BOSS, "partition", "default")),
        (with_uid(id_in(BOSS, "x", "", "n")), scope_rule(BOSS, "namespace", "n")),
    ] {
        assert_eq!(refusal(server.list_by_owner(&owner).await), invalid(expected));
    }
    let nothing = server.client().list_by_owner(pb::ListByOwnerRequest::default()).await;
    assert_eq!(refusal(nothing), invalid("owner is required"));
}

#[tokio::test]
async fn an_owner_that_is_nowhere_owns_nothing() {
    let server = Server::start().await;
    for owner in [id(ARTIST, "nobody"), id_in(ARTIST, "nobody", "nowhere", "either"), id("demo.v1.Executive", "x")] {
        assert!(server.list_by_owner(&with_uid(owner)).await.unwrap().is_empty());
    }
    let childless = server.write(artist("childless")).await.unwrap();
    assert!(server.list_by_owner(&id_of(&childless)).await.unwrap().is_empty());
}

#[tokio::test]
async fn children_of_every_type_and_place() {
    let server = Server::start().await;
    make_place(&server, "p", "n").await;
    for owner in [artist("korn"), label("korn", "p"), resource(id("demo.v1.Executive", "korn"), None)] {
        let owner = id_of(&server.write(owner).await.unwrap());
        let mut written = Vec::new();
        for child in [
            album("near", None),
            at(concept("far"), "p", "n"),
            at(album("far", None), "p", "n"),
            label("label", "p"),
            resource(id("demo.v1.Executive", "boss"), None),
        ] {
            written.push(server.write(owned(child, &owner)).await.unwrap());
        }
        server.write(concept("nobodys")).await.unwrap();
        let found = server.list_by_owner(&owner).await.unwrap();
        assert_eq!(found.len(), 5);
        for child in &written {
            assert!(found.contains(child), "{}", id_of(child).name);
        }
        // Grandchildren are left out.
        let grandchild = owned(concept("grandchild"), &id_of(&written[0]));
        let grandchild = server.write(grandchild).await.unwrap();
        assert_eq!(server.list_by_owner(&owner).await.unwrap().len(), 5);
        assert_eq!(server.list_by_owner(&id_of(&written[0])).await.unwrap(), [grandchild]);
        for child in written {
            server.delete(&id_of(&child), "").await.unwrap();
        }
        assert!(server.list_by_owner(&owner).await.unwrap().is_empty(), "the entry goes with the child");
        eventually("the grandchild goes", || async {
            server.list(gvk("demo.v1.Concept"), tenancy("", ""), "grandchild").await.unwrap().is_empty()
        })
        .await;
    }
}

#[tokio::test]
async fn the_owners_tenancy_is_defaulted() {
    let server = Server::start().await;
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    server.write(owned(album("one", None), &korn)).await.unwrap();
    for place in [None, Some(tenancy("", "")), Some(tenancy("default", "")), Some(tenancy("", "default"))] {
        let owner = pb::Id { tenancy: place, ..korn.clone() };
        assert_eq!(names(&server.list_by_owner(&owner).await.unwrap()), ["one"]);
    }
}

#[tokio::test]
async fn exactly_this_incarnation() {
    let server = Server::start().await;
    make_place(&server, "default", "n").await;
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    server.write(owned(album("one", None), &korn)).await.unwrap();
    for other in [
        pb::Id { uid: UID.into(), ..korn.clone() },
        pb::Id { uid: korn.uid.to_lowercase(), ..korn.clone() },
        pb::Id { uid: format!("{}0", korn.uid), ..korn.clone() },
        pb::Id { uid: korn.uid[..25].into(), ..korn.clone() },
        pb::Id { name: "kor".into(), ..korn.clone() },
        pb::Id { name: "korn2".into(), ..korn.clone() },
        pb::Id { r#type: Some(gvk("demo.v2.Album")), ..korn.clone() },
        pb::Id { tenancy: Some(tenancy("default", "n")), ..korn.clone() },
    ] {
        assert!(server.list_by_owner(&other).await.unwrap().is_empty(), "{other:?}");
    }
    // The GroupVersion does not belong to an identity.
    let v1 = pb::Id { r#type: Some(gvk("demo.v1.Artist")), ..korn };
    assert_eq!(names(&server.list_by_owner(&v1).await.unwrap()), ["one"]);
}

#[tokio::test]
async fn children_of_every_group_version() {
    let server = Server::start().await;
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    server.write(owned(album("v2", None), &korn)).await.unwrap();
    server.write(owned(resource(id("demo.v1.Album", "v1"), None), &korn)).await.unwrap();
    assert_eq!(names(&server.list_by_owner(&korn).await.unwrap()), ["v1", "v2"]);
}

#[tokio::test]
async fn children_stay_listed_until_they_are_gone_themselves() {
    let server = Server::start().await;
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    server.write(noted(owned(album("held", None), &korn), &[("finalizers", "me")])).await.unwrap();
    server.delete(&korn, "").await.unwrap();
    // A child that was written after the owner's end is listed, too.
    server.write(noted(owned(album("late", None), &korn), &[("finalizers", "me")])).await.unwrap();
    assert_eq!(names(&server.list_by_owner(&korn).await.unwrap()), ["held", "late"]);
    let again = id_of(&server.write(artist("korn")).await.unwrap());
    assert!(server.list_by_owner(&again).await.unwrap().is_empty(), "they are not the next one's");
    for name in ["held", "late"] {
        let freed = owned(album(name, None), &korn);
        server.delete(&id("demo.v2.Album", name), "").await.unwrap();
        server.write(noted(freed, &[("finalizers", "")])).await.unwrap();
    }
    assert!(server.list_by_owner(&korn).await.unwrap().is_empty());
}

#[tokio::test]
async fn updates_keep_a_child_where_it_is() {
    let server = Server::start().await;
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    for value in ["1", "2", "3"] {
        let child = noted(owned(album("one", None), &korn), &[("k", value)]);
        let child = server.write(child).await.unwrap();
        assert_eq!(server.list_by_owner(&korn).await.unwrap(), [child], "once, and as it is now");
    }
}

#[tokio::test]
async fn the_owners_list_rule_guards_and_the_childrens_read_rules_filter() {
    let server = Setup::new().guest("deny").start().await;
    make_place(&server, "default", "nolist").await;
    let owner = id_of(&server.write(deny_thing("ById", "secret-owner", "")).await.unwrap());
    let hidden = id_of(&server.write(at(deny_thing("ById", "x", ""), "default", "nolist")).await.unwrap());
    for (kind, name, text) in [
        ("ById", "open", ""),
        ("ById", "secret-name", ""),
        ("ById", "need-secret", "secret"),
        ("ByContent", "open", ""),
        ("ByContent", "by-content", "secret"),
    ] {
        server.write(owned(deny_thing(kind, name, text), &owner)).await.unwrap();
    }
    // A child's list rule is not called.
    server.write(owned(at(deny_thing("ById", "there", ""), "default", "nolist"), &owner)).await.unwrap();
    server.write(owned(concept("concept"), &owner)).await.unwrap();
    let mut found = places(&server.list_by_owner(&owner).await.unwrap());
    found.sort();
    let visible = ["default/default/concept", "default/default/open", "default/default/open", "default/nolist/there"];
    assert_eq!(found, visible);
    let denied = (Code::PermissionDenied, "Permission denied: no lists here".to_owned());
    assert_eq!(refusal(server.list_by_owner(&hidden).await), denied);
    assert_eq!(refusal(server.list_by_owner(&pb::Id { uid: UID.into(), ..hidden.clone() }).await), denied);
    let unknown = pb::Id { uid: String::new(), ..hidden };
    let said = refusal(server.list_by_owner(&unknown).await);
    assert_eq!(said, invalid("owner uid is required"), "validation comes first");
}

#[tokio::test]
async fn a_child_of_an_unknown_type_fails_the_call() {
    let dir = tempfile::tempdir().unwrap();
    let server = Setup::new().component("open", hookless(&["good.v1.Thing"])).data_dir(dir.path()).start().await;
    let korn = id_of(&server.write(artist("korn")).await.unwrap());
    server.write(owned(resource(id("good.v1.Thing", "x"), None), &korn)).await.unwrap();
    assert!(server.stop().await.success());
    // The plugin's file is gone, and so is the copy that the host keeps for this case.
    std::fs::remove_dir_all(dir.path().join("plugins")).unwrap();
    let server = Setup::new().data_dir(dir.path()).start().await;
    let said = refusal(server.list_by_owner(&korn).await);
    assert_eq!(said, invalid("resource type good.v1.Thing not registered"));
}

/// A list returns the instance of one type's plugin before it asks for the next type's: tested with one instance, and
/// with many lists that share few.
#[tokio::test]
async fn children_of_two_types_with_hooks_do_not_wait_for_each_other() {
    for (concurrency, lists) in [(1, 4), (4, 64)] {
        let server = Setup::new()
            .guest("deny")
            .env("MORTISE_SANDBOX_CONCURRENCY", concurrency)
            .limit("remembered_decisions", 0)
            .tolerant()
            .start()
            .await;
        let owner = id_of(&server.write(artist("korn")).await.unwrap());
        for n in 0..3 {
            for kind in ["ById", "ByContent"] {
                server
                    .write(owned(deny_thing(kind, &format!("{}-{n}", kind.to_lowercase()), "x"), &owner))
                    .await
                    .unwrap();
            }
        }
        let listing = (0..lists).map(|_| {
            let (mut client, owner) = (server.client(), owner.clone());
            tokio::spawn(async move { client.list_by_owner(pb::ListByOwnerRequest { owner: Some(owner) }).await })
        });
        for list in listing.collect::<Vec<_>>() {
            let found = list.await.unwrap().unwrap_or_else(|e| panic!("{concurrency}: {e}")).into_inner().resources;
            assert_eq!(found.len(), 6);
        }
    }
}
