//! Targets that a write needs, in requests and in files.

use mortise_resource::{data::OnDelete, meta, pb};
use mortise_test_guests::{Hub, Node, NodePart};
use tonic::Code;

use super::{HUB, NODE, all, delete, list, node, setup, start, undeclared};
use crate::support::{
    PATIENCE, Setup, any, decoded, gvk, id, id_in, id_of, is_left_out_over_etcd, make_place, mortise, noted,
    progress_until, refusal, resource, tenancy,
};

fn hub(name: &str, home: &str) -> pb::Resource {
    let hub = Hub { home: home.into(), ..Hub::default() };
    let id = pb::Id { tenancy: Some(tenancy("", "")), ..id(HUB, name) };
    resource(id, Some(any("mortise.test.v1.Hub", &hub)))
}

#[tokio::test]
async fn a_new_reference_has_to_be_to_something_that_is_there() {
    let server = start().await;
    let to = |name: &str| Node { blocked_by: list(&[name]), ..Node::default() };
    let refused = refusal(server.write(node("a", &to("b"))).await);
    let what =
        "data.blocked_by refers to references.Node \"b\" in default/default, which does not exist; create it first";
    assert_eq!(refused, (Code::FailedPrecondition, what.to_owned()));
    assert!(all(&server).await.is_empty(), "nothing was written");
    server.write(node("b", &Node::default())).await.unwrap();
    let stored = server.write(node("a", &to("b"))).await.unwrap();
    let record = &stored.references[0];
    assert_eq!((record.name.as_str(), record.field.as_str(), record.on_delete()), ("b", "blocked_by", OnDelete::Block));
    // A reference that may dangle, and a reference to itself, are allowed.
    let own = Node { may_dangle: list(&["nobody"]), goes_with: list(&["own"]), ..Node::default() };
    server.write(node("own", &own)).await.unwrap();
}

#[tokio::test]
async fn references_have_forms_and_tenancies() {
    let server = start().await;
    make_place(&server, "default", "far").await;
    let mut far = node("x", &Node::default());
    far.id = Some(id_in(NODE, "x", "default", "far"));
    server.write(far.clone()).await.unwrap();
    for name in ["far/x", "default/far/x"] {
        server.write(node("by-name", &Node { unset_by: list(&[name]), ..Node::default() })).await.unwrap();
    }
    let here = refusal(server.write(node("n", &Node { unset_by: list(&["x"]), ..Node::default() })).await);
    assert_eq!(here.0, Code::FailedPrecondition, "names are those of the own tenancy");
    for (bad, says) in [
        ("a/b/c/d", "a reference is NAME, NAMESPACE/NAME or PARTITION/NAMESPACE/NAME"),
        ("UPPER", "refers to an invalid name"),
        ("-/x", "refers to an invalid namespace"),
    ] {
        let refused = refusal(server.write(node("n", &Node { unset_by: list(&[bad]), ..Node::default() })).await);
        assert_eq!(refused.0, Code::InvalidArgument, "{bad}");
        assert!(refused.1.starts_with("data.unset_by ") && refused.1.contains(says), "{bad}: {}", refused.1);
    }
    // A message names a type, which must fit.
    let leader = |kind: &str| pb::Reference {
        r#type: Some(gvk(kind)),
        tenancy: Some(tenancy("", "far")),
        name: "x".into(),
        section: String::new(),
    };
    let led = |kind: &str| node("led", &Node { leader: Some(leader(kind)), ..Node::default() });
    let refused = refusal(server.write(led("demo.v2.Artist")).await);
    assert_eq!(refused.0, Code::InvalidArgument);
    assert!(refused.1.contains("data.leader refers to a demo.v2.Artist"), "{}", refused.1);
    server.write(led(NODE)).await.unwrap();
    // A cluster-scoped type has no tenancy, so its references default to `default`.
    server.write(node("home", &Node::default())).await.unwrap();
    server.write(hub("h", "home")).await.unwrap();
    let hub_id = pb::Id { tenancy: None, ..id(HUB, "h") };
    server.write(node("spoke", &Node { hub: Some(hub_id), ..Node::default() })).await.unwrap();
    let refused = refusal(server.delete(&id_of(&hub("h", "")), "").await);
    assert_eq!(refused.0, Code::FailedPrecondition);
    assert!(refused.1.contains("data.hub of references.v1.Node \"spoke\""), "{}", refused.1);
    assert_eq!(refusal(delete(&server, "home").await).0, Code::FailedPrecondition);
    // References in nested messages, and in the values of maps.
    let part = |node: &str, parts| NodePart { node: node.into(), parts, ..NodePart::default() };
    let deep = Node {
        parts: vec![part("", vec![part("far/x", vec![])]), part("home", vec![])],
        by_name: [("k".to_owned(), part("far/x", vec![]))].into(),
        ..Node::default()
    };
    let stored = server.write(node("deep", &deep)).await.unwrap();
    let mut fields: Vec<_> = stored.references.iter().map(|record| record.field.as_str()).collect();
    fields.sort_unstable();
    assert_eq!(fields, ["by_name.node", "parts.node", "parts.parts.node"]);
    server.delete(&id_of(&far), "").await.unwrap();
    let left: Node = decoded(&server.read(&id(NODE, "deep")).await.unwrap());
    let cleared = Node {
        parts: vec![part("", vec![part("", vec![])]), part("home", vec![])],
        by_name: [("k".to_owned(), part("", vec![]))].into(),
        ..Node::default()
    };
    assert_eq!(left, cleared);
    let led: Node = decoded(&server.read(&id(NODE, "led")).await.unwrap());
    assert_eq!(led.leader, None);
}

