//! A plan says what then happens, resource by resource.
//!
//! `MORTISE_PLAN_GRAPHS` sets the number of graphs, `MORTISE_PLAN_SEED` the first seed.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    time::Duration,
};

use mortise_resource::{
    data::{DeleteStep, PlanDeleteResponse, SetBlockDeletionRequest, delete_step::Action},
    goten::OwnerReference,
    meta, pb, types,
};
use mortise_store::Consistency;

use super::{
    outlook::{Foreseen, Outlook},
    test_graph::{Here, Node, id, node, owner},
};

const LONG: Duration = Duration::from_secs(3_600);

fn name_of(step: &DeleteStep) -> String {
    step.id.clone().unwrap().name
}

/// Names by what a plan says of them: gone in the end, hanging, changed.
fn foretold(plan: &PlanDeleteResponse) -> [BTreeSet<String>; 3] {
    let with = |actions: &[Action]| -> BTreeSet<String> {
        plan.steps.iter().filter(|step| actions.contains(&step.action())).map(name_of).collect()
    };
    let hangs = with(&[Action::Hang]);
    let gone = with(&[Action::Delete, Action::Mark, Action::DeleteLater]);
    let gone: BTreeSet<String> = gone.difference(&hangs).cloned().collect();
    let changed = with(&[Action::Unset, Action::UnsetLater, Action::ReleaseLater]);
    let changed = changed.into_iter().filter(|name| !gone.contains(name) && !hangs.contains(name)).collect();
    [gone, hangs, changed]
}

/// Writes a random graph. Returns the number of its nodes.
async fn graph(here: &Here, prefix: &str, is_cyclic: bool, random: &mut fastrand::Rng) -> usize {
    let count = random.usize(3..13);
    let name = |n: usize| format!("{prefix}{n}");
    for n in 0..count {
        let mut made = node(&name(n), &Node::default(), Vec::new());
        if n > 0 && random.u8(..4) == 0 {
            made.owner = Some(id(&name(random.usize(..n))));
        }
        if random.u8(..12) == 0 {
            made.metadata.insert(meta::FINALIZERS.into(), "someone".into());
        }
        here.write(made).await.unwrap();
    }
    for n in 0..count {
        let mut data = Node::default();
        let mut owners: Vec<OwnerReference> = Vec::new();
        let others: Vec<usize> = if is_cyclic { (0..count).collect() } else { (0..n).collect() };
        for _ in 0..random.usize(..4) {
            let Some(target) = random.choice(&others).map(|other| name(*other)) else { continue };
            let list = match random.u8(..12) {
                0 => &mut data.block,
                1 | 2 => &mut data.unset,
                3 | 4 => &mut data.cascade,
                5 => &mut data.later_unset,
                6 | 7 => &mut data.later_cascade,
                8 => &mut data.dangle,
                _ => {
                    if owners.iter().all(|known| known.name != target) {
                        owners.push(OwnerReference { unset_on_delete: random.u8(..3) == 0, ..owner(&target) });
                    }
                    continue;
                }
            };
            list.push(target);
        }
        let stored = here.read(&name(n)).await.unwrap();
        let next = node(&name(n), &data, owners);
        here.write(pb::Resource { data: next.data, meta: next.meta, ..stored }).await.unwrap();
        if random.u8(..30) == 0 {
            let request =
                SetBlockDeletionRequest { id: Some(id(&name(n))), version: String::new(), block_deletion: true };
            here.service.change_block_deletion(&here.caller, request).await.unwrap();
        }
    }
    count
}

#[tokio::test]
async fn random_graphs_end_as_their_plans_foretell() {
    let setting = |name: &str, or: u64| env::var(name).ok().map_or(or, |text| text.parse().unwrap());
    let (graphs, first) =
        (setting("MORTISE_PLAN_GRAPHS", 120), setting("MORTISE_PLAN_SEED", fastrand::u64(..1_000_000)));
    let here = Here::new(LONG, None);
    let (mut blocked, mut all_gone, mut all_hang, mut all_changed) = (0, 0, 0, 0);
    for seed in first..first + graphs {
        let random = &mut fastrand::Rng::with_seed(seed);
        let prefix = format!("g{seed}-");
        let count = graph(&here, &prefix, seed % 2 == 0, random).await;
        let before: BTreeMap<_, _> = here.nodes(&prefix).await.into_iter().collect();
        let root = format!("{prefix}{}", random.usize(..count));
        let plan = here.plan(&root).await;
        assert!(!plan.is_cut && plan.hidden == 0, "seed {seed}: {plan:?}");
        let deleted = here.delete(&root).await;
        assert_eq!(deleted.is_err(), plan.is_blocked, "seed {seed}: {deleted:?} {plan:?}");
        here.settle(&prefix, random).await;
        let after: BTreeMap<_, _> = here.nodes(&prefix).await.into_iter().collect();
        if plan.is_blocked {
            blocked += 1;
            assert_eq!(after, before, "seed {seed}");
            continue;
        }
        let [gone, hangs, changed] = foretold(&plan);
        for (name, version) in &before {
            let told = (gone.contains(name), hangs.contains(name), changed.contains(name));
            let is_there = after.contains_key(name);
            let is_same = after.get(name) == Some(version);
            let fits = match told {
                (true, ..) => !is_there,
                (_, true, _) => is_there,
                (.., true) => is_there && !is_same,
                _ => is_same,
            };
            assert!(
                fits,
                "seed {seed}: {name}, there {is_there}, same {is_same}, after the deletion of {root}: {plan:#?}"
            );
        }
        for step in plan.steps.iter().filter(|step| step.action() == Action::Hang) {
            let says = !step.finalizers.is_empty() || !step.held_by.is_empty() || !step.reason.is_empty();
            assert!(says, "seed {seed}: {step:?}");
        }
        all_gone += gone.len();
        all_hang += hangs.len();
        all_changed += changed.len();
    }
    println!(
        "{graphs} graphs from seed {first}: {blocked} blocked, {all_gone} gone, {all_hang} hang, {all_changed} changed"
    );
    assert!(all_gone > 0 && all_changed > 0, "{all_gone} gone, {all_changed} changed");
}

