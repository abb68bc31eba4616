//! Owner references of `meta`: their validity, and the fate of a dependent that loses its owners.

use mortise_resource::{
    goten::{Meta, OwnerReference},
    pb,
};
use mortise_test_guests::Node;

use crate::{
    ownership::references::{NODE, node, setup},
    support::{Server, Setup, decoded, eventually, gvk, id, is_gone, resource, tenancy, until_gone},
};

fn quick() -> Setup {
    setup().env("MORTISE_SERVICE_OWNER_GRACE_MS", 400)
}

/// A server with enough time to write an owner, even on a slow machine.
fn patient() -> Setup {
    setup().env("MORTISE_SERVICE_OWNER_GRACE_MS", 3_000)
}

fn owner(name: &str) -> OwnerReference {
    OwnerReference { kind: "references/Node".into(), name: name.into(), version: "v1".into(), ..Default::default() }
}

fn dependent(name: &str, owners: Vec<OwnerReference>) -> pb::Resource {
    let meta = Meta { owner_references: owners, ..Meta::default() };
    pb::Resource { meta: Some(Box::new(meta)), ..node(name, &Node::default()) }
}

async fn owners(server: &Server, name: &str) -> Vec<String> {
    let found = server.read(&id(NODE, name)).await.unwrap();
    found.meta.unwrap().owner_references.into_iter().map(|owner| owner.name).collect()
}

async fn goes(server: &Server, name: &str) {
    until_gone(server, &id(NODE, name)).await;
}

async fn checks(server: &Server) -> usize {
    let all = server.list(gvk("mortise.v1.OwnershipCheck"), tenancy("", ""), "").await.unwrap();
    all.len()
}

#[tokio::test]
async fn a_dependent_goes_with_its_last_owner() {
    let server = quick().start().await;
    for name in ["a", "b"] {
        server.write(node(name, &Node::default())).await.unwrap();
    }
    server.write(dependent("one", vec![owner("a")])).await.unwrap();
    server.write(dependent("two", vec![owner("a"), owner("default/default/b")])).await.unwrap();
    let unset = OwnerReference { unset_on_delete: true, ..owner("a") };
    server.write(dependent("unset", vec![unset])).await.unwrap();
    server
        .write(dependent("chain", vec![OwnerReference { kind: "references.v1.Node".into(), ..owner("one") }]))
        .await
        .unwrap();
    server.write(node("free", &Node::default())).await.unwrap();
    server.delete(&id(NODE, "a"), "").await.unwrap();
    goes(&server, "one").await;
    goes(&server, "chain").await;
    eventually("the other owner is left", async || owners(&server, "two").await == ["default/default/b"]).await;
    eventually("only the reference goes", async || owners(&server, "unset").await.is_empty()).await;
    server.delete(&id(NODE, "b"), "").await.unwrap();
    goes(&server, "two").await;
    assert!(!is_gone(&server, &id(NODE, "free")).await && !is_gone(&server, &id(NODE, "unset")).await);
    assert_eq!(checks(&server).await, 0, "owners that were there are looked at when they go");
}

#[tokio::test]
async fn an_owner_may_come_later_but_not_too_late() {
    let server = patient().start().await;
    server.write(dependent("early", vec![owner("late")])).await.unwrap();
    server.write(dependent("orphan", vec![owner("never")])).await.unwrap();
    server
        .write(dependent("strange", vec![OwnerReference { kind: "library.example.com/Site".into(), ..owner("s") }]))
        .await
        .unwrap();
    server.write(node("there", &Node::default())).await.unwrap();
    server.write(dependent("half", vec![owner("never"), owner("there")])).await.unwrap();
    assert_eq!(checks(&server).await, 4);
    assert!(!is_gone(&server, &id(NODE, "orphan")).await, "there is time");
    server.write(node("late", &Node::default())).await.unwrap();
    for name in ["orphan", "strange"] {
        eventually("what never had an owner stays", async || owners(&server, name).await.is_empty()).await;
    }
    eventually("the invalid owner is dropped", async || owners(&server, "half").await == ["there"]).await;
    eventually("all checks are done", async || checks(&server).await == 0).await;
    assert_eq!(owners(&server, "early").await, ["late"]);
    server.delete(&id(NODE, "late"), "").await.unwrap();
    goes(&server, "early").await;
}

