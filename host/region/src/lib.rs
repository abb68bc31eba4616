//! Replicas of resources that other regions own (docs/regions.md).
//!
//! # Contract
//! A server pulls from each peer the resources that the peer owns and that may be in this region, type by type, through
//! the peer's own watches. Resources that the peer has from third regions are left out, so nothing circulates. The
//! service applies the changes of a message and stores the position of the watch in one commit, so that a crash of
//! either side loses, doubles or revives nothing. A watch that cannot continue from its position begins with a
//! snapshot; resources outside of the snapshot are removed here.
//!
//! Before anything is taken from a peer, its region and the id of its store are compared with the known ones (`trust`).
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
#[cfg(test)]
mod simulation;
mod trust;

use std::sync::Arc;

use mortise_resource::{
    Code, Error,
    data::{self, RegionStatusResponse},
};
use mortise_service::ResourceService;
use tokio::task::JoinSet;

use crate::{
    link::{Dial, Link},
    peer::Peer,
    report::PeerReport,
    trust::RemovalLimit,
};

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
        let report = |peer: &PeerOptions| {
            let limit = RemovalLimit { percent: peer.max_removed_percent, always: peer.max_removed };
            Arc::new(PeerReport::new(&peer.name, &peer.address, limit))
        };
        let peers = options.iter().map(report).collect();
        Self { service, peers, options: options.into() }
    }

    /// The state of each peer's replicas.
    #[must_use]
    pub fn report(&self) -> RegionStatusResponse {
        let region = self.service.region().unwrap_or_default().to_owned();
        RegionStatusResponse { region, peers: self.peers.iter().map(|peer| peer.to_pb()).collect() }
    }

    /// Identifies this server to a peer.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn identify(&self) -> Result<data::IdentifyResponse, Error> {
        let backend = self.service.backend();
        let stats = backend.stats().await.map_err(|e| Error::new(Code::Internal, format!("failed read: {e}")))?;
        Ok(data::IdentifyResponse {
            region: self.service.region().unwrap_or_default().to_owned(),
            store_id: backend.store_id().to_string(),
            newest_version: stats.head.sequence,
        })
    }

    /// Accepts the present store of a stopped peer, and the removals of its next snapshots.
    ///
    /// # Errors
    /// `NotFound`: not a peer. `FailedPrecondition`: the server at its address is of another region, or has another
    /// store than the request names. Faults of the store.
    pub async fn accept(&self, request: data::AcceptPeerRequest) -> Result<data::AcceptPeerResponse, Error> {
        let peer = self.peer(&request.peer)?;
        let (store_id, was_stopped) = peer.trust.accept(&self.service, &request.store_id).await?;
        Ok(data::AcceptPeerResponse { store_id, was_stopped })
    }

    /// Makes the replicas from a lost region this region's own, or removes them.
    ///
    /// # Errors
    /// `FailedPrecondition`: the region is a peer that answers with its known store, or this server has no region.
    /// `InvalidArgument`: the request names this region, or no action. Faults of the store.
    pub async fn adopt(&self, request: data::AdoptRequest) -> Result<data::AdoptResponse, Error> {
        if let Ok(peer) = self.peer(&request.from) {
            let shown = peer.to_pb();
            // One type may fail while the peer answers.
            let is_lost = match shown.state() {
                data::PeerState::Stopped => !peer.trust.is_bound_store(),
                data::PeerState::Failed => shown.unreachable_since.is_some(),
                _ => false,
            };
            if !is_lost {
                let text = format!(
                    "region {:?} is a peer that answers; remove region.peers.{} from the settings if it is lost",
                    request.from, request.from
                );
                return Err(Error::new(Code::FailedPrecondition, text));
            }
        }
        self.service.replicas().adopt(&request).await
    }

    fn peer(&self, name: &str) -> Result<&PeerReport, Error> {
        let known = self.peers.iter().find(|peer| peer.name() == name);
        let text = || format!("{name:?} is not a peer of this server; mortise regions lists the peers");
        known.map(|peer| &**peer).ok_or_else(|| Error::not_found(text()))
    }

    /// Pulls until the service stops.
    pub async fn run(self) {
        let max_bytes = self.service.max_resource_bytes();
        let options = self.options.clone();
        let link = move |peer: &str| {
            let options = options.iter().find(|known| known.name == peer);
            options.map(|options| Arc::new(Link::new(options.clone(), max_bytes)) as Arc<dyn Dial>)
        };
        self.run_over(link).await;
    }

    /// Pulls over these links until the service stops.
    async fn run_over(self, link: impl Fn(&str) -> Option<Arc<dyn Dial>>) {
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
            let Some(link) = link(&options.name) else { continue };
            running.spawn(Peer::new(self.service.clone(), options.clone(), link, report.clone()).run());
        }
        // Passes on a panic of a task, which then ends the process.
        running.join_all().await;
    }
}
