//! The garbage collector's part of references: deferred work for marked resources, and owner references of `meta`.
//!
//! # Owner references
//! An owner reference holds while its owner exists, and, with `requires_owner_reference`, while the owner's data refers
//! to the dependent. An invalid owner reference is dropped: at once if its owner was deleted or stopped referring to
//! the dependent, otherwise after `service.owner_grace_ms`. A dependent that loses its last owner reference is deleted,
//! unless `unset_on_delete` of that reference asks for its removal only. Owners are known by name: an owner created
//! again under its name is the same owner. An owner that the writer of the reference may not read counts as missing, so
//! that the fate of a resource tells its writer nothing about others.
//!
//! All pending work is in the store: as a tombstone, or as an `mortise.v1.OwnershipCheck`.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use mortise_controller::{Context, Definition, Outcome, ReconcileError, Reconciler, Request};
use mortise_resource::{
    EncodedResource,
    data::{OnDelete, OwnershipCheck, ReferenceRecord},
    goten::{Meta, OwnerReference},
    meta, pb, types,
};
use mortise_store::{Consistency, DEFERRED_BEHAVIOURS, StoreError};
use prost::Message as _;
use prost_types::Timestamp;

use super::{
    deletions::{Deletions, GROUP_COMMIT_CHANGES},
    error::RemovalError,
    plan::{PlannedAction, Purpose},
};
use crate::{
    call::Caller,
    core::{
        MAX_CAS_ATTEMPTS,
        durations::{CHANGED_RESOURCE_WAIT, HELD_RESOURCE_WAIT},
        ids::{self, tenancy_of, type_of},
    },
    references::{
        ResourceKey, Strictness, finalizer::REFERENCES_FINALIZER, is_unreadable_owner, owner_of, owner_record,
        records::records,
    },
    registry::Registry,
    rules::{access_rules, region, server_meta},
};

/// Links of a chain that one reconcile follows; the rest has tombstones of its own.
const MAX_CHAIN_LINKS: usize = 10_000;

/// The state of a marked resource after its deferred work.
#[derive(Debug, Clone, Copy)]
enum WorkOutcome {
    Gone,
    /// The resource is held by the work of others.
    Held,
    /// A concurrent change came first.
    Changed,
}

impl WorkOutcome {
    /// Returns the time of the next look.
    fn next(self) -> Outcome {
        match self {
            // The tombstone remains for the children.
            Self::Gone => Outcome::After(Duration::ZERO),
            Self::Held => Outcome::After(HELD_RESOURCE_WAIT),
            Self::Changed => Outcome::After(CHANGED_RESOURCE_WAIT),
        }
    }
}

/// Returns the resources that this one may hold by its references.
fn held_by(resource: &pb::Resource) -> Vec<ResourceKey> {
    let holds =
        |record: &&ReferenceRecord| !matches!(record.on_delete(), OnDelete::Unspecified | OnDelete::AllowDangling);
    resource.references.iter().filter(holds).map(ResourceKey::from).collect()
}

/// The controller of checks.
struct Ownership(Deletions);

#[async_trait]
impl Reconciler for Ownership {
    async fn reconcile(&self, context: &Context, request: Request) -> Result<Outcome, ReconcileError> {
        let id = request.id(context.managed());
        self.0.process_check(&id).await.map_err(|e| ReconcileError::because(format!("owner references: {e}"), e))
    }
}

impl Deletions {
    /// Returns the controller that checks owner references that may have become invalid.
    pub(crate) fn ownership(&self) -> Definition {
        let controller = Arc::new(Ownership(self.clone()));
        Definition::new("ownership", types::ownership_check().to_pb(), controller).parallel(GROUP_COMMIT_CHANGES)
    }

    async fn process_check(&self, id: &pb::Id) -> Result<Outcome, RemovalError> {
        let check = match self.core.backend.read(Consistency::Consistent, id).await {
            Ok(check) => check,
            Err(StoreError::NotFound) => return Ok(Outcome::Done),
            Err(e) => return Err(e.into()),
        };
        let content = check.data.as_ref().and_then(|data| OwnershipCheck::decode(data.value.as_slice()).ok());
        let OwnershipCheck { resource, due } = content.unwrap_or_default();
        let wait = until(due.unwrap_or_default());
        if !wait.is_zero() {
            return Ok(Outcome::After(wait));
        }
        let dependent = ResourceKey::from(&resource.unwrap_or_default());
        let next = self.check_owners(&dependent).await?;
        match next {
            Some(wait) => Ok(Outcome::After(wait)),
            None => {
                // The check owns nothing, so it needs no tombstone.
                match self.core.backend.delete_cas(check.id.as_ref().unwrap_or(id), &check.version).await {
                    Ok(()) | Err(StoreError::CasFailure { .. }) => Ok(Outcome::Done),
                    Err(error) => Err(error.into()),
                }
            }
        }
    }

