//! The garbage collector's deferred work for marked resources: asynchronous references, one after another, and the end
//! of the resource. All pending work is in the store, as tombstones.

use futures::{StreamExt as _, stream};
use mortise_controller::Outcome;
use mortise_resource::{
    EncodedResource,
    data::{OnDelete, ReferenceRecord},
    meta, pb,
};
use mortise_store::{Consistency, DEFERRED_BEHAVIOURS};
use std::time::Duration;

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
    },
    references::{ResourceKey, finalizer::REFERENCES_FINALIZER},
    registry::Registry,
    rules::region,
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
pub(super) fn held_by(resource: &pb::Resource) -> Vec<ResourceKey> {
    let holds =
        |record: &&ReferenceRecord| !matches!(record.on_delete(), OnDelete::Unspecified | OnDelete::AllowDangling);
    resource.references.iter().filter(holds).map(ResourceKey::from).collect()
}

impl Deletions {
    /// Does the deferred work for a marked resource, and deletes it once nothing holds it; then the resources that it
    /// held, and so on, so that a long chain does not wait at each link.
    /// `deletion` is the uid of the resource whose deletion this is a part of; empty for the resource itself.
    pub(super) async fn work_off(&self, marked: pb::Resource, deletion: &str) -> Result<Outcome, RemovalError> {
        let mut open = held_by(&marked);
        let outcome = self.work_off_marked(&marked, deletion).await?;
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
            if let Ok(WorkOutcome::Gone) = self.work_off_marked(&stored, deletion).await {
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

    async fn work_off_marked(&self, marked: &pb::Resource, deletion: &str) -> Result<WorkOutcome, RemovalError> {
        let registry = self.core.types();
        let id = marked.id.clone().unwrap_or_default();
        let key = ResourceKey::from(&id);
        let deletion = if deletion.is_empty() { &id.uid } else { deletion };
        let mut outcome = Ok(());
        for on_delete in DEFERRED_BEHAVIOURS {
            let mut referrers = self.core.backend.scan_referrers(&key.expected(), on_delete).await?;
            while let Some(page) = referrers.next().await? {
                let (key, registry) = (&key, &registry);
                let others =
                    page.into_iter().filter(|referrer| !key.is(referrer) && !region::is_foreign(&self.core, referrer));
                let worked =
                    stream::iter(others)
                        .map(|referrer| async move {
                            self.work_off_one(registry, key, referrer, (on_delete, deletion)).await
                        })
                        .buffer_unordered(GROUP_COMMIT_CHANGES)
                        .fold(Ok(()), async |so_far: Result<(), RemovalError>, result| so_far.and(result))
                        .await;
                outcome = outcome.and(worked);
            }
        }
        outcome?;
        let finish = Purpose::Finish { ignores_finalizers: false, deletion };
        let plan = self.plan(&registry, EncodedResource::encode(marked)?, finish).await?;
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
        (on_delete, deletion): (OnDelete, &str),
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
                self.delete_version(registry, stored.decode()?, Purpose::Follow(deletion)).await.map(drop)
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
