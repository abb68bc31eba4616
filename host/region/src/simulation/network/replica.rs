//! The region with the replicas: a real store and the real replication, and what must hold at every moment.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures::FutureExt as _;
use mortise_resource::pb;
use mortise_service::{Options, Placement, ResourceService, registry::Registry};
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
    /// Removed replicas.
    pub(super) removals: usize,
    backend: Arc<dyn Backend>,
    registry: Arc<Registry>,
    _dir: TempDir,
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
        let backend: Arc<dyn Backend> =
            Arc::new(SledBackend::open(StoreOptions::new(dir.path().join("store"))).unwrap());
        let service = service(backend.clone(), registry.clone());
        let query = Query {
            type_key: TypeKey::from(&thing_type()),
            tenancy: pb::Tenancy { partition: "*".into(), namespace: "*".into() },
            name_prefix: String::new(),
        };
        let events = runtime.block_on(async {
            write(&service, world_policy(&["eu", "us"])).await.unwrap();
            backend.watch_list(&query, None).await.unwrap()
        });
        Self {
            runtime,
            service,
            events,
            held: BTreeMap::new(),
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
        // The token first: its replicas were committed with it.
        let replicas = self.service.replicas();
        let progress = self.runtime.block_on(replicas.progress("eu", &thing_type()));
        let token = progress.unwrap().resume_token;
        while let Some(event) = self.events.next().now_or_never() {
            match event.unwrap() {
                WatchEvent::Upsert(resource) => self.changed(&resource.decode().unwrap(), owner),
                WatchEvent::Delete(resource) => self.removed(&resource.decode().unwrap(), owner),
                _ => {}
            }
        }
        if let Some(token) = token.strip_prefix('t') {
            self.check_token(token.parse().unwrap(), owner);
        }
    }

    fn changed(&mut self, replica: &pb::Resource, owner: &Owner) {
        let id = replica.id.clone().unwrap();
        let syncing = replica.meta.as_ref().and_then(|meta| meta.syncing.clone()).unwrap();
        let state = (id.uid, syncing.owner_version.parse::<u64>().unwrap());
        assert!(owner.states.contains(&state), "a replica is a state of the owner: {state:?}");
        if let Some(before) = self.held.insert(id.name, state.clone()) {
            assert!(before.1 < state.1, "a replica goes forward only: {before:?}, then {state:?}");
        }
    }

    fn removed(&mut self, replica: &pb::Resource, owner: &Owner) {
        let id = replica.id.clone().unwrap();
        assert!(owner.removed.contains_key(&id.uid), "a replica goes only with the owner's resource: {id:?}");
        self.removals += 1;
        self.held.remove(&id.name);
    }

    /// Checks that the replicas have everything up to a token.
    fn check_token(&self, token: u64, owner: &Owner) {
        let content = owner.content_at(token);
        for (name, (uid, version)) in &content {
            let is_there = match self.held.get(name) {
                Some((held, at)) => at >= version && (held == uid || at > version),
                None => owner.removed.get(uid).is_some_and(|removed| *removed > token),
            };
            assert!(is_there, "a token is behind its changes: t{token}, {name} {uid} {version}: {:?}", self.held);
        }
        for (name, (_, version)) in self.held.iter().filter(|(name, _)| !content.contains_key(*name)) {
            assert!(*version > token, "a token is behind its removals: t{token}, {name}: {:?}", self.held);
        }
    }
}
