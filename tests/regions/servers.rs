//! Shared by the tests of regions: servers of several regions that replicate from each other over connections that
//! can be cut, and types whose resources name their region.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
};

use mortise_api::RegionServiceClient;
use mortise_resource::{
    data::{AcceptPeerRequest, HeldBack, PeerRegion, PeerState, RegionStatusRequest, RegionStatusResponse},
    goten::{Meta, MultiRegionPolicy, SyncingMeta, multi_region_policy::CriteriaForDisabledSync},
    manifest::{RegionOptions, RegionSyncing},
    pb,
    proto::hashicorp::consul::tenancy::v2beta1::Partition,
};
use mortise_test_guests::Thing;
use prost::Message as _;
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::Notify,
    task::{AbortHandle, JoinSet},
};

use crate::support::*;

/// Kinds of the plugin `regional`, with the syncing of each; the text of a thing names its region.
const KINDS: [(&str, RegionSyncing); 4] = [
    ("Thing", RegionSyncing::Default),
    ("Scoped", RegionSyncing::AlwaysInScope),
    ("Kept", RegionSyncing::Never),
    ("Global", RegionSyncing::AlwaysGlobally),
];

/// A plugin with these kinds, and no hooks.
pub fn regional() -> Vec<u8> {
    let mut manifest = mortise_test_guests::good_manifest();
    manifest.name = "regional".to_owned();
    let template = manifest.types.remove(0);
    manifest.types = KINDS
        .into_iter()
        .map(|(kind, syncing)| {
            let mut one = template.clone();
            (one.group, one.kind) = ("regional".to_owned(), kind.to_owned());
            one.regions = Some(RegionOptions { field: "text".to_owned(), syncing: syncing.into() });
            one
        })
        .collect();
    mortise_test_guests::manifest_only(&manifest.encode_to_vec())
}

/// A resource of the plugin `regional` in the partition `world`, of a region; an empty region leaves it to the policy.
pub fn regional_thing(kind: &str, name: &str, region: &str, number: i64) -> pb::Resource {
    let thing = Thing { text: region.to_owned(), number, ..Thing::default() };
    let id = id_in(&format!("regional.v1.{kind}"), name, "world", "default");
    resource(id, Some(any("mortise.test.v1.Thing", &thing)))
}

/// A policy.
pub fn policy(enabled: &[&str], control: &str, rules: &[(&str, &str, &str)]) -> MultiRegionPolicy {
    let rule = |(kind, from, to): &(&str, &str, &str)| CriteriaForDisabledSync {
        resource_type_name: (*kind).to_owned(),
        source_region: (*from).to_owned(),
        dest_region: (*to).to_owned(),
    };
    MultiRegionPolicy {
        enabled_regions: enabled.iter().map(|&one| one.to_owned()).collect(),
        default_control_region: control.to_owned(),
        criteria_for_disabled_sync: rules.iter().map(rule).collect(),
    }
}

/// A partition with a policy, or without one.
pub fn partition(name: &str, policy: Option<MultiRegionPolicy>) -> pb::Resource {
    let data = Partition { description: String::new(), multi_region_policy: policy };
    let data = any("hashicorp.consul.tenancy.v2beta1.Partition", &data);
    resource(id("tenancy.v2beta1.Partition", name), Some(data))
}

/// A resource's owning region and the regions of its replicas.
pub fn syncing(resource: &pb::Resource) -> SyncingMeta {
    resource.meta.as_ref().and_then(|meta| meta.syncing.clone()).unwrap_or_default()
}

/// The part that a replica shares with its owner's resource: everything except the version and the origin.
pub fn as_owned(resource: &pb::Resource) -> pb::Resource {
    let mut resource = resource.clone();
    resource.version.clear();
    let meta: &mut Meta = resource.meta.as_mut().unwrap();
    meta.resource_version.clear();
    if let Some(syncing) = &mut meta.syncing {
        syncing.copied_from.clear();
        syncing.owner_version.clear();
        syncing.owner_store.clear();
    }
    resource
}

/// A connection that can be cut.
pub struct Link {
    addr: SocketAddr,
    target: Arc<Mutex<Option<SocketAddr>>>,
    open: Arc<AtomicBool>,
    cut: Arc<Notify>,
    listening: AbortHandle,
}

