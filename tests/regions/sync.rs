//! Replicas between regions: their targets, recovery after a cut, deferred resources, and resources that are never
//! touched.

use mortise_resource::{
    data::{HeldBackReason, PeerState},
    pb,
};
use mortise_test_guests::Thing;
use tonic::Code;

use crate::{
    regions::servers::*,
    support::{controllers::read_until, *},
};

const ALL: [&str; 3] = ["ap", "eu", "us"];

fn changed(id: &pb::Id, region: &str, number: i64) -> pb::Resource {
    let mut thing = regional_thing("Thing", &id.name, region, number);
    thing.id.as_mut().unwrap().uid.clone_from(&id.uid);
    thing
}

#[tokio::test]
async fn resources_of_a_region_are_copied_and_follow_it() {
    let world =
        Servers::start(&ALL, &policy(&ALL, "eu", &[("regional/Scoped", "", ""), ("regional/Kept", "", "")]), &[]).await;
    // For each region one of each kind, one by the policy, and a namespace with a resource in it.
    let mut written = Vec::new();
    for region in ALL {
        for kind in ["Thing", "Scoped", "Kept", "Global"] {
            let name = format!("{}-{region}", kind.to_lowercase());
            written.push((region, world.at(region).write(regional_thing(kind, &name, region, 1)).await.unwrap()));
        }
    }
    written.push(("eu", world.at("eu").write(at(artist("korn"), "world", "default")).await.unwrap()));
    let blue = resource(id_in("tenancy.v2beta1.Namespace", "blue", "world", ""), None);
    written.push(("eu", world.at("eu").write(blue).await.unwrap()));
    written.push(("eu", world.at("eu").write(at(artist("abba"), "world", "blue")).await.unwrap()));
    for (from, one) in &written {
        let id = id_of(one);
        for to in ALL.into_iter().filter(|to| to != from) {
            if id.r#type.as_ref().unwrap().kind == "Kept" {
                continue;
            }
            let copy = world.copied(&id, from, to).await;
            assert_eq!((syncing(&copy).copied_from.as_str(), id_of(&copy)), (*from, id.clone()));
            assert_eq!(syncing(&copy).owner_version, one.version);
            let (code, message) = refusal(world.at(to).delete(&id, "").await);
            assert_eq!(code, Code::FailedPrecondition);
            assert!(message.contains(&format!("belongs to region {from:?}")), "{message}");
        }
    }
    world.current().await;
    for region in ALL {
        assert_eq!(world.all(region, "regional.v1.Kept").await.len(), 1, "what is kept stays");
        assert_eq!(world.all(region, "regional.v1.Thing").await.len(), 3);
    }

    // A change, a status, a label, a child, a deletion.
    let (_, one) = &written[0];
    let (id, ap) = (id_of(one), world.at("ap"));
    ap.write(labelled(changed(&id, "ap", 2), &[("env", "prod")])).await.unwrap();
    let now = ap.read(&id).await.unwrap();
    let status = pb::Status { observed_generation: now.generation.clone(), ..pb::Status::default() };
    let status =
        pb::WriteStatusRequest { id: Some(id.clone()), version: String::new(), key: "k".into(), status: Some(status) };
    ap.write_status(status).await.unwrap();
    let child = ap.write(owned(regional_thing("Thing", "child", "ap", 1), &id)).await.unwrap();
    for to in ["eu", "us"] {
        let copy = world.copied(&id, "ap", to).await;
        assert_eq!((copy.status.len(), copy.meta.unwrap().labels["env"].as_str()), (1, "prod"));
        assert_eq!(world.copied(&id_of(&child), "ap", to).await.owner, Some(id.clone()));
    }
    // A child of the replica in this region; it is deleted with the owner.
    let here = world.at("us").write(owned(regional_thing("Thing", "own-child", "us", 1), &id)).await.unwrap();
    ap.delete(&id, "").await.unwrap();
    for to in ALL {
        for gone in [&id, &id_of(&child), &id_of(&here)] {
            eventually(&format!("{} is gone at {to}", gone.name), async || is_gone(world.at(to), gone).await).await;
        }
    }
    // A new resource of the same name is another incarnation.
    let again = ap.write(regional_thing("Thing", &id.name, "ap", 3)).await.unwrap();
    assert_ne!(id_of(&again).uid, id.uid);
    world.copied(&id_of(&again), "ap", "us").await;

    // A namespace goes with everything in it.
    let blue = pb::Id { uid: String::new(), ..id_in("tenancy.v2beta1.Namespace", "blue", "world", "") };
    world.at("eu").delete(&blue, "").await.unwrap();
    for to in ALL {
        eventually(&format!("blue is gone at {to}"), async || is_gone(world.at(to), &blue).await).await;
    }
}

