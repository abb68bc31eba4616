//! Fields that refer to other resources: the targets that a write needs, and the effect of a deletion on referrers.

use mortise_api::OwnershipServiceClient;
use mortise_resource::{
    data::{
        self, DeleteStep, GetTreeRequest, OnDelete, PlanDeleteRequest, PlanDeleteResponse, SetBlockDeletionRequest,
        delete_step::Action, tree_link::By,
    },
    meta, pb,
};
use mortise_test_guests::{Hub, Node, NodePart};
use tonic::{Code, transport::Channel};

use crate::support::{
    Server, Setup, any, decoded, eventually, gvk, id, id_in, id_of, is_gone, make_place, mortise, names, noted, owned,
    reaped, refusal, resource, tenancy, tokens::Guarded, tombstone_id, until_gone,
};

pub const NODE: &str = "references.v1.Node";
pub const HUB: &str = "references.v1.Hub";

pub async fn start() -> Server {
    setup().start().await
}

pub fn setup() -> Setup {
    Setup::new().guest("references").env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", 300)
}

pub fn node(name: &str, node: &Node) -> pb::Resource {
    resource(id(NODE, name), Some(any("mortise.test.v1.Node", node)))
}

fn hub(name: &str, home: &str) -> pb::Resource {
    let hub = Hub { home: home.into(), ..Hub::default() };
    let id = pb::Id { tenancy: Some(tenancy("", "")), ..id(HUB, name) };
    resource(id, Some(any("mortise.test.v1.Hub", &hub)))
}

