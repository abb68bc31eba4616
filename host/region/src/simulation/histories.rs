//! Histories with faults, and single faults.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use mortise_resource::data::{AdoptAction, AdoptResponse};
use mortise_service::registry::Registry;

use super::{
    sim_peer::Lie,
    world::{ALL, WAIT, World, registry, settled},
};

/// Runs one history. Returns the number of accepted peers, and of false messages by their fault. Histories with eight
/// seeds in a row have every lie.
async fn history(seed: u64, registry: Arc<Registry>) -> (usize, BTreeMap<Lie, usize>) {
    let mut world = World::new(seed, registry).await;
    world.change_namespace(true).await;
    for region in ALL {
        for _ in 0..16 {
            world.change(region).await;
        }
    }
    let mut accepted = world.settle().await;
    let from = world.dice.of(&ALL);
    let to = world.dice.of(&ALL.into_iter().filter(|to| *to != from).collect::<Vec<_>>());
    let lie = Lie::ALL[usize::try_from(seed % Lie::ALL.len() as u64).unwrap()];
    world.lie(from, to, lie).await;
    for round in 0..3 {
        for _ in 0..=world.dice.below(2) {
            world.fault().await;
            let region = world.dice.of(&ALL);
            world.change(region).await;
        }
        tokio::time::sleep(Duration::from_millis(world.dice.below(60))).await;
        world.check(&format!("after the faults of round {round}")).await;
        if world.dice.below(2) == 0 {
            world.heal();
        }
    }
    world.heal();
    accepted += world.settle().await;
    world.check("at the end").await;
    let false_messages = world.false_messages();
    world.end().await;
    (accepted, false_messages)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_history_loses_what_its_owner_holds() {
    let number = |name: &str, default: u64| std::env::var(name).map_or(default, |text| text.parse().unwrap());
    let (histories, first) = (number("MORTISE_REGION_HISTORIES", 12), number("MORTISE_REGION_SEED", 1));
    let registry = registry().await;
    let (mut accepted, mut seeds, mut false_messages) = (0, BTreeSet::new(), BTreeMap::new());
    let mut running = tokio::task::JoinSet::new();
    let mut take = |(peers, lies): (usize, BTreeMap<Lie, usize>)| {
        accepted += peers;
        lies.into_iter().for_each(|(lie, number)| *false_messages.entry(lie).or_insert(0_usize) += number);
    };
    for seed in first..first + histories {
        if running.len() >= 4 {
            take(running.join_next().await.unwrap().unwrap());
        }
        seeds.insert(seed);
        running.spawn(history(seed, registry.clone()));
    }
    while let Some(ended) = running.join_next().await {
        take(ended.unwrap());
    }
    println!("{} histories, {accepted} peers accepted, false messages: {false_messages:?}", seeds.len());
    let unused: Vec<_> = Lie::ALL.into_iter().filter(|lie| !false_messages.contains_key(lie)).collect();
    assert!(unused.is_empty() || seeds.len() < Lie::ALL.len(), "lies that no peer got: {unused:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_whose_snapshots_are_empty_is_stopped_and_loses_nothing() {
    let world = settled(11).await;
    let before = world.owned["eu"].clone();
    assert!(before.len() > 5, "more than a snapshot may remove: {before:?}");
    // The namespace is within the bound: it is held, with the things in it.
    world.links[&("us", "eu")].lie(Some(Lie::EmptySnapshots));
    until("us stops eu", async || world.has_stopped("us", "eu")).await;
    assert_eq!(world.held("us", "eu").await, before);
    // The truth alone does not end it.
    world.links[&("us", "eu")].lie(None);
    assert!(world.accept("us", "eu").await);
    world.settle().await;
    assert_eq!(world.held("us", "eu").await, before);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_that_the_peer_refuses_leads_to_a_snapshot() {
    let mut world = settled(7).await;
    world.links[&("us", "eu")].lie(Some(Lie::RefusesTokens));
    for _ in 0..4 {
        world.change("eu").await;
    }
    assert_eq!(world.settle().await, 0, "nothing had to be accepted");
    world.end().await;
}

async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    let begun = Instant::now();
    while !holds().await {
        assert!(begun.elapsed() < WAIT, "not in time: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_that_is_given_away_and_deleted_at_once_goes() {
    let mut world = settled(9).await;
    // Only eu can say so, and it does between two questions.
    world.lead("us", "ap", false);
    world.links[&("us", "eu")].lie(Some(Lie::Forgets));
    let key = world.give("eu", "ap").await;
    until("the replica at us is gone", async || !world.held("us", "eu").await.contains_key(&key)).await;
    assert!(!world.held("us", "ap").await.contains_key(&key));
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_of_an_older_release_that_was_accepted_stays_accepted() {
    let mut world = settled(10).await;
    world.links[&("us", "eu")].lie(Some(Lie::IsOlder));
    until("us stops eu, whose store has no id", async || world.has_stopped("us", "eu")).await;
    world.lead("us", "eu", false);
    assert!(world.accept("us", "eu").await);
    // No position in the changes of the former store is left, which would bind it again.
    world.restart("us").await;
    world.lead("us", "eu", true);
    world.change("eu").await;
    assert_eq!(world.settle().await, 0, "nothing had to be accepted again");
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_lies_harms_its_own_replicas_alone() {
    let mut world = settled(8).await;
    for lie in Lie::ALL {
        world.links[&("us", "eu")].lie(Some(lie));
        for region in ["ap", "eu", "us"] {
            world.change(region).await;
        }
        let what = format!("{lie:?}: us follows ap");
        until(&what, async || world.held("us", "ap").await == world.owned["ap"]).await;
        world.check(&format!("{lie:?}")).await;
        assert_eq!(world.held("us", "ap").await, world.owned["ap"], "{lie:?}");
    }
    world.heal();
    world.settle().await;
    world.end().await;
}

/// A server of us has a copy of eu's store, so the id of the store alone does not tell them apart. It is there when ap
/// asks for the identity, or takes eu's place behind each answer of eu.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_position_is_for_the_region_of_the_peer_and_not_for_its_store_alone() {
    for behind_identity in [false, true] {
        let mut world = settled(12).await;
        world.start_on_emptied_copy("us", "eu").await;
        world.lead("ap", "us", false);
        let before = world.held("ap", "eu").await;
        assert!(!before.is_empty());
        until("ap follows eu", async || world.is_current("ap", "eu")).await;
        world.mislead("ap", "eu", "us", behind_identity);
        let says = if behind_identity { "for the region of another server" } else { "is of region \"us\"" };
        let refuses = async || world.faults("ap", "eu").iter().all(|fault| fault.contains(says));
        until("ap refuses us, or takes something", async || refuses().await || world.held("ap", "eu").await != before)
            .await;
        assert_eq!(world.held("ap", "eu").await, before, "behind identity: {behind_identity}");
        // The right server ends it.
        world.lead("ap", "eu", true);
        world.change("eu").await;
        until("ap follows eu again", async || world.held("ap", "eu").await == world.owned["eu"]).await;
        world.end().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_region_leaves_the_resources_that_it_gave_to_a_third_region() {
    let mut world = settled(13).await;
    // Us knows of it from eu alone.
    world.lead("us", "ap", false);
    let key = world.give("eu", "ap").await;
    until("eu says it to us", async || world.held("us", "ap").await.contains_key(&key)).await;
    world.lead("us", "eu", false);
    let before = world.held("us", "ap").await;
    until("eu is lost", async || world.adopt("us", "eu", AdoptAction::Adopt).await.is_ok()).await;
    let answer = world.adopt("us", "eu", AdoptAction::Adopt).await.unwrap();
    let refused = |answer: &AdoptResponse| {
        let held = answer.refused.iter().find(|held| held.id.as_ref().is_some_and(|id| id.name == key.1));
        held.map(|held| held.detail.clone())
    };
    assert!(refused(&answer).unwrap().starts_with("its region field names region \"ap\""), "{answer:?}");
    assert_eq!(world.held("us", "ap").await, before);
    assert_eq!(world.held("us", "eu").await, BTreeMap::new(), "the others are adopted");
    // Its owner sends it.
    world.lead("us", "ap", true);
    let is_taken = async || refused(&world.adopt("us", "eu", AdoptAction::Adopt).await.unwrap()).is_none();
    until("ap sends it", is_taken).await;
    assert_eq!(world.held("us", "ap").await, before);
    world.end().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_resource_is_adopted_from_its_owner_and_not_from_the_region_that_sent_it() {
    let mut world = settled(14).await;
    world.lead("us", "ap", false);
    let key = world.give("eu", "ap").await;
    until("eu says it to us", async || world.held("us", "ap").await.contains_key(&key)).await;
    until("ap is lost", async || world.adopt("us", "ap", AdoptAction::Adopt).await.is_ok()).await;
    assert!(world.held("us", "us").await.contains_key(&key));
    assert_eq!(world.held("us", "ap").await, BTreeMap::new());
    world.end().await;
}
