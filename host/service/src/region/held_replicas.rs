//! Questions about the replicas from a peer that are stored here.

use std::collections::HashSet;

use mortise_resource::{Error, pb};
use mortise_store::StoreError;

use super::{
    apply::ReplicatedChange,
    decide::number,
    held_unit,
    incoming::uid_number,
    progress::{OwnerStore, ReplicationProgress},
    replicas::Replicas,
};
use crate::{
    call::store_fault::store_fault,
    core::ids::{query_everywhere, uid_of},
    rules::region::{replica_origin, syncing_of},
};

/// The replicas of a type from a peer.
#[derive(Debug, Clone, Default)]
pub struct HeldReplicas {
    /// Number of those that the peer has not given to another region.
    pub number: usize,
    /// Ids of those with other uids than the expected ones, given ones included.
    pub others: Vec<pb::Id>,
    /// Number of `others` that the peer has not given to another region.
    pub missing: usize,
}

impl Replicas {
    /// Returns the number of a type's replicas from a peer, and the ids of those with other uids than these.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn replicas_other_than(
        &self,
        peer: &str,
        followed_type: &pb::Type,
        uids: &HashSet<u128>,
    ) -> Result<HeldReplicas, Error> {
        let mut cursor = self.core.backend.scan(&query_everywhere(followed_type)).await.map_err(failed)?;
        let mut held = HeldReplicas::default();
        while let Some(page) = cursor.next().await.map_err(failed)? {
            for found in page {
                let meta = found.decode_meta()?;
                let Some(syncing) = syncing_of(meta.as_ref()).filter(|syncing| syncing.copied_from == peer) else {
                    continue;
                };
                // A held namespace has no counterpart at its owner any more.
                if held_unit::is_held(&found) {
                    continue;
                }
                let is_peers = usize::from(syncing.owning_region == peer);
                held.number += is_peers;
                if !uids.contains(&uid_number(found.uid())) {
                    held.missing += is_peers;
                    held.others.extend(found.decode_id()?);
                }
            }
        }
        Ok(held)
    }

    /// Returns the replicas from a peer among these names, with their uids.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn replicas_named(&self, peer: &str, names: &[&pb::Id]) -> Result<Vec<pb::Id>, Error> {
        let mut found = Vec::new();
        for name in names {
            if let Some(stored) = self.stored(name).await?.filter(|stored| replica_origin(stored) == peer) {
                found.extend(stored.id);
            }
        }
        Ok(found)
    }

    /// Returns the number of replicas from a peer that these changes would replace by another incarnation, which is not
    /// a later one of the same store: an owner may delete a resource and create it again.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn replaced_by(
        &self,
        progress: &ReplicationProgress,
        changes: &[ReplicatedChange],
    ) -> Result<usize, Error> {
        let mut replaced = 0;
        for change in changes {
            let ReplicatedChange::Put(incoming) = change else { continue };
            let Some(id) = incoming.id.as_ref().filter(|id| id.r#type.is_some()) else { continue };
            let Some(stored) = self.stored(id).await? else { continue };
            let is_other = uid_of(&stored) != id.uid && replica_origin(&stored) == progress.peer();
            replaced += usize::from(is_other && !is_later(&stored, &incoming.version, &progress.store));
        }
        Ok(replaced)
    }

    /// Reads the resource with a name, and any uid.
    async fn stored(&self, id: &pb::Id) -> Result<Option<pb::Resource>, Error> {
        let name = pb::Id { uid: String::new(), ..id.clone() };
        let stored = self.core.stored(&name).await.map_err(failed)?;
        Ok(stored.map(|stored| stored.decode()).transpose()?)
    }
}

/// Whether a version comes after that of a replica, by the count of one store.
fn is_later(replica: &pb::Resource, version: &str, store: &OwnerStore) -> bool {
    !store.id.is_empty()
        && syncing_of(replica.meta.as_deref())
            .is_some_and(|syncing| syncing.owner_store == store.id && number(&syncing.owner_version) < number(version))
}

fn failed(error: StoreError) -> Error {
    store_fault("failed to read replicas", &error)
}
