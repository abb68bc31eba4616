//! Identities of peers: nothing is taken from a server that is not the known one, until an operator accepts it; lost
//! regions; namespaces that their owner deletes.

use std::collections::BTreeMap;

use mortise_api::RegionServiceClient;
use mortise_resource::{
    data::{AdoptAction, AdoptRequest, AdoptResponse, IdentifyRequest, PeerState, RegionPeer},
    pb,
};
use mortise_test_guests::Thing;
use tonic::Code;

use crate::{regions::servers::*, support::*};

const ALL: [&str; 3] = ["ap", "eu", "us"];
const EU_US: [&str; 2] = ["eu", "us"];

/// Starts eu and us. Eu owns things; us owns a child of the first one.
async fn with_things(number: usize) -> (Servers, Vec<pb::Id>, pb::Id) {
    let world = Servers::start(&EU_US, &policy(&EU_US, "eu", &[]), &[]).await;
    let mut ids = Vec::new();
    for index in 0..number {
        let thing = regional_thing("Thing", &format!("t{index}"), "eu", 1);
        ids.push(id_of(&world.at("eu").write(thing).await.unwrap()));
    }
    for id in &ids {
        world.copied(id, "eu", "us").await;
    }
    let child = world.at("us").write(owned(regional_thing("Thing", "child", "us", 1), &ids[0])).await.unwrap();
    world.current().await;
    (world, ids, id_of(&child))
}

/// Asks us to take over the replicas from eu.
async fn adopt(world: &Servers, action: AdoptAction, dry_run: bool) -> Result<AdoptResponse, tonic::Status> {
    let mut client = RegionServiceClient::new(world.at("us").channel().await);
    let request = AdoptRequest { from: "eu".into(), action: action.into(), dry_run };
    client.adopt(request).await.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_peer_that_comes_back_empty_is_stopped_until_an_operator_accepts_it() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let (mut world, ids, child) = with_things(3).await;
    let before = world.peer("us", "eu").await.store_id;
    assert!(!before.is_empty());
    assert!(!world.accept("us", "eu").await.unwrap(), "there is nothing to accept");
    world.kill("eu").await;
    world.replace_store("eu", None);
    world.restart("eu").await;
    world.at("eu").write(partition("world", Some(policy(&EU_US, "eu", &[])))).await.unwrap();
    for _ in 0..2 {
        world.condition("us", "eu", "Accepted", "OtherStore").await;
        world.condition("us", "eu", "Current", "Stopped").await;
        // After the restart the stored conditions are true before the peer was asked.
        let peer = until("the peer is stopped", async || {
            let peer = world.peer("us", "eu").await;
            if peer.state() == PeerState::Stopped { Ok(peer) } else { Err(peer) }
        })
        .await;
        assert_eq!(peer.store_id, before);
        assert!(peer.stopped.contains("mortise regions accept eu"), "{}", peer.stopped);
        for id in ids.iter().chain([&child]) {
            assert!(!is_gone(world.at("us"), id).await, "{} stays", id.name);
        }
        eventually("it is counted", async || {
            world.at("us").get("/metrics").await.1.contains("mortise_region_stopped{peer=\"eu\"} 1")
        })
        .await;
        // The stop outlives the server.
        world.kill("us").await;
        world.restart("us").await;
    }
    // The peer may not have answered yet; the call waits for it.
    assert!(world.accept("us", "eu").await.unwrap());
    for id in &ids {
        eventually("the replica of the lost resource is gone", async || is_gone(world.at("us"), id).await).await;
    }
    world.current().await;
    world.condition("us", "eu", "Accepted", "Bound").await;
    assert_ne!(world.peer("us", "eu").await.store_id, before);
    let new = id_of(&world.at("eu").write(regional_thing("Thing", "new", "eu", 1)).await.unwrap());
    world.copied(&new, "eu", "us").await;
}

