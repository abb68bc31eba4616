//! Replicas of resources that other regions own (docs/regions.md).
//!
//! # Contract
//! A server pulls from each peer the resources that the peer owns and that may be in this region, type by type, through
//! the peer's own watches. Resources that the peer has from third regions are left out, so nothing circulates. The
//! service applies the changes of a message and stores the position of the watch in one commit, so that a crash of
//! either side loses, doubles or revives nothing. A watch that cannot continue from its position begins with a
//! snapshot; resources outside of the snapshot are removed here.
//!
//! Before a removal the peer is asked again, since a resource that leaves a watch may have been given to another
//! region. A resource that cannot be applied is deferred on its own and tried again.
//!
//! # Limits
//! For each type 4,096 changes and 4 MiB are held, and some 32 bytes for each resource of a snapshot, which has
//! 4,000,000 at most; an unread stream holds 1 MiB. A message has at most 17 MiB, or twice `store.max_resource_bytes`
//! and 1 MiB if that is more; a larger one stops its type.
//!
//! # Cost
//! One connection for each peer, and one stream for each type that may be replicated. Nothing is polled; an unreachable
//! peer is tried again after a growing wait.

mod changeset;
mod conditions;
mod error;
mod follower;
mod link;
mod options;
mod peer;
mod report;
mod session;

use std::sync::Arc;

use mortise_resource::data::RegionStatusResponse;
use mortise_service::ResourceService;
use tokio::task::JoinSet;

use crate::{peer::Peer, report::PeerReport};

pub use options::PeerOptions;

/// The replication from all peers. Cheap to clone.
#[derive(Clone)]
pub struct Replication {
    service: ResourceService,
    peers: Arc<[Arc<PeerReport>]>,
    options: Arc<[PeerOptions]>,
}

impl Replication {
    /// Prepares the replication from these peers. [`Replication::run`] starts it, unless the service has no region.
    #[must_use]
    pub fn new(service: ResourceService, mut options: Vec<PeerOptions>) -> Self {
        options.sort_by(|a, b| a.name.cmp(&b.name));
        let peers = options.iter().map(|peer| Arc::new(PeerReport::new(&peer.name, &peer.address))).collect();
        Self { service, peers, options: options.into() }
    }

    /// The state of each peer's replicas.
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
        if let Err(e) = self.service.replicas().retain_peers(&peers).await {
            tracing::warn!("the records of former peers cannot be removed before the next start: {e}");
        }
        if self.service.region().is_none() {
            return;
        }
        let mut running = JoinSet::new();
        for (options, report) in self.options.iter().zip(self.peers.iter()) {
            running.spawn(Peer::new(self.service.clone(), options.clone(), report.clone()).run());
        }
        // Passes on a panic of a task, which then ends the process.
        running.join_all().await;
    }
}
