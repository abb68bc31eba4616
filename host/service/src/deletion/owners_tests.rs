//! The fate of a resource whose owners go, or never come.

use std::time::Duration;

use mortise_resource::{Code, Severity, goten::OwnerReference, pb};

use super::test_graph::{Here, Node, id, node, owner};

const LONG: Duration = Duration::from_secs(3_600);

fn unset(name: &str) -> OwnerReference {
    OwnerReference { unset_on_delete: true, ..owner(name) }
}

async fn plain(here: &Here, names: &[&str]) {
    for name in names {
        here.write(node(name, &Node::default(), Vec::new())).await.unwrap();
    }
}

async fn settle(here: &Here) {
    here.settle("", &mut fastrand::Rng::new()).await;
}

async fn owners(here: &Here, name: &str) -> Option<usize> {
    here.read(name).await.map(|found| found.meta.unwrap().owner_references.len())
}

/// The owners go in one commit, or one after another by the collector; the end is the same.
#[tokio::test]
async fn an_owner_that_keeps_the_resource_counts_however_the_owners_of_one_deletion_go() {
    let here = Here::new(LONG, None);
    for round in 0..24 {
        let name = |n: &str| format!("{n}-{round}");
        plain(&here, &[&name("top")]).await;
        let at_once = Node { cascade: vec![name("top")], ..Node::default() };
        let later = pb::Resource { owner: Some(id(&name("top"))), ..node(&name("b"), &Node::default(), Vec::new()) };
        here.write(node(&name("a"), &at_once, Vec::new())).await.unwrap();
        match round % 2 {
            0 => here.write(node(&name("b"), &at_once, Vec::new())).await.unwrap(),
            _ => here.write(later).await.unwrap(),
        };
        let mut entries = vec![owner(&name("a")), unset(&name("b"))];
        if round % 4 > 1 {
            entries = vec![unset(&name("a")), owner(&name("b"))];
        }
        here.write(node(&name("d"), &Node::default(), entries)).await.unwrap();
        here.delete(&name("top")).await.unwrap();
        settle(&here).await;
        assert_eq!(owners(&here, &name("d")).await, Some(0), "round {round}");
        assert!(here.read(&name("b")).await.is_none());
    }
}

#[tokio::test]
async fn of_two_deletions_the_last_owner_decides() {
    let here = Here::new(LONG, None);
    plain(&here, &["a", "b", "c", "e"]).await;
    here.write(node("goes", &Node::default(), vec![unset("a"), owner("b")])).await.unwrap();
    here.write(node("stays", &Node::default(), vec![owner("c"), unset("e")])).await.unwrap();
    for name in ["a", "c"] {
        here.delete(name).await.unwrap();
        settle(&here).await;
    }
    assert_eq!((owners(&here, "goes").await, owners(&here, "stays").await), (Some(1), Some(1)));
    for name in ["b", "e"] {
        here.delete(name).await.unwrap();
        settle(&here).await;
    }
    assert_eq!((owners(&here, "goes").await, owners(&here, "stays").await), (None, Some(0)));
}

#[tokio::test]
async fn an_entry_that_never_held_is_no_owner_that_went() {
    let here = Here::new(Duration::ZERO, None);
    plain(&here, &["a"]).await;
    let other_type = OwnerReference { kind: "none.example.com/Thing".into(), ..owner("x") };
    let written = here.write(node("alone", &Node::default(), vec![owner("never"), other_type])).await.unwrap();
    let warned: Vec<_> = written.warnings.iter().map(|one| (one.severity(), one.path.as_str())).collect();
    assert_eq!(warned, [(Severity::Warning, "meta.owner_references[1].kind")]);
    here.write(node("both", &Node::default(), vec![owner("a"), owner("later")])).await.unwrap();
    settle(&here).await;
    assert_eq!((owners(&here, "alone").await, owners(&here, "both").await), (Some(0), Some(1)));
    assert!(!here.has_checks().await);
    here.delete("a").await.unwrap();
    settle(&here).await;
    assert_eq!((owners(&here, "alone").await, owners(&here, "both").await), (Some(0), None));
}

