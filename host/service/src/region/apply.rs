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

use std::collections::BTreeMap;

use mortise_resource::{Code, Error, pb, types};
use mortise_store::{Batch, Expectation, ExpectedId, StoreError, TypeKey};

use super::{
    incoming::{Deferral, followed_id},
    progress::ReplicationProgress,
    record::{Change, Records},
    replicas::Replicas,
};
use crate::{call::store_fault::store_fault, core::MAX_CAS_ATTEMPTS};

/// A change by the owner.
#[derive(Debug, Clone)]
pub enum ReplicatedChange {
    /// The new state of the resource.
    Put(Box<pb::Resource>),
    /// The owner has given the resource to another region; its state since.
    HandOver(Box<pb::Resource>),
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
pub(super) struct ApplyOptions {
    /// Whether the changes are of a snapshot.
    pub(super) is_snapshot: bool,
    stores_progress: bool,
    /// Reason why the store refuses changes of this name, if it was asked already.
    pub(super) not_stored: Option<String>,
}

impl ReplicatedChange {
    /// Returns the id of the changed resource.
    #[must_use]
    pub fn id(&self) -> pb::Id {
        match self {
            Self::Put(resource) | Self::HandOver(resource) => resource.id.clone().unwrap_or_default(),
            Self::Remove { id, .. } => id.clone(),
        }
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
        let records = Records::begin(&self.core, format!("region {}", progress.peer()), "Copy").await?;
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
                let decision = self.decide(&registry, &next, &id, change, options).await?;
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
pub(super) mod tests;