impl Link {
    pub async fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (target, open) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(true)));
        let cut = Arc::new(Notify::new());
        let (to, is_open, cuts) = (target.clone(), open.clone(), cut.clone());
        let listening = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            loop {
                tokio::select! {
                    accepted = listener.accept() => {
                        let (mut from, _) = accepted.unwrap();
                        let to: Option<SocketAddr> = *to.lock().unwrap();
                        if let Some(to) = to.filter(|_| is_open.load(Ordering::SeqCst)) {
                            connections.spawn(async move {
                                if let Ok(mut to) = TcpStream::connect(to).await {
                                    let _ = tokio::io::copy_bidirectional(&mut from, &mut to).await;
                                }
                            });
                        }
                    }
                    () = cuts.notified() => connections.abort_all(),
                    Some(_) = connections.join_next() => {}
                }
            }
        });
        Self { addr, target, open, cut, listening: listening.abort_handle() }
    }

    pub fn cut(&self) {
        self.open.store(false, Ordering::SeqCst);
        self.cut.notify_one();
    }

    pub fn heal(&self) {
        self.open.store(true, Ordering::SeqCst);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

/// A region's server, which can be killed and started again.
pub struct Region {
    pub dir: TempDir,
    pub server: Option<Server>,
    /// Schema version of the guest `schema-N`; 0 without it.
    schema_version: u32,
    env: Vec<(String, String)>,
}

/// Regions that replicate from each other.
pub struct Servers {
    pub regions: BTreeMap<String, Region>,
    /// Links by asking and asked region.
    pub links: BTreeMap<(String, String), Link>,
}

/// The resource with the state of a peer's replicas.
pub fn peer_id(peer: &str) -> pb::Id {
    id_in("mortise.v1.RegionPeer", peer, "", "")
}

fn copy_dir(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (entry, kind) = entry.map(|entry| (entry.path(), entry.file_type().unwrap())).unwrap();
        let target = to.join(entry.file_name().unwrap());
        match (kind.is_dir(), kind.is_file()) {
            (true, _) => copy_dir(&entry, &target),
            (_, true) => drop(std::fs::copy(entry, target).unwrap()),
            _ => {}
        }
    }
}

impl Servers {
    /// Starts a server for each region. Each has the partition `world` with this policy.
    pub async fn start(names: &[&str], policy: &MultiRegionPolicy, env: &[(&str, &str)]) -> Self {
        let mut world = Self { regions: BTreeMap::new(), links: BTreeMap::new() };
        for from in names {
            for to in names.iter().filter(|to| *to != from) {
                world.links.insert(((*from).to_owned(), (*to).to_owned()), Link::new().await);
            }
        }
        for name in names {
            let dir = tempfile::tempdir().unwrap();
            let mut config = format!("[region]\nname = {name:?}\nmax_backoff_ms = 400\nkeep_alive_ms = 1000\n");
            for ((from, to), link) in &world.links {
                if from == name {
                    config.push_str(&format!("[region.peers.{to}]\naddress = \"http://{}\"\n", link.addr));
                }
            }
            std::fs::write(dir.path().join("config.toml"), config).unwrap();
            let env = env.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
            world.regions.insert((*name).to_owned(), Region { dir, server: None, schema_version: 0, env });
            world.restart(name).await;
            world.at(name).write(partition("world", Some(policy.clone()))).await.unwrap();
        }
        world
    }

    pub fn at(&self, region: &str) -> &Server {
        self.regions[region].server.as_ref().unwrap()
    }

    pub fn link(&self, from: &str, to: &str) -> &Link {
        &self.links[&(from.to_owned(), to.to_owned())]
    }

    /// Cuts a region off from all others, or restores the connection.
    pub fn isolate(&self, region: &str, isolated: bool) {
        for ((from, to), link) in &self.links {
            if from == region || to == region {
                if isolated { link.cut() } else { link.heal() }
            }
        }
    }

    pub async fn kill(&mut self, region: &str) {
        let mut server = self.regions.get_mut(region).unwrap().server.take().unwrap();
        server.signal("KILL");
        server.ended().await;
    }

    /// Starts a region's server again, with this schema version of the types.
    pub async fn restart_with(&mut self, region: &str, schema_version: u32) {
        self.regions.get_mut(region).unwrap().schema_version = schema_version;
        self.restart(region).await;
    }