#[tokio::test]
async fn regions_do_not_relay_resources_of_a_third_region() {
    let world = Servers::start(&ALL, &policy(&ALL, "eu", &[]), &[]).await;
    world.current().await;
    world.link("ap", "eu").cut();
    let one = id_of(&world.at("eu").write(regional_thing("Thing", "one", "eu", 1)).await.unwrap());
    world.copied(&one, "eu", "us").await;
    // A later resource that us owns has taken the same way.
    let later = id_of(&world.at("us").write(regional_thing("Thing", "later", "us", 1)).await.unwrap());
    world.copied(&later, "us", "ap").await;
    assert!(is_gone(world.at("ap"), &one).await, "us has passed on what eu owns");
    for (peer, state) in [("eu", PeerState::Failed), ("us", PeerState::Current)] {
        let what = format!("{peer} is {state:?}: one peer is no other's concern");
        eventually(&what, async || world.peer("ap", peer).await.state() == state).await;
    }
    // Only eu can provide it.
    world.link("ap", "eu").heal();
    world.copied(&one, "eu", "ap").await;
    assert_eq!(syncing(&world.at("ap").read(&one).await.unwrap()).copied_from, "eu");
}

#[tokio::test]
async fn after_a_cut_the_watch_goes_on_where_it_was_also_over_restarts() {
    let mut world = Servers::start(&["eu", "us"], &policy(&["eu", "us"], "eu", &[]), &[]).await;
    let mut ids = Vec::new();
    for name in ["stays", "changes", "goes"] {
        ids.push(id_of(&world.at("eu").write(regional_thing("Thing", name, "eu", 1)).await.unwrap()));
    }
    for id in &ids {
        world.copied(id, "eu", "us").await;
    }
    world.current().await;
    let before = world.snapshots("us", "eu", "regional.v1.Thing").await;
    assert_eq!(before, 1);
    let stays = world.at("us").read(&ids[0]).await.unwrap();
    for restarts in [false, true] {
        world.isolate("us", true);
        let number = if restarts { 3 } else { 2 };
        world.at("eu").write(changed(&ids[1], "eu", number)).await.unwrap();
        world.at("eu").delete(&ids[2], "").await.unwrap();
        let back = world.at("eu").write(regional_thing("Thing", "goes", "eu", number)).await.unwrap();
        ids[2] = id_of(&back);
        if restarts {
            world.kill("us").await;
            world.restart("us").await;
        }
        world.isolate("us", false);
        world.copied(&ids[1], "eu", "us").await;
        world.copied(&ids[2], "eu", "us").await;
        world.current().await;
        let since = world.snapshots("us", "eu", "regional.v1.Thing").await;
        assert_eq!(since, if restarts { 0 } else { 1 }, "there was no snapshot");
    }
    assert_eq!(world.at("us").read(&ids[0]).await.unwrap(), stays, "what did not change was not written");
    // A restart of the owner causes no snapshot either.
    world.kill("eu").await;
    world.restart("eu").await;
    world.at("eu").write(changed(&ids[1], "eu", 4)).await.unwrap();
    world.copied(&ids[1], "eu", "us").await;
    assert_eq!(world.snapshots("us", "eu", "regional.v1.Thing").await, 0);
}

#[tokio::test]
async fn a_watch_that_is_too_old_starts_again_without_loss_or_repetition() {
    let env = [("MORTISE_STORE_HISTORY_EVENTS", "50")];
    let world = Servers::start(&["eu", "us"], &policy(&["eu", "us"], "eu", &[]), &env).await;
    let mut ids = Vec::new();
    for number in 0..30 {
        let thing = regional_thing("Thing", &format!("t{number}"), "eu", 1);
        ids.push(id_of(&world.at("eu").write(thing).await.unwrap()));
    }
    let own = world.at("us").write(regional_thing("Thing", "own", "us", 1)).await.unwrap();
    for id in &ids {
        world.copied(id, "eu", "us").await;
    }
    world.current().await;
    let untouched = world.at("us").read(&ids[0]).await.unwrap();
    world.isolate("us", true);
    for id in &ids[10..20] {
        world.at("eu").delete(id, "").await.unwrap();
    }
    for round in 2..8 {
        for id in &ids[20..] {
            world.at("eu").write(changed(id, "eu", round)).await.unwrap();
        }
    }
    world.isolate("us", false);
    for id in ids[..10].iter().chain(&ids[20..]) {
        world.copied(id, "eu", "us").await;
    }
    for id in &ids[10..20] {
        eventually("the deleted resource is gone", async || is_gone(world.at("us"), id).await).await;
    }
    world.current().await;
    assert!(world.snapshots("us", "eu", "regional.v1.Thing").await >= 2, "it began anew");
    let (_, metrics) = world.at("us").get("/metrics").await;
    let resets = metrics.lines().find(|line| line.starts_with("mortise_region_resets_total{peer=\"eu\"}")).unwrap();
    assert!(!resets.ends_with(" 0"), "{resets}");
    assert_eq!(world.all("us", "regional.v1.Thing").await.len(), 21);
    assert_eq!(world.at("us").read(&ids[0]).await.unwrap(), untouched, "what is the same was not written again");
    assert_eq!(world.at("us").read(&id_of(&own)).await.unwrap(), own);
}

