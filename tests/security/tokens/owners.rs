//! Owners and owner references to resources that the writer may not read: they do not exist for it.

use mortise_api::OwnershipServiceClient;
use mortise_resource::{
    data::{self, GetTreeRequest},
    goten::{Meta, OwnerReference},
    pb,
};
use mortise_test_guests::Node;

use super::allow;
use crate::{
    ownership::references::{NODE, node, setup},
    support::{tokens::*, *},
};

async fn namespace(guarded: &Guarded, name: &str) {
    let mut space = id("tenancy.v2beta1.Namespace", name);
    space.tenancy = Some(tenancy("default", ""));
    guarded.write(resource(space, None)).await;
}

fn placed(kind: &str, namespace: &str, name: &str) -> pb::Id {
    id_in(kind, name, "default", namespace)
}

#[tokio::test]
async fn an_owner_that_the_writer_may_not_read_does_not_exist() {
    let guarded = Guarded::start(Setup::new()).await;
    for name in ["blue", "red"] {
        namespace(&guarded, name).await;
    }
    let mut rule = allow(&["*"], &["demo/*"]);
    rule.namespaces = vec!["blue".to_owned()];
    guarded.policy("blue", "", vec![rule]).await;
    let secret = guarded.token("blue", &["blue"], |_| {}).await;
    let mut blue = guarded.resources(&secret).await;
    let placed_artist = |namespace: &str, name: &str| pb::Resource {
        id: Some(placed("demo.v2.Artist", namespace, name)),
        ..artist(name)
    };
    let there = guarded.write(placed_artist("red", "there")).await;
    guarded.write(placed_artist("blue", "own")).await;
    guarded.write(label("label", "default")).await;

    let mut told = Vec::new();
    let mut own = async |owner: pb::Id| {
        let child = pb::Resource { owner: Some(owner), ..placed_artist("blue", "child") };
        let written = blue.write(pb::WriteRequest { resource: Some(child) }).await;
        if let Ok(written) = &written {
            let id = written.get_ref().resource.as_ref().unwrap().id.clone();
            blue.delete(pb::DeleteRequest { id, version: String::new() }).await.unwrap();
        }
        written.map(|written| written.into_inner().resource.unwrap().owner.unwrap().uid)
    };
    for owner in [
        placed("demo.v2.Artist", "red", "there"),
        placed("demo.v2.Artist", "red", "absent"),
        // Another version of the stored type.
        placed("demo.v1.Artist", "red", "there"),
        placed("demo.v1.Artist", "red", "absent"),
        // The permission needs the content.
        id_in("demo.v1.RecordLabel", "label", "default", ""),
        id_in("demo.v1.RecordLabel", "absent", "default", ""),
        id_in("mortise.v1.Token", "bootstrap", "", ""),
        id_in("mortise.v1.Token", "absent", "", ""),
        id_in("nope.v1.Nope", "absent", "default", "red"),
    ] {
        let status = own(owner).await.unwrap_err();
        told.push((status.code(), status.message().to_owned(), status.details().to_owned()));
    }
    told.dedup();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].1, "resource.owner does not exist");
    assert!(!own(placed("demo.v2.Artist", "blue", "own")).await.unwrap().is_empty());
    assert!(!there.id.unwrap().uid.is_empty());
}

#[tokio::test]
async fn an_owner_reference_to_what_the_writer_may_not_read_is_dropped_as_to_what_is_missing() {
    let guarded = Guarded::start(setup().env("MORTISE_SERVICE_OWNER_GRACE_MS", 400)).await;
    for name in ["hidden", "known-owner"] {
        guarded.write(node(name, &Node::default())).await;
    }
    let mut rule = allow(&["*"], &["references/*"]);
    rule.name_prefixes = vec!["known-".to_owned()];
    guarded.policy("some", "", vec![rule]).await;
    let secret = guarded.token("some", &["some"], |_| {}).await;
    let mut some = guarded.resources(&secret).await;
    let with_owner = |name: &str, owner: &str| {
        let owner = OwnerReference { kind: "references/Node".into(), name: owner.into(), ..Default::default() };
        let owner = OwnerReference { unset_on_delete: true, version: "v1".into(), ..owner };
        let meta = Meta { owner_references: vec![owner], ..Meta::default() };
        pb::Resource { meta: Some(Box::new(meta)), ..node(name, &Node::default()) }
    };
    let mut answers = Vec::new();
    for owner in ["hidden", "absent"] {
        let name = format!("known-{owner}");
        let written = some.write(pb::WriteRequest { resource: Some(with_owner(&name, owner)) }).await.unwrap();
        let written = written.into_inner().resource.unwrap();
        let records: Vec<_> = written
            .references
            .into_iter()
            .map(|record| data::ReferenceRecord { name: String::new(), since: None, ..record })
            .collect();
        let mut ownership = OwnershipServiceClient::new(guarded.channel(&secret).await);
        let request = GetTreeRequest { id: Some(id(NODE, &name)), depth: 0 };
        let tree = ownership.get_tree(request).await.unwrap().into_inner();
        let up = tree.up.into_iter().map(|link| (link.target.map(|target| target.uid), link.by)).collect::<Vec<_>>();
        answers.push((records, up, tree.hidden));
    }
    assert_eq!(answers[0], answers[1]);
    some.write(pb::WriteRequest { resource: Some(with_owner("known-own", "known-owner")) }).await.unwrap();
    // Written by a caller that may read it, the reference counts, whoever changes the resource later.
    let operators = guarded.write(with_owner("known-operators", "hidden")).await;
    let changed = pb::Resource { version: String::new(), ..with_owner("known-operators", "hidden") };
    some.write(pb::WriteRequest { resource: Some(pb::Resource { id: operators.id, ..changed }) }).await.unwrap();
    let owners = async |name: &str| {
        let mut management = guarded.resources(&guarded.management).await;
        let found = management.read(pb::ReadRequest { id: Some(id(NODE, name)) }).await.unwrap().into_inner();
        found.resource.unwrap().meta.unwrap().owner_references.len()
    };
    for name in ["known-absent", "known-hidden"] {
        eventually("its owner is dropped", async || owners(name).await == 0).await;
    }
    assert_eq!((owners("known-own").await, owners("known-operators").await), (1, 1));
    guarded.delete(id(NODE, "hidden")).await;
    eventually("its owner is gone", async || owners("known-operators").await == 0).await;
}
