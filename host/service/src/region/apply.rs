//! Replicas of resources that other regions own: [`Replicas::apply`] alone writes them here, as their owner has them.
//!
//! # Contract
//! A replica has the uid, the generation and the meta of the owner's resource, and a version of this store. Its
//! `meta.syncing` has its origin, and the owner's version. Changes are committed together with the progress that covers
//! them. A change that is not newer than the replica has no effect, so each may arrive twice.
//!
//! This region's own policy limits the trust in a peer: a resource that does not belong to the peer by the policy, or
//! may not be here, is not written. Changes of another type than the followed one are refused. A resource under the
//! same name that was not replicated from the peer, in this incarnation, is never changed: that is a conflict. A change
//! that cannot be applied is deferred by itself, and named in the progress; the rest goes on. Replicas for a unit that
//! is marked for deletion are deferred, too, since the unit is about to be emptied.
//!
//! # Limits
//! [`super::progress::MAX_DEFERRED`] names in a progress. Quotas hold for replicas as for writes, and not for the
//! progress.

use std::collections::{BTreeMap, HashSet};

use mortise_resource::{Code, Error, data::HeldBackReason, goten::SyncingMeta, pb, types};
use mortise_store::{Batch, Consistency, Expectation, ExpectedId, Mutation, StoreError, TypeKey};

use super::{
    incoming::{Deferral, ReplicaError, check, check_policy, followed_id, uid_number},
    progress::ReplicationProgress,
    record::{Change, Records},
    replicas::Replicas,
};
use crate::{
    call::store_fault::store_fault,
    core::{
        MAX_CAS_ATTEMPTS,
        ids::{query_everywhere, tenancy_of},
    },
    registry::Registry,
    rules::{
        TenancyUnits, UnitError,
        region::{self, Placement, owning_region, replica_origin, syncing_of},
        shards, tombstone,
    },
};

/// A change by the owner.
#[derive(Debug, Clone)]
pub enum ReplicatedChange {
    /// The new state of the resource.
    Put(Box<pb::Resource>),
    /// The incarnation was deleted, or has left this region.
    Remove {
        /// Its id, with the uid.
        id: pb::Id,
        /// Whether the owner deleted the resource, so that its children here are deleted too.
        deleted: bool,
    },
}

/// The outcome of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ApplySummary {
    /// Written replicas.
    pub written: u64,
    /// Removed replicas.
    pub removed: u64,
    /// Deferred resources.
    pub deferred: u64,
    /// Changes that no honest peer sends: of other types, or with invalid ids.
    pub refused: u64,
}

/// Options of one application of changes.
struct ApplyOptions {
    /// Whether the changes are of a snapshot.
    is_snapshot: bool,
    stores_progress: bool,
    /// Reason why the store refuses changes of this name, if it was asked already.
    not_stored: Option<String>,
}

/// The effect of a change; the default is nothing.
#[derive(Default)]
struct Decision {
    mutations: Vec<Mutation>,
    expect: Vec<Expectation>,
    change: Option<Change>,
    deferred: Option<Deferral>,
}

impl ReplicatedChange {
    /// Returns the id of the changed resource.
    #[must_use]
    pub fn id(&self) -> pb::Id {
        match self {
            Self::Put(resource) => resource.id.clone().unwrap_or_default(),
            Self::Remove { id, .. } => id.clone(),
        }
    }
}

impl Decision {
    fn removal(stored: &pb::Resource, deleted: bool) -> Self {
        let id = stored.id.clone().unwrap_or_default();
        let mutations = match deleted {
            true => tombstone::removal(stored),
            false => vec![Mutation::Delete { id: id.clone(), version: stored.version.clone() }],
        };
        let change = Change { id, before: stored.generation.clone(), after: String::new() };
        Self { mutations, change: Some(change), ..Self::default() }
    }
}

