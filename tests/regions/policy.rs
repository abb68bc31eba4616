//! Regions on one server: policies, owning regions, rights to change, and shards.

use mortise_api::{ChangeServiceClient, ControllerServiceClient, OwnershipServiceClient, QueryServiceClient};
use mortise_resource::{
    data::{self, MoveRequest, SearchRequest, UpdateRequest},
    goten::{Meta, SyncingMeta},
    pb,
};
use mortise_test_guests::Thing;
use tonic::Code;

use crate::{regions::servers::*, support::*};

const IN_EU: &str = "[region]\nname = \"eu\"\n";

async fn eu() -> Server {
    Setup::new().guest("changes").component("regional", regional()).config(IN_EU).start().await
}

fn elsewhere(region: &str) -> String {
    format!("belongs to region {region:?}, and this server is of region \"eu\"; change it there")
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T, tonic::Status>, says: &str) {
    let (code, message) = refusal(result);
    assert_eq!(code, Code::FailedPrecondition, "{message}");
    assert!(message.contains(says), "{message}");
}

#[tokio::test]
async fn a_policy_is_checked_when_it_is_written() {
    // A policy may also be written before the server has a region.
    let server = Server::start().await;
    for (wrong, says) in [
        (policy(&[], "", &[]), "data.multi_region_policy.enabled_regions: 0 regions; name 1 to 64"),
        (policy(&["eu", "eu"], "eu", &[]), "data.multi_region_policy.enabled_regions[1]: \"eu\" is named twice"),
        (policy(&["eu"], "us", &[]), "data.multi_region_policy.default_control_region: \"us\" is not an enabled"),
        (policy(&["Eu"], "Eu", &[]), "data.multi_region_policy.enabled_regions[0]: \"Eu\" is not a region name"),
    ] {
        let (code, message) = refusal(server.write(partition("world", Some(wrong))).await);
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains(says), "{message}");
    }
    for (rule, says) in [
        (("", "ap", ""), "criteria_for_disabled_sync[0].source_region: \"ap\" is not an enabled region (eu, us)"),
        (("", "", "ap"), "criteria_for_disabled_sync[0].dest_region: \"ap\" is not an enabled region (eu, us)"),
    ] {
        let wrong = policy(&["eu", "us"], "us", &[rule]);
        let (code, message) = refusal(server.write(partition("world", Some(wrong))).await);
        assert_eq!(code, Code::InvalidArgument);
        assert!(message.contains(says), "{message}");
    }
    let good = policy(&["eu", "us"], "us", &[("demo/Artist", "eu", "us"), ("demo/Nothing", "", "")]);
    let warnings = server.write_full(partition("world", Some(good))).await.unwrap().warnings;
    let warned: Vec<_> = warnings.iter().map(|one| (one.path.as_str(), one.summary.as_str())).collect();
    let path = "data.multi_region_policy.criteria_for_disabled_sync[1].resource_type_name";
    assert_eq!(warned, [(path, "\"demo/Nothing\" is not a registered type; the rule has no effect before it is")]);
}

#[tokio::test]
async fn without_a_region_policies_mean_nothing() {
    let server = Setup::new().component("regional", regional()).start().await;
    server.write(partition("world", Some(policy(&["us"], "us", &[])))).await.unwrap();
    let written = server.write(regional_thing("Thing", "a", "ap", 1)).await.unwrap();
    assert_eq!(written.meta.as_ref().unwrap().syncing, None);
    server.delete(&id_of(&written), "").await.unwrap();
}

