//! Copies of what other regions own (docs/regions.md).
//!
//! # Contract
//! From each peer are pulled the resources that the peer owns and that may be in this region, type by type, by the peer's
//! own watches; what the peer has from third regions is not, so nothing goes round. The service applies a message's
//! changes and stores how far the watch is in one commit, so that after a crash of either side nothing is lost, doubled
//! or comes back. A watch that cannot go on where it was begins with a snapshot; what is not in that is removed here.
//!
//! A removal is asked for once more, since a resource that leaves a watch need not be gone: it may have been given to
//! another region. What cannot be applied is held back by itself, and tried again.
//!
//! # Limits
//! Of each type 4,096 changes and 4 MiB are held, and some 32 bytes for each resource of a snapshot, which has 4,000,000 at
//! most; a stream that is not read holds 1 MiB. A message has at most 17 MiB, or twice `store.max_resource_bytes` and 1 MiB
//! if that is more; a larger one keeps its type from going on.
//!
//! # Cost
//! One connection for each peer, and one stream for each type that may be copied. Nothing is polled; a peer that is down
//! is tried again after a growing wait.

mod changeset;
mod conditions;
mod error;
mod follower;
mod link;
mod peer;
mod report;
mod session;

use std::{path::PathBuf, sync::Arc, time::Duration};

use mortise_resource::data::RegionStatusResponse;
use mortise_service::ResourceService;
use tokio::task::JoinSet;

use crate::{peer::Peer, report::PeerReport};

/// A region that copies are pulled from.
#[derive(Debug, Clone)]
pub struct PeerOptions {
    /// Its name, which is the owning region of what is pulled.
    pub name: String,
    /// Where its gRPC port is: `https://HOST:PORT`, or `http://HOST:PORT` without TLS.
    pub address: String,
    /// Authorities (PEM) of its certificate; `None` for those of the system.
    pub ca_file: Option<PathBuf>,
    /// This server's certificate (PEM) and its key, to show to the peer.
    pub identity: Option<(PathBuf, PathBuf)>,
    /// The file with the token for the peer.
    pub token_file: Option<PathBuf>,
    /// The name that its certificate has to be for, if not the address's.
    pub tls_server_name: Option<String>,
    /// The longest wait before it is tried again.
    pub max_backoff: Duration,
    /// How long it may be silent before it is asked whether it is still there, and how long its answer may take.
    pub keep_alive: Duration,
}

/// What is pulled from all peers. Cheap to clone.
#[derive(Clone)]
pub struct Regions {
    service: ResourceService,
    peers: Arc<[Arc<PeerReport>]>,
    options: Arc<[PeerOptions]>,
}

impl Regions {
    /// Makes what is pulled from these peers. Nothing is pulled before [`Regions::run`], nor if the service has no region.
    #[must_use]
    pub fn new(service: ResourceService, mut options: Vec<PeerOptions>) -> Self {
        options.sort_by(|a, b| a.name.cmp(&b.name));
        let peers = options.iter().map(|peer| Arc::new(PeerReport::new(&peer.name, &peer.address))).collect();
        Self { service, peers, options: options.into() }
    }

    /// How far each peer's copies are.
    #[must_use]
    pub fn report(&self) -> RegionStatusResponse {
        let region = self.service.region().unwrap_or_default().to_owned();
        RegionStatusResponse { region, peers: self.peers.iter().map(|peer| peer.to_pb()).collect() }
    }

    /// Pulls until the service stops.
    pub async fn run(self) {
        let peers: Vec<&str> = match self.service.region() {
            Some(_) => self.options.iter().map(|peer| peer.name.as_str()).collect(),
            None => Vec::new(),
        };
        if let Err(e) = self.service.regions().retain_peers(&peers).await {
            tracing::warn!("what is stored of regions that are no peers any more stays until the next start: {e}");
        }
        if self.service.region().is_none() {
            return;
        }
        let mut running = JoinSet::new();
        for (options, report) in self.options.iter().zip(self.peers.iter()) {
            running.spawn(Peer::new(self.service.clone(), options.clone(), report.clone()).run());
        }
        // Goes on with a panic of one of them, which then ends the process.
        running.join_all().await;
    }
}