impl Replicas {
    /// Applies changes of one type from a peer, and stores the progress, in one commit. For each name, the changes have
    /// the present incarnation, or any number of removed ones. Deferred names are noted in the progress. In a snapshot
    /// the peer's versions may start again: any other version then replaces a replica. Without a change, the progress
    /// is stored every ten minutes only.
    ///
    /// # Errors
    /// `Unavailable`: the audit log takes no records. `Aborted`: a conflict in each of ten attempts, or the replication
    /// has restarted. Faults of the store. After an error some changes may have been applied; the same changes may be
    /// sent again.
    pub async fn apply(
        &self,
        progress: &mut ReplicationProgress,
        changes: &[ReplicatedChange],
        is_snapshot: bool,
    ) -> Result<ApplySummary, Error> {
        let _used = self.use_progress(progress).await?;
        let options = ApplyOptions { is_snapshot, stores_progress: true, not_stored: None };
        let mut made = Vec::new();
        if changes.is_empty() {
            return self.try_apply(progress, changes, &options, &mut made).await.map_err(|e| failed(&e));
        }
        let records = Records::begin(&self.core, progress.peer()).await?;
        let mut outcome = self.try_apply(progress, changes, &options, &mut made).await;
        if outcome.as_ref().is_err_and(is_of_one) {
            outcome = self.apply_one_by_one(progress, changes, is_snapshot, &mut made).await;
        }
        match outcome.map_err(|e| failed(&e)) {
            Err(error) if made.is_empty() => {
                records.fail(error.code).await;
                Err(error)
            }
            outcome => {
                records.end(&self.core, &made).await;
                outcome
            }
        }
    }

    /// Applies each change by itself, since one of them fails; the progress comes last.
    async fn apply_one_by_one(
        &self,
        progress: &mut ReplicationProgress,
        changes: &[ReplicatedChange],
        is_snapshot: bool,
        made: &mut Vec<Change>,
    ) -> Result<ApplySummary, StoreError> {
        let mut sum = ApplySummary::default();
        for change in changes {
            let single = std::slice::from_ref(change);
            let mut options = ApplyOptions { is_snapshot, stores_progress: false, not_stored: None };
            let mut outcome = self.try_apply(progress, single, &options, made).await;
            if let Err(e) = &outcome
                && is_of_one(e)
            {
                options.not_stored = Some(e.to_string());
                outcome = self.try_apply(progress, single, &options, made).await;
            }
            sum = sum.plus(outcome?);
        }
        progress.is_dirty = true;
        let options = ApplyOptions { is_snapshot, stores_progress: true, not_stored: None };
        self.try_apply(progress, &[], &options, made).await?;
        Ok(sum)
    }