#[tokio::test]
async fn a_peer_without_an_answer_since_the_start_is_not_accepted() {
    let mut world = Servers::start(&EU_US, &policy(&EU_US, "eu", &[]), &[]).await;
    world.kill("us").await;
    world.kill("eu").await;
    world.restart("us").await;
    let refused = world.accept("us", "eu").await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.message().contains("has not answered since"), "{}", refused.message());
}

#[tokio::test]
async fn a_server_of_another_region_at_the_address_is_not_followed() {
    let world = Servers::start(&ALL, &policy(&ALL, "eu", &[]), &[]).await;
    let one = id_of(&world.at("eu").write(regional_thing("Thing", "one", "eu", 1)).await.unwrap());
    world.copied(&one, "eu", "us").await;
    world.current().await;
    world.lead("us", "eu", "ap");
    world.condition("us", "eu", "Accepted", "OtherRegion").await;
    let refused = world.accept("us", "eu").await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition);
    assert!(refused.message().contains("is of region \"ap\""), "{}", refused.message());
    assert!(!is_gone(world.at("us"), &one).await);
    // The right server ends it, without an operator.
    world.lead("us", "eu", "eu");
    world.current().await;
    let two = id_of(&world.at("eu").write(regional_thing("Thing", "two", "eu", 1)).await.unwrap());
    world.copied(&two, "eu", "us").await;
}

#[tokio::test]
async fn a_snapshot_that_removes_too_much_stops_the_peer() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let (mut world, ids, child) = with_things(30).await;
    world.kill("eu").await;
    let old = world.copy_store("eu");
    world.restart("eu").await;
    let mut later = Vec::new();
    for index in 0..30 {
        let thing = regional_thing("Thing", &format!("later{index}"), "eu", 1);
        later.push(id_of(&world.at("eu").write(thing).await.unwrap()));
    }
    for id in &later {
        world.copied(id, "eu", "us").await;
    }
    // The same store, from before.
    world.kill("eu").await;
    world.replace_store("eu", Some(old.path()));
    world.restart("eu").await;
    world.condition("us", "eu", "Accepted", "TooManyRemovals").await;
    let refused = adopt(&world, AdoptAction::Adopt, true).await.unwrap_err();
    assert!(refused.message().contains("is a peer that answers"), "{}", refused.message());
    for id in later.iter().chain(&ids).chain([&child]) {
        assert!(!is_gone(world.at("us"), id).await, "{} stays", id.name);
    }
    assert!(world.accept("us", "eu").await.unwrap());
    for id in &later {
        eventually("the replica is gone", async || is_gone(world.at("us"), id).await).await;
    }
    world.current().await;
    for id in ids.iter().chain([&child]) {
        assert!(!is_gone(world.at("us"), id).await, "{} stays", id.name);
    }
    eventually("the permission to remove is over", async || {
        let peer = world.at("us").read(&peer_id("eu")).await.unwrap();
        !decoded::<RegionPeer>(&peer).accepts_removals
    })
    .await;
}

/// Other incarnations under the same names remove as much as missing ones.
#[tokio::test]
async fn a_snapshot_that_replaces_too_much_stops_the_peer() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    let (mut world, ..) = with_things(1).await;
    world.kill("eu").await;
    let old = world.copy_store("eu");
    world.restart("eu").await;
    let mut ids = Vec::new();
    // The last versions are far beyond those of the second life.
    for round in 0..6 {
        ids.clear();
        for index in 0..20 {
            let thing = regional_thing("Thing", &format!("later{index}"), "eu", round);
            ids.push(id_of(&world.at("eu").write(thing).await.unwrap()));
        }
    }
    for id in &ids {
        world.copied(id, "eu", "us").await;
    }
    let child = world.at("us").write(owned(regional_thing("Thing", "of-later", "us", 1), &ids[0])).await.unwrap();
    world.isolate("us", true);
    world.kill("eu").await;
    world.replace_store("eu", Some(old.path()));
    world.restart("eu").await;
    for id in &ids {
        let again = world.at("eu").write(regional_thing("Thing", &id.name, "eu", 9)).await.unwrap();
        assert_ne!(id_of(&again).uid, id.uid);
    }
    world.isolate("us", false);
    world.condition("us", "eu", "Accepted", "TooManyRemovals").await;
    for id in ids.iter().chain([&id_of(&child)]) {
        assert_eq!(id_of(&world.at("us").read(id).await.unwrap()).uid, id.uid, "{} stays", id.name);
    }
    assert!(world.accept("us", "eu").await.unwrap());
    let first = pb::Id { uid: String::new(), ..ids[0].clone() };
    eventually("the later incarnation is here", async || {
        world.at("us").read(&first).await.is_ok_and(|found| id_of(&found).uid != ids[0].uid)
    })
    .await;
}

