//! Restarts of replication: after replicas were deleted here with their unit, their types begin again with a snapshot,
//! since a peer does not send unchanged resources again.
//!
//! # Contract
//! [`Replicas::restart_replicas`] drops the progress of types before their replicas are deleted. A change is applied
//! either before that, and its replica is deleted too, or after the restart of the session. By then the unit is known
//! to be marked: the change is deferred, even for replicas that still exist here, until their place exists again. So a
//! crash in between loses nothing.

use std::collections::{BTreeMap, BTreeSet};

use mortise_resource::{Code, EncodedResource, Error, meta, pb};
use mortise_store::StoreError;
use parking_lot::Mutex;
use tokio::sync::RwLockReadGuard;

use super::{progress::ReplicationProgress, replicas::Replicas, replicated_type::ReplicatedType};
use crate::{
    call::store_fault::store_fault,
    core::ids::tenancy_of,
    rules::{
        TenancyUnits, UnitError,
        builtin_types::TENANCY_FINALIZER,
        region::{self, replica_origin, syncing_of},
    },
};

impl Replicas {
    /// Returns a guard that prevents a restart while it lives.
    ///
    /// # Errors
    /// `Aborted`: the replication has restarted since the progress was read.
    pub(super) async fn use_progress(&self, progress: &ReplicationProgress) -> Result<RwLockReadGuard<'_, ()>, Error> {
        let guard = self.restarts.read().await;
        match self.restarts.number(&progress.key) == progress.restarts {
            true => Ok(guard),
            false => Err(Error::new(Code::Aborted, "a unit with replicas was emptied here; replication restarts")),
        }
    }

    /// Resolves at the restart of this progress's replication, which makes the progress useless.
    pub async fn restarted(&self, progress: &ReplicationProgress) {
        let mut numbers = self.restarts.numbers.subscribe();
        let is_other = |numbers: &BTreeMap<ReplicatedType, u64>| {
            numbers.get(&progress.key).copied().unwrap_or_default() != progress.restarts
        };
        if numbers.wait_for(is_other).await.is_err() {
            std::future::pending().await
        }
    }

    /// Drops the progress of every type from a peer: each begins again with a snapshot, from any store.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn restart_peer(&self, peer: &str) -> Result<(), Error> {
        let fault = |e: StoreError| store_fault("failed to restart the replication", &e);
        let keys = self.progress_of(peer).await.map_err(fault)?;
        self.restart_replicas(&keys.into_iter().map(|(key, _)| key).collect()).await.map_err(fault)
    }

    /// Drops the progress of types, and makes their watches start with a snapshot.
    pub(super) async fn restart_replicas(&self, types: &BTreeSet<ReplicatedType>) -> Result<(), StoreError> {
        if types.is_empty() {
            return Ok(());
        }
        let _changing = self.restarts.lock.write().await;
        for key in types {
            self.drop_progress(key).await?;
        }
        self.restarts.numbers.send_modify(|numbers| {
            for key in types {
                *numbers.entry(key.clone()).or_default() += 1;
            }
        });
        Ok(())
    }

    /// Prepares replicas that are about to be deleted with their unit: their types restart, once for each unit, and
    /// their finalizers are dropped, since controllers set them for the owner's region.
    ///
    /// If the unit itself is a replica, its owner's resources in it need no restart: they are deleted there with the
    /// unit.
    ///
    /// # Errors
    /// Faults of the store; a resource that cannot be decoded.
    pub(crate) async fn release_replicas(
        &self,
        unit: &pb::Resource,
        page: &[EncodedResource],
        restarted: &Mutex<BTreeSet<ReplicatedType>>,
    ) -> Result<(), StoreError> {
        if self.core.region().is_none() {
            return Ok(());
        }
        let mut types = BTreeSet::new();
        for replica in page {
            let meta = replica.decode_meta()?;
            let Some(syncing) = syncing_of(meta.as_ref()).filter(|syncing| !syncing.copied_from.is_empty()) else {
                continue;
            };
            let id = replica.id();
            types.insert(ReplicatedType {
                peer: syncing.copied_from.clone(),
                group: id.group.to_owned(),
                kind: id.kind.to_owned(),
            });
        }
        types.retain(|key| !restarted.lock().contains(key));
        if !types.is_empty() && !replica_origin(unit).is_empty() && !self.is_around_marked(unit).await? {
            types.retain(|key| key.peer != replica_origin(unit));
        }
        self.restart_replicas(&types).await?;
        restarted.lock().append(&mut types);
        for replica in page.iter().filter(|replica| region::is_foreign(&self.core, replica)) {
            self.drop_finalizers(replica).await?;
        }
        Ok(())
    }

    /// Whether the partition of a namespace is marked here, so that the namespace is deleted without regard to its
    /// owner.
    pub(crate) async fn is_around_marked(&self, unit: &pb::Resource) -> Result<bool, StoreError> {
        let id = unit.id.clone().unwrap_or_default();
        match TenancyUnits::find(&self.core, tenancy_of(&id)).await {
            Ok(units) => Ok(units.marked),
            Err(UnitError::Missing { .. }) => Ok(true),
            Err(UnitError::Store(e)) => Err(e),
        }
    }

    /// Removes the finalizers of a replica, except the one that keeps a unit until it is empty. A replica that changes
    /// meanwhile is left to the next pass.
    async fn drop_finalizers(&self, replica: &EncodedResource) -> Result<(), StoreError> {
        let mut stored = replica.decode()?;
        if meta::finalizers(&stored.metadata).iter().all(|name| *name == TENANCY_FINALIZER) {
            return Ok(());
        }
        let keeps_unit = meta::finalizers(&stored.metadata).contains(TENANCY_FINALIZER);
        stored.metadata.remove(meta::FINALIZERS);
        if keeps_unit {
            meta::add_finalizer(&mut stored.metadata, TENANCY_FINALIZER);
        }
        match self.core.backend.write_cas(stored).await {
            Ok(_) | Err(StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::NotFound) => Ok(()),
            Err(e) => Err(e),
        }
    }
}
