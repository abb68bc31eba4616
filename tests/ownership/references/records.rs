//! Stored records of references: made by the first reading of a type, kept by writes, shown as a tree.

use mortise_resource::{
    data::{GetTreeRequest, SetBlockDeletionRequest, tree_link::By},
    meta, pb,
};
use mortise_test_guests::Node;
use tonic::Code;

use super::{NODE, delete, list, node, ownership, setup, start, undeclared};
use crate::support::{Setup, id, id_of, is_left_out_over_etcd, noted, owned, refusal};

#[tokio::test]
async fn a_tree_follows_links_both_ways() {
    let server = start().await;
    let root = server.write(node("root", &Node::default())).await.unwrap();
    server.write(node("child", &Node { goes_with: list(&["root"]), ..Node::default() })).await.unwrap();
    server
        .write(node("leaf", &Node { unset_by: list(&["child"]), may_dangle: list(&["none"]), ..Node::default() }))
        .await
        .unwrap();
    server.write(owned(node("owned", &Node::default()), &id_of(&root))).await.unwrap();
    let tree = async |name: &str, depth| {
        let request = GetTreeRequest { id: Some(id(NODE, name)), depth };
        ownership(&server).await.get_tree(request).await.map(tonic::Response::into_inner)
    };
    let down = tree("root", 0).await.unwrap();
    let shown = |link: &mortise_resource::data::TreeLink| {
        let by = match link.by.clone().unwrap() {
            By::Owner(_) => "owner".to_owned(),
            By::OwnerReference(_) => "reference".to_owned(),
            By::Field(field) => field,
        };
        let name = |id: &Option<pb::Id>| id.clone().unwrap().name;
        format!("{} -> {} by {by} at {}", name(&link.dependent), name(&link.target), link.distance)
    };
    let links: Vec<_> = down.down.iter().map(shown).collect();
    assert_eq!(
        links,
        ["owned -> root by owner at 1", "child -> root by goes_with at 1", "leaf -> child by unset_by at 2",]
    );
    assert!(down.up.is_empty() && !down.is_cut && down.hidden == 0);
    assert_eq!(tree("root", 1).await.unwrap().down.len(), 2);
    let up = tree("leaf", 0).await.unwrap();
    let links: Vec<_> = up.up.iter().map(shown).collect();
    assert_eq!(
        links,
        ["leaf -> child by unset_by at 1", "leaf -> none by may_dangle at 1", "child -> root by goes_with at 2",]
    );
    assert_eq!(refusal(tree("nobody", 0).await).0, Code::NotFound);
    assert_eq!(refusal(tree("root", 17).await).0, Code::InvalidArgument);
}

#[tokio::test]
async fn references_stored_before_their_declaration_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let before = Setup::new().component("references", undeclared()).data_dir(dir.path()).start().await;
    before.write(node("target", &Node::default())).await.unwrap();
    let stored = before.write(node("old", &Node { blocked_by: list(&["target"]), ..Node::default() })).await.unwrap();
    assert!(stored.references.is_empty());
    assert!(before.stop().await.success());
    let server = setup().data_dir(dir.path()).start().await;
    let refused = refusal(delete(&server, "target").await);
    assert_eq!(refused.0, Code::FailedPrecondition, "{}", refused.1);
    let now = server.read(&id(NODE, "old")).await.unwrap();
    assert_eq!((now.version.clone(), now.references.len()), (stored.version, 1), "it is no change that anybody sees");
    // Only new references are checked.
    server
        .write(node("old", &Node { blocked_by: list(&["target"]), text: "x".into(), ..Node::default() }))
        .await
        .unwrap();
    server.delete(&id(NODE, "old"), "").await.unwrap();
    delete(&server, "target").await.unwrap();
}

/// A status written during the first reading of a type does not lose the references of the resource.
#[tokio::test]
async fn references_written_during_the_first_reading_are_recorded() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let before = Setup::new().component("references", undeclared()).data_dir(dir.path()).start().await;
    before.write(node("target", &Node::default())).await.unwrap();
    before.write(node("old", &Node { blocked_by: list(&["target"]), ..Node::default() })).await.unwrap();
    for n in 0..500 {
        before.write(node(&format!("z{n}"), &Node { unset_by: list(&["old"]), ..Node::default() })).await.unwrap();
    }
    assert!(before.stop().await.success());
    for round in 0..3 {
        let copy = tempfile::tempdir().unwrap();
        let copied = std::process::Command::new("cp").arg("-a").arg(dir.path().join(".")).arg(copy.path()).status();
        assert!(copied.unwrap().success());
        let server = setup().data_dir(copy.path()).start().await;
        let writes = async {
            let mut count = 0;
            for _ in 0..40 {
                let old = server.read(&id(NODE, "old")).await.unwrap();
                let status = pb::Status { observed_generation: old.generation.clone(), ..pb::Status::default() };
                let request = pb::WriteStatusRequest {
                    id: old.id.clone(),
                    version: old.version,
                    key: "test".into(),
                    status: Some(status),
                };
                count += usize::from(server.write_status(request).await.is_ok());
            }
            count
        };
        let (count, deleted) = tokio::join!(writes, delete(&server, "target"));
        println!("round {round}: {count} statuses");
        assert!(count > 0);
        assert_eq!(refusal(deleted).0, Code::FailedPrecondition, "round {round}");
        assert_eq!(server.read(&id(NODE, "old")).await.unwrap().references.len(), 1);
    }
}

/// Writes besides the data make the records again, so that none removes those that the first reading of the type stores
/// at the same moment.
#[tokio::test]
async fn writes_besides_the_data_make_the_records_again() {
    let dir = tempfile::tempdir().unwrap();
    let before = Setup::new().component("references", undeclared()).data_dir(dir.path()).start().await;
    before.write(node("target", &Node::default())).await.unwrap();
    for name in ["status", "protected", "marked"] {
        let old = node(name, &Node { blocked_by: list(&["target"]), ..Node::default() });
        before.write(noted(old, &[("finalizers", "mine")])).await.unwrap();
    }
    assert!(before.stop().await.success());
    let server = setup().data_dir(dir.path()).start().await;
    let old = server.read(&id(NODE, "status")).await.unwrap();
    assert!(old.references.is_empty(), "nothing has read the type yet");
    let status = pb::Status { observed_generation: old.generation.clone(), ..pb::Status::default() };
    let request = pb::WriteStatusRequest { id: old.id, version: old.version, key: "test".into(), status: Some(status) };
    server.write_status(request).await.unwrap();
    let id_of = |name| Some(id(NODE, name));
    let request = SetBlockDeletionRequest { id: id_of("protected"), version: String::new(), block_deletion: true };
    ownership(&server).await.set_block_deletion(request).await.unwrap();
    for name in ["status", "protected"] {
        assert_eq!(server.read(&id(NODE, name)).await.unwrap().references.len(), 1, "{name}");
    }
    delete(&server, "marked").await.unwrap();
    let marked = server.read(&id(NODE, "marked")).await.unwrap();
    assert!(meta::is_marked(&marked.metadata));
    assert_eq!(marked.references.len(), 1);
}