/// The plain owner goes first, and the entry that never held last: the owner that went decides.
#[tokio::test]
async fn an_owner_that_went_decides_also_when_an_entry_that_never_held_is_the_last_to_be_dropped() {
    let here = Here::new(LONG, None);
    plain(&here, &["a", "b"]).await;
    here.write(node("goes", &Node::default(), vec![owner("a"), unset("never")])).await.unwrap();
    here.write(node("stays", &Node::default(), vec![unset("b"), owner("never")])).await.unwrap();
    for name in ["a", "b"] {
        here.delete(name).await.unwrap();
    }
    settle(&here).await;
    assert_eq!((owners(&here, "goes").await, owners(&here, "stays").await), (Some(1), Some(1)));
    assert_eq!(here.outcome_of_checks().await.len(), 2, "the grace is not over");
    // The owner comes within the grace, and goes.
    plain(&here, &["never"]).await;
    here.outcome_of_checks().await;
    here.delete("never").await.unwrap();
    settle(&here).await;
    assert_eq!((owners(&here, "goes").await, owners(&here, "stays").await), (Some(0), None));
}

#[tokio::test]
async fn a_new_owner_of_the_old_name_adopts_nothing() {
    let here = Here::new(LONG, None);
    plain(&here, &["a", "b"]).await;
    here.write(node("d", &Node::default(), vec![owner("a")])).await.unwrap();
    here.write(node("two", &Node::default(), vec![owner("a"), owner("b")])).await.unwrap();
    here.delete("a").await.unwrap();
    // Before the collector has had a turn.
    plain(&here, &["a"]).await;
    here.write(node("new", &Node::default(), vec![owner("a")])).await.unwrap();
    settle(&here).await;
    assert_eq!(
        [owners(&here, "d").await, owners(&here, "two").await, owners(&here, "new").await],
        [None, Some(1), Some(1)]
    );
    let uid = here.read("a").await.unwrap().id.unwrap().uid;
    let found = here.read("new").await.unwrap();
    assert_eq!(found.references[0].owner_uid, uid);
    // An entry may name the incarnation.
    let wrong = OwnerReference { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..owner("b") };
    let right = OwnerReference { uid, ..owner("a") };
    here.write(node("exact", &Node::default(), vec![wrong, right])).await.unwrap();
    here.delete("b").await.unwrap();
    settle(&here).await;
    assert_eq!(owners(&here, "exact").await, Some(2), "b was not its owner");
    here.delete("a").await.unwrap();
    settle(&here).await;
    assert_eq!((owners(&here, "exact").await, owners(&here, "new").await), (Some(1), None));
}

#[tokio::test]
async fn an_entry_that_can_never_hold_is_refused_at_its_field() {
    let here = Here::new(LONG, Some("eu"));
    plain(&here, &["a"]).await;
    let with = |change: fn(&mut OwnerReference)| {
        let mut entry = owner("a");
        change(&mut entry);
        entry
    };
    for (entry, field) in [
        (with(|entry| entry.kind = "Node".into()), "kind"),
        (with(|entry| entry.kind = "/Node".into()), "kind"),
        (with(|entry| entry.kind = "graph/Node/x".into()), "kind"),
        (with(|entry| entry.kind = "graph.v9.Node".into()), "kind"),
        (with(|entry| entry.version = "v9".into()), "version"),
        (with(|entry| entry.name = "L1".into()), "name"),
        (with(|entry| entry.name = "projects/p1/devices/d1".into()), "name"),
        (with(|entry| entry.name = "/a".into()), "name"),
        (with(|entry| (entry.kind, entry.name) = ("mortise/Token".into(), "default/a".into())), "name"),
        (with(|entry| (entry.kind, entry.name) = ("tenancy/Namespace".into(), "p/n/a".into())), "name"),
        (with(|entry| entry.name = "other/a".into()), "name"),
        (with(|entry| entry.name = "other/default/a".into()), "name"),
        (with(|entry| (entry.kind, entry.name) = ("none/Thing".into(), "other/a".into())), "name"),
        (with(|entry| entry.region = "nowhere".into()), "region"),
    ] {
        let refused = here.write(node("d", &Node::default(), vec![owner("b"), entry.clone()])).await.unwrap_err();
        let path = format!("meta.owner_references[1].{field}");
        assert_eq!(refused.code, Code::InvalidArgument, "{entry:?}");
        assert!(refused.message.starts_with(&format!("resource.{path} ")), "{entry:?}: {refused}");
    }
    // The same place by its units, one above, this region.
    for entry in [
        with(|entry| entry.name = "default/default/a".into()),
        with(|entry| (entry.kind, entry.name) = ("tenancy/Namespace".into(), "default/default".into())),
        with(|entry| (entry.kind, entry.name) = ("tenancy.v2beta1.Partition".into(), "default".into())),
        with(|entry| (entry.version, entry.region) = ("v1".into(), "eu".into())),
    ] {
        here.write(node("d", &Node::default(), vec![entry])).await.unwrap();
    }
}