/// An owner counts as such when it is created again before a check is due, or within the grace.
#[tokio::test]
async fn an_owner_that_is_made_again_is_the_owner() {
    let server = patient().start().await;
    server.write(dependent("d", vec![owner("a")])).await.unwrap();
    server.write(node("a", &Node::default())).await.unwrap();
    eventually("its owner has come", async || checks(&server).await == 0).await;
    // The owner is missing for less than the grace when a check runs.
    server.write(dependent("late", vec![owner("b")])).await.unwrap();
    assert_eq!(checks(&server).await, 1);
    server.write(node("b", &Node::default())).await.unwrap();
    eventually("the check is done", async || checks(&server).await == 0).await;
    for name in ["d", "late"] {
        assert_eq!(owners(&server, name).await.len(), 1, "{name}");
    }
}

#[tokio::test]
async fn an_entry_that_changes_is_looked_at_again() {
    let server = patient().start().await;
    server.write(node("o", &Node::default())).await.unwrap();
    server.write(dependent("d", vec![owner("o")])).await.unwrap();
    let refused = server.write(dependent("v", vec![OwnerReference { version: "v9".into(), ..owner("o") }])).await;
    assert_eq!(refused.unwrap_err().code(), tonic::Code::InvalidArgument, "there is no such version");
    assert_eq!(checks(&server).await, 0);
    server.write(dependent("d", vec![OwnerReference { requires_owner_reference: true, ..owner("o") }])).await.unwrap();
    eventually("it never held", async || owners(&server, "d").await.is_empty()).await;
}

#[tokio::test]
async fn an_owner_that_has_to_refer_to_its_dependent() {
    let server = patient().start().await;
    let requires = |name: &str| OwnerReference { requires_owner_reference: true, ..owner(name) };
    server.write(node("o", &Node::default())).await.unwrap();
    server.write(dependent("d", vec![requires("o")])).await.unwrap();
    server.write(dependent("never", vec![requires("o")])).await.unwrap();
    let unset = OwnerReference { unset_on_delete: true, ..requires("o") };
    server.write(dependent("kept", vec![unset])).await.unwrap();
    let points =
        |to: &[&str]| Node { may_dangle: to.iter().map(|name| (*name).to_owned()).collect(), ..Node::default() };
    server.write(node("o", &points(&["d", "kept"]))).await.unwrap();
    eventually("its owner never let go", async || owners(&server, "never").await.is_empty()).await;
    eventually("all checks are done", async || checks(&server).await == 0).await;
    assert_eq!(
        (owners(&server, "d").await, owners(&server, "kept").await),
        (vec!["o".to_owned()], vec!["o".to_owned()])
    );
    // The owner no longer refers to them.
    server.write(node("o", &points(&[]))).await.unwrap();
    goes(&server, "d").await;
    eventually("only the reference goes", async || owners(&server, "kept").await.is_empty()).await;
    let o: Node = decoded(&server.read(&id(NODE, "o")).await.unwrap());
    assert!(o.may_dangle.is_empty());
}

#[tokio::test]
async fn the_collector_obeys_what_blocks_and_goes_on_after_a_kill() {
    let dir = tempfile::tempdir().unwrap();
    let start = async || quick().data_dir(dir.path()).start().await;
    let mut server = start().await;
    server.write(node("a", &Node::default())).await.unwrap();
    server.write(dependent("d", vec![owner("a")])).await.unwrap();
    server.write(dependent("later", vec![owner("nobody")])).await.unwrap();
    server.write(node("stop", &Node { blocked_by: vec!["d".into()], ..Node::default() })).await.unwrap();
    server.delete(&id(NODE, "a"), "").await.unwrap();
    server.child.kill().await.unwrap();
    let server = start().await;
    eventually("it never had an owner", async || owners(&server, "later").await.is_empty()).await;
    assert!(!is_gone(&server, &id(NODE, "d")).await, "something refers to it and blocks");
    server.delete(&id(NODE, "stop"), "").await.unwrap();
    goes(&server, "d").await;
}

#[tokio::test]
async fn clients_cannot_write_ownership_checks() {
    let server = quick().start().await;
    let check = pb::Id { tenancy: Some(tenancy("", "")), ..id("mortise.v1.OwnershipCheck", "mine") };
    let refused = server.write(resource(check, None)).await.unwrap_err();
    assert_eq!(refused.code(), tonic::Code::PermissionDenied);
}