fn list(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

async fn all(server: &Server) -> Vec<String> {
    let mut names = names(&server.list(gvk(NODE), tenancy("*", "*"), "").await.unwrap());
    names.sort();
    names
}

async fn delete(server: &Server, name: &str) -> Result<(), tonic::Status> {
    server.delete(&id(NODE, name), "").await
}

pub async fn ownership(server: &Server) -> OwnershipServiceClient<Channel> {
    OwnershipServiceClient::new(server.channel().await)
}

async fn plan(server: &Server, name: &str) -> PlanDeleteResponse {
    let request = PlanDeleteRequest { id: Some(id(NODE, name)) };
    ownership(server).await.plan_delete(request).await.unwrap().into_inner()
}

fn steps(plan: &PlanDeleteResponse) -> Vec<(Action, String, String)> {
    let step = |step: &DeleteStep| (step.action(), step.id.clone().unwrap().name, step.field.clone());
    plan.steps.iter().map(step).collect()
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

#[tokio::test]
async fn block_unset_and_cascade_are_one_commit() {
    let server = start().await;
    for (name, data) in [
        ("root", Node::default()),
        ("other", Node::default()),
        ("child", Node { goes_with: list(&["root"]), ..Node::default() }),
        ("grandchild", Node { goes_with: list(&["child"]), ..Node::default() }),
        ("user", Node { unset_by: list(&["other", "root", "grandchild"]), text: "kept".into(), ..Node::default() }),
        ("stop", Node { blocked_by: list(&["grandchild"]), ..Node::default() }),
    ] {
        server.write(node(name, &data)).await.unwrap();
    }
    let before = all(&server).await;
    let versions = async || {
        let mut all = server.list(gvk(NODE), tenancy("*", "*"), "").await.unwrap();
        all.sort_by_key(|one| id_of(one).name);
        all.into_iter().map(|one| one.version).collect::<Vec<_>>()
    };
    let unchanged = versions().await;
    let blocked = plan(&server, "root").await;
    assert!(blocked.is_blocked);
    assert!(steps(&blocked).contains(&(Action::Block, "stop".into(), "blocked_by".into())), "{blocked:?}");
    let refused = refusal(delete(&server, "root").await);
    assert_eq!(refused.0, Code::FailedPrecondition);
    let says = "references.v1.Node \"root\" in default/default cannot be deleted: data.blocked_by of references.v1.Node \
                \"stop\" in default/default refers to references.v1.Node \"grandchild\" in default/default; delete or change \
                these first";
    assert_eq!(refused.1, says);
    assert_eq!((all(&server).await, versions().await), (before, unchanged), "what is refused changes nothing");

    delete(&server, "stop").await.unwrap();
    let planned = plan(&server, "root").await;
    assert!(!planned.is_blocked);
    let mut planned = steps(&planned);
    planned.sort_by_key(|(action, name, _)| (*action as i32, name.clone()));
    planned.dedup();
    assert_eq!(
        planned[..3],
        [
            (Action::Delete, "child".into(), "goes_with".into()),
            (Action::Delete, "grandchild".into(), "goes_with".into()),
            (Action::Delete, "root".into(), String::new()),
        ]
    );
    assert!(
        planned[3..]
            .iter()
            .all(|(action, name, field)| (*action, &**name, &**field) == (Action::Unset, "user", "unset_by"))
    );
    let mut watch = server.watch(gvk(NODE), None, "").await.unwrap();
    watch.snapshot().await;
    let generation = server.read(&id(NODE, "user")).await.unwrap().meta.unwrap().generation;
    delete(&server, "root").await.unwrap();
    assert_eq!(all(&server).await, ["other", "user"]);
    let user = server.read(&id(NODE, "user")).await.unwrap();
    let data: Node = decoded(&user);
    assert_eq!((data.unset_by, data.text.as_str()), (list(&["other"]), "kept"));
    assert_eq!(user.references.len(), 1);
    assert_eq!(user.meta.unwrap().generation, generation + 1, "its content changed, once");
    // Each change is one event; a cleared reference is an upsert.
    let mut seen = vec![watch.upsert().await];
    for _ in 0..3 {
        seen.push(watch.deleted().await);
    }
    watch.shows_next(&server, node("last", &Node::default())).await;
    let mut seen = names(&seen);
    seen.sort();
    assert_eq!(seen, ["child", "grandchild", "root", "user"]);
}

#[tokio::test]
async fn deleted_referrers_do_not_block_and_cycles_end() {
    let server = start().await;
    server.write(node("a", &Node::default())).await.unwrap();
    server.write(node("b", &Node { goes_with: list(&["a"]), ..Node::default() })).await.unwrap();
    server
        .write(node("c", &Node { blocked_by: list(&["a"]), goes_with: list(&["b"]), ..Node::default() }))
        .await
        .unwrap();
    server.write(node("a", &Node { goes_with: list(&["c", "a"]), ..Node::default() })).await.unwrap();
    delete(&server, "b").await.unwrap();
    assert!(all(&server).await.is_empty(), "{:?}", all(&server).await);
    // Resources that block each other can be deleted one after the other only once a reference is removed.
    server.write(node("x", &Node::default())).await.unwrap();
    server.write(node("y", &Node { blocked_by: list(&["x"]), ..Node::default() })).await.unwrap();
    server.write(node("x", &Node { blocked_by: list(&["y"]), ..Node::default() })).await.unwrap();
    assert_eq!(refusal(delete(&server, "x").await).0, Code::FailedPrecondition);
    assert_eq!(refusal(delete(&server, "y").await).0, Code::FailedPrecondition);
    server.write(node("x", &Node::default())).await.unwrap();
    delete(&server, "y").await.unwrap();
    delete(&server, "x").await.unwrap();
}

#[tokio::test]
async fn later_ones_are_worked_off_while_it_is_marked() {
    let server = start().await;
    server.write(node("root", &Node::default())).await.unwrap();
    for n in 0..40 {
        let data = match n % 2 {
            0 => Node { unset_later: list(&["root"]), ..Node::default() },
            _ => Node { goes_later: list(&["root"]), ..Node::default() },
        };
        server.write(node(&format!("n{n:02}"), &data)).await.unwrap();
    }
    // Cycles of later deletions end, too.
    server.write(node("l1", &Node { goes_later: list(&["root"]), ..Node::default() })).await.unwrap();
    server.write(node("l2", &Node { goes_later: list(&["l1"]), ..Node::default() })).await.unwrap();
    server.write(node("l1", &Node { goes_later: list(&["root", "l2"]), ..Node::default() })).await.unwrap();
    let planned = plan(&server, "root").await;
    assert_eq!(steps(&planned)[0].0, Action::Mark);
    let later = |action| planned.steps.iter().filter(|step| step.action() == action).count();
    assert_eq!((later(Action::UnsetLater), later(Action::DeleteLater), planned.is_cut), (20, 21, false));
    let mut watch = server.watch(gvk(NODE), None, "root").await.unwrap();
    watch.snapshot().await;
    delete(&server, "root").await.unwrap();
    let marked = watch.upsert().await;
    assert!(meta::is_marked(&marked.metadata));
    assert_eq!(marked.meta.unwrap().lifecycle.unwrap().state, 2, "DELETING");
    // A second deletion changes nothing.
    let again = delete(&server, "root").await;
    assert!(again.is_ok(), "{again:?}");
    until_gone(&server, &id(NODE, "root")).await;
    eventually("the later referrers are gone", async || all(&server).await.len() == 20).await;
    for name in all(&server).await {
        let left: Node = decoded(&server.read(&id(NODE, &name)).await.unwrap());
        assert!(left.unset_later.is_empty(), "{name}");
    }
    watch.deleted().await;
}

#[tokio::test]
async fn resources_held_by_finalizers_keep_their_targets() {
    let server = start().await;
    server.write(node("root", &Node::default())).await.unwrap();
    let child = node("child", &Node { goes_with: list(&["root"]), ..Node::default() });
    server.write(noted(child, &[("finalizers", "mine")])).await.unwrap();
    delete(&server, "root").await.unwrap();
    for name in ["root", "child"] {
        let marked = server.read(&id(NODE, name)).await.unwrap();
        assert!(meta::is_marked(&marked.metadata), "{name}");
    }
    // Its name is taken, and new references to it are refused.
    assert_eq!(refusal(server.write(node("root", &Node::default())).await).0, Code::InvalidArgument);
    let refused = refusal(server.write(node("new", &Node { unset_by: list(&["root"]), ..Node::default() })).await);
    assert_eq!(refused.0, Code::FailedPrecondition);
    assert!(refused.1.contains(", which is being deleted; "), "{}", refused.1);
    let mut child = server.read(&id(NODE, "child")).await.unwrap();
    meta::remove_finalizer(&mut child.metadata, "mine");
    server.write(child).await.unwrap();
    eventually("both are gone", async || all(&server).await.is_empty()).await;
}

#[tokio::test]
async fn the_mark_of_a_client_is_a_deletion() {
    let server = start().await;
    server.write(noted(node("a", &Node::default()), &[("finalizers", "mine")])).await.unwrap();
    server.write(node("b", &Node { blocked_by: list(&["a"]), ..Node::default() })).await.unwrap();
    let mut marked = server.read(&id(NODE, "a")).await.unwrap();
    marked.metadata.insert(meta::DELETION_TIMESTAMP.into(), "2026-01-01T00:00:00Z".into());
    assert_eq!(refusal(server.write(marked).await).0, Code::FailedPrecondition);
    delete(&server, "b").await.unwrap();
    delete(&server, "a").await.unwrap();
    let mut a = server.read(&id(NODE, "a")).await.unwrap();
    meta::remove_finalizer(&mut a.metadata, "mine");
    server.write(a).await.unwrap();
    until_gone(&server, &id(NODE, "a")).await;
}

#[tokio::test]
async fn a_block_is_atomic_against_the_write_of_the_referrer() {
    let server = start().await;
    let (mut blocked, mut dangling) = (0, 0);
    for round in 0..60 {
        let (target, referrer) = (format!("t{round}"), format!("r{round}"));
        server.write(node(&target, &Node::default())).await.unwrap();
        let data = Node { blocked_by: vec![target.clone()], ..Node::default() };
        let wait = std::time::Duration::from_micros(fastrand::u64(0..1_500));
        // The write and the deletion are a little later in turns.
        let (write_after, delete_after) = if round % 2 == 0 { (wait, wait / 8) } else { (wait / 8, wait) };
        let delete = async {
            tokio::time::sleep(delete_after).await;
            server.delete(&id(NODE, &target), "").await
        };
        let write = async {
            tokio::time::sleep(write_after).await;
            server.write(node(&referrer, &data)).await
        };
        let (written, deleted) = tokio::join!(write, delete);
        let is_there = !is_gone(&server, &id(NODE, &target)).await;
        match (&written, &deleted) {
            (Ok(_), Err(error)) => assert_eq!((error.code(), is_there), (Code::FailedPrecondition, true)),
            (Err(error), Ok(())) => assert_eq!((error.code(), is_there), (Code::FailedPrecondition, false)),
            (Ok(_), Ok(())) => dangling += 1,
            (Err(written), Err(deleted)) => panic!("{written} {deleted}"),
        }
        blocked += usize::from(deleted.is_err());
    }
    println!("{blocked} of 60 deletions were blocked");
    assert_eq!(dangling, 0);
    assert!((1..60).contains(&blocked), "one of the two was always first");
}

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

#[tokio::test]
async fn a_namespace_goes_with_all_that_blocks_itself() {
    let server = start().await;
    make_place(&server, "default", "going").await;
    let there = |name: &str, data: &Node| {
        let mut node = node(name, data);
        node.id = Some(id_in(NODE, name, "default", "going"));
        node
    };
    server.write(there("x", &Node::default())).await.unwrap();
    server.write(there("y", &Node { blocked_by: list(&["x"]), ..Node::default() })).await.unwrap();
    server.write(there("x", &Node { blocked_by: list(&["y"]), ..Node::default() })).await.unwrap();
    server.write(node("outside", &Node { unset_by: list(&["going/x"]), ..Node::default() })).await.unwrap();
    let namespace = pb::Id { tenancy: Some(tenancy("default", "")), ..id("tenancy.v2beta1.Namespace", "going") };
    server.delete(&namespace, "").await.unwrap();
    until_gone(&server, &namespace).await;
    assert_eq!(all(&server).await, ["outside"]);
    let outside: Node = decoded(&server.read(&id(NODE, "outside")).await.unwrap());
    assert!(outside.unset_by.is_empty());
}

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

/// The same types in a version of the plugin that declares no references: decoding drops unknown options.
fn undeclared() -> Vec<u8> {
    use mortise_resource::manifest::Scope;
    use prost::Message as _;
    let mut manifest = mortise_test_guests::good_manifest();
    let plain = prost_types::FileDescriptorSet::decode(mortise_test_guests::DESCRIPTORS).unwrap();
    (manifest.name, manifest.version) = ("references".into(), "0.0.1".into());
    manifest.descriptors = Some(prost::Message::decode(plain.encode_to_vec().as_slice()).unwrap());
    let template = manifest.types.remove(0);
    for (kind, scope) in [("Node", Scope::Namespace), ("Hub", Scope::Cluster)] {
        let mut one = template.clone();
        (one.group, one.kind) = ("references".into(), kind.into());
        (one.message, one.scope) = (format!("mortise.test.v1.{kind}"), scope.into());
        manifest.types.push(one);
    }
    mortise_test_guests::manifest_only(&manifest.encode_to_vec())
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

/// A deletion that exceeds one commit is refused, and changes nothing.
#[tokio::test]
async fn a_deletion_reaches_so_far() {
    let server = start().await;
    server.write(node("root", &Node::default())).await.unwrap();
    let data = Node { goes_with: list(&["root"]), ..Node::default() };
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..50 {
        let (mut client, data) = (server.client(), data.clone());
        writers.spawn(async move {
            for n in writer * 200..(writer + 1) * 200 {
                let request = pb::WriteRequest { resource: Some(node(&format!("n{n}"), &data)) };
                client.write(request).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let server = &server;
    server.write(node("one-more", &data)).await.unwrap();
    let refused = refusal(delete(server, "root").await);
    assert_eq!(refused.0, Code::FailedPrecondition);
    assert!(refused.1.starts_with("the deletion reaches more than 10000 resources"), "{}", refused.1);
    delete(server, "n0").await.unwrap();
    let begun = std::time::Instant::now();
    delete(server, "root").await.unwrap();
    println!("10,001 resources were deleted in one commit in {:?}", begun.elapsed());
    assert!(all(server).await.is_empty());
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
    // An owner that waits also delays its children, whatever the levels.
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
    let server = start().await;
    let begun = std::time::Instant::now();
    server.write(node("n0", &Node::default())).await.unwrap();
    for n in 1..200 {
        server
            .write(node(&format!("n{n}"), &Node { goes_later: vec![format!("n{}", n - 1)], ..Node::default() }))
            .await
            .unwrap();
    }
    println!("written after {:?}", begun.elapsed());
    delete(&server, "n0").await.unwrap();
    eventually("all of it goes", async || all(&server).await.is_empty()).await;
    println!("gone after {:?}", begun.elapsed());
}

#[tokio::test]
async fn mutual_blocks_go_with_their_namespace_despite_a_finalizer() {
    let server = start().await;
    make_place(&server, "default", "going").await;
    let there =
        |name: &str, data: &Node| pb::Resource { id: Some(id_in(NODE, name, "default", "going")), ..node(name, data) };
    server.write(there("x", &Node::default())).await.unwrap();
    server.write(there("y", &Node { blocked_by: list(&["x"]), ..Node::default() })).await.unwrap();
    server.write(there("x", &Node { blocked_by: list(&["y"]), ..Node::default() })).await.unwrap();
    server.write(there("z", &Node { goes_later: list(&["x"]), ..Node::default() })).await.unwrap();
    let namespace = pb::Id { tenancy: Some(tenancy("default", "")), ..id("tenancy.v2beta1.Namespace", "going") };
    server.delete(&namespace, "").await.unwrap();
    until_gone(&server, &namespace).await;
}

#[tokio::test]
async fn the_largest_resource_can_be_marked() {
    let server = setup().env("MORTISE_STORE_MAX_RESOURCE_BYTES", 2_000).start().await;
    let write =
        async |length: usize| server.write(node("root", &Node { text: "x".repeat(length), ..Node::default() })).await;
    let (mut fits, mut too_many) = (0, 2_000);
    while too_many - fits > 1 {
        let middle = (fits + too_many) / 2;
        if write(middle).await.is_ok() { fits = middle } else { too_many = middle }
    }
    write(fits).await.unwrap();
    assert!(fits > 1_000, "{fits}");
    server.write(node("later", &Node { goes_later: list(&["root"]), ..Node::default() })).await.unwrap();
    delete(&server, "root").await.unwrap();
    eventually("both go", async || all(&server).await.is_empty()).await;
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

/// A status written during the first reading of a type does not lose the references of the resource.
#[tokio::test]
async fn references_written_during_the_first_reading_are_recorded() {
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
