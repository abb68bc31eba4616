//! The region with the replicas: a real store and the real replication, and what must hold at every moment.

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

/// The region.
pub(super) struct Replica {
    /// Runtime of the checks, in real time.
    runtime: Runtime,
    service: ResourceService,
    events: Box<dyn Watch>,
    held: BTreeMap<String, State>,
    /// The token of the last check.
    token: String,
    /// Removed replicas.
    pub(super) removals: usize,
    backend: Arc<dyn Backend>,
    registry: Arc<Registry>,
    _dir: TempDir,
}

/// Returns the query of all replicas.
fn things() -> Query {
    let tenancy = pb::Tenancy { partition: "*".into(), namespace: "*".into() };
    Query { type_key: TypeKey::from(&thing_type()), tenancy, name_prefix: String::new() }
}

fn service(backend: Arc<dyn Backend>, registry: Arc<Registry>) -> ResourceService {
    let placement = Placement { region: Some("us".into()), ..Placement::default() };
    ResourceService::new(backend, Arc::new(ArcSwap::from(registry)), Options { placement, ..Options::default() })
}

/// Runs the replication until the host goes down.
pub(super) async fn replicate(backend: Arc<dyn Backend>, registry: Arc<Registry>) -> turmoil::Result {
    let peer = PeerOptions {
        name: "eu".into(),
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
    let replication = Replication::new(service(backend, registry), vec![peer]);
    let wire: Arc<dyn Dial> = Arc::new(Wire::new());
    replication.run_over(move |_| Some(wire.clone())).await;
    Ok(())
}

impl Replica {
    /// Makes a region without replicas.
    pub(super) fn new(registry: &Arc<Registry>) -> Self {
        let dir = scratch();
        let runtime = Builder::new_current_thread().build().unwrap();
        // Small files: a course makes a store of its own.
        let options = StoreOptions {
            cache_bytes: 1 << 20,
            reserve_bytes: 1 << 16,
            scrub_per_second: 0,
            ..StoreOptions::new(dir.path().join("store"))
        };
        let backend: Arc<dyn Backend> = Arc::new(SledBackend::open(options).unwrap());
        let service = service(backend.clone(), registry.clone());
        let events = runtime.block_on(async {
            write(&service, world_policy(&["eu", "us"])).await.unwrap();
            backend.watch_list(&things(), None).await.unwrap()
        });
        Self {
            runtime,
            service,
            events,
            held: BTreeMap::new(),
            token: String::new(),
            removals: 0,
            backend,
            registry: registry.clone(),
            _dir: dir,
        }
    }

    /// Returns the store and the types, for the host.
    pub(super) fn parts(&self) -> (Arc<dyn Backend>, Arc<Registry>) {
        (self.backend.clone(), self.registry.clone())
    }

    /// Whether the replicas are the owner's content.
    pub(super) fn is_equal(&self, owner: &Owner) -> bool {
        self.held == owner.content()
    }

    /// Returns the replicas, by name.
    pub(super) const fn held(&self) -> &BTreeMap<String, State> {
        &self.held
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
        let replicas = self.service.replicas();
        let progress = self.runtime.block_on(replicas.progress("eu", &thing_type()));
        let token = progress.unwrap().resume_token;
        if token != self.token {
            // Read behind the token. Events come behind reads, so the last ones may be missing.
            let things = self.runtime.block_on(self.backend.list(Consistency::Consistent, &things())).unwrap();
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
