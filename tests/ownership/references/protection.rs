//! Deletion protection, the server's finalizer, and resources that the caller may not read.

use mortise_api::OwnershipServiceClient;
use mortise_resource::{
    data::{self, GetTreeRequest, PlanDeleteRequest, SetBlockDeletionRequest},
    pb,
};
use mortise_test_guests::Node;
use tonic::Code;

use super::{NODE, all, delete, list, node, ownership, setup, start};
use crate::support::{id, id_of, is_gone, noted, owned, reaped, refusal, tokens::Guarded, tombstone_id, until_gone};

#[tokio::test]
async fn protected_resources_are_not_deleted() {
    let server = start().await;
    server.write(node("root", &Node::default())).await.unwrap();
    server.write(node("kept", &Node { goes_with: list(&["root"]), ..Node::default() })).await.unwrap();
    let set = async |block_deletion| {
        let request = SetBlockDeletionRequest { id: Some(id(NODE, "kept")), version: String::new(), block_deletion };
        ownership(&server).await.set_block_deletion(request).await.unwrap().into_inner().resource.unwrap()
    };
    assert!(set(true).await.meta.unwrap().lifecycle.unwrap().block_deletion);
    // An ordinary write does not remove the protection.
    server
        .write(node("kept", &Node { goes_with: list(&["root"]), text: "x".into(), ..Node::default() }))
        .await
        .unwrap();
    for name in ["kept", "root"] {
        let refused = refusal(delete(&server, name).await);
        assert_eq!(refused.0, Code::FailedPrecondition);
        let says = "meta.lifecycle.block_deletion of references.v1.Node \"kept\" in default/default is set";
        assert!(refused.1.contains(says), "{}", refused.1);
    }
    assert_eq!(all(&server).await, ["kept", "root"]);
    // An owner's children wait.
    let owner = server.write(node("owner", &Node::default())).await.unwrap();
    let mut child = owned(node("child", &Node::default()), &id_of(&owner));
    child = server.write(child).await.unwrap();
    let request = SetBlockDeletionRequest { id: child.id.clone(), version: child.version, block_deletion: true };
    ownership(&server).await.set_block_deletion(request.clone()).await.unwrap();
    let stale = refusal(ownership(&server).await.set_block_deletion(request).await);
    assert_eq!(stale.0, Code::Aborted);
    delete(&server, "owner").await.unwrap();
    // The reaper's second pass over a later deletion: by then it has passed over this one twice as well.
    let later = reaped(&server).await;
    until_gone(&server, &tombstone_id(&later)).await;
    assert!(!is_gone(&server, &id(NODE, "child")).await);
    let request = SetBlockDeletionRequest { id: Some(id(NODE, "child")), ..SetBlockDeletionRequest::default() };
    ownership(&server).await.set_block_deletion(request).await.unwrap();
    until_gone(&server, &id(NODE, "child")).await;
    set(false).await;
    delete(&server, "root").await.unwrap();
    assert!(all(&server).await.is_empty());
}

#[tokio::test]
async fn the_finalizer_of_the_host_is_the_hosts() {
    let server = start().await;
    let with = |finalizers: &str| noted(node("a", &Node::default()), &[("finalizers", finalizers)]);
    let refused =
        (Code::InvalidArgument, "the finalizer mortise.io/references belongs to the host; leave it out".to_owned());
    assert_eq!(refusal(server.write(with("mine mortise.io/references")).await), refused);
    server.write(with("mine")).await.unwrap();
    assert_eq!(refusal(server.write(with("mine mortise.io/references")).await), refused);
}

/// A resource that a caller may not read is not named to it, and still blocks.
#[tokio::test]
async fn unreadable_resources_are_not_named_and_still_block() {
    let server = start().await;
    server.write(node("target", &Node::default())).await.unwrap();
    for n in 0..5 {
        server
            .write(node(&format!("stop{n}"), &Node { blocked_by: list(&["target"]), ..Node::default() }))
            .await
            .unwrap();
    }
    let refused = refusal(delete(&server, "target").await).1;
    assert!(refused.contains("\"stop2\"") && !refused.contains("\"stop3\""), "{refused}");
    assert!(refused.ends_with("; 2 more; delete or change these first"), "{refused}");

    let guarded = Guarded::start(setup()).await;
    guarded.write(node("target", &Node::default())).await;
    guarded.write(node("stop", &Node { blocked_by: list(&["target"]), ..Node::default() })).await;
    let rule = data::TypeRule {
        verbs: vec!["*".into()],
        types: vec!["references/*".into()],
        names: vec!["target".into()],
        ..data::TypeRule::default()
    };
    guarded.policy("some", "", vec![rule]).await;
    let secret = guarded.token("some", &["some"], |_| {}).await;
    let mut resources = guarded.resources(&secret).await;
    let request = pb::DeleteRequest { id: Some(id(NODE, "target")), version: String::new() };
    let refused = refusal(resources.delete(request).await);
    assert_eq!(refused.0, Code::FailedPrecondition);
    assert!(refused.1.contains("data.blocked_by of a resource that you may not read refers to"), "{}", refused.1);
    assert!(!refused.1.contains("stop"), "{}", refused.1);
    let mut ownership = OwnershipServiceClient::new(guarded.channel(&secret).await);
    let plan = ownership.plan_delete(PlanDeleteRequest { id: Some(id(NODE, "target")) }).await.unwrap().into_inner();
    assert_eq!((plan.is_blocked, plan.hidden, plan.steps.len()), (true, 1, 1));
    let tree =
        ownership.get_tree(GetTreeRequest { id: Some(id(NODE, "target")), depth: 0 }).await.unwrap().into_inner();
    assert_eq!((tree.down.len(), tree.hidden), (0, 1));
    // A caller cannot refer to a resource that it may not read, and gets the same answer as for a missing one.
    let mut refused = Vec::new();
    for to in ["stop", "nobody"] {
        let data = Node { unset_by: list(&[to]), ..Node::default() };
        let request = pb::WriteRequest { resource: Some(node("target", &data)) };
        let (code, text) = refusal(resources.write(request).await);
        assert_eq!(code, Code::FailedPrecondition);
        refused.push(text.replace(to, "it"));
    }
    assert_eq!(refused[0], refused[1]);
    for name in ["stop", "nobody"] {
        let refused = refusal(ownership.plan_delete(PlanDeleteRequest { id: Some(id(NODE, name)) }).await);
        assert_eq!(refused.0, Code::PermissionDenied, "{name}");
    }
    let set = SetBlockDeletionRequest { id: Some(id(NODE, "target")), version: String::new(), block_deletion: true };
    assert_eq!(refusal(ownership.set_block_deletion(set).await).0, Code::PermissionDenied, "that is an operator's");
}
