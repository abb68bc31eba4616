//! Random graphs with every behaviour, including cycles: random writes and deletions, with kills of the server in
//! between, match a model, and no forbidden dangling reference is ever visible.
//!
//! `MORTISE_GRAPH_NODES` and `MORTISE_GRAPH_RUNS` enlarge it, `MORTISE_GRAPH_SEED` repeats a run.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
};

use mortise_resource::{meta, pb};
use mortise_test_guests::Node;
use tonic::Code;

use crate::{
    ownership::references::{NODE, node, setup},
    support::{Server, decoded, eventually, gvk, id, id_of, tenancy},
};

const BLOCK: usize = 0;
const UNSET: usize = 1;
const CASCADE: usize = 2;
const LATER_UNSET: usize = 3;
const LATER_CASCADE: usize = 4;
const DANGLE: usize = 5;

/// Targets of a node's references, by behaviour.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Links([BTreeSet<u32>; 6]);

/// A node of the model.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Known {
    links: Links,
    is_marked: bool,
}

/// Expected content of the store, by the rules of docs/ownership.md.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Model(BTreeMap<u32, Known>);

/// Effect of a deletion.
struct Plan {
    goes: BTreeSet<u32>,
    marks: BTreeSet<u32>,
    is_blocked: bool,
}

impl Model {
    fn referrers(&self, of: u32, how: usize) -> Vec<u32> {
        self.0
            .iter()
            .filter(|(name, known)| **name != of && known.links.0[how].contains(&of))
            .map(|(n, _)| *n)
            .collect()
    }

    fn plan(&self, root: u32, finishes: bool) -> Plan {
        let (mut reached, mut open, mut held) = (BTreeSet::from([root]), vec![root], BTreeSet::new());
        while let Some(target) = open.pop() {
            let mut joins = self.referrers(target, CASCADE);
            for later in [LATER_UNSET, LATER_CASCADE] {
                for referrer in self.referrers(target, later) {
                    if finishes && later == LATER_CASCADE && self.0[&referrer].is_marked {
                        joins.push(referrer);
                    } else {
                        held.insert(target);
                    }
                }
            }
            open.extend(joins.into_iter().filter(|one| reached.insert(*one)));
        }
        let is_blocked =
            reached.iter().any(|target| self.referrers(*target, BLOCK).iter().any(|one| !reached.contains(one)));
        let mut open: Vec<u32> = held.iter().copied().collect();
        while let Some(one) = open.pop() {
            for target in self.0[&one].links.0[..DANGLE].iter().flatten() {
                if reached.contains(target) && held.insert(*target) {
                    open.push(*target);
                }
            }
        }
        let goes = reached.difference(&held).copied().collect();
        Plan { goes, marks: held, is_blocked }
    }

    fn apply(&mut self, plan: &Plan) -> bool {
        let before = self.clone();
        for gone in &plan.goes {
            self.0.remove(gone);
        }
        for mark in &plan.marks {
            if let Some(known) = self.0.get_mut(mark) {
                known.is_marked = true;
            }
        }
        for known in self.0.values_mut() {
            known.links.0[UNSET].retain(|target| !plan.goes.contains(target));
        }
        *self != before
    }

    /// Deletes a node, if that is allowed; returns whether it is.
    fn delete(&mut self, root: u32) -> bool {
        let Some(known) = self.0.get(&root) else { return true };
        if known.is_marked {
            return true;
        }
        let plan = self.plan(root, false);
        if !plan.is_blocked {
            self.apply(&plan);
        }
        !plan.is_blocked
    }

    /// Does all possible work of the collector.
    fn settle(&mut self) {
        loop {
            let mut changed = false;
            let marked: Vec<u32> = self.0.iter().filter(|(_, known)| known.is_marked).map(|(name, _)| *name).collect();
            for name in marked {
                if !self.0.contains_key(&name) {
                    continue;
                }
                for referrer in self.referrers(name, LATER_UNSET) {
                    changed |= self.0.get_mut(&referrer).unwrap().links.0[LATER_UNSET].remove(&name);
                }
                let mut all = true;
                for referrer in self.referrers(name, LATER_CASCADE) {
                    if self.0.get(&referrer).is_some_and(|known| !known.is_marked) {
                        let done = self.delete(referrer);
                        (changed, all) = (changed | done, all & done);
                    }
                }
                if all && self.0.contains_key(&name) {
                    let plan = self.plan(name, true);
                    if !plan.is_blocked && plan.goes.contains(&name) {
                        changed |= self.apply(&plan);
                    }
                }
            }
            if !changed {
                return;
            }
        }
    }
}

fn name(number: u32) -> String {
    format!("n{number}")
}

fn number(name: &str) -> u32 {
    name.trim_start_matches('n').parse().unwrap()
}

fn data(links: &Links) -> Node {
    let list = |how: usize| links.0[how].iter().map(|one| name(*one)).collect();
    Node {
        blocked_by: list(BLOCK),
        unset_by: list(UNSET),
        goes_with: list(CASCADE),
        unset_later: list(LATER_UNSET),
        goes_later: list(LATER_CASCADE),
        may_dangle: list(DANGLE),
        ..Node::default()
    }
}