#[tokio::test]
async fn resources_that_were_created_again_during_a_cut_stop_nothing() {
    let env = [("MORTISE_STORE_HISTORY_EVENTS", "20")];
    let world = Servers::start(&["eu", "us"], &policy(&["eu", "us"], "eu", &[]), &env).await;
    let names: Vec<String> = (0..12).map(|number| format!("t{number}")).collect();
    let mut ids = Vec::new();
    for name in &names {
        ids.push(id_of(&world.at("eu").write(regional_thing("Thing", name, "eu", 1)).await.unwrap()));
    }
    for id in &ids {
        world.copied(id, "eu", "us").await;
    }
    world.current().await;
    world.isolate("us", true);
    for id in &mut ids {
        world.at("eu").delete(id, "").await.unwrap();
        *id = id_of(&world.at("eu").write(regional_thing("Thing", &id.name, "eu", 2)).await.unwrap());
    }
    world.isolate("us", false);
    for id in &ids {
        world.copied(id, "eu", "us").await;
    }
    world.current().await;
    assert!(world.snapshots("us", "eu", "regional.v1.Thing").await >= 2, "it began again");
}

#[tokio::test]
async fn a_resource_of_this_region_is_never_overwritten() {
    let world = Servers::start(&["eu", "us"], &policy(&["eu", "us"], "eu", &[]), &[]).await;
    world.isolate("us", true);
    let mine = world.at("us").write(regional_thing("Thing", "both", "us", 1)).await.unwrap();
    let theirs = id_of(&world.at("eu").write(regional_thing("Thing", "both", "eu", 2)).await.unwrap());
    let other = id_of(&world.at("eu").write(regional_thing("Thing", "other", "eu", 2)).await.unwrap());
    world.isolate("us", false);
    world.copied(&other, "eu", "us").await;
    for (here, there) in [("us", "eu"), ("eu", "us")] {
        eventually("the conflict is named", async || {
            let held = world.held_back(here, there).await;
            held.len() == 1
                && held[0].reason() == HeldBackReason::Conflict
                && held[0].id.as_ref().unwrap().name == "both"
        })
        .await;
    }
    world.condition("us", "eu", "Complete", "Conflict").await;
    assert_eq!(world.at("us").read(&id_of(&mine)).await.unwrap(), mine);
    let mut status = mortise_api::ServerServiceClient::new(world.at("us").channel().await);
    let status = status.status(mortise_resource::data::ServerStatusRequest {}).await.unwrap().into_inner();
    let said = "1 resources of region eu are missing or outdated here; mortise regions eu lists them";
    assert!(status.warnings.iter().any(|warning| warning == said), "{:?}", status.warnings);
    let (_, metrics) = world.at("us").get("/metrics").await;
    eventually("it is counted", async || {
        world.at("us").get("/metrics").await.1.contains("mortise_region_conflicts{peer=\"eu\"} 1")
    })
    .await;
    assert!(metrics.contains("mortise_region_copies_total{peer=\"eu\",outcome=\"deferred\"}"), "{metrics}");
    // It stays while the other resource changes, and even after that is deleted.
    world.at("eu").write(changed(&theirs, "eu", 3)).await.unwrap();
    let later = id_of(&world.at("eu").write(regional_thing("Thing", "later", "eu", 1)).await.unwrap());
    world.copied(&later, "eu", "us").await;
    assert_eq!(world.at("us").read(&id_of(&mine)).await.unwrap(), mine);
    // Once the name is free, the replica comes without a restart.
    world.at("us").delete(&id_of(&mine), "").await.unwrap();
    world.copied(&theirs, "eu", "us").await;
    for (here, there) in [("us", "eu"), ("eu", "us")] {
        eventually("no conflict is left", async || world.held_back(here, there).await.is_empty()).await;
        world.condition(here, there, "Complete", "Complete").await;
    }
}