    /// Applies changes in one commit, with the progress or without, and adds the changes made to `made`.
    async fn try_apply(
        &self,
        progress: &mut ReplicationProgress,
        changes: &[ReplicatedChange],
        options: &ApplyOptions,
        made: &mut Vec<Change>,
    ) -> Result<ApplySummary, StoreError> {
        let registry = self.core.types();
        let mut attempts = 0;
        loop {
            let mut next = progress.clone();
            let (mut summary, mut mutations, mut changed) = (ApplySummary::default(), Vec::new(), Vec::new());
            let mut expect: BTreeMap<(String, String, String, String), Expectation> = BTreeMap::new();
            for change in changes {
                let id = match followed_id(&registry, &next.followed_type, &change.id()) {
                    Ok(id) => id,
                    Err(fault) => {
                        tracing::debug!(peer = next.peer(), "a change is refused: {fault}");
                        summary.refused += 1;
                        continue;
                    }
                };
                next.deferred.remove(&id);
                let decision = self.decide(&registry, next.peer(), &id, change, options).await?;
                mutations.extend(decision.mutations);
                for expected in decision.expect {
                    let ExpectedId { type_key, partition, namespace, name, .. } = &expected.id;
                    let key = (type_key.kind.clone(), partition.clone(), namespace.clone(), name.clone());
                    expect.insert(key, expected);
                }
                if let Some(change) = decision.change {
                    let is_removal = change.after.is_empty();
                    *(if is_removal { &mut summary.removed } else { &mut summary.written }) += 1;
                    changed.push(change);
                }
                if let Some(Deferral { reason, detail }) = decision.deferred {
                    summary.deferred += 1;
                    next.deferred.add(id, reason, detail, self.deferred_room());
                }
            }
            next.is_dirty |= next.deferred != progress.deferred;
            if options.stores_progress && (!mutations.is_empty() || next.is_due()) {
                mutations.push(self.progress_mutation(&next).await?);
                next.stored();
            }
            let unlimited = Some(TypeKey::from(&types::region_progress().to_pb()));
            let batch = Batch { expect: expect.into_values().collect(), unlimited, ..Batch::new(mutations).limited() };
            let committed = match batch.mutations.is_empty() {
                true => Ok(()),
                false => self.core.backend.commit(batch).await.map(drop),
            };
            attempts += 1;
            match committed {
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::ExpectationFailed { .. })
                    if attempts < MAX_CAS_ATTEMPTS => {}
                Err(e) => return Err(e),
                Ok(()) => {
                    *progress = next;
                    made.append(&mut changed);
                    return Ok(summary);
                }
            }
        }
    }

    /// Decides the effect of a change by the stored resource.
    async fn decide(
        &self,
        registry: &Registry,
        peer: &str,
        id: &pb::Id,
        change: &ReplicatedChange,
        options: &ApplyOptions,
    ) -> Result<Decision, StoreError> {
        let name = pb::Id { uid: String::new(), ..id.clone() };
        let stored = match self.core.backend.read(Consistency::Consistent, &name).await {
            Ok(stored) => Some(stored),
            Err(StoreError::GroupVersionMismatch { stored, .. }) => Some(stored.decode()?),
            Err(StoreError::NotFound) => None,
            Err(e) => return Err(e),
        };
        let is_same = stored.as_ref().is_some_and(|stored| uid(stored) == id.uid);
        let replica = stored.as_ref().filter(|stored| replica_origin(stored) == peer);
        let incoming = match change {
            ReplicatedChange::Put(resource) => resource,
            ReplicatedChange::Remove { deleted, .. } => {
                return Ok(replica
                    .filter(|_| is_same)
                    .map(|replica| Decision::removal(replica, *deleted))
                    .unwrap_or_default());
            }
        };
        let units = match self.units_for_replica(registry, peer, id, incoming, stored.as_ref()).await {
            Ok(units) => units,
            Err(ReplicaError::Store(error)) => return Err(error),
            Err(ReplicaError::Deferred(deferral)) => {
                // Whatever the fault of the present incarnation, the earlier one is gone.
                let removal = replica.filter(|_| !is_same).map(|replica| Decision::removal(replica, true));
                return Ok(Decision { deferred: Some(deferral), ..removal.unwrap_or_default() });
            }
        };
        if let Some(replica) = replica.filter(|_| is_same) {
            let (had, has) = (owner_version(replica), incoming.version.as_str());
            if had == has || (!options.is_snapshot && number(had) >= number(has)) {
                return Ok(Decision::default());
            }
        }
        if let Some(what) = &options.not_stored {
            let removal = replica.filter(|_| !is_same).map(|replica| Decision::removal(replica, true));
            let deferred = Some(Deferral::new(HeldBackReason::Store, what.clone()));
            return Ok(Decision { deferred, ..removal.unwrap_or_default() });
        }
        let mut replica = (**incoming).clone();
        replica.id = Some(id.clone());
        replica.version.clear();
        let mut mutations = Vec::new();
        match &stored {
            Some(stored) if is_same => replica.version.clone_from(&stored.version),
            Some(stored) => mutations = tombstone::removal(stored),
            None => {}
        }
        let change = Change {
            id: id.clone(),
            before: stored.as_ref().map_or_else(String::new, |stored| stored.generation.clone()),
            after: replica.generation.clone(),
        };
        let meta = replica.meta.get_or_insert_default();
        meta.syncing = Some(SyncingMeta {
            copied_from: peer.to_owned(),
            owner_version: incoming.version.clone(),
            ..meta.syncing.take().unwrap_or_default()
        });
        shards::set(&self.core.options.placement.rings, &mut replica);
        mutations.push(Mutation::Put(Box::new(replica)));
        Ok(Decision { mutations, expect: units.expect, change: Some(change), deferred: None })
    }

    /// Looks up the units of a replica's tenancy; or else returns the reason to defer it.
    async fn units_for_replica(
        &self,
        registry: &Registry,
        peer: &str,
        id: &pb::Id,
        incoming: &pb::Resource,
        stored: Option<&pb::Resource>,
    ) -> Result<TenancyUnits, ReplicaError> {
        stored.map_or(Ok(()), |stored| check_conflict(stored, peer, &id.uid))?;
        let kind = check(registry, id, incoming)?;
        let units = match TenancyUnits::find(&self.core, tenancy_of(id)).await {
            Ok(units) if !units.marked => units,
            Ok(_) => return Err(Deferral::new(HeldBackReason::Place, "its place is marked for deletion here").into()),
            Err(UnitError::Store(e)) => return Err(e.into()),
            Err(missing) => return Err(Deferral::new(HeldBackReason::Place, missing.to_string()).into()),
        };
        let known = stored.map(owning_region).filter(|owner| !owner.is_empty()).unwrap_or(peer);
        let here = self.core.region().unwrap_or_default();
        // If the owner is not here, the peer's word counts, as it does for a region that a field names.
        let inherited = region::inherited(&self.core, registry, kind, incoming, units.policy.as_deref()).await?;
        let placement = Placement { policy: units.policy.as_deref(), inherited: &inherited };
        check_policy(kind, incoming, placement, known, (peer, here))?;
        Ok(units)
    }

    /// Returns the ids of a type's replicas from a peer with other uids than these.
    ///
    /// # Errors
    /// Faults of the store.
    pub async fn replicas_other_than(
        &self,
        peer: &str,
        followed_type: &pb::Type,
        uids: &HashSet<u128>,
    ) -> Result<Vec<pb::Id>, Error> {
        let failed = |e: StoreError| store_fault("failed to read replicas", &e);
        let mut cursor = self.core.backend.scan(&query_everywhere(followed_type)).await.map_err(failed)?;
        let mut others = Vec::new();
        while let Some(page) = cursor.next().await.map_err(failed)? {
            for found in page {
                if uids.contains(&uid_number(found.uid())) {
                    continue;
                }
                let meta = found.decode_meta()?;
                if syncing_of(meta.as_ref()).is_some_and(|syncing| syncing.copied_from == peer) {
                    others.extend(found.decode_id()?);
                }
            }
        }
        Ok(others)
    }
}