fn links(node: &Node) -> Links {
    let of = |list: &[String]| list.iter().map(|name| number(name)).collect();
    Links([
        of(&node.blocked_by),
        of(&node.unset_by),
        of(&node.goes_with),
        of(&node.unset_later),
        of(&node.goes_later),
        of(&node.may_dangle),
    ])
}

async fn stored(server: &Server) -> Model {
    let all: Vec<pb::Resource> = server.list(gvk(NODE), tenancy("*", "*"), "").await.unwrap();
    let known = |one: &pb::Resource| Known { links: links(&decoded(one)), is_marked: meta::is_marked(&one.metadata) };
    Model(all.iter().map(|one| (number(&id_of(one).name), known(one))).collect())
}

/// Asserts that every reference that must not dangle has a target.
fn check_whole(model: &Model) {
    for (name, known) in &model.0 {
        for target in known.links.0[..DANGLE].iter().flatten() {
            assert!(model.0.contains_key(target), "n{name} refers to n{target}, which is not there");
        }
    }
}

fn some_links(random: &mut fastrand::Rng, model: &Model, own: u32) -> Links {
    let there: Vec<u32> = model.0.iter().filter(|(_, known)| !known.is_marked).map(|(name, _)| *name).collect();
    let mut links = Links::default();
    for _ in 0..random.usize(0..4) {
        // Blocks are rare: with many, deletions would always be refused.
        let how = [BLOCK, UNSET, UNSET, CASCADE, CASCADE, LATER_UNSET, LATER_CASCADE, DANGLE][random.usize(0..8)];
        let target = if random.u8(0..20) == 0 { Some(own) } else { random.choice(&there).copied() };
        links.0[how].extend(target);
    }
    links
}

fn setting(name: &str, default: u64) -> u64 {
    env::var(name).ok().map_or(default, |text| text.parse().unwrap())
}

#[tokio::test]
async fn random_graphs_match_a_model() {
    let (nodes, runs) = (setting("MORTISE_GRAPH_NODES", 60), setting("MORTISE_GRAPH_RUNS", 2));
    let first = setting("MORTISE_GRAPH_SEED", fastrand::u64(..1_000_000));
    let (mut kills, mut deleted, mut blocked, mut gone, mut seen_marked) = (0, 0, 0, 0, 0);
    for seed in first..first + runs {
        println!("seed {seed}");
        let random = &mut fastrand::Rng::with_seed(seed);
        let dir = tempfile::tempdir().unwrap();
        let start = async || setup().data_dir(dir.path()).start().await;
        let mut server = start().await;
        let mut model = Model::default();
        let nodes = u32::try_from(nodes).unwrap();
        for number in 0..nodes {
            let links = some_links(random, &model, number);
            server.write(node(&name(number), &data(&links))).await.unwrap();
            model.0.insert(number, Known { links, is_marked: false });
        }
        for step in 0..nodes {
            let target = random.u32(0..nodes);
            if random.u8(0..3) == 0 {
                // A write: a change of an existing node, or a new one.
                if model.0.get(&target).is_some_and(|known| known.is_marked) {
                    continue;
                }
                let mut links = some_links(random, &model, target);
                // Kept references may be to a target that is being deleted.
                if let Some(known) = model.0.get(&target) {
                    links.0[UNSET].extend(&known.links.0[UNSET]);
                }
                server.write(node(&name(target), &data(&links))).await.unwrap();
                model.0.insert(target, Known { links, is_marked: false });
                continue;
            }
            let before = model.0.len();
            deleted += 1;
            if deleted % 12 == 6 {
                // Killed at any moment of a deletion: either all of it was done, or nothing.
                let wait = std::time::Duration::from_micros(random.u64(0..3_000));
                let dying = async {
                    tokio::time::sleep(wait).await;
                    server.signal("KILL");
                };
                let target_id = id(NODE, &name(target));
                // Either outcome of the call is fine.
                let (_, ()) = tokio::join!(server.delete(&target_id, ""), dying);
                server.child.wait().await.unwrap();
                kills += 1;
                server = start().await;
                let there = stored(&server).await;
                check_whole(&there);
                let known = model.0.get(&target).cloned();
                let now = there.0.get(&target);
                if known.is_some_and(|known| now.is_none_or(|now| now.is_marked != known.is_marked)) {
                    assert!(model.delete(target), "the model blocks the deletion of n{target} in step {step}");
                }
            } else {
                let allowed = model.delete(target);
                match server.delete(&id(NODE, &name(target)), "").await {
                    Ok(()) => assert!(allowed, "n{target} was deleted in step {step}"),
                    Err(error) => assert_eq!((error.code(), allowed), (Code::FailedPrecondition, false), "{error}"),
                }
                blocked += usize::from(!allowed);
            }
            let there = stored(&server).await;
            check_whole(&there);
            seen_marked += there.0.values().filter(|known| known.is_marked).count();
            model.settle();
            gone += before - model.0.len();
            eventually(&format!("step {step} of seed {seed} settles: deletion of n{target}"), async || {
                let there = stored(&server).await;
                check_whole(&there);
                there == model
            })
            .await;
        }
    }
    println!(
        "{runs} graphs of {nodes}: {deleted} deletions, {blocked} blocked, {gone} nodes gone, {seen_marked} seen marked, {kills} kills"
    );
    assert!(deleted > 0 && gone > 0 && kills > 0, "{deleted} {gone} {kills}");
}
