//! The effect of a deletion on referrers: block, unset, cascade, now or later.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use mortise_resource::{
    data::{DeleteStep, PlanDeleteRequest, PlanDeleteResponse, delete_step::Action},
    meta, pb,
};
use mortise_test_guests::Node;
use tonic::Code;

use super::{NODE, all, delete, list, node, ownership, setup, start};
use crate::support::{
    Server, decoded, eventually, gvk, id, id_in, id_of, is_gone, is_left_out_over_etcd, make_place, names, noted,
    refusal, tenancy, until_gone,
};

async fn plan(server: &Server, name: &str) -> PlanDeleteResponse {
    let request = PlanDeleteRequest { id: Some(id(NODE, name)) };
    ownership(server).await.plan_delete(request).await.unwrap().into_inner()
}

fn steps(plan: &PlanDeleteResponse) -> Vec<(Action, String, String)> {
    let step = |step: &DeleteStep| (step.action(), step.id.clone().unwrap().name, step.field.clone());
    plan.steps.iter().map(step).collect()
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
    assert_eq!((later(Action::UnsetLater), later(Action::DeleteLater), planned.is_cut), (20, 22, false));
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
        // The write and the deletion are a little later in turns: either may be first, by a random moment.
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

/// A deletion that exceeds one commit is refused, and changes nothing.
#[tokio::test]
async fn a_deletion_reaches_so_far() {
    if is_left_out_over_etcd("each link of a long chain takes a transaction of etcd, longer than an answer may") {
        return;
    }
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
    let server = setup().env("MORTISE_STORE_MAX_RESOURCE_BYTES", 4 << 10).start().await;
    let write =
        async |length: usize| server.write(node("root", &Node { text: "x".repeat(length), ..Node::default() })).await;
    let (mut fits, mut too_many) = (0, 4 << 10);
    while too_many - fits > 1 {
        let middle = (fits + too_many) / 2;
        if write(middle).await.is_ok() { fits = middle } else { too_many = middle }
    }
    write(fits).await.unwrap();
    assert!(fits > 3_000, "{fits}");
    server.write(node("later", &Node { goes_later: list(&["root"]), ..Node::default() })).await.unwrap();
    delete(&server, "root").await.unwrap();
    eventually("both go", async || all(&server).await.is_empty()).await;
}

/// A deletion in a named version is refused for another version of that resource alone, not for one of a resource whose
/// reference it clears.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deletion_in_a_named_version_goes_on_beside_writers_of_what_it_clears() {
    const ROUNDS: usize = 20;
    let server = Arc::new(start().await);
    let referrer = |n: usize, text: String| {
        node(&format!("user-{n}"), &Node { unset_by: list(&["target"]), text, ..Node::default() })
    };
    let mut writes = 0;
    for round in 0..ROUNDS {
        let target = server.write(node("target", &Node::default())).await.unwrap();
        for n in 0..3 {
            server.write(referrer(n, format!("{round}"))).await.unwrap();
        }
        let ends = Arc::new(AtomicBool::new(false));
        let writers: Vec<_> = (0..3)
            .map(|n| {
                let (server, ends) = (server.clone(), ends.clone());
                tokio::spawn(async move {
                    let mut written = 0;
                    while !ends.load(Ordering::Relaxed) {
                        // Refused once the target is gone.
                        written += usize::from(server.write(referrer(n, format!("{round} {written}"))).await.is_ok());
                    }
                    written
                })
            })
            .collect();
        let deleted = server.delete(&id(NODE, "target"), &target.version).await;
        ends.store(true, Ordering::Relaxed);
        for writer in writers {
            writes += writer.await.unwrap();
        }
        assert!(deleted.is_ok(), "round {round}: {deleted:?}");
    }
    println!("{ROUNDS} deletions beside {writes} writes of referrers");
    assert!(writes > 0);
}