#[tokio::test]
async fn a_resource_is_at_home_where_its_field_or_the_policy_says() {
    let server = eu().await;
    // Without a policy, resources belong to no region.
    server.write(partition("world", None)).await.unwrap();
    let free = server.write(regional_thing("Thing", "free", "", 1)).await.unwrap();
    assert_eq!(syncing(&free), SyncingMeta::default());

    let rules = [("regional/Thing", "eu", "us"), ("regional/Scoped", "", ""), ("regional/Global", "", "")];
    server.write(partition("world", Some(policy(&["us", "eu", "ap"], "eu", &rules)))).await.unwrap();
    let is = async |kind: &str, region: &str| {
        let written = server.write(regional_thing(kind, "one", region, 1)).await.unwrap();
        let SyncingMeta { owning_region, regions, .. } = syncing(&written);
        (owning_region, regions.join(","))
    };
    assert_eq!(is("Thing", "").await, ("eu".into(), "ap,eu".into()));
    assert_eq!(is("Scoped", "eu").await, ("eu".into(), "ap,eu,us".into()));
    assert_eq!(is("Kept", "eu").await, ("eu".into(), "eu".into()));
    assert_eq!(is("Global", "eu").await, ("eu".into(), "*".into()));
    refused(server.write(regional_thing("Thing", "two", "us", 1)).await, &elsewhere("us"));
    refused(
        server.write(regional_thing("Thing", "two", "sa", 1)).await,
        "region \"sa\" is not enabled in partition \"world\" (enabled: us, eu, ap)",
    );
    // The field that names the region may only name another one that may have a replica.
    for (kind, region) in [("Scoped", "sa"), ("Thing", "us"), ("Kept", "us")] {
        refused(server.write(regional_thing(kind, "one", region, 1)).await, &elsewhere(region));
    }
    let (code, message) = refusal(server.write(regional_thing("Scoped", "one", "", 1)).await);
    assert_eq!(
        (code, message.as_str()),
        (Code::InvalidArgument, "data.text cannot be changed once the resource exists")
    );
    // A client cannot set the owner.
    let mut lies = regional_thing("Thing", "one", "", 2);
    let syncs = SyncingMeta { owning_region: "us".into(), copied_from: "us".into(), ..SyncingMeta::default() };
    lies.meta = Some(Box::new(Meta { syncing: Some(syncs), ..Meta::default() }));
    let SyncingMeta { owning_region, copied_from, .. } = syncing(&server.write(lies).await.unwrap());
    assert_eq!((owning_region.as_str(), copied_from.as_str()), ("eu", ""));
    // The policy came after the resource.
    eventually("what was there belongs to eu", async || {
        syncing(&server.read(&id_of(&free)).await.unwrap()).owning_region == "eu"
    })
    .await;
}

#[tokio::test]
async fn what_belongs_to_a_regional_resource_is_of_its_region() {
    let server = eu().await;
    let enabled = ["eu", "us"];
    server.write(partition("world", Some(policy(&enabled, "us", &[])))).await.unwrap();
    let site = server.write(regional_thing("Thing", "site", "eu", 1)).await.unwrap();
    let of = |name: &str, owner: &pb::Resource| {
        let album = album(name, owner.id.as_ref());
        pb::Resource { id: Some(id_in("demo.v2.Album", name, "world", "default")), ..album }
    };
    let child = server.write(of("child", &site)).await.unwrap();
    let SyncingMeta { owning_region, regions, .. } = syncing(&child);
    assert_eq!((owning_region.as_str(), regions.join(",").as_str()), ("eu", "eu,us"));
    // Through an owner without a region of its own, and without the owner's uid.
    let mut grandchild = of("grandchild", &child);
    grandchild.owner.as_mut().unwrap().uid.clear();
    let grandchild = server.write(grandchild).await.unwrap();
    assert_eq!(syncing(&grandchild).owning_region, "eu");
    let again = server.write(of("grandchild", &child)).await.unwrap();
    assert_eq!(syncing(&again).owning_region, "eu");
    // The field is stronger than the owner, and without an owner the control region counts.
    let mut named = regional_thing("Thing", "named", "us", 1);
    named.owner.clone_from(&site.id);
    refused(server.write(named).await, &elsewhere("us"));
    let free = pb::Resource { owner: None, ..of("free", &site) };
    refused(server.write(free.clone()).await, &elsewhere("us"));
    // A change of the control region moves those without a regional owner alone.
    server.write(partition("world", Some(policy(&enabled, "eu", &[])))).await.unwrap();
    let free = server.write(free).await.unwrap();
    let below = server.write(of("below", &free)).await.unwrap();
    server.write(partition("world", Some(policy(&enabled, "us", &[])))).await.unwrap();
    for (resource, region) in [(&free, "us"), (&below, "us"), (&child, "eu"), (&grandchild, "eu")] {
        eventually("the policy is in effect", async || {
            syncing(&server.read(&id_of(resource)).await.unwrap()).owning_region == region
        })
        .await;
    }
    refused(server.write(of("late", &free)).await, &elsewhere("us"));
    // The children go with the regional owner.
    server.delete(&id_of(&site), "").await.unwrap();
    until_gone(&server, &id_of(&grandchild)).await;
}