#[tokio::test]
async fn a_call_for_another_store_or_region_is_refused() {
    let server = Setup::new().config("[region]\nname = \"eu\"\n").start().await;
    let mut client = RegionServiceClient::new(server.channel().await);
    let here = client.identify(IdentifyRequest {}).await.unwrap().into_inner();
    assert_eq!(here.region, "eu");
    server.client().list(with_metadata(list_artists(), "x-mortise-store", &here.store_id)).await.unwrap();
    let other = "01ARZ3NDEKTSV4RRFFQ69G5FAV";
    let (code, message) = refusal(server.client().list(with_metadata(list_artists(), "x-mortise-store", other)).await);
    assert_eq!(code, Code::FailedPrecondition);
    let says = format!("the call is for the store {other:?}, and the store here is {}", here.store_id);
    assert!(message.starts_with(&says), "{message}");
    server.client().list(with_metadata(list_artists(), "x-mortise-region", "eu")).await.unwrap();
    for other in ["us", "", "EU"] {
        let refused = server.client().list(with_metadata(list_artists(), "x-mortise-region", other)).await;
        let (code, message) = refusal(refused);
        let says = format!("the call is for the region {other:?}, and the region here is \"eu\"");
        assert!(code == Code::FailedPrecondition && message.starts_with(&says), "{message}");
    }
}