#[tokio::test]
async fn copies_leave_and_return_with_their_scope() {
    let enabled = ["eu", "us"];
    let world = Servers::start(&enabled, &policy(&enabled, "eu", &[]), &[]).await;
    let one = id_of(&world.at("eu").write(regional_thing("Thing", "one", "eu", 1)).await.unwrap());
    world.copied(&one, "eu", "us").await;
    // A resource of region us that the replica owns stays, since its owner lives.
    let child = world.at("us").write(owned(regional_thing("Global", "child", "us", 1), &one)).await.unwrap();
    for region in enabled {
        let rules = [("regional/Thing", "eu", "us")];
        world.at(region).write(partition("world", Some(policy(&enabled, "eu", &rules)))).await.unwrap();
    }
    eventually("the copy is gone", async || is_gone(world.at("us"), &one).await).await;
    assert_eq!(syncing(&world.at("eu").read(&one).await.unwrap()).regions, ["eu"]);
    reaped(world.at("us")).await;
    assert!(!is_gone(world.at("us"), &id_of(&child)).await);
    for region in enabled {
        world.at(region).write(partition("world", Some(policy(&enabled, "eu", &[])))).await.unwrap();
    }
    world.copied(&one, "eu", "us").await;
}

#[tokio::test]
async fn resources_given_to_another_region_are_not_lost() {
    let enabled = ["eu", "us"];
    let world = Servers::start(&enabled, &policy(&enabled, "eu", &[]), &[]).await;
    let one = id_of(&world.at("eu").write(regional_thing("Thing", "one", "", 1)).await.unwrap());
    world.copied(&one, "eu", "us").await;
    // The regions learn of it one after the other; in between, none of them owns it.
    for region in enabled {
        world.at(region).write(partition("world", Some(policy(&enabled, "us", &[])))).await.unwrap();
        // The region has applied the policy, and the other one has heard of it.
        read_until(world.at(region), &one, |seen| syncing(seen).owning_region == "us").await;
        world.current().await;
        reaped(world.at(region)).await;
        assert!(!is_gone(world.at("us"), &one).await && !is_gone(world.at("eu"), &one).await);
    }
    world.at("us").write(changed(&one, "", 2)).await.unwrap();
    let copy = world.copied(&one, "us", "eu").await;
    assert_eq!(syncing(&copy).copied_from, "us");
    let (code, _) = refusal(world.at("eu").write(changed(&one, "", 3)).await);
    assert_eq!(code, Code::FailedPrecondition);
    world.at("us").delete(&one, "").await.unwrap();
    eventually("it is gone on both sides", async || is_gone(world.at("eu"), &one).await).await;
}

#[tokio::test]
async fn resources_that_cannot_be_here_are_deferred_alone() {
    let mut world = Servers::start(&["eu", "us"], &policy(&["eu", "us"], "eu", &[]), &[]).await;
    for region in ["eu", "us"] {
        world.kill(region).await;
        world.restart_with(region, 1).await;
    }
    let first = |text: &str| {
        let thing = Thing { text: text.to_owned(), ..Thing::default() };
        at(crate::support::thing("schema", "first", &thing), "world", "default")
    };
    let id = id_of(&world.at("eu").write(first("old")).await.unwrap());
    world.copied(&id, "eu", "us").await;
    // Eu's type gets a newer version.
    world.kill("eu").await;
    world.restart_with("eu", 2).await;
    let newer = world.at("eu").write(first("upgraded new")).await.unwrap();
    assert_eq!(newer.schema_version, 2);
    let korn = id_of(&world.at("eu").write(at(artist("korn"), "world", "default")).await.unwrap());
    world.copied(&korn, "eu", "us").await;
    eventually("it is deferred", async || {
        let held = world.held_back("us", "eu").await;
        held.len() == 1 && held[0].reason() == HeldBackReason::Schema
    })
    .await;
    let text = async |world: &Servers| decoded::<Thing>(&world.at("us").read(&id).await.unwrap()).text;
    assert_eq!(text(&world).await, "old");
    world.kill("us").await;
    world.restart_with("us", 2).await;
    eventually("it is here", async || text(&world).await == "upgraded new").await;
    eventually("nothing is deferred", async || world.held_back("us", "eu").await.is_empty()).await;
}

