//! Three regions in one process.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use arc_swap::ArcSwap;
use mortise_plugin_host::{Limits, Plugin, PluginSettings, Sandbox};
use mortise_resource::{
    authorizer::AllowAll,
    data::{AcceptPeerRequest, AdoptAction, AdoptRequest, AdoptResponse},
    goten::MultiRegionPolicy,
    manifest::RegionOptions,
    pb,
    proto::hashicorp::consul::tenancy::v2beta1::Partition,
    types,
};
use mortise_service::{Caller, Consistency, Options, Placement, ResourceService, registry::Registry};
use mortise_store::{Backend, Options as StoreOptions, SledBackend};
use mortise_test_guests::Thing;
use prost::Message as _;
use tempfile::TempDir;
use tokio::task::JoinHandle;

use super::sim_peer::{Lie, SimLink};
use crate::{PeerOptions, Replication, link::Dial};

mod checks;

pub(super) const ALL: [&str; 3] = ["ap", "eu", "us"];
pub(super) const WAIT: Duration = Duration::from_secs(120);

/// A seeded generator.
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }

    pub(super) fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[usize::try_from(self.below(all.len() as u64)).unwrap()]
    }
}

/// The things that a region owns, by namespace and name.
pub(super) type Owned = BTreeMap<(String, String), i64>;

struct Site {
    dir: TempDir,
    service: ResourceService,
    replication: Replication,
    tasks: Vec<JoinHandle<()>>,
}

/// Three regions, and the links between them.
pub(super) struct World {
    seed: u64,
    pub(super) dice: Dice,
    registry: Arc<Registry>,
    sites: BTreeMap<&'static str, Site>,
    pub(super) links: BTreeMap<(&'static str, &'static str), SimLink>,
    pub(super) owned: BTreeMap<&'static str, Owned>,
    saved: BTreeMap<&'static str, (TempDir, Owned)>,
    next: i64,
}

fn caller() -> Caller {
    Caller::new(Arc::new(AllowAll), Consistency::Consistent)
}

pub(super) fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { tempfile::tempdir_in(memory).unwrap() } else { tempfile::tempdir().unwrap() }
}

