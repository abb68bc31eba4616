//! Allowed and refused changes of a peer, honest or not.

use std::sync::Arc;

use arc_swap::ArcSwap;
use mortise_resource::{
    data::{AdoptAction, AdoptRequest, HeldBackReason},
    goten::{Meta, MultiRegionPolicy, SyncingMeta},
    proto::hashicorp::consul::tenancy::v2beta1::Partition,
};
use mortise_store::{Backend, Consistency, Options as StoreOptions, Quotas, SledBackend};
use prost::Message as _;

use super::*;
use crate::{
    core::{Options, Placement, ids},
    deletion::TenancyCleanup,
    region::progress::{OwnerStore, ReplicationProgress},
    registry::Registry,
    rules::{
        region::{self, replica_origin},
        tombstone,
    },
    service::ResourceService,
};

/// A server of region `us`, which follows the namespaces of `eu`.
pub(in crate::region) struct Server {
    _dir: tempfile::TempDir,
    pub(in crate::region) service: ResourceService,
    progress: ReplicationProgress,
}

impl Server {
    async fn new(quotas: Quotas) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let options = StoreOptions { quotas, ..StoreOptions::new(dir.path().join("store")) };
        let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(options).unwrap());
        let placement = Placement { region: Some("us".into()), ..Placement::default() };
        let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
        let service = ResourceService::new(backend, registry, Options { placement, ..Options::default() });
        let progress = service.replicas().progress("eu", &types::namespace().to_pb()).await.unwrap();
        Self { _dir: dir, service, progress }
    }

    pub(in crate::region) async fn with_policy(enabled: &[&str], control: &str) -> Self {
        let here = Self::new(Quotas::default()).await;
        here.set_policy(enabled, control).await;
        here
    }

    pub(in crate::region) async fn set_policy(&self, enabled: &[&str], control: &str) {
        let policy = MultiRegionPolicy {
            enabled_regions: enabled.iter().map(|&region| region.to_owned()).collect(),
            default_control_region: control.into(),
            criteria_for_disabled_sync: Vec::new(),
        };
        let data = Partition { multi_region_policy: Some(policy), ..Partition::default() };
        let id = pb::Id { tenancy: Some(pb::Tenancy::default()), ..id(types::partition().to_pb(), "world") };
        let mut partition = self.stored(&id).await.unwrap_or_else(|| resource(id));
        partition.data = Some(prost_types::Any { type_url: String::new(), value: data.encode_to_vec() });
        partition.generation = ids::ulid();
        self.service.core.backend.write_cas(partition).await.unwrap();
    }

    async fn mark_partition(&self) {
        let id = pb::Id { tenancy: Some(pb::Tenancy::default()), ..id(types::partition().to_pb(), "world") };
        let mut partition = self.stored(&id).await.unwrap();
        tombstone::mark(&mut partition);
        partition.generation = ids::ulid();
        self.service.core.backend.write_cas(partition).await.unwrap();
    }

    pub(in crate::region) async fn stored(&self, id: &pb::Id) -> Option<pb::Resource> {
        let id = pb::Id { uid: String::new(), ..id.clone() };
        self.service.core.backend.read(Consistency::Consistent, &id).await.ok()
    }

    pub(in crate::region) async fn apply(&mut self, changes: &[ReplicatedChange]) -> ApplySummary {
        self.service.replicas().apply(&mut self.progress, changes, false).await.unwrap()
    }

    fn reasons(&self) -> Vec<HeldBackReason> {
        self.progress.deferred().iter().map(|held| held.reason()).collect()
    }
}

