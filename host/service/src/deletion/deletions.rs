//! The state of deletions, and the planning of one.

use std::{collections::BTreeSet, sync::Arc};

use mortise_resource::EncodedResource;
use mortise_store::{COMMIT_BEHAVIOURS, DEFERRED_BEHAVIOURS, ExpectedReferrers, ReferrerSet, StoreError};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{
    overlay::Overlay,
    plan::{DeletionPlan, DeletionSize, LARGEST_DELETION, PlanError, Purpose, ReferenceGraph, SMALL_DELETION},
    second_passes::SecondPasses,
};
use crate::{
    core::Core,
    references::{References, ResourceKey},
    registry::Registry,
    rules::region,
};

/// Changes that a background task of deletions makes at once: enough to fill a group commit.
pub(super) const GROUP_COMMIT_CHANGES: usize = 32;

/// State of deletions. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Deletions {
    pub(super) core: Core,
    pub(super) references: References,
    pub(super) second_passes: SecondPasses,
    /// Places for deletions that reach many resources.
    large: Arc<Semaphore>,
    /// Places for plans that are only shown, so that readers do not delay deletions.
    large_shown: Arc<Semaphore>,
}

impl Deletions {
    pub(crate) fn new(core: Core, references: References) -> Self {
        let place = || Arc::new(Semaphore::new(1));
        let second_passes = SecondPasses::default();
        Self { core, references, second_passes, large: place(), large_shown: place() }
    }

    /// Plans the deletion of a resource.
    pub(crate) async fn plan(
        &self,
        registry: &Registry,
        root: EncodedResource,
        purpose: Purpose<'_>,
    ) -> Result<DeletionPlan, PlanError> {
        let now = Overlay::default();
        match self.plan_over(&now, SMALL_DELETION, registry, root.clone(), purpose).await {
            Err(PlanError::TooFar) => {}
            planned => return planned,
        }
        let place = self.large.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let plan = self.plan_over(&now, LARGEST_DELETION, registry, root, purpose).await?;
        Ok(DeletionPlan { place: Some(place), ..plan })
    }

    /// Waits for the place of a large plan that is only shown.
    pub(super) async fn place_to_show(&self) -> Result<OwnedSemaphorePermit, StoreError> {
        self.large_shown.clone().acquire_owned().await.map_err(|_| StoreError::Closed)
    }

    /// Plans over a supposed state of the store.
    pub(super) async fn plan_over(
        &self,
        supposed: &Overlay,
        limit: DeletionSize,
        registry: &Registry,
        root: EncodedResource,
        purpose: Purpose<'_>,
    ) -> Result<DeletionPlan, PlanError> {
        let mut graph = ReferenceGraph::new(limit, purpose);
        graph.join(root, None)?;
        let (mut next, mut read) = (0, BTreeSet::new());
        while let Some(target) = graph.plan.deletions.get(next).map(|planned| ResourceKey::from(planned.stored.id())) {
            if registry.is_referenced(&target.group, &target.kind) {
                if read.insert((target.group.clone(), target.kind.clone())) {
                    let known = self.references.passes.ensure_referrers(registry, &target.group, &target.kind).await;
                    known.map_err(PlanError::Records)?;
                }
                self.look_at_referrers(supposed, &mut graph, next, target).await?;
            }
            next += 1;
        }
        graph.finish()
    }

    async fn look_at_referrers(
        &self,
        supposed: &Overlay,
        graph: &mut ReferenceGraph<'_>,
        index: usize,
        target: ResourceKey,
    ) -> Result<(), PlanError> {
        let id = target.expected();
        let mut at_commit = ReferrerSet::default();
        for on_delete in COMMIT_BEHAVIOURS {
            let mut referrers = self.core.backend.scan_referrers(&id, on_delete).await?;
            while let Some(page) = referrers.next().await? {
                for referrer in page {
                    at_commit.add(on_delete, referrer.id());
                    if target.is(&referrer) || region::is_foreign(&self.core, &referrer) {
                        continue;
                    }
                    if let Some(referrer) = supposed.referrer(referrer, &target, on_delete)? {
                        graph.refer(referrer, &target, on_delete)?;
                    }
                }
            }
        }
        let later = self.look_at_later(supposed, graph, index, &target).await?;
        graph.plan.referrers.push(ExpectedReferrers { id, at_commit, deferred: later });
        Ok(())
    }

    /// Looks at the referrers with deferred work. Returns those that do not hold the resource; `None` if one does.
    async fn look_at_later(
        &self,
        supposed: &Overlay,
        graph: &mut ReferenceGraph<'_>,
        index: usize,
        target: &ResourceKey,
    ) -> Result<Option<ReferrerSet>, PlanError> {
        let mut seen = ReferrerSet::default();
        for on_delete in DEFERRED_BEHAVIOURS {
            let mut referrers = self.core.backend.scan_referrers(&target.expected(), on_delete).await?;
            while let Some(page) = referrers.next().await? {
                for referrer in page {
                    seen.add(on_delete, referrer.id());
                    if target.is(&referrer) || region::is_foreign(&self.core, &referrer) {
                        continue;
                    }
                    let referrer = supposed.referrer(referrer, target, on_delete)?;
                    if let Some(referrer) = referrer
                        && !graph.joins_later(&referrer, target, on_delete)?
                    {
                        graph.held.insert(index);
                        graph.plan.holders.push(referrer.id().into());
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(seen).filter(|_| !graph.held.contains(&index)))
    }
}