/// The second step of the collector, and the third, are in the plan.
#[tokio::test]
async fn a_plan_looks_as_far_as_the_collector_goes() {
    let here = Here::new(LONG, None);
    here.write(node("o", &Node::default(), Vec::new())).await.unwrap();
    here.write(node("d", &Node::default(), vec![owner("o")])).await.unwrap();
    here.write(node("e", &Node { cascade: vec!["d".into()], ..Node::default() }, Vec::new())).await.unwrap();
    let kept = node("kept", &Node { unset: vec!["e".into()], ..Node::default() }, Vec::new());
    here.write(kept).await.unwrap();
    let mut held = node("held", &Node { later_cascade: vec!["e".into()], ..Node::default() }, Vec::new());
    held.metadata.insert(meta::FINALIZERS.into(), "someone".into());
    here.write(held).await.unwrap();
    let plan = here.plan("o").await;
    let steps: Vec<_> = plan.steps.iter().map(|step| (step.action(), name_of(step))).collect();
    let told = |action, name: &str| steps.contains(&(action, name.to_owned()));
    assert!(told(Action::Delete, "o") && told(Action::Hang, "d") && told(Action::Hang, "e"), "{steps:?}");
    let held = plan.steps.iter().find(|step| step.action() == Action::Hang && name_of(step) == "held").unwrap();
    assert_eq!(held.finalizers, ["someone"]);
    let held = plan.steps.iter().find(|step| step.action() == Action::Hang && name_of(step) == "e").unwrap();
    assert_eq!(held.held_by.iter().map(|id| id.name.as_str()).collect::<Vec<_>>(), ["held"]);
    assert!(!told(Action::UnsetLater, "kept"), "e is still there");
}

/// A namespace is scanned once, however many rounds its emptying takes, and an outlook that reads too much says so.
#[tokio::test]
async fn the_content_of_a_unit_is_read_once() {
    let here = Here::new(LONG, None);
    let tenancy = |namespace: &str| Some(pb::Tenancy { partition: "default".into(), namespace: namespace.into() });
    let unit = pb::Id {
        r#type: Some(types::namespace().to_pb()),
        tenancy: tenancy(""),
        name: "spot".into(),
        uid: String::new(),
    };
    here.write(pb::Resource { id: Some(unit.clone()), ..pb::Resource::default() }).await.unwrap();
    let within = async |mut made: pb::Resource| {
        made.id.as_mut().unwrap().tenancy = tenancy("spot");
        here.write(made).await.unwrap();
    };
    for n in 0..100 {
        within(node(&format!("n{n}"), &Node::default(), Vec::new())).await;
    }
    let mut held = node("held", &Node::default(), Vec::new());
    held.metadata.insert(meta::FINALIZERS.into(), "someone".into());
    within(held).await;
    let foresee = async |most_read: usize| {
        let root = here.service.core.backend.read_encoded(Consistency::Consistent, &unit).await.unwrap();
        let registry = here.service.core.types();
        let mut outlook = Outlook::new(&here.service.deletions, &registry);
        outlook.most_read = most_read;
        let Ok(Foreseen { steps, cut, .. }) = outlook.of(root).await else { panic!("the outlook fails") };
        (steps.iter().filter(|step| step.action == Action::DeleteLater).count(), cut)
    };
    // The scan, and a plan for each resource, with few more for what is held; a second scan would not fit.
    assert_eq!(foresee(250).await, (100, String::new()));
    let (gone, cut) = foresee(60).await;
    assert!(gone < 100, "{gone}");
    assert_eq!(cut, "the work afterwards reads more than 60 resources");
}

/// Writes a node that owns others, each held by a long finalizer.
async fn with_held(here: &Here, root: &str, number: usize, finalizer_bytes: usize) {
    here.write(node(root, &Node::default(), Vec::new())).await.unwrap();
    for n in 0..number {
        let mut held = node(&format!("{root}{n:02}"), &Node::default(), vec![owner(root)]);
        held.metadata.insert(meta::FINALIZERS.into(), "f".repeat(finalizer_bytes));
        here.write(held).await.unwrap();
    }
}

/// A plan that is cut has the steps up to there, and the bound.
#[tokio::test]
async fn a_plan_that_is_cut_says_at_which_bound() {
    let here = Here::new(LONG, None);
    with_held(&here, "o", 6, 700_000).await;
    let plan = here.plan("o").await;
    assert_eq!((plan.is_cut, plan.cut.as_str()), (true, "the steps take more than 3 MiB"));
    let actions: Vec<_> = plan.steps.iter().map(DeleteStep::action).collect();
    assert_eq!(actions, [Action::Delete, Action::Hang, Action::Hang, Action::Hang, Action::Hang]);
    with_held(&here, "p", 34, 1_000_000).await;
    let plan = here.plan("p").await;
    assert_eq!((plan.is_cut, plan.cut.as_str()), (true, "more than 32 MiB of resources are affected"));
    assert_eq!(plan.steps.iter().map(name_of).collect::<Vec<_>>(), ["p"]);
}