fn id(r#type: pb::Type, name: &str) -> pb::Id {
    let tenancy = pb::Tenancy { partition: "world".into(), namespace: String::new() };
    pb::Id { uid: ids::ulid(), name: name.into(), r#type: Some(r#type), tenancy: Some(tenancy) }
}

fn resource(id: pb::Id) -> pb::Resource {
    pb::Resource { id: Some(id), generation: ids::ulid(), ..pb::Resource::default() }
}

/// Returns a namespace that a region claims as its own.
pub(in crate::region) fn namespace(name: &str, owner: &str, version: &str) -> pb::Resource {
    let syncing = SyncingMeta { owning_region: owner.into(), regions: vec!["*".into()], ..SyncingMeta::default() };
    let meta = Some(Box::new(Meta { syncing: Some(syncing), ..Meta::default() }));
    pb::Resource { version: version.into(), meta, ..resource(id(types::namespace().to_pb(), name)) }
}

pub(in crate::region) fn put(resource: &pb::Resource) -> ReplicatedChange {
    ReplicatedChange::Put(Box::new(resource.clone()))
}

pub(in crate::region) fn id_of(resource: &pb::Resource) -> pb::Id {
    resource.id.clone().unwrap()
}

#[tokio::test]
async fn a_peer_that_sends_other_types_is_refused() {
    let mut here = Server::with_policy(&["eu", "us"], "eu").await;
    let cluster = Some(pb::Tenancy::default());
    let mut changes = Vec::new();
    for gvk in [types::token(), types::policy(), types::partition(), types::region_progress(), types::region_peer()] {
        let id = pb::Id { tenancy: cluster.clone(), ..id(gvk.to_pb(), "lies") };
        changes.push(put(&pb::Resource { id: Some(id), ..namespace("lies", "eu", "1") }));
    }
    let demo = pb::Type { group: "demo".into(), group_version: "v2".into(), kind: "Artist".into() };
    changes.push(put(&pb::Resource { id: Some(id(demo, "lies")), ..namespace("lies", "eu", "1") }));
    for name in ["", "No Name", &"x".repeat(1 << 16)] {
        changes.push(put(&namespace(name, "eu", "1")));
    }
    changes.push(ReplicatedChange::Remove { id: pb::Id::default(), deleted: true });
    let honest = namespace("honest", "eu", "1");
    changes.push(put(&honest));
    let summary = here.apply(&changes).await;
    assert_eq!(summary, ApplySummary { written: 1, refused: 10, ..ApplySummary::default() });
    for change in &changes[..6] {
        assert!(here.stored(&change.id()).await.is_none(), "{:?}", change.id());
    }
    assert!(here.stored(&id_of(&honest)).await.is_some());
    assert!(here.reasons().is_empty(), "what is no id is not named");

    // A progress with a host's own type as the followed type does not help either.
    here.progress = here.service.replicas().progress("eu", &types::token().to_pb()).await.unwrap();
    let token = pb::Id { tenancy: cluster, ..id(types::token().to_pb(), "lies") };
    let lies = pb::Resource { id: Some(token), ..namespace("lies", "eu", "1") };
    assert_eq!(here.apply(&[put(&lies)]).await.refused, 1);
}

#[tokio::test]
async fn the_policy_of_this_region_decides_what_comes_in() {
    let mut here = Server::with_policy(&["eu", "us"], "us").await;
    let first = namespace("one", "eu", "1");
    assert_eq!(here.apply(&[put(&first)]).await, ApplySummary { deferred: 1, ..ApplySummary::default() });
    assert_eq!(here.reasons(), [HeldBackReason::Policy]);
    here.set_policy(&["eu", "ap"], "eu").await;
    here.apply(&[put(&first)]).await;
    assert_eq!(here.reasons(), [HeldBackReason::Policy], "us is not enabled");
    assert!(here.stored(&id_of(&first)).await.is_none());
    here.set_policy(&["eu", "us", "ap"], "eu").await;
    assert_eq!(here.apply(&[put(&first)]).await, ApplySummary { written: 1, ..ApplySummary::default() });
    assert!(here.reasons().is_empty());
    // Another peer cannot take it over, unless it is given to it.
    let mut theirs = here.service.replicas().progress("ap", &types::namespace().to_pb()).await.unwrap();
    let taken = pb::Resource { id: first.id.clone(), ..namespace("one", "ap", "9") };
    for (control, from) in [("eu", "eu"), ("ap", "ap")] {
        here.set_policy(&["eu", "us", "ap"], control).await;
        here.service.replicas().apply(&mut theirs, &[put(&taken)], false).await.unwrap();
        assert_eq!(replica_origin(&here.stored(&id_of(&first)).await.unwrap()), from);
    }
}

#[tokio::test]
async fn a_deferred_incarnation_removes_the_one_before() {
    let mut here = Server::with_policy(&["eu", "us"], "eu").await;
    let (old, new) = (namespace("one", "eu", "1"), namespace("one", "eu", "2"));
    here.apply(&[put(&old)]).await;
    let newer = pb::Resource { schema_version: 9, ..new };
    let summary = here.apply(&[put(&newer)]).await;
    assert_eq!(summary, ApplySummary { written: 1, deferred: 1, ..ApplySummary::default() });
    assert_eq!(here.reasons(), [HeldBackReason::Schema]);
    let held = here.stored(&id_of(&old)).await.unwrap();
    assert_eq!(held.status["mortise"].conditions[0].reason, "OwnerDeleted", "a namespace goes once it is empty");
    // Once it is this region's own, nothing holds it.
    here.set_policy(&["eu", "us"], "us").await;
    let request = AdoptRequest { from: "eu".into(), action: AdoptAction::Adopt.into(), dry_run: false };
    assert_eq!(here.service.replicas().adopt(&request).await.unwrap().types[0].done, 1);
    let own = here.stored(&id_of(&old)).await.unwrap();
    assert_eq!((replica_origin(&own), own.status.len()), ("", 0));
}

#[tokio::test]
async fn replicas_of_a_marked_unit_are_deferred() {
    let mut here = Server::with_policy(&["eu", "us"], "eu").await;
    let first = namespace("one", "eu", "1");
    here.apply(&[put(&first)]).await;
    here.mark_partition().await;
    here.apply(&[put(&first)]).await;
    assert_eq!(here.reasons(), [HeldBackReason::Place], "it is here in this version, but not for long");
    let again = here.service.replicas().progress("eu", &types::namespace().to_pb()).await.unwrap();
    assert_eq!(again.deferred(), here.progress.deferred(), "so it is stored");
}

#[tokio::test]
async fn a_quota_defers_replicas_and_not_the_progress() {
    let mut here = Server::new(Quotas { resources: 2, ..Quotas::default() }).await;
    here.set_policy(&["eu", "us"], "eu").await;
    // Progress is of cluster scope, where there are two of a kind then.
    for peer in ["a", "b", "c"] {
        let mut progress = here.service.replicas().progress(peer, &types::namespace().to_pb()).await.unwrap();
        progress.resume_token = "token".into();
        here.service.replicas().apply(&mut progress, &[], false).await.unwrap();
    }
    let many: Vec<_> = (0..4).map(|number| put(&namespace(&format!("n{number}"), "eu", "1"))).collect();
    here.progress.resume_token = "token".into();
    let summary = here.apply(&many).await;
    assert_eq!(summary, ApplySummary { written: 2, deferred: 2, ..ApplySummary::default() });
    assert_eq!(here.reasons(), [HeldBackReason::Store; 2]);
    let stored = here.service.replicas().progress("eu", &types::namespace().to_pb()).await.unwrap();
    assert_eq!((stored.resume_token.as_str(), stored.deferred_len()), ("token", 2));
    // A bare token is not stored at once.
    here.progress.resume_token = "later".into();
    here.apply(&[]).await;
    let stored = here.service.replicas().progress("eu", &types::namespace().to_pb()).await.unwrap();
    assert_eq!(stored.resume_token, "token");
}

#[tokio::test]
async fn the_replication_into_a_marked_partition_restarts() {
    let mut here = Server::with_policy(&["eu", "us"], "eu").await;
    let mut first = namespace("one", "eu", "1");
    mortise_resource::meta::add_finalizer(&mut first.metadata, "theirs");
    here.progress.resume_token = "token".into();
    here.apply(&[put(&first)]).await;
    let cleanup = tokio::spawn(TenancyCleanup::new(&here.service.deletions, here.service.replicas()).run());
    let progress = here.progress.clone();
    let service = here.service.clone();
    let restarted = tokio::spawn(async move { service.replicas().restarted(&progress).await });
    here.mark_partition().await;
    tokio::time::timeout(std::time::Duration::from_secs(10), restarted).await.unwrap().unwrap();
    let error = here.service.replicas().apply(&mut here.progress, &[put(&first)], false).await.unwrap_err();
    assert_eq!(error.code, Code::Aborted);
    let stored = here.service.replicas().progress("eu", &types::namespace().to_pb()).await.unwrap();
    assert_eq!(stored.resume_token, "", "a snapshot follows");
    for _ in 0..200 {
        if here.stored(&id_of(&first)).await.is_none() {
            here.service.stop();
            return cleanup.await.unwrap();
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("a finalizer of the owner's region keeps the replica");
}

#[tokio::test]
async fn a_version_far_beyond_the_owners_is_not_taken() {
    let mut here = Server::with_policy(&["eu", "us"], "eu").await;
    here.progress.store = OwnerStore { id: ids::ulid(), newest_version: Some(100) };
    let mut one = namespace("one", "eu", "100");
    here.apply(&[put(&one)]).await;
    for lie in ["9223372036854775808", "18446744073709551615", "2000", "-1", "9 ", "ten"] {
        let lies = pb::Resource { version: lie.into(), generation: ids::ulid(), ..one.clone() };
        assert_eq!(here.apply(&[put(&lies)]).await, ApplySummary { deferred: 1, ..ApplySummary::default() }, "{lie}");
        assert_eq!(here.reasons(), [HeldBackReason::Invalid], "{lie}");
    }
    one.version = "101".into();
    assert_eq!(here.apply(&[put(&one)]).await.written, 1, "the replica goes on");
    assert!(here.reasons().is_empty());
    // A release without identities has a limit, too, and a replica that was frozen before thaws.
    here.progress.store = OwnerStore::default();
    one.version = (1_u64 << 63).to_string();
    assert_eq!(here.apply(&[put(&one)]).await.deferred, 1);
    let mut frozen = here.stored(&id_of(&one)).await.unwrap();
    let syncing = frozen.meta.as_mut().unwrap().syncing.as_mut().unwrap();
    (syncing.owner_version, syncing.owner_store) = ((1_u64 << 63).to_string(), String::new());
    here.service.core.backend.write_cas(frozen).await.unwrap();
    one.version = "102".into();
    assert_eq!(here.apply(&[put(&one)]).await.written, 1);
}

#[tokio::test]
async fn a_resource_that_is_given_away_is_deferred_until_this_region_agrees() {
    let all = ["eu", "us", "ap"];
    let mut here = Server::with_policy(&all, "eu").await;
    let one = namespace("one", "eu", "1");
    here.apply(&[put(&one)]).await;
    let given = |owner: &str, version: &str| pb::Resource { id: one.id.clone(), ..namespace("one", owner, version) };
    let hand_over = |resource: &pb::Resource| [ReplicatedChange::HandOver(Box::new(resource.clone()))];
    let deferred = ApplySummary { deferred: 1, ..ApplySummary::default() };
    let to_ap = given("ap", "2");
    assert_eq!(here.apply(&hand_over(&to_ap)).await, deferred);
    assert_eq!(here.reasons(), [HeldBackReason::Policy], "by the policy here it belongs to eu");
    here.set_policy(&all, "ap").await;
    let newer = pb::Resource { schema_version: 9, ..to_ap.clone() };
    for (lie, reason) in [
        (newer, HeldBackReason::Schema),
        (pb::Resource { version: "x".into(), ..to_ap.clone() }, HeldBackReason::Invalid),
    ] {
        assert_eq!(here.apply(&hand_over(&lie)).await, deferred);
        assert_eq!(here.reasons(), [reason]);
    }
    assert_eq!(here.apply(&hand_over(&to_ap)).await.written, 1);
    assert!(here.reasons().is_empty());
    let stored = here.stored(&id_of(&one)).await.unwrap();
    assert_eq!((region::owning_region(&stored), replica_origin(&stored)), ("ap", "eu"));
    assert_eq!(here.apply(&hand_over(&to_ap)).await, ApplySummary::default(), "it is known already");
    // It does not count as a replica that eu may lose, and eu is asked about it all the same.
    let kind = types::namespace().to_pb();
    let held = here.service.replicas().replicas_other_than("eu", &kind, &Default::default()).await.unwrap();
    assert_eq!((held.number, held.missing, held.others), (0, 0, vec![id_of(&one)]));
    // To this region.
    here.set_policy(&all, "us").await;
    let mut copied = given("us", "3");
    copied.meta.as_mut().unwrap().syncing.as_mut().unwrap().copied_from = "us".into();
    assert_eq!(here.apply(&hand_over(&copied)).await, deferred, "this region has no such resource");
    assert_eq!(here.apply(&hand_over(&given("us", "3"))).await.written, 1);
    assert_eq!(replica_origin(&here.stored(&id_of(&one)).await.unwrap()), "");
    assert_eq!(here.apply(&hand_over(&given("us", "4"))).await, ApplySummary::default(), "it was given away");
}

#[tokio::test]
async fn a_resource_that_is_given_away_waits_for_its_place() {
    let all = ["eu", "us", "ap"];
    let mut here = Server::with_policy(&all, "eu").await;
    let one = namespace("one", "eu", "1");
    here.apply(&[put(&one)]).await;
    here.set_policy(&all, "ap").await;
    here.mark_partition().await;
    let given = pb::Resource { id: one.id.clone(), ..namespace("one", "ap", "2") };
    assert_eq!(here.apply(&[ReplicatedChange::HandOver(Box::new(given))]).await.deferred, 1);
    assert_eq!(here.reasons(), [HeldBackReason::Place]);
}

#[tokio::test]
async fn a_later_incarnation_of_the_known_store_is_no_removal() {
    let mut here = Server::with_policy(&["eu", "us"], "eu").await;
    let known = OwnerStore { id: ids::ulid(), newest_version: Some(100) };
    here.progress.store = known.clone();
    let one = namespace("one", "eu", "50");
    here.apply(&[put(&one)]).await;
    let other = OwnerStore { id: ids::ulid(), ..known.clone() };
    let older = OwnerStore { id: String::new(), newest_version: None };
    for (store, version, replaced) in
        [(&known, "51", 0), (&known, "50", 1), (&known, "49", 1), (&other, "51", 1), (&older, "51", 1)]
    {
        here.progress.store = store.clone();
        let again = namespace("one", "eu", version);
        let found = here.service.replicas().replaced_by(&here.progress, &[put(&again)]).await.unwrap();
        assert_eq!(found, replaced, "{version} of {store:?}");
    }
    // A replica of a release without ids.
    here.progress.store = older;
    here.apply(&[put(&namespace("two", "eu", "50"))]).await;
    here.progress.store = known;
    let again = put(&namespace("two", "eu", "51"));
    assert_eq!(here.service.replicas().replaced_by(&here.progress, &[again]).await.unwrap(), 1);
}

#[tokio::test]
async fn versions_of_another_store_say_nothing() {
    let mut here = Server::with_policy(&["eu", "us"], "eu").await;
    here.progress.store = OwnerStore { id: ids::ulid(), newest_version: Some(100) };
    here.progress.resume_token = "token".into();
    let one = namespace("one", "eu", "100");
    here.apply(&[put(&one)]).await;
    let same = here.stored(&id_of(&one)).await.unwrap();
    here.service.replicas().apply(&mut here.progress, &[put(&one)], true).await.unwrap();
    assert_eq!(here.stored(&id_of(&one)).await.unwrap(), same, "a snapshot of the same store writes nothing");
    here.progress.bind(OwnerStore { id: ids::ulid(), newest_version: Some(100) });
    assert_eq!(here.progress.resume_token, "", "a token of another store is dropped");
    let other = pb::Resource { generation: ids::ulid(), ..one.clone() };
    here.service.replicas().apply(&mut here.progress, &[put(&other)], true).await.unwrap();
    assert_eq!(here.stored(&id_of(&one)).await.unwrap().generation, other.generation, "its equal version is another");
}

#[tokio::test]
async fn a_namespace_that_its_owner_deletes_stays_while_something_is_in_it() {
    for by_mark in [false, true] {
        let mut here = Server::with_policy(&["eu", "us"], "eu").await;
        let cleanup = tokio::spawn(TenancyCleanup::new(&here.service.deletions, here.service.replicas()).run());
        let (one, empty) = (namespace("one", "eu", "1"), namespace("empty", "eu", "1"));
        here.apply(&[put(&one), put(&empty)]).await;
        let kind = pb::Type { group: "demo".into(), group_version: "v1".into(), kind: "Thing".into() };
        let tenancy = Some(pb::Tenancy { partition: "world".into(), namespace: "one".into() });
        let mine = resource(pb::Id { tenancy, ..id(kind, "mine") });
        let mine = here.service.core.backend.write_cas(mine).await.unwrap();
        let mut changes = Vec::new();
        for gone in [&one, &empty] {
            let mut marked = pb::Resource { version: "2".into(), ..gone.clone() };
            tombstone::mark(&mut marked);
            changes.push(match by_mark {
                true => put(&marked),
                false => ReplicatedChange::Remove { id: id_of(gone), deleted: true },
            });
        }
        here.apply(&changes).await;
        until_gone(&here, &empty).await;
        let held = here.stored(&id_of(&one)).await.unwrap();
        assert!(!mortise_resource::meta::is_marked(&held.metadata));
        let condition = &held.status["mortise"].conditions[0];
        assert_eq!((condition.r#type.as_str(), condition.reason.as_str()), ("Held", "OwnerDeleted"));
        here.service.core.backend.delete_cas(&id_of(&mine), &mine.version).await.unwrap();
        until_gone(&here, &one).await;
        here.service.stop();
        cleanup.await.unwrap();
    }
}

async fn until_gone(here: &Server, resource: &pb::Resource) {
    for _ in 0..6_000 {
        if here.stored(&id_of(resource)).await.is_none() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    panic!("{:?} stays", resource.id);
}
