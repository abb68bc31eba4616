//! The stored state of the regions that replicas are pulled from: type `mortise.v1.RegionPeer`, one for each peer. Its
//! conditions can be read, watched and waited for like those of any resource.
//!
//! # Contract
//! Exactly the peers of the settings have one. One task writes each.
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
use crate::{call::store_fault::store_fault, core::ids};

/// Key of the status entry.
const STATUS_KEY: &str = "mortise";
const TYPE_URL: &str = "type.googleapis.com/mortise.v1.RegionPeer";

impl Replicas {
    /// Stores a peer's conditions, unless they are stored already.
    ///
    /// # Errors
    /// Faults of the store, and a full disk.
    pub async fn record_peer(&self, name: &str, address: &str, conditions: Vec<Condition>) -> Result<(), Error> {
        let next = self.next_peer(name, address, conditions).await;
        let committed = match next {
            Ok(Some(next)) => self.core.backend.commit(Batch::single(Mutation::Put(Box::new(next)))).await.map(drop),
            Ok(None) => Ok(()),
            Err(e) => Err(e),
        };
        committed.map_err(|e| store_fault("failed to store a peer", &e))
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

    /// Returns the changed resource of a peer; `None` if nothing has changed.
    async fn next_peer(
        &self,
        name: &str,
        address: &str,
        conditions: Vec<Condition>,
    ) -> Result<Option<pb::Resource>, StoreError> {
        let id = pb::Id {
            uid: String::new(),
            name: name.to_owned(),
            r#type: Some(types::region_peer().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
        };
        let value = RegionPeer { address: address.to_owned() }.encode_to_vec();
        let mut resource = match self.core.backend.read(Consistency::Consistent, &id).await {
            Ok(stored) => stored,
            Err(StoreError::NotFound) => {
                pb::Resource { id: Some(pb::Id { uid: ids::ulid(), ..id }), ..pb::Resource::default() }
            }
            Err(e) => return Err(e),
        };
        let has_data = resource.data.as_ref().is_some_and(|any| any.value == value);
        let has_conditions = resource.status.get(STATUS_KEY).is_some_and(|status| status.conditions == conditions);
        if has_data && has_conditions {
            return Ok(None);
        }
        if !has_data {
            resource.generation = ids::ulid();
            resource.data = Some(prost_types::Any { type_url: TYPE_URL.into(), value });
        }
        let updated_at = Some(ids::timestamp());
        let status = pb::Status { observed_generation: resource.generation.clone(), conditions, updated_at };
        resource.status.insert(STATUS_KEY.into(), status);
        Ok(Some(resource))
    }
}
