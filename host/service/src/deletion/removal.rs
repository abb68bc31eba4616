//! Removal of resources, each with a tombstone in the same commit; the deletion of the children follows from it.

use std::sync::Arc;

use futures::{StreamExt as _, stream};
use mortise_resource::{EncodedResource, meta, pb, types};
use mortise_store::{Batch, Consistency, Expectation, ExpectedReferrers, Mutation, StoreError};

use super::{
    deletions::{Deletions, GROUP_COMMIT_CHANGES},
    error::RemovalError,
    plan::{PlannedAction, Purpose},
};
use crate::{
    call::Caller,
    core::{MAX_CAS_ATTEMPTS, ids},
    references::renew_records,
    registry::Registry,
    rules::{deletion_rules, server_meta, tombstone},
};

impl Deletions {
    /// Deletes a resource in exactly this version, leaving a tombstone. Tombstones leave none.
    /// The deletion depends on the lease `held`, if there is one.
    pub(crate) async fn remove(&self, stored: &pb::Resource, held: Option<Arc<str>>) -> Result<(), StoreError> {
        self.remove_expecting(stored, Default::default(), "", held).await
    }

    /// Like [`Deletions::remove`], under conditions and the expectation that the referrers are still those, as part of the
    /// deletion of the resource with this uid; empty for the resource itself.
    pub(super) async fn remove_expecting(
        &self,
        stored: &pb::Resource,
        (expect, referrers): (Vec<Expectation>, Vec<ExpectedReferrers>),
        deletion: &str,
        held: Option<Arc<str>>,
    ) -> Result<(), StoreError> {
        let id = stored.id.clone().unwrap_or_default();
        let delete = Mutation::Delete { id: id.clone(), version: stored.version.clone() };
        if id.r#type.as_ref().is_some_and(|t| types::tombstone().matches(t)) {
            let batch = Batch { expect, ..Batch::single(delete) };
            return self.core.backend.commit(batch.held(held)).await.map(drop);
        }
        let with = |tombstone| Batch {
            expect: expect.clone(),
            referrers: referrers.clone(),
            held: held.clone(),
            ..Batch::new(vec![delete.clone(), Mutation::Put(Box::new(tombstone))])
        };
        match self.core.backend.commit(with(tombstone::tombstone(stored, &id.uid, deletion))).await {
            Err(StoreError::CasFailure { mutation: 1 } | StoreError::WrongUid) => {}
            other => return other.map(drop),
        }
        // A tombstone of that name exists. Either a concurrent call has just deleted the resource, or a client wrote
        // the tombstone. In the second case the children must be deleted all the same, so this tombstone gets an
        // unpredictable name.
        match self.core.backend.read(Consistency::Consistent, &id).await {
            Err(StoreError::NotFound) => Ok(()),
            _ => self.core.backend.commit(with(tombstone::tombstone(stored, &ids::ulid(), deletion))).await.map(drop),
        }
    }

    /// Deletes a resource on behalf of the host, in any stored version, without hooks and permissions. Marks a resource
    /// with finalizers instead. Returns whether the resource is gone.
    ///
    /// # Errors
    /// Faults of the store, a conflict in each of ten attempts, and blocking referrers.
    pub(crate) async fn delete_unchecked(&self, id: &pb::Id) -> Result<bool, RemovalError> {
        self.delete_for(id, Purpose::Delete).await
    }

    /// Like [`Deletions::delete_unchecked`], for another purpose.
    pub(super) async fn delete_for(&self, id: &pb::Id, purpose: Purpose<'_>) -> Result<bool, RemovalError> {
        let registry = self.core.types();
        let mut attempts = 0;
        loop {
            let Some(stored) = self.core.stored(id).await? else { return Ok(true) };
            attempts += 1;
            match self.delete_version(&registry, stored.decode()?, purpose).await {
                Err(error) if error.is_conflict() && attempts < MAX_CAS_ATTEMPTS => {}
                // The unit that was to be emptied is gone; the resource is in a new one.
                Err(RemovalError::Store(StoreError::ExpectationFailed { .. })) => return Ok(false),
                other => return other,
            }
        }
    }

    /// Deletes an expired resource in exactly this version, or marks it while something holds it. Returns whether it is
    /// gone.
    pub(crate) async fn delete_expired(&self, stored: pb::Resource) -> Result<bool, RemovalError> {
        self.delete_version(&self.core.types(), stored, Purpose::Delete).await
    }

    /// Deletes a resource in exactly this version, or marks it while something holds it. Returns whether it is gone.
    pub(super) async fn delete_version(
        &self,
        registry: &Registry,
        stored: pb::Resource,
        purpose: Purpose<'_>,
    ) -> Result<bool, RemovalError> {
        if meta::is_marked(&stored.metadata) && meta::has_finalizers(&stored.metadata) {
            return Ok(false);
        }
        if self.is_planned(registry, &stored) {
            let plan = self.plan(registry, EncodedResource::encode(&stored)?, purpose).await?;
            let host = Caller::host(Consistency::Consistent);
            return Ok(self.carry_out(registry, &host, plan).await? == PlannedAction::Remove);
        }
        if !meta::has_finalizers(&stored.metadata) {
            let conditions = (purpose.expectations(), Vec::new());
            return Ok(self.remove_expecting(&stored, conditions, purpose.deletion(), None).await.map(|()| true)?);
        }
        let mut marked = stored;
        tombstone::mark(&mut marked);
        marked.generation = ids::ulid();
        server_meta::set_touched(&mut marked);
        renew_records(&self.core, &mut marked);
        let mark = Batch { expect: purpose.expectations(), ..Batch::single(Mutation::Put(Box::new(marked))) };
        Ok(self.core.backend.commit(mark).await.map(|_| false)?)
    }

    /// Whether the deletion of a resource needs a plan, since others may refer to it.
    pub(crate) fn is_planned(&self, registry: &Registry, stored: &pb::Resource) -> bool {
        let resource_type = stored.id.as_ref().and_then(|id| id.r#type.as_ref());
        resource_type.is_some_and(|resource_type| registry.is_referenced(&resource_type.group, &resource_type.kind))
            || deletion_rules::is_protected(stored)
    }

    /// Calls [`Deletions::delete_for`] for every id, also after a failure.
    ///
    /// # Errors
    /// The first error.
    pub(super) async fn delete_all_for(
        &self,
        ids: impl Iterator<Item = pb::Id>,
        purpose: Purpose<'_>,
    ) -> Result<(), RemovalError> {
        let deletions = stream::iter(ids)
            .map(|id| async move { self.delete_for(&id, purpose).await })
            .buffer_unordered(GROUP_COMMIT_CHANGES);
        deletions.fold(Ok(()), async |so_far, outcome| so_far.and(outcome.map(drop))).await
    }

    /// Removes a marked resource after its last finalizer, or keeps it for its referrers.
    pub(crate) async fn remove_if_unreferenced(
        &self,
        registry: &Registry,
        stored: &pb::Resource,
        next: &pb::Resource,
    ) -> Result<(), RemovalError> {
        if !self.is_planned(registry, stored) {
            return Ok(self.remove(stored, None).await?);
        }
        let root = EncodedResource::encode(&pb::Resource { references: stored.references.clone(), ..next.clone() })?;
        let plan = self.plan(registry, root, Purpose::Finish { ignores_finalizers: true, deletion: "" }).await?;
        self.carry_out(registry, &Caller::host(Consistency::Consistent), plan).await.map(drop)
    }
}
