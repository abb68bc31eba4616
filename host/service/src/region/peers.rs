//! The stored state of the regions that replicas are pulled from: type `mortise.v1.RegionPeer`, one for each peer. Its
//! conditions can be read, watched and waited for like those of any resource.
//!
//! It also has the store to which the replicas from the peer are bound. Without that, the store of a stored progress
//! counts, so a peer that leaves the settings for a while comes back under the same rules.
//!
//! # Contract
//! Exactly the peers of the settings have one.
//!
//! # Limits
//! No quota holds for them; the settings bound their number.

use mortise_resource::{
    Error,
    data::RegionPeer,
    pb::{self, Condition},
    types,
};
use mortise_store::{Batch, Consistency, Mutation, StoreError};
use prost::Message as _;

use super::replicas::Replicas;
use crate::{
    call::store_fault::store_fault,
    core::{MAX_CAS_ATTEMPTS, ids},
};

/// Key of the status entry.
const STATUS_KEY: &str = "mortise";
const TYPE_URL: &str = "type.googleapis.com/mortise.v1.RegionPeer";

/// The store to which the replicas from a peer are bound.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AcceptedStore {
    /// Its id; empty without one.
    pub id: String,
    /// Whether the next snapshots may remove any number of replicas.
    pub accepts_removals: bool,
}

impl Replicas {
    /// Returns the store to which the replicas from a peer are bound.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn accepted_store(&self, peer: &str) -> Result<AcceptedStore, Error> {
        let fault = |e: StoreError| store_fault("failed to read a peer", &e);
        let stored = match self.core.backend.read(Consistency::Consistent, &id(peer)).await {
            Ok(stored) => content(&stored),
            Err(StoreError::NotFound) => RegionPeer::default(),
            Err(e) => return Err(fault(e)),
        };
        let mut accepted = AcceptedStore { id: stored.store_id, accepts_removals: stored.accepts_removals };
        if accepted.id.is_empty() {
            let known = self.progress_of(peer).await.map_err(fault)?;
            accepted.id = known.into_iter().map(|(_, store)| store).find(|id| !id.is_empty()).unwrap_or_default();
        }
        Ok(accepted)
    }

    /// Binds the replicas from a peer to a store, durably.
    ///
    /// # Errors
    /// Faults of the store, and a full disk.
    pub async fn accept_store(&self, name: &str, address: &str, accepted: &AcceptedStore) -> Result<(), Error> {
        let change = |data: &mut RegionPeer, _: &mut pb::Resource| {
            data.store_id.clone_from(&accepted.id);
            data.accepts_removals = accepted.accepts_removals;
        };
        self.change_peer(name, address, change).await.map_err(|e| store_fault("failed to store a peer", &e))
    }

    /// Stores a peer's conditions, unless they are stored already.
    ///
    /// # Errors
    /// Faults of the store, and a full disk.
    pub async fn record_peer(&self, name: &str, address: &str, conditions: Vec<Condition>) -> Result<(), Error> {
        let change = |_: &mut RegionPeer, resource: &mut pb::Resource| {
            if resource.status.get(STATUS_KEY).is_none_or(|status| status.conditions != conditions) {
                let updated_at = Some(ids::timestamp());
                let observed_generation = resource.generation.clone();
                let status = pb::Status { observed_generation, conditions: conditions.clone(), updated_at };
                resource.status.insert(STATUS_KEY.into(), status);
            }
        };
        self.change_peer(name, address, change).await.map_err(|e| store_fault("failed to store a peer", &e))
    }

    /// Removes the stored state of all other peers.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn retain_peers(&self, names: &[&str]) -> Result<(), Error> {
        let query = ids::query_everywhere(&types::region_peer().to_pb());
        let fault = |e: StoreError| store_fault("failed to remove a peer", &e);
        for stored in self.core.backend.list(Consistency::Consistent, &query).await.map_err(fault)? {
            let id = stored.id.unwrap_or_default();
            if !names.contains(&id.name.as_str()) {
                let delete = Mutation::Delete { id, version: stored.version };
                self.core.backend.commit(Batch::single(delete)).await.map_err(fault)?;
            }
        }
        Ok(())
    }

    /// Changes the resource of a peer, unless the change has no effect.
    async fn change_peer(
        &self,
        name: &str,
        address: &str,
        change: impl Fn(&mut RegionPeer, &mut pb::Resource),
    ) -> Result<(), StoreError> {
        let mut attempts = 0;
        loop {
            let stored = match self.core.backend.read(Consistency::Consistent, &id(name)).await {
                Ok(stored) => Some(stored),
                Err(StoreError::NotFound) => None,
                Err(e) => return Err(e),
            };
            let fresh = || pb::Resource { id: Some(pb::Id { uid: ids::ulid(), ..id(name) }), ..Default::default() };
            let mut next = stored.clone().unwrap_or_else(fresh);
            let mut data = content(&next);
            address.clone_into(&mut data.address);
            let before = next.data.take();
            change(&mut data, &mut next);
            let value = data.encode_to_vec();
            if before.as_ref().is_none_or(|any| any.value != value) {
                next.generation = ids::ulid();
            }
            if let Some(status) = next.status.get_mut(STATUS_KEY) {
                status.observed_generation.clone_from(&next.generation);
            }
            next.data = Some(prost_types::Any { type_url: TYPE_URL.into(), value });
            if stored.as_ref() == Some(&next) {
                return Ok(());
            }
            attempts += 1;
            match self.core.backend.commit(Batch::single(Mutation::Put(Box::new(next)))).await {
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) if attempts < MAX_CAS_ATTEMPTS => {}
                committed => return committed.map(drop),
            }
        }
    }
}

fn id(name: &str) -> pb::Id {
    pb::Id {
        uid: String::new(),
        name: name.to_owned(),
        r#type: Some(types::region_peer().to_pb()),
        tenancy: Some(pb::Tenancy::default()),
    }
}

fn content(resource: &pb::Resource) -> RegionPeer {
    let data = resource.data.as_ref().map(|any| RegionPeer::decode(any.value.as_slice()));
    data.and_then(Result::ok).unwrap_or_default()
}
