//! The bound of the replicas that a snapshot may remove, to the number, and what is remembered over a restart.

use mortise_resource::{data::HeldBackReason, pb};

use crate::{
    regions::servers::*,
    support::{controllers::read_until, *},
};

const EU_US: [&str; 2] = ["eu", "us"];

/// Writes things of eu, and waits until us has them.
async fn write_things(world: &Servers, prefix: &str, number: usize) -> Vec<pb::Id> {
    let mut ids = Vec::new();
    for index in 0..number {
        let thing = regional_thing("Thing", &format!("{prefix}{index}"), "eu", 1);
        ids.push(id_of(&world.at("eu").write(thing).await.unwrap()));
    }
    for id in &ids {
        world.copied(id, "eu", "us").await;
    }
    world.current().await;
    ids
}

#[tokio::test]
async fn a_snapshot_removes_up_to_the_share_and_not_one_more() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let env = [("MORTISE_REGION_MAX_REMOVED", "2"), ("MORTISE_REGION_MAX_REMOVED_PERCENT", "20")];
    let mut world = Servers::start(&EU_US, &policy(&EU_US, "eu", &[]), &env).await;
    let kept = write_things(&world, "kept", 20).await;
    world.kill("eu").await;
    let old = world.copy_store("eu");
    world.restart("eu").await;
    // 5 of 25 are 20 %; 6 of 26 are more.
    for (number, is_allowed) in [(5, true), (6, false)] {
        let later = write_things(&world, &format!("later{number}-"), number).await;
        world.kill("eu").await;
        world.replace_store("eu", Some(old.path()));
        world.restart("eu").await;
        if is_allowed {
            for id in &later {
                eventually("the replica is gone", async || is_gone(world.at("us"), id).await).await;
            }
            world.current().await;
            world.condition("us", "eu", "Accepted", "Bound").await;
        } else {
            world.condition("us", "eu", "Accepted", "TooManyRemovals").await;
            let stopped = world.peer("us", "eu").await.stopped;
            assert!(stopped.contains("would remove 6 of 26 replicas"), "{stopped}");
            for id in &later {
                assert!(!is_gone(world.at("us"), id).await, "{} stays", id.name);
            }
        }
        for id in &kept {
            assert!(!is_gone(world.at("us"), id).await, "{} stays", id.name);
        }
    }
}

/// Neither the new owner nor a change tells ap again of a resource that it deferred; only its own list does.
#[tokio::test]
async fn a_resource_that_was_given_away_is_asked_about_also_after_a_restart() {
    let all = ["ap", "eu", "us"];
    let mut world = Servers::start(&all, &policy(&all, "eu", &[]), &[]).await;
    let given = id_of(&world.at("eu").write(regional_thing("Thing", "given", "", 1)).await.unwrap());
    for to in ["ap", "us"] {
        world.copied(&given, "eu", to).await;
    }
    world.current().await;
    world.link("ap", "us").cut();
    for region in ["eu", "us"] {
        world.at(region).write(partition("world", Some(policy(&all, "us", &[])))).await.unwrap();
        read_until(world.at(region), &given, |seen| syncing(seen).owning_region == "us").await;
    }
    let is_deferred = async |world: &Servers| {
        let held = world.held_back("ap", "eu").await;
        held.iter().any(|one| {
            one.reason() == HeldBackReason::Policy && one.id.as_ref().is_some_and(|id| id.name == given.name)
        })
    };
    eventually("ap defers what it does not agree to", async || is_deferred(&world).await).await;
    world.kill("ap").await;
    world.restart("ap").await;
    eventually("ap has remembered it", async || is_deferred(&world).await).await;
    assert_eq!(syncing(&world.at("ap").read(&given).await.unwrap()).owning_region, "eu");
    world.at("ap").write(partition("world", Some(policy(&all, "us", &[])))).await.unwrap();
    let taken = read_until(world.at("ap"), &given, |seen| syncing(seen).owning_region == "us").await;
    assert_eq!(syncing(&taken).copied_from, "eu", "us could not tell it");
    eventually("nothing is deferred", async || world.held_back("ap", "eu").await.is_empty()).await;
}