impl ApplySummary {
    fn plus(self, other: Self) -> Self {
        Self {
            written: self.written + other.written,
            removed: self.removed + other.removed,
            deferred: self.deferred + other.deferred,
            refused: self.refused + other.refused,
        }
    }
}

/// Checks that a resource here does not conflict with a peer's of its name: it is the peer's, or its former owner has
/// given it up.
fn check_conflict(stored: &pb::Resource, peer: &str, uid_there: &str) -> Result<(), Deferral> {
    let is_handed_over =
        uid(stored) == uid_there && (!replica_origin(stored).is_empty() || owning_region(stored) == peer);
    if replica_origin(stored) == peer || is_handed_over {
        return Ok(());
    }
    let owner = match owning_region(stored) {
        "" => "no region".to_owned(),
        owner => format!("region {owner:?}"),
    };
    let detail = format!("a resource of {owner} has this name here; delete or rename one of the two");
    Err(Deferral::new(HeldBackReason::Conflict, detail))
}

fn uid(resource: &pb::Resource) -> &str {
    resource.id.as_ref().map(|id| id.uid.as_str()).unwrap_or_default()
}

fn owner_version(resource: &pb::Resource) -> &str {
    syncing_of(resource.meta.as_deref()).map(|syncing| syncing.owner_version.as_str()).unwrap_or_default()
}

/// Returns a version as a number of the store.
fn number(version: &str) -> u64 {
    version.parse().unwrap_or_default()
}

/// Whether an error concerns one resource alone.
fn is_of_one(error: &StoreError) -> bool {
    matches!(error, StoreError::TooLarge { .. } | StoreError::QuotaExceeded(_) | StoreError::IncompleteId(_))
}

fn failed(error: &StoreError) -> Error {
    match error {
        StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::ExpectationFailed { .. } => {
            Error::new(Code::Aborted, "the replicas keep changing here; try again")
        }
        other => store_fault("failed to write replicas", other),
    }
}

#[cfg(test)]
#[path = "apply_tests.rs"]
mod tests;