#[tokio::test]
async fn a_namespace_stays_for_the_resources_of_other_regions() {
    let world = Servers::start(&EU_US, &policy(&EU_US, "eu", &[]), &[]).await;
    let blue = id_in("tenancy.v2beta1.Namespace", "blue", "world", "");
    world.at("eu").write(resource(blue.clone(), None)).await.unwrap();
    eventually("blue is at us", async || !is_gone(world.at("us"), &blue).await).await;
    let within = |region: &str| {
        let mut thing = regional_thing("Thing", &format!("in-{region}"), region, 1);
        thing.id.as_mut().unwrap().tenancy.as_mut().unwrap().namespace = "blue".into();
        thing
    };
    let mine = id_of(&world.at("us").write(within("us")).await.unwrap());
    let theirs = id_of(&world.at("eu").write(within("eu")).await.unwrap());
    world.copied(&theirs, "eu", "us").await;
    world.copied(&mine, "us", "eu").await;
    world.at("eu").delete(&blue, "").await.unwrap();
    eventually("blue is gone at eu", async || is_gone(world.at("eu"), &blue).await).await;
    eventually("the replica in it is gone at us", async || is_gone(world.at("us"), &theirs).await).await;
    eventually("it is held", async || {
        let held = world.at("us").read(&blue).await.unwrap();
        let status = held.status.get("mortise").cloned().unwrap_or_default();
        status.conditions.iter().any(|one| one.r#type == "Held" && one.reason == "OwnerDeleted")
    })
    .await;
    let found = world.all("us", "regional.v1.Thing").await;
    assert_eq!(found.keys().collect::<Vec<_>>(), ["in-us"]);
    world.at("us").read(&mine).await.unwrap();
    let mut changed = within("us");
    changed.id = Some(mine.clone());
    world.at("us").write(changed).await.unwrap();
    let mut another = within("us");
    another.id.as_mut().unwrap().name = "another".into();
    let another = id_of(&world.at("us").write(another).await.unwrap());
    for id in [&mine, &another] {
        world.at("us").delete(id, "").await.unwrap();
    }
    eventually("it goes with the last resource in it", async || is_gone(world.at("us"), &blue).await).await;
}

#[tokio::test]
async fn the_replicas_of_a_lost_region_are_adopted_or_removed() {
    let (mut world, ids, child) = with_things(4).await;
    let refused = adopt(&world, AdoptAction::Adopt, true).await.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "eu answers: {}", refused.message());
    let by_policy = id_of(&world.at("eu").write(regional_thing("Thing", "by-policy", "", 1)).await.unwrap());
    world.copied(&by_policy, "eu", "us").await;
    let below = world.at("us").write(owned(regional_thing("Thing", "below", "us", 1), &by_policy)).await.unwrap();
    world.kill("eu").await;
    eventually("eu is lost", async || world.peer("us", "eu").await.unreachable_since.is_some()).await;
    let plan = adopt(&world, AdoptAction::Adopt, true).await.unwrap();
    assert_eq!((plan.types.len(), plan.types[0].done, plan.types[0].refused), (1, 4, 1), "{plan:?}");
    assert!(plan.refused[0].detail.contains("default_control_region"), "{plan:?}");
    assert_eq!(syncing(&world.at("us").read(&ids[0]).await.unwrap()).copied_from, "eu", "nothing has changed");
    assert_eq!(adopt(&world, AdoptAction::Adopt, false).await.unwrap().types, plan.types);
    for id in &ids {
        let mut mine = world.at("us").read(id).await.unwrap();
        assert_eq!((decoded::<Thing>(&mine).text.as_str(), syncing(&mine).copied_from.as_str()), ("us", ""));
        mine.meta = None;
        world.at("us").write(mine).await.unwrap();
    }
    let removed = adopt(&world, AdoptAction::Remove, false).await.unwrap();
    assert_eq!((removed.types[0].done, removed.refused.len()), (1, 0));
    assert!(is_gone(world.at("us"), &by_policy).await);
    reaped(world.at("us")).await;
    for id in [&child, &id_of(&below)] {
        assert!(!is_gone(world.at("us"), id).await, "{} stays", id.name);
    }
    // A region that comes back keeps its own, and overwrites nothing.
    world.restart("eu").await;
    world.condition("us", "eu", "Complete", "Conflict").await;
    assert_eq!(decoded::<Thing>(&world.at("us").read(&ids[0]).await.unwrap()).text, "us");
    assert_eq!(decoded::<Thing>(&world.at("eu").read(&ids[0]).await.unwrap()).text, "eu");
}

#[tokio::test]
async fn an_owner_gives_a_resource_to_another_region() {
    let world = Servers::start(&ALL, &policy(&ALL, "eu", &[]), &[]).await;
    let one = id_of(&world.at("eu").write(regional_thing("Thing", "one", "eu", 1)).await.unwrap());
    for to in ["ap", "us"] {
        world.copied(&one, "eu", to).await;
    }
    let mut given = regional_thing("Thing", "one", "us", 2);
    given.id = Some(one.clone());
    world.at("eu").write(given.clone()).await.unwrap();
    let (code, _) = refusal(world.at("eu").write(given.clone()).await);
    assert_eq!(code, Code::FailedPrecondition, "it belongs to us now");
    let mut own = regional_thing("Thing", "one", "us", 3);
    own.id = Some(one.clone());
    eventually("us may write it", async || world.at("us").write(own.clone()).await.is_ok()).await;
    for to in ["ap", "eu"] {
        world.copied(&one, "us", to).await;
        // The former owner may have passed the same content on before the new one did.
        let from_us = async || syncing(&world.at(to).read(&one).await.unwrap()).copied_from == "us";
        eventually("it comes from us", from_us).await;
    }
    world.at("us").delete(&one, "").await.unwrap();
    for to in ALL {
        eventually("it is gone", async || is_gone(world.at(to), &one).await).await;
    }
}

