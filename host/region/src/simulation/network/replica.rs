//! The region with the replicas, with a real store and the real replication, and the checks of every moment.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use mortise_resource::pb;
use mortise_service::{Consistency, Options, Placement, ResourceService, registry::Registry};
use mortise_store::{Backend, Options as StoreOptions, Query, SledBackend, TypeKey, Watch, WatchEvent};
use tempfile::TempDir;
use tokio::runtime::{Builder, Runtime};

use super::{
    owner::{Owner, State},
    wire::{KEEP_ALIVE, Wire},
};
use crate::{
    PeerOptions, Replication,
    link::Dial,
    simulation::world::{scratch, thing_type, world_policy, write},
};

/// A server of the region `us`, for several courses: each has an owner of another name.
pub(super) struct Site {
    /// Runtime of the checks, in real time.
    runtime: Runtime,
    service: ResourceService,
    backend: Arc<dyn Backend>,
    registry: Arc<Registry>,
    _dir: TempDir,
}

/// The replicas of a course.
pub(super) struct Replica {
    site: Arc<Site>,
    owner: String,
    events: Box<dyn Watch>,
    held: BTreeMap<String, State>,
    /// The token of the last check.
    token: String,
    /// Removed replicas.
    pub(super) removals: usize,
}

/// Returns the query of an owner's replicas.
fn things(owner: &str) -> Query {
    let tenancy = pb::Tenancy { partition: "*".into(), namespace: "*".into() };
    Query { type_key: TypeKey::from(&thing_type()), tenancy, name_prefix: format!("{owner}-") }
}

fn service(backend: Arc<dyn Backend>, registry: Arc<Registry>) -> ResourceService {
    let placement = Placement { region: Some("us".into()), ..Placement::default() };
    ResourceService::new(backend, Arc::new(ArcSwap::from(registry)), Options { placement, ..Options::default() })
}

/// Runs the replication from an owner until the host goes down.
pub(super) async fn replicate(site: Arc<Site>, owner: String) -> turmoil::Result {
    let wire: Arc<dyn Dial> = Arc::new(Wire::new(&owner));
    let peer = PeerOptions {
        name: owner,
        address: "http://eu".into(),
        ca_file: None,
        identity: None,
        token_file: None,
        tls_server_name: None,
        max_removed_percent: 100,
        max_removed: 0,
        max_backoff: Duration::from_millis(500),
        keep_alive: KEEP_ALIVE,
    };
    let replication = Replication::new(service(site.backend.clone(), site.registry.clone()), vec![peer]);
    replication.run_over(move |_| Some(wire.clone())).await;
    Ok(())
}

impl Site {
    /// Makes a server that these owners may send resources to.
    pub(super) fn new(registry: &Arc<Registry>, owners: &[String]) -> Arc<Self> {
        let dir = scratch();
        let runtime = Builder::new_current_thread().build().unwrap();
        let options = StoreOptions { scrub_per_second: 0, ..StoreOptions::new(dir.path().join("store")) };
        let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(options).unwrap());
        let service = service(backend.clone(), registry.clone());
        let regions: Vec<&str> = owners.iter().map(String::as_str).chain(["us"]).collect();
        runtime.block_on(write(&service, world_policy(&regions, "us"))).unwrap();
        Arc::new(Self { runtime, service, backend, registry: registry.clone(), _dir: dir })
    }
}

impl Replica {
    /// Makes the replicas of an owner, none so far.
    pub(super) fn new(site: Arc<Site>, owner: &str) -> Self {
        let events = site.runtime.block_on(site.backend.watch_list(&things(owner), None)).unwrap();
        let (owner, token) = (owner.to_owned(), String::new());
        Self { site, owner, events, held: BTreeMap::new(), token, removals: 0 }
    }

    /// Returns whether the replicas are the owner's content.
    pub(super) fn is_equal(&self, owner: &Owner) -> bool {
        self.held == owner.content()
    }

    /// Returns the replicas, by name.
    pub(super) const fn held(&self) -> &BTreeMap<String, State> {
        &self.held
    }

    /// Waits until the store has committed everything, which its commit thread does in real time.
    pub(super) fn settle(&self) {
        self.site.runtime.block_on(self.site.backend.stats()).unwrap();
    }

    /// Checks everything that happened since the last check.
    pub(super) fn check(&mut self, owner: &Owner) {
        while let Some(event) = self.events.next().now_or_never() {
            match event.unwrap() {
                WatchEvent::Upsert(resource) => self.changed(&resource.decode().unwrap(), owner),
                WatchEvent::Delete(resource) => self.removed(&resource.decode().unwrap(), owner),
                _ => {}
            }
        }
        let Site { runtime, service, backend, .. } = &*self.site;
        let replicas = service.replicas();
        let progress = runtime.block_on(replicas.progress(&self.owner, &thing_type()));
        let token = progress.unwrap().resume_token;
        if token != self.token {
            // Read behind the token. Events come behind reads, so the last ones may be missing.
            let things = runtime.block_on(backend.list(Consistency::Consistent, &things(&self.owner))).unwrap();
            let held = things.iter().map(held).collect();
            if let Some(token) = token.strip_prefix('t') {
                check_token(token.parse().unwrap(), owner, &held);
            }
            self.token = token;
        }
    }

    fn changed(&mut self, replica: &pb::Resource, owner: &Owner) {
        let (name, state) = held(replica);
        assert!(owner.states.contains(&state), "a replica is a state of the owner: {state:?}");
        if let Some(before) = self.held.insert(name, state.clone()) {
            assert!(before.1 < state.1, "a replica goes forward only: {before:?}, then {state:?}");
        }
    }

    fn removed(&mut self, replica: &pb::Resource, owner: &Owner) {
        let id = replica.id.clone().unwrap();
        assert!(owner.removed.contains_key(&id.uid), "a replica goes only with the owner's resource: {id:?}");
        self.removals += 1;
        self.held.remove(&id.name);
    }
}

/// Returns the name of a replica, and the state of the owner that it has.
fn held(replica: &pb::Resource) -> (String, State) {
    let id = replica.id.clone().unwrap();
    let syncing = replica.meta.as_ref().and_then(|meta| meta.syncing.clone()).unwrap();
    (id.name, (id.uid, syncing.owner_version.parse().unwrap()))
}

/// Checks that replicas have everything up to a token.
fn check_token(token: u64, owner: &Owner, held: &BTreeMap<String, State>) {
    let content = owner.content_at(token);
    for (name, (uid, version)) in &content {
        let is_there = match held.get(name) {
            Some((held, at)) => at >= version && (held == uid || at > version),
            None => owner.removed.get(uid).is_some_and(|removed| *removed > token),
        };
        assert!(is_there, "a token is behind its changes: t{token}, {name} {uid} {version}: {held:?}");
    }
    for (name, (_, version)) in held.iter().filter(|(name, _)| !content.contains_key(*name)) {
        assert!(*version > token, "a token is behind its removals: t{token}, {name}: {held:?}");
    }
}