#[tokio::test]
async fn the_partition_default_may_have_a_policy() {
    let server = eu().await;
    server.write(partition("default", Some(policy(&["us"], "us", &[])))).await.unwrap();
    refused(server.write(artist("korn")).await, &elsewhere("us"));
    server.write(partition("default", Some(policy(&["us", "eu"], "eu", &[])))).await.unwrap();
    let SyncingMeta { owning_region, regions, .. } = syncing(&server.write(artist("korn")).await.unwrap());
    assert_eq!((owning_region.as_str(), regions.join(",").as_str()), ("eu", "eu,us"));
}

#[tokio::test]
async fn resources_of_another_region_cannot_be_changed() {
    let server = eu().await;
    let enabled = ["eu", "us"];
    server.write(partition("world", Some(policy(&enabled, "eu", &[])))).await.unwrap();
    let old = regional_thing("Thing", "one", "", 1);
    let one = server.write(old.clone()).await.unwrap();
    let old_thing = resource(id_in("changes.v1.OldThing", "one", "world", "default"), one.data.clone());
    let old_thing = server.write(old_thing).await.unwrap();
    let id = id_of(&one);
    server.write(partition("world", Some(policy(&enabled, "us", &[])))).await.unwrap();
    for id in [&id, &id_of(&old_thing)] {
        eventually("it belongs to us", async || syncing(&server.read(id).await.unwrap()).owning_region == "us").await;
    }
    let now = server.read(&id).await.unwrap();
    assert_eq!(now.generation, one.generation, "its content is the same");

    let says = elsewhere("us");
    refused(server.write(old.clone()).await, &says);
    refused(server.write(pb::Resource { version: now.version.clone(), ..old.clone() }).await, &says);
    let status = pb::Status { observed_generation: now.generation.clone(), ..pb::Status::default() };
    let status =
        pb::WriteStatusRequest { id: Some(id.clone()), version: String::new(), key: "k".into(), status: Some(status) };
    refused(server.write_status(status).await, &says);
    refused(server.delete(&id, "").await, &says);
    let mut queries = QueryServiceClient::new(server.channel().await);
    let changed = UpdateRequest { resource: Some(regional_thing("Thing", "one", "", 2)), ..UpdateRequest::default() };
    refused(queries.update(changed).await, &says);
    let mut changes = ChangeServiceClient::new(server.channel().await);
    let moved =
        MoveRequest { id: Some(id_of(&old_thing)), to: Some(gvk("changes.v1.Thing")), ..MoveRequest::default() };
    refused(changes.r#move(moved).await, &says);
    assert!(server.read(&id_of(&old_thing)).await.is_ok());
    let import = data::ImportRequest {
        r#type: Some(gvk("changes.v1.Thing")),
        tenancy: Some(tenancy("world", "default")),
        external_id: "thing:new".into(),
        name: "imported".into(),
        ..data::ImportRequest::default()
    };
    refused(changes.import(import).await, &says);
    let mut owners = OwnershipServiceClient::new(server.channel().await);
    let request = data::SetBlockDeletionRequest { id: Some(id.clone()), version: String::new(), block_deletion: true };
    refused(owners.set_block_deletion(request).await, &says);
    refused(server.write(noted(now.clone(), &[("deletionTimestamp", "2026-01-01T00:00:00Z")])).await, &says);
    let path = "/api/regional/v1/thing/one?partition=world&namespace=default";
    for answer in
        [server.put(path, serde_json::json!({ "text": "" })).await, server.ask("DELETE", path).await_answer().await]
    {
        assert!(answer.code() >= 400 && answer.body.contains("belongs to region"), "{}", answer.body);
    }
    assert_eq!(server.read(&id).await.unwrap(), now, "nothing of it was done");

    // The policy changes back.
    server.write(partition("world", Some(policy(&enabled, "eu", &[])))).await.unwrap();
    eventually("it can be written again", async || server.write(old.clone()).await.is_ok()).await;
    server.delete(&id, "").await.unwrap();
}

#[tokio::test]
async fn an_empty_update_refreshes_once() {
    let server = eu().await;
    server.write(partition("world", Some(policy(&["eu"], "eu", &[])))).await.unwrap();
    let one = server.write(regional_thing("Thing", "one", "", 1)).await.unwrap();
    assert_eq!(syncing(&one).regions, ["eu"]);
    server.write(partition("world", Some(policy(&["eu", "us"], "eu", &[])))).await.unwrap();
    let mut queries = QueryServiceClient::new(server.channel().await);
    let mut update = async || {
        let request =
            UpdateRequest { resource: Some(regional_thing("Thing", "one", "", 1)), ..UpdateRequest::default() };
        queries.update(request).await.unwrap().into_inner().resource.unwrap()
    };
    let refreshed = update().await;
    assert_eq!(syncing(&refreshed).regions, ["eu", "us"]);
    assert_eq!(update().await.version, refreshed.version);
}

#[tokio::test]
async fn controllers_are_refused_like_clients_and_stay_healthy() {
    let dir = tempfile::tempdir().unwrap();
    let setup = || Setup::new().data_dir(dir.path()).config(IN_EU);
    // A thing without its copy; it belongs to us before its controller starts.
    let types = hookless(&["reconcile_copy.v1.Thing", "reconcile_copy.v1.Copy"]);
    let server = setup().component("types", types).start().await;
    server.write(partition("world", Some(policy(&["eu", "us"], "eu", &[])))).await.unwrap();
    let one = at(thing("reconcile_copy", "one", &Thing::default()), "world", "default");
    let one = id_of(&server.write(one).await.unwrap());
    server.write(partition("world", Some(policy(&["eu", "us"], "us", &[])))).await.unwrap();
    eventually("it belongs to us", async || syncing(&server.read(&one).await.unwrap()).owning_region == "us").await;
    server.stop().await;

    let server = setup().guest("reconcile-copy").start().await;
    let mut controllers = ControllerServiceClient::new(server.channel().await);
    let mut report = async || {
        let request = data::ListControllersRequest { plugin: "reconcile-copy".into() };
        controllers.list(request).await.unwrap().into_inner().controllers.pop()
    };
    eventually("the controller gets the error", async || {
        let errors = report().await.unwrap_or_default().last_errors;
        errors.iter().any(|error| error.message.contains("belongs to region \"us\""))
    })
    .await;
    let copy = id_in("reconcile_copy.v1.Copy", "one-copy", "world", "default");
    assert!(is_gone(&server, &copy).await);
    assert_eq!(report().await.unwrap().state, "Running");
    let mut plugins = mortise_api::PluginServiceClient::new(server.channel().await);
    let request = data::InspectRequest { name: "reconcile-copy".into() };
    let hooks = plugins.inspect(request).await.unwrap().into_inner().hooks;
    assert!(hooks.iter().all(|hook| hook.faults == 0 && hook.state == "Healthy"), "{hooks:?}");
    // Other partitions continue.
    server.write(thing("reconcile_copy", "two", &Thing::default())).await.unwrap();
    let copy = id("reconcile_copy.v1.Copy", "two-copy");
    eventually("the controller works", async || server.read(&copy).await.is_ok()).await;
}

#[tokio::test]
async fn shards_are_set_where_rings_are_configured_and_found_by_queries() {
    let server = Setup::new().env("MORTISE_SERVICE_SHARD_RINGS", "16,32").start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    // FNV-1a of "default/default/korn", from another program.
    let hash = "default/default/korn"
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3));
    let shards = korn.meta.as_ref().unwrap().shards.clone();
    let expected = [("byNameMod16", hash % 16), ("byNameMod32", hash % 32)];
    let expected = expected.map(|(key, shard)| (key.to_owned(), i64::try_from(shard).unwrap()));
    assert_eq!(shards.into_iter().collect::<Vec<_>>(), expected);
    let mut queries = QueryServiceClient::new(server.channel().await);
    let mut found = async |shard: u64| {
        let request = SearchRequest {
            r#type: Some(gvk("demo.v2.Artist")),
            filter: format!("meta.shards.byNameMod16 = {shard}"),
            ..SearchRequest::default()
        };
        queries.search(request).await.unwrap().into_inner().resources.len()
    };
    assert_eq!(found(hash % 16).await, 1);
    assert_eq!(found((hash + 1) % 16).await, 0);

    let plain = Server::start().await.write(artist("korn")).await.unwrap();
    assert!(plain.meta.unwrap().shards.is_empty(), "without rings there are none");
}