#[tokio::test]
async fn an_incarnation_replaced_and_deleted_during_a_cut_goes() {
    let world = Servers::start(&["eu", "us"], &policy(&["eu", "us"], "eu", &[]), &[]).await;
    let one = id_of(&world.at("eu").write(regional_thing("Thing", "one", "eu", 1)).await.unwrap());
    world.copied(&one, "eu", "us").await;
    world.isolate("us", true);
    for number in 2..4 {
        let name = pb::Id { uid: String::new(), ..one.clone() };
        world.at("eu").delete(&name, "").await.unwrap();
        world.at("eu").write(regional_thing("Thing", "one", "eu", number)).await.unwrap();
    }
    world.at("eu").delete(&pb::Id { uid: String::new(), ..one.clone() }, "").await.unwrap();
    world.isolate("us", false);
    eventually("it is gone", async || is_gone(world.at("us"), &one).await).await;
    assert_eq!(world.snapshots("us", "eu", "regional.v1.Thing").await, 1);
}

#[tokio::test]
async fn a_peer_that_takes_connections_and_never_answers_hangs_nothing() {
    let mute = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = mute.local_addr().unwrap();
    let holding = tokio::spawn(async move {
        let mut held = Vec::new();
        while let Ok((connection, _)) = mute.accept().await {
            held.push(connection);
        }
    });
    let config = format!(
        "[region]\nname = \"us\"\nmax_backoff_ms = 400\nkeep_alive_ms = 1000\n[region.peers.eu]\naddress = \"http://{addr}\"\n"
    );
    let server = Setup::new().component("regional", regional()).config(config).long_grace().start().await;
    let mut client = mortise_api::RegionServiceClient::new(server.channel().await);
    eventually("the peer counts as failed", async || {
        let status = client.status(mortise_resource::data::RegionStatusRequest {}).await.unwrap().into_inner();
        status.peers[0].state() == PeerState::Failed && !status.peers[0].last_error.is_empty()
    })
    .await;
    server.write(artist("korn")).await.unwrap();
    assert!(server.stop().await.success());
    holding.abort();
}

#[tokio::test]
async fn copies_that_went_with_a_namespace_here_come_back_with_it() {
    let world = Servers::start(&["eu", "us"], &policy(&["eu", "us"], "eu", &[]), &[]).await;
    let one = id_of(&world.at("eu").write(regional_thing("Thing", "one", "eu", 1)).await.unwrap());
    world.copied(&one, "eu", "us").await;
    world.current().await;
    let partition_id = id("tenancy.v2beta1.Partition", "world");
    world.at("us").delete(&partition_id, "").await.unwrap();
    eventually("the partition is gone", async || is_gone(world.at("us"), &partition_id).await).await;
    eventually("the copy has no place", async || {
        world.held_back("us", "eu").await.iter().any(|held| held.reason() == HeldBackReason::Place)
    })
    .await;
    world.at("us").write(partition("world", Some(policy(&["eu", "us"], "eu", &[])))).await.unwrap();
    world.copied(&one, "eu", "us").await;
}

#[tokio::test]
async fn the_conditions_of_a_peer_are_a_resource_that_only_the_host_writes() {
    let mut world = Servers::start(&["eu", "us"], &policy(&["eu", "us"], "eu", &[]), &[]).await;
    world.condition("us", "eu", "Current", "Current").await;
    world.condition("us", "eu", "Complete", "Complete").await;
    world.isolate("us", true);
    world.condition("us", "eu", "Current", "Unreachable").await;
    world.isolate("us", false);
    world.condition("us", "eu", "Current", "Current").await;

    let us = world.at("us");
    let peer = us.read(&peer_id("eu")).await.unwrap();
    let status = pb::Status { observed_generation: peer.generation.clone(), ..pb::Status::default() };
    let status = pb::WriteStatusRequest {
        id: peer.id.clone(),
        version: String::new(),
        key: "mortise".into(),
        status: Some(status),
    };
    let mine = resource(peer_id("ap"), None);
    for refused in [
        refusal(us.write(pb::Resource { version: String::new(), ..peer.clone() }).await),
        refusal(us.write(mine).await),
        refusal(us.write_status(status).await),
        refusal(us.delete(&peer_id("eu"), "").await),
    ] {
        assert_eq!(refused.0, Code::PermissionDenied, "{}", refused.1);
        assert!(refused.1.contains("mortise.v1.RegionPeer is kept by the host alone"), "{}", refused.1);
    }

    // A former peer has no conditions.
    world.kill("us").await;
    let config = world.regions["us"].dir.path().join("config.toml");
    std::fs::write(config, "[region]\nname = \"us\"\n").unwrap();
    world.restart("us").await;
    eventually("the peer's report is gone", async || is_gone(world.at("us"), &peer_id("eu")).await).await;
}