    /// Drops the owner references of a resource that have been invalid for long enough. Returns the time of the next
    /// look.
    async fn check_owners(&self, dependent: &ResourceKey) -> Result<Option<Duration>, RemovalError> {
        let registry = self.core.types();
        let Some(stored) = dependent.stored(&self.core).await? else { return Ok(None) };
        let stored = stored.decode()?;
        let (mut gone, mut next): (Vec<ResourceKey>, Option<Duration>) = (Vec::new(), None);
        for owner in stored.meta.iter().flat_map(|meta| &meta.owner_references) {
            let key = owner_of(&registry, owner, tenancy_of(&stored.id.clone().unwrap_or_default()));
            let known = owner_record(&stored.references, &key);
            let counts = !known.is_some_and(is_unreadable_owner);
            if counts && self.references.holds(&registry, owner, &key, dependent).await? {
                continue;
            }
            let mut since = known.and_then(|record| record.since).unwrap_or_default();
            since.seconds =
                since.seconds.saturating_add(i64::try_from(self.core.options.owner_grace.as_secs()).unwrap_or(0));
            since.nanos =
                since.nanos.saturating_add(self.core.options.owner_grace.subsec_nanos().try_into().unwrap_or(0));
            since.normalize();
            match until(since) {
                Duration::ZERO => gone.push(key),
                wait => next = Some(next.map_or(wait, |other| other.min(wait))),
            }
        }
        if !gone.is_empty() {
            self.release(dependent, &gone).await?;
        }
        Ok(next)
    }

    /// Drops owner references from a resource. Deletes it when the last one is dropped, unless that has
    /// `unset_on_delete`, or the resource is a policy.
    async fn release(&self, dependent: &ResourceKey, gone: &[ResourceKey]) -> Result<(), RemovalError> {
        let registry = self.core.types();
        let mut attempts = 0;
        loop {
            let stored = dependent.stored(&self.core).await?.filter(|stored| !region::is_foreign(&self.core, stored));
            let Some(stored) = stored else { return Ok(()) };
            let stored = stored.decode()?;
            let id = stored.id.clone().unwrap_or_default();
            if meta::is_marked(&stored.metadata) {
                return Ok(());
            }
            let owners = stored.meta.clone().unwrap_or_default().owner_references;
            let is_gone = |owner: &OwnerReference| gone.contains(&owner_of(&registry, owner, tenancy_of(&id)));
            let (dropped, kept): (Vec<_>, Vec<_>) = owners.into_iter().partition(is_gone);
            if dropped.is_empty() {
                return Ok(());
            }
            attempts += 1;
            let is_kept = access_rules::outlives_owners(&id) || dropped.iter().any(|owner| owner.unset_on_delete);
            if kept.is_empty() && !is_kept {
                // Deletes only this version: with another owner the resource would stay.
                match self.delete_version(&registry, stored, Purpose::Delete).await {
                    Err(error) if error.is_conflict() && attempts < MAX_CAS_ATTEMPTS => continue,
                    other => return other.map(drop),
                }
            }
            let kind = registry.resolve(&type_of(&id)).map_err(RemovalError::Refused)?;
            let mut next = stored.clone();
            let client = Meta { owner_references: kept, ..*stored.meta.clone().unwrap_or_default() };
            next.generation = ids::ulid();
            server_meta::set(kind, &mut next, Some(&client), Some(&stored));
            let records = records(&registry, kind, &next, Some(&stored), Strictness::Lenient);
            next.references = records.map_err(RemovalError::Refused)?;
            match self.core.backend.write_cas(next).await {
                Err(StoreError::CasFailure { .. } | StoreError::WrongUid) if attempts < MAX_CAS_ATTEMPTS => {}
                other => return other.map(drop).map_err(RemovalError::from),
            }
        }
    }

    /// Drops the owner references to a deleted resource, unless it was created again.
    pub(super) async fn release_dependents(&self, owner: &pb::Id) -> Result<(), RemovalError> {
        let key = ResourceKey::from(owner);
        if key.stored(&self.core).await?.is_some() {
            return Ok(());
        }
        let mut outcome = Ok(());
        let mut dependents = self.core.backend.scan_referrers(&key.expected(), OnDelete::Unspecified).await?;
        while let Some(page) = dependents.next().await? {
            let (owner, gone) = (&key, std::slice::from_ref(&key));
            let released = stream::iter(page)
                .map(|dependent| async move { self.release_unless_back(&dependent, owner, gone).await })
                .buffer_unordered(GROUP_COMMIT_CHANGES)
                .fold(Ok(()), async |so_far: Result<(), RemovalError>, result| so_far.and(result))
                .await;
            // A failed dependent does not keep the others.
            outcome = outcome.and(released);
        }
        outcome
    }

    async fn release_unless_back(
        &self,
        dependent: &EncodedResource,
        owner: &ResourceKey,
        gone: &[ResourceKey],
    ) -> Result<(), RemovalError> {
        match owner.stored(&self.core).await? {
            Some(_) => Ok(()),
            None => self.release(&ResourceKey::from(dependent.id()), gone).await,
        }
    }