    pub async fn restart(&mut self, region: &str) {
        let one = self.regions.get_mut(region).unwrap();
        let mut setup = Setup::new()
            .component("regional", regional())
            .data_dir(&one.dir.path().join("data"))
            .arg("--config")
            .arg(one.dir.path().join("config.toml").to_str().unwrap());
        if one.schema_version > 0 {
            let guest = mortise_test_guests::component(&format!("schema-{}", one.schema_version));
            setup = setup.component("schema", std::fs::read(guest).unwrap());
        }
        for (key, value) in &one.env {
            setup = setup.env(key, value);
        }
        let server = setup.start().await;
        for ((_, to), link) in &self.links {
            if to == region {
                *link.target.lock().unwrap() = Some(server.grpc);
            }
        }
        one.server = Some(server);
    }

    pub async fn status(&self, region: &str) -> RegionStatusResponse {
        let mut client = RegionServiceClient::new(self.at(region).channel().await);
        client.status(RegionStatusRequest {}).await.unwrap().into_inner()
    }

    pub async fn peer(&self, region: &str, peer: &str) -> PeerRegion {
        let status = self.status(region).await;
        status.peers.into_iter().find(|one| one.name == peer).unwrap()
    }

    /// Accepts a stopped peer. Returns whether it was stopped.
    pub async fn accept(&self, region: &str, peer: &str) -> Result<bool, tonic::Status> {
        let mut client = RegionServiceClient::new(self.at(region).channel().await);
        let request = AcceptPeerRequest { peer: peer.to_owned(), store_id: String::new() };
        client.accept(request).await.map(|answer| answer.into_inner().was_stopped)
    }

    /// Points a region's link to a peer at the server of another region, and breaks its connections.
    pub fn lead(&self, from: &str, to: &str, server: &str) {
        let link = self.link(from, to);
        *link.target.lock().unwrap() = Some(self.at(server).grpc);
        link.cut.notify_one();
    }

    /// Replaces the store of a stopped region by a copy of another directory; by nothing without one.
    pub fn replace_store(&self, region: &str, by: Option<&std::path::Path>) {
        let data = self.regions[region].dir.path().join("data");
        std::fs::remove_dir_all(&data).unwrap();
        if let Some(by) = by {
            copy_dir(by, &data);
        }
    }

    /// Copies the store of a stopped region.
    pub fn copy_store(&self, region: &str) -> TempDir {
        let copy = tempfile::tempdir().unwrap();
        copy_dir(&self.regions[region].dir.path().join("data"), copy.path());
        copy
    }

    /// Waits until a condition of a peer's has this reason.
    pub async fn condition(&self, region: &str, peer: &str, kind: &str, reason: &str) {
        eventually(&format!("{kind} of {peer} at {region} is {reason}"), async || {
            let Ok(stored) = self.at(region).read(&peer_id(peer)).await else { return false };
            let conditions =
                stored.status.get("mortise").map(|status| status.conditions.as_slice()).unwrap_or_default();
            conditions.iter().any(|one| one.r#type == kind && one.reason == reason)
        })
        .await;
    }

    /// Deferred resources of a peer.
    pub async fn held_back(&self, region: &str, peer: &str) -> Vec<HeldBack> {
        self.peer(region, peer).await.types.into_iter().flat_map(|one| one.held_back).collect()
    }

    /// Snapshots of a kind received from a peer since the server's start.
    pub async fn snapshots(&self, region: &str, peer: &str, kind: &str) -> u64 {
        let types = self.peer(region, peer).await.types;
        types.into_iter().find(|one| one.r#type == Some(gvk(kind))).unwrap().snapshots
    }

    /// Waits until every region has the state that all others had at the call.
    pub async fn current(&self) {
        for region in self.regions.keys() {
            eventually(&format!("{region} is current"), async || {
                let status = self.status(region).await;
                status.peers.iter().all(|peer| peer.state() == PeerState::Current)
            })
            .await;
        }
    }

    /// All resources of a kind in the partition `world`, by name.
    pub async fn all(&self, region: &str, kind: &str) -> BTreeMap<String, pb::Resource> {
        let found = self.at(region).list(gvk(kind), tenancy("world", "*"), "").await.unwrap();
        found.into_iter().map(|one| (id_of(&one).name, one)).collect()
    }

    /// Waits until a region's resource equals that of another one.
    pub async fn copied(&self, id: &pb::Id, from: &str, to: &str) -> pb::Resource {
        let what = format!("{} is at {to} as at {from}", id.name);
        let mut copy = None;
        eventually(&what, async || {
            let owned = self.at(from).read(id).await.unwrap();
            copy = self.at(to).read(id).await.ok().filter(|copy| as_owned(copy) == as_owned(&owned));
            copy.is_some()
        })
        .await;
        copy.unwrap()
    }
}