fn copy_dir(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy_dir(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_file() {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// The types: things whose text names their region.
pub(super) async fn registry() -> Arc<Registry> {
    let mut manifest = mortise_test_guests::good_manifest();
    manifest.name = "regional".to_owned();
    manifest.types[0].group = "regional".to_owned();
    manifest.types[0].regions = Some(RegionOptions { field: "text".to_owned(), ..RegionOptions::default() });
    let bytes = mortise_test_guests::manifest_only(&manifest.encode_to_vec());
    let cache = tempfile::tempdir().unwrap();
    let sandbox = Sandbox::new(&Limits::default(), cache.path().to_owned()).unwrap();
    let plugin = Plugin::load(&sandbox, "regional", &bytes, &PluginSettings::default()).await.unwrap();
    Arc::new(Registry::builtin().unwrap().with(&plugin).unwrap())
}

pub(super) fn thing_type() -> pb::Type {
    pb::Type { group: "regional".into(), group_version: "v1".into(), kind: "Thing".into() }
}

pub(super) fn thing_id(namespace: &str, name: &str) -> pb::Id {
    let tenancy = pb::Tenancy { partition: "world".into(), namespace: namespace.into() };
    pb::Id { uid: String::new(), name: name.into(), r#type: Some(thing_type()), tenancy: Some(tenancy) }
}

fn world_partition() -> pb::Id {
    pb::Id {
        name: "world".into(),
        r#type: Some(types::partition().to_pb()),
        tenancy: Some(pb::Tenancy::default()),
        ..pb::Id::default()
    }
}

/// The partition, with a policy for these regions; one of them owns what names no region.
pub(super) fn world_policy(regions: &[&str], control: &str) -> pb::Resource {
    let policy = MultiRegionPolicy {
        enabled_regions: regions.iter().map(|&region| region.to_owned()).collect(),
        default_control_region: control.into(),
        criteria_for_disabled_sync: Vec::new(),
    };
    let data = Partition { multi_region_policy: Some(policy), ..Partition::default() };
    let data = any("hashicorp.consul.tenancy.v2beta1.Partition", &data);
    pb::Resource { id: Some(world_partition()), data, ..pb::Resource::default() }
}

fn blue() -> pb::Id {
    let tenancy = pb::Tenancy { partition: "world".into(), namespace: String::new() };
    pb::Id {
        name: "blue".into(),
        r#type: Some(types::namespace().to_pb()),
        tenancy: Some(tenancy),
        ..pb::Id::default()
    }
}

pub(super) fn any(name: &str, message: &impl prost::Message) -> Option<prost_types::Any> {
    Some(prost_types::Any { type_url: format!("type.googleapis.com/{name}"), value: message.encode_to_vec() })
}

impl World {
    pub(super) async fn new(seed: u64, registry: Arc<Registry>) -> Self {
        let mut world = Self {
            seed,
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            registry,
            sites: BTreeMap::new(),
            links: BTreeMap::new(),
            owned: ALL.into_iter().map(|region| (region, Owned::new())).collect(),
            saved: BTreeMap::new(),
            next: 0,
        };
        for from in ALL {
            for to in ALL.into_iter().filter(|to| *to != from) {
                world.links.insert((from, to), SimLink::new(to));
            }
        }
        for region in ALL {
            world.start(region, scratch()).await;
        }
        world
    }

    async fn start(&mut self, region: &'static str, dir: TempDir) {
        let begun = Instant::now();
        let backend: Arc<dyn Backend> = loop {
            match SledBackend::open(StoreOptions::new(dir.path().join("store"))) {
                Ok(backend) => break Arc::new(backend),
                // The tasks of the server before may hold it a little longer.
                Err(e) if begun.elapsed() > WAIT => panic!("seed {}: {e}", self.seed),
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        let placement = Placement { region: Some(region.into()), ..Placement::default() };
        let options = Options { placement, second_pass: Duration::from_millis(10), ..Options::default() };
        let service = ResourceService::new(backend, Arc::new(ArcSwap::from(self.registry.clone())), options);
        write(&service, world_policy(&ALL, "eu")).await.unwrap();
        let options = |name: &str| PeerOptions {
            name: name.to_owned(),
            address: format!("http://{name}"),
            ca_file: None,
            identity: None,
            token_file: None,
            tls_server_name: None,
            max_removed_percent: 30,
            max_removed: 4,
            max_backoff: Duration::from_millis(20),
            keep_alive: Duration::from_secs(10),
        };
        let others = || ALL.into_iter().filter(move |to| *to != region);
        let replication = Replication::new(service.clone(), others().map(options).collect());
        for from in others() {
            self.links[&(from, region)].point_to(Some((service.clone(), replication.clone())));
        }
        let links: Vec<_> = others().map(|to| self.links[&(region, to)].clone()).collect();
        let mut tasks = vec![tokio::spawn(service.background())];
        tasks.push(tokio::spawn(replication.clone().run_over(move |peer| {
            let index = ALL.into_iter().filter(|to| *to != region).position(|to| to == peer).unwrap();
            Some(Arc::new(links[index].clone()) as Arc<dyn Dial>)
        })));
        self.sites.insert(region, Site { dir, service, replication, tasks });
    }

    /// Stops a region's server, and returns the directory of its store.
    async fn stop(&mut self, region: &'static str) -> TempDir {
        let Site { dir, service, replication, tasks } = self.sites.remove(region).unwrap();
        // Links of other regions may lead here, too.
        let store = service.backend().store_id();
        self.links.values().for_each(|link| link.leave(store));
        service.stop();
        for task in tasks {
            task.await.unwrap();
        }
        drop((service, replication));
        dir
    }

    /// Writes, changes or deletes a thing of a region.
    pub(super) async fn change(&mut self, region: &'static str) {
        let namespace = if self.dice.below(3) == 0 { "blue" } else { "default" };
        let name = format!("{region}-{}", self.dice.below(12));
        let key = (namespace.to_owned(), name.clone());
        let service = &self.sites[region].service;
        if self.dice.below(5) == 0 && self.owned[region].contains_key(&key) {
            let request = pb::DeleteRequest { id: Some(thing_id(namespace, &name)), version: String::new() };
            service.delete(&caller(), request).await.unwrap();
            self.owned.get_mut(region).unwrap().remove(&key);
            return;
        }
        self.next += 1;
        let thing = Thing { text: region.into(), number: self.next, ..Thing::default() };
        let data = any("mortise.test.v1.Thing", &thing);
        let resource = pb::Resource { id: Some(thing_id(namespace, &name)), data, ..pb::Resource::default() };
        match write(service, resource).await {
            Ok(()) => drop(self.owned.get_mut(region).unwrap().insert(key, self.next)),
            // The namespace is not here, or is going.
            Err(e) => assert!(namespace == "blue", "seed {}: {e}", self.seed),
        }
    }

    /// Makes a region's link to a peer lie, and waits until it did. The choices of the history do not depend on it.
    pub(super) async fn lie(&mut self, from: &'static str, to: &'static str, lie: Lie) {
        let link = self.links[&(from, to)].clone();
        let number = || link.false_messages().get(&lie).copied().unwrap_or_default();
        let (before, begun) = (number(), Instant::now());
        link.lie(Some(lie));
        while number() == before {
            assert!(begun.elapsed() < WAIT, "seed {}: {from} never gets {lie:?} of {to}", self.seed);
            self.next += 1;
            let key = ("default".to_owned(), format!("{to}-0"));
            let thing = Thing { text: to.into(), number: self.next, ..Thing::default() };
            let data = any("mortise.test.v1.Thing", &thing);
            let resource = pb::Resource { id: Some(thing_id(&key.0, &key.1)), data, ..pb::Resource::default() };
            write(&self.sites[to].service, resource).await.unwrap();
            self.owned.get_mut(to).unwrap().insert(key, self.next);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Gives a thing to another region. Returns its key.
    pub(super) async fn give(&mut self, from: &'static str, to: &'static str) -> (String, String) {
        let (key, number) = self.owned.get_mut(from).unwrap().pop_first().unwrap();
        let thing = Thing { text: to.into(), number, ..Thing::default() };
        let data = any("mortise.test.v1.Thing", &thing);
        let resource = pb::Resource { id: Some(thing_id(&key.0, &key.1)), data, ..pb::Resource::default() };
        write(&self.sites[from].service, resource).await.unwrap();
        key
    }

    pub(super) async fn accept(&self, at: &str, peer: &str) -> bool {
        let request = AcceptPeerRequest { peer: peer.to_owned(), store_id: String::new() };
        self.sites[at].replication.accept(request).await.is_ok_and(|answer| answer.was_stopped)
    }

    /// Makes the replicas from a lost region a region's own, or removes them.
    pub(super) async fn adopt(
        &self,
        at: &str,
        from: &str,
        action: AdoptAction,
    ) -> Result<AdoptResponse, mortise_resource::Error> {
        let request = AdoptRequest { from: from.to_owned(), action: action.into(), dry_run: false };
        self.sites[at].replication.adopt(request).await
    }

    /// Gives a region a copy of another region's store, with its id, and deletes the partition there.
    pub(super) async fn start_on_emptied_copy(&mut self, region: &'static str, of_region: &'static str) {
        let dir = self.stop(of_region).await;
        let copy = scratch();
        copy_dir(dir.path(), copy.path());
        self.start(of_region, dir).await;
        drop(self.stop(region).await);
        self.start(region, copy).await;
        let request = pb::DeleteRequest { id: Some(world_partition()), version: String::new() };
        self.sites[region].service.delete(&caller(), request).await.unwrap();
        let begun = Instant::now();
        while !self.things(region).await.is_empty() {
            assert!(begun.elapsed() < WAIT, "seed {}: the partition stays at {region}", self.seed);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    /// Leads a region's link to a peer to the server of another region: at once, or behind each identification.
    pub(super) fn mislead(&self, from: &'static str, to: &'static str, server: &str, behind_identity: bool) {
        let Site { service, replication, .. } = &self.sites[server];
        let (link, server) = (&self.links[&(from, to)], (service.clone(), replication.clone()));
        if behind_identity { link.change_behind_identity(server) } else { link.point_to(Some(server)) }
    }

    pub(super) async fn restart(&mut self, region: &'static str) {
        let dir = self.stop(region).await;
        self.start(region, dir).await;
    }

    /// Leads a region's link to a peer nowhere, or to the peer.
    pub(super) fn lead(&self, from: &'static str, to: &'static str, is_open: bool) {
        let Site { service, replication, .. } = &self.sites[to];
        self.links[&(from, to)].point_to(is_open.then(|| (service.clone(), replication.clone())));
    }

    /// Creates or deletes the namespace blue, which belongs to eu.
    pub(super) async fn change_namespace(&mut self, creates: bool) {
        let service = &self.sites["eu"].service;
        if creates {
            // It may be in deletion.
            let _ = write(service, pb::Resource { id: Some(blue()), ..pb::Resource::default() }).await;
        } else {
            let request = pb::DeleteRequest { id: Some(blue()), version: String::new() };
            service.delete(&caller(), request).await.unwrap();
            let begun = Instant::now();
            while self.has_blue("eu").await {
                assert!(begun.elapsed() < WAIT, "seed {}: blue stays at eu", self.seed);
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            self.owned.get_mut("eu").unwrap().retain(|(namespace, _), _| namespace != "blue");
        }
    }

    /// Makes one fault.
    pub(super) async fn fault(&mut self) {
        let region = self.dice.of(&ALL);
        let other = self.dice.of(&ALL.into_iter().filter(|other| *other != region).collect::<Vec<_>>());
        match self.dice.below(9) {
            0 => {
                let _gone = self.stop(region).await;
                self.owned.get_mut(region).unwrap().clear();
                self.start(region, scratch()).await;
            }
            1 => {
                // The store of now, to come back later.
                let dir = self.stop(region).await;
                let copy = scratch();
                copy_dir(dir.path(), copy.path());
                self.saved.insert(region, (copy, self.owned[region].clone()));
                self.start(region, dir).await;
            }
            2 => {
                if let Some((dir, owned)) = self.saved.remove(region) {
                    let _gone = self.stop(region).await;
                    self.owned.insert(region, owned);
                    self.start(region, dir).await;
                }
            }
            3 => self.restart(region).await,
            4 => {
                // Another region answers at the address.
                let third = ALL.into_iter().find(|third| *third != region && *third != other).unwrap();
                let Site { service, replication, .. } = &self.sites[third];
                self.links[&(region, other)].point_to(Some((service.clone(), replication.clone())));
            }
            5 => self.links[&(region, other)].point_to(None),
            6 => self.change_namespace(self.dice.0 & (1 << 40) == 0).await,
            _ => {
                let lie = self.dice.of(&Lie::ALL);
                self.links[&(region, other)].lie(Some(lie));
            }
        }
    }

    pub(super) fn heal(&self) {
        for ((_, to), link) in &self.links {
            let Site { service, replication, .. } = &self.sites[to];
            link.lie(None);
            link.point_to(Some((service.clone(), replication.clone())));
        }
    }

    pub(super) async fn end(mut self) {
        for region in ALL {
            drop(self.stop(region).await);
        }
    }
}

pub(super) async fn write(service: &ResourceService, resource: pb::Resource) -> Result<(), mortise_resource::Error> {
    service.write(&caller(), pb::WriteRequest { resource: Some(resource) }).await.map(drop)
}

/// Starts regions with things that have replicas everywhere.
pub(super) async fn settled(seed: u64) -> World {
    let mut world = World::new(seed, registry().await).await;
    world.change_namespace(true).await;
    for region in ALL {
        for _ in 0..16 {
            world.change(region).await;
        }
    }
    world.settle().await;
    world
}