/// Files and exports need no order: a referrer waits until its target exists.
#[tokio::test]
async fn files_may_refer_to_later_resources() {
    let server = start().await;
    let dir = tempfile::tempdir().unwrap();
    let text = [("a", "b"), ("b", "c"), ("c", "d"), ("d", "d")]
        .map(|(name, to)| format!("type: {NODE}\nname: {name}\ndata: {{unset_by: [{to}]}}\n"));
    let file = dir.path().join("all.yaml");
    std::fs::write(&file, text.join("---\n")).unwrap();
    let env = [("MORTISE_GRPC_ADDR", server.grpc.to_string())];
    let env = [(env[0].0, env[0].1.as_str())];
    let file = file.to_str().unwrap();
    let (code, out, err) = mortise(&["apply", "-f", file], &env).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(all(&server).await, ["a", "b", "c", "d"]);
    let (code, exported, err) = mortise(&["export", NODE], &env).await;
    assert_eq!(code, Some(0), "{err}");
    for name in ["a", "b", "c", "d"] {
        delete(&server, name).await.unwrap();
    }
    let other = dir.path().join("all.jsonl");
    std::fs::write(&other, exported).unwrap();
    let (code, out, err) = mortise(&["import", other.to_str().unwrap()], &env).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(all(&server).await, ["a", "b", "c", "d"]);
    // An owner that waits also delays its children, on all levels.
    let levels = format!(
        "type: {NODE}\nname: p\ndata: {{unset_by: [q]}}\n---\ntype: {NODE}\nname: o\n---\ntype: {NODE}\nname: q\nowner: {NODE}/o\n\
         ---\ntype: {NODE}\nname: r\nowner: {NODE}/p\n"
    );
    let owners = dir.path().join("owners.yaml");
    std::fs::write(&owners, levels).unwrap();
    let (code, out, err) = mortise(&["apply", "-f", owners.to_str().unwrap()], &env).await;
    assert_eq!(code, Some(0), "{out}{err}");
    assert_eq!(all(&server).await, ["a", "b", "c", "d", "o", "p", "q", "r"]);
    // A reference to a target that never comes is refused, and the others are written.
    std::fs::write(&other, format!("type: {NODE}\nname: e\ndata: {{unset_by: [never]}}\n")).unwrap();
    let yaml = dir.path().join("never.yaml");
    std::fs::rename(&other, &yaml).unwrap();
    for command in [&["apply", "-f"][..], &["import"]] {
        let (code, _, err) = mortise(&[command, &[yaml.to_str().unwrap()]].concat(), &env).await;
        assert_eq!(code, Some(1), "{err}");
        assert!(err.contains("data.unset_by refers to references.Node \"never\""), "{err}");
    }
}

#[tokio::test]
async fn a_long_chain_does_not_wait_at_each_of_its_links() {
    if is_left_out_over_etcd("each link of a long chain takes a transaction of etcd, longer than an answer may") {
        return;
    }
    // A wait at any link would be longer than the test's patience.
    let server = setup().env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 2 * PATIENCE.as_millis()).start().await;
    server.write(node("n0", &Node::default())).await.unwrap();
    for n in 1..200 {
        server
            .write(node(&format!("n{n}"), &Node { goes_later: vec![format!("n{}", n - 1)], ..Node::default() }))
            .await
            .unwrap();
    }
    delete(&server, "n0").await.unwrap();
    progress_until("all of it goes", async || match all(&server).await.len() {
        0 => Ok(()),
        left => Err(left),
    })
    .await;
}

#[tokio::test]
async fn marked_resources_get_no_new_dangling_references() {
    let server = start().await;
    server.write(node("a", &Node::default())).await.unwrap();
    let mut marked = server.read(&id(NODE, "a")).await.unwrap();
    marked.metadata.insert(meta::DELETION_TIMESTAMP.into(), "2026-01-01T00:00:00Z".into());
    let marked = server.write(marked).await.unwrap();
    let changed = node("a", &Node { blocked_by: list(&["nobody"]), ..Node::default() });
    let changed = pb::Resource { data: changed.data, ..marked };
    assert_eq!(refusal(server.write(changed).await).0, Code::FailedPrecondition);
}

#[tokio::test]
async fn old_data_that_is_no_reference_is_in_nobodys_way() {
    let dir = tempfile::tempdir().unwrap();
    let before = Setup::new().component("references", undeclared()).data_dir(dir.path()).start().await;
    for name in ["target", "other"] {
        before.write(node(name, &Node::default())).await.unwrap();
    }
    let mixed = Node { blocked_by: list(&["Miles Davis", "target"]), ..Node::default() };
    let old = before.write(noted(node("old", &mixed), &[("finalizers", "mine")])).await.unwrap();
    assert!(before.stop().await.success());
    let server = setup().data_dir(dir.path()).start().await;
    delete(&server, "other").await.unwrap();
    assert_eq!(refusal(delete(&server, "target").await).0, Code::FailedPrecondition, "what can be read counts");
    // It can be written unchanged and marked, but not written with a further fault.
    server.write(pb::Resource { version: String::new(), ..old }).await.unwrap();
    let worse = Node { blocked_by: list(&["Miles Davis", "target", "Also Bad"]), ..Node::default() };
    assert_eq!(refusal(server.write(node("old", &worse)).await).0, Code::InvalidArgument);
    delete(&server, "old").await.unwrap();
    assert!(meta::is_marked(&server.read(&id(NODE, "old")).await.unwrap().metadata));
}