/// The owner of another region is not here: absence says nothing. One here with its name is another resource.
#[tokio::test]
async fn an_owner_of_another_region_is_never_judged_by_absence() {
    let here = Here::new(Duration::ZERO, Some("eu"));
    here.service.replicas().record_peer("us", "http://localhost:1", Vec::new()).await.unwrap();
    plain(&here, &["a", "local"]).await;
    let us = |name: &str| OwnerReference { region: "us".into(), ..owner(name) };
    here.write(node("far", &Node::default(), vec![us("absent")])).await.unwrap();
    here.write(node("same-name", &Node::default(), vec![us("a"), owner("local")])).await.unwrap();
    settle(&here).await;
    assert!(!here.has_checks().await, "there is nothing to look at");
    here.delete("a").await.unwrap();
    here.delete("local").await.unwrap();
    settle(&here).await;
    assert_eq!((owners(&here, "far").await, owners(&here, "same-name").await), (Some(1), Some(1)));
}

#[tokio::test]
async fn a_child_of_a_dead_owner_goes_with_its_creation_and_not_where_another_region_may_know_better() {
    let here = Here::new(LONG, None);
    plain(&here, &["living"]).await;
    let living = here.read("living").await.unwrap().id.unwrap();
    let dead = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..id("gone") };
    let replaced = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..living.clone() };
    for (name, owner) in [("orphan", &dead), ("late", &replaced), ("child", &living)] {
        let child = pb::Resource { owner: Some(owner.clone()), ..node(name, &Node::default(), Vec::new()) };
        here.write(child).await.unwrap();
        assert!(here.read(name).await.is_some(), "it is there for a while");
    }
    settle(&here).await;
    assert!(here.read("orphan").await.is_none() && here.read("late").await.is_none());
    assert!(here.read("child").await.is_some());

    let there = Here::new(LONG, Some("eu"));
    let orphan = pb::Resource { owner: Some(dead), ..node("orphan", &Node::default(), Vec::new()) };
    let refused = there.write(orphan).await.unwrap_err();
    assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
}

/// The uid of an owner that does not exist is the word of the child's writer, and lets nothing of others go.
#[tokio::test]
async fn an_invented_uid_of_an_owner_takes_no_resource_of_others_along() {
    let here = Here::new(LONG, None);
    here.write(node("dependent", &Node::default(), vec![owner("korn")])).await.unwrap();
    plain(&here, &["korn"]).await;
    let invented = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..id("korn") };
    here.write(pb::Resource { owner: Some(invented), ..node("child", &Node::default(), Vec::new()) }).await.unwrap();
    settle(&here).await;
    assert!(here.read("child").await.is_none() && here.read("korn").await.is_some());
    assert_eq!(owners(&here, "dependent").await, Some(1));
}

#[tokio::test]
async fn an_owner_is_named_once_in_whatever_spelling() {
    let here = Here::new(LONG, None);
    let named = |kind: &str, name: &str| OwnerReference { kind: kind.into(), ..owner(name) };
    let refusal = async |entries: Vec<OwnerReference>| {
        let error = here.write(node("d", &Node::default(), entries)).await.unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        error.message
    };
    for second in [named("graph.v1.Node", "a"), owner("default/a"), named("graph.v1.Node", "default/default/a")] {
        let says = refusal(vec![owner("a"), owner("b"), second]).await;
        assert!(says.starts_with("resource.meta.owner_references[2].name names "), "{says}");
        assert!(says.ends_with(", as owner_references[0] does; name each owner once"), "{says}");
    }
    // A resource of an earlier release keeps both, and gets no third one.
    let twice = vec![owner("a"), owner("default/a")];
    here.write(node("d", &Node::default(), vec![owner("a")])).await.unwrap();
    let mut stored = here.read("d").await.unwrap();
    stored.meta.as_mut().unwrap().owner_references.clone_from(&twice);
    here.service.core.backend.write_cas(stored).await.unwrap();
    here.write(node("d", &Node { dangle: vec!["x".into()], ..Node::default() }, twice.clone())).await.unwrap();
    assert_eq!(owners(&here, "d").await, Some(2));
    for (index, later) in [(0, 1), (2, 2)] {
        let mut entries = twice.clone();
        entries.insert(index, named("graph.v1.Node", "a"));
        let says = refusal(entries).await;
        assert!(says.starts_with(&format!("resource.meta.owner_references[{later}].name names ")), "{says}");
    }
    here.write(node("d", &Node::default(), vec![owner("default/a")])).await.unwrap();
}