/// A history of three servers with faults. Afterwards each region has its own things, and the others have them, too.
async fn history() {
    let mut world = Servers::start(&ALL, &policy(&ALL, "eu", &[]), &[]).await;
    let mut owned: BTreeMap<&str, BTreeMap<String, i64>> = ALL.into_iter().map(|one| (one, BTreeMap::new())).collect();
    let (mut saved, mut next, mut faults) = (BTreeMap::new(), 0, Vec::new());
    for _ in 0..4 {
        for _ in 0..30 {
            let region = ALL[fastrand::usize(..ALL.len())];
            let name = format!("{region}-{}", fastrand::usize(..20));
            next += 1;
            world.at(region).write(regional_thing("Thing", &name, region, next)).await.unwrap();
            owned.get_mut(region).unwrap().insert(name, next);
        }
        let (region, fault) = (ALL[fastrand::usize(..ALL.len())], fastrand::u8(..5));
        let other = ALL.into_iter().find(|other| *other != region).unwrap();
        let third = ALL.into_iter().find(|third| *third != region && *third != other).unwrap();
        faults.push((fault, region));
        match fault {
            0 => world.lead(other, region, third),
            1 => world.isolate(region, true),
            fault => {
                world.kill(region).await;
                if fault == 2 {
                    world.replace_store(region, None);
                    owned.get_mut(region).unwrap().clear();
                } else if fault == 3 {
                    saved.insert(region, (world.copy_store(region), owned[region].clone()));
                } else if let Some((copy, then)) = saved.remove(region) {
                    world.replace_store(region, Some(copy.path()));
                    owned.insert(region, then);
                }
                world.restart(region).await;
                world.at(region).write(partition("world", Some(policy(&ALL, "eu", &[])))).await.unwrap();
            }
        }
        for region in ALL {
            let mine = own(&world, region, region).await;
            assert_eq!(mine, owned[region], "{region} has its own: {faults:?}");
        }
    }
    for region in ALL {
        world.isolate(region, false);
        for other in ALL.into_iter().filter(|other| *other != region) {
            world.lead(other, region, region);
        }
    }
    for at in ALL {
        for owner in ALL.into_iter().filter(|owner| *owner != at) {
            until(&format!("{at} has what {owner} has: {faults:?}"), async || {
                let peer = world.peer(at, owner).await;
                if peer.state() == PeerState::Stopped {
                    // A refusal means that it goes on by itself.
                    let _ = world.accept(at, owner).await;
                }
                let held = own(&world, at, owner).await;
                if held == owned[owner] { Ok(()) } else { Err((held, owned[owner].clone(), peer)) }
            })
            .await;
        }
    }
    for region in ALL {
        assert_eq!(own(&world, region, region).await, owned[region], "{region} has its own at the end");
    }
}

/// The things at a region that belong to an owner.
async fn own(world: &Servers, at: &str, owner: &str) -> BTreeMap<String, i64> {
    let things = world.all(at, "regional.v1.Thing").await.into_iter();
    let things = things.map(|(name, thing)| (name, decoded::<Thing>(&thing)));
    things.filter(|(_, thing)| thing.text == owner).map(|(name, thing)| (name, thing.number)).collect()
}

#[tokio::test]
async fn servers_with_lost_old_and_wrong_peers_lose_nothing() {
    if is_left_out_over_etcd("the data directory holds a copy, not the content") {
        return;
    }
    history().await;
}

#[tokio::test]
#[ignore = "takes minutes; MORTISE_REGION_HISTORIES sets the number"]
async fn many_histories_of_servers_lose_nothing() {
    let histories = std::env::var("MORTISE_REGION_HISTORIES").map_or(40, |text| text.parse().unwrap());
    for number in 0..histories {
        println!("history {number}");
        history().await;
    }
}