    /// Does the deferred work for a marked resource, and deletes it once nothing holds it; then the resources that it
    /// held, and so on, so that a long chain does not wait at each link.
    pub(super) async fn work_off(&self, marked: pb::Resource) -> Result<Outcome, RemovalError> {
        let mut open = held_by(&marked);
        let outcome = self.work_off_marked(&marked).await?;
        if !matches!(outcome, WorkOutcome::Gone) {
            return Ok(outcome.next());
        }
        for _ in 0..MAX_CHAIN_LINKS {
            let Some(key) = open.pop() else { break };
            let Some(stored) = key.stored(&self.core).await?.filter(|stored| stored.deletion_mark().is_some()) else {
                continue;
            };
            let stored = stored.decode()?;
            if !meta::finalizers(&stored.metadata).contains(REFERENCES_FINALIZER)
                || self.is_referred_to_later(&key).await?
            {
                continue;
            }
            // A failure here is left to its own tombstone.
            if let Ok(WorkOutcome::Gone) = self.work_off_marked(&stored).await {
                open.extend(held_by(&stored));
                open.truncate(MAX_CHAIN_LINKS);
            }
        }
        Ok(outcome.next())
    }

    /// Whether a referrer of the resource has deferred work.
    async fn is_referred_to_later(&self, key: &ResourceKey) -> Result<bool, RemovalError> {
        for on_delete in DEFERRED_BEHAVIOURS {
            let mut referrers = self.core.backend.scan_referrers(&key.expected(), on_delete).await?;
            if referrers.next().await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn work_off_marked(&self, marked: &pb::Resource) -> Result<WorkOutcome, RemovalError> {
        let registry = self.core.types();
        let id = marked.id.clone().unwrap_or_default();
        let key = ResourceKey::from(&id);
        let mut outcome = Ok(());
        for on_delete in DEFERRED_BEHAVIOURS {
            let mut referrers = self.core.backend.scan_referrers(&key.expected(), on_delete).await?;
            while let Some(page) = referrers.next().await? {
                let (key, registry) = (&key, &registry);
                let others =
                    page.into_iter().filter(|referrer| !key.is(referrer) && !region::is_foreign(&self.core, referrer));
                let worked = stream::iter(others)
                    .map(|referrer| async move { self.work_off_one(registry, key, referrer, on_delete).await })
                    .buffer_unordered(GROUP_COMMIT_CHANGES)
                    .fold(Ok(()), async |so_far: Result<(), RemovalError>, result| so_far.and(result))
                    .await;
                outcome = outcome.and(worked);
            }
        }
        outcome?;
        let plan =
            self.plan(&registry, EncodedResource::encode(marked)?, Purpose::Finish { ignores_finalizers: false });
        let plan = plan.await?;
        if plan.is_blocked() || plan.action() == PlannedAction::Mark {
            return Ok(WorkOutcome::Held);
        }
        let host = Caller::host(Consistency::Consistent);
        match self.carry_out(&registry, &host, plan).await {
            Ok(PlannedAction::Remove) => Ok(WorkOutcome::Gone),
            Ok(PlannedAction::Mark) => Ok(WorkOutcome::Held),
            Err(error) if error.is_conflict() => Ok(WorkOutcome::Changed),
            Err(error) => Err(error),
        }
    }

    async fn work_off_one(
        &self,
        registry: &Registry,
        target: &ResourceKey,
        referrer: EncodedResource,
        on_delete: OnDelete,
    ) -> Result<(), RemovalError> {
        let key = ResourceKey::from(referrer.id());
        let mut attempts = 0;
        loop {
            let Some(stored) = key.stored(&self.core).await? else { return Ok(()) };
            let refers = |reference: &ReferenceRecord| {
                reference.on_delete() == on_delete && ResourceKey::from(reference) == *target
            };
            if !stored.references()?.iter().any(refers) {
                return Ok(());
            }
            let done = if on_delete == OnDelete::AsyncCascade {
                self.delete_version(registry, stored.decode()?, Purpose::Delete).await.map(drop)
            } else {
                let goes = |to: &ResourceKey, how| how == OnDelete::AsyncUnset && to == target;
                let next = self.cleared(registry, stored, &key.to_string(), &goes).await?;
                self.core.backend.write_cas(next).await.map(drop).map_err(RemovalError::from)
            };
            attempts += 1;
            match done {
                Err(error) if error.is_conflict() && attempts < MAX_CAS_ATTEMPTS => {}
                other => return other,
            }
        }
    }
}

/// Returns the time until a moment; zero if it has passed.
fn until(due: Timestamp) -> Duration {
    let now = ids::milliseconds();
    let seconds = due.seconds.saturating_sub(now.seconds);
    let nanos = seconds.saturating_mul(1_000_000_000).saturating_add(i64::from(due.nanos) - i64::from(now.nanos));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
