//! A planned deletion as one commit.
//!
//! # Contract
//!
//! The batch expects every referrer that the plan saw, and no other. Either everything in the plan happens, or nothing.

use mortise_resource::{Code, EncodedResource, Error, data::OnDelete, meta, pb, types};
use mortise_store::{Batch, Mutation};

use super::{
    deletions::Deletions,
    error::RemovalError,
    plan::{DeletionPlan, PlannedAction, PlannedDeletion},
};
use crate::{
    call::Caller,
    core::ids::{self, tenancy_of, type_of},
    references::{
        ResourceKey, Strictness, finalizer::REFERENCES_FINALIZER, records::records, renew_records, target_of,
    },
    registry::Registry,
    rules::{RequestHooks, is_readable, server_meta, tombstone},
};

/// Blocking resources that an error names.
const MAX_NAMED_BLOCKERS: usize = 3;

impl Deletions {
    /// Deletes, marks and clears as planned, and leaves the deferred work to the garbage collector. Returns the outcome
    /// for the resource itself.
    ///
    /// # Errors
    /// `Refused`: the plan is blocked. A conflict: something changed since the plan. The plugin's fault: a referrer to
    /// be cleared cannot be upgraded.
    pub(crate) async fn carry_out(
        &self,
        registry: &Registry,
        caller: &Caller,
        plan: DeletionPlan,
    ) -> Result<PlannedAction, RemovalError> {
        if plan.is_blocked() {
            return Err(RemovalError::Refused(self.refusal(registry, caller, &plan).await));
        }
        let action = plan.action();
        // The place is held until the end.
        let DeletionPlan { deletions, unset, referrers, expect, deletion, place: _place, .. } = plan;
        // All parts of one commit belong to one deletion.
        let root = deletions.first().map(|root| root.stored.uid().to_owned()).unwrap_or_default();
        let deletion = if deletion.is_empty() { root } else { deletion };
        let mut mutations = Vec::new();
        for (stored, targets) in unset.into_values() {
            let goes = |target: &ResourceKey, on_delete| on_delete == OnDelete::Unset && targets.contains(target);
            let name = self.named(registry, caller, &stored).await;
            let cleared = self.cleared(registry, stored, &name, &goes).await?;
            mutations.push(Mutation::Put(Box::new(cleared)));
        }
        let is_alone = deletions.len() == 1 && mutations.is_empty();
        for PlannedDeletion { stored, action, .. } in deletions {
            let mut stored = stored.decode()?;
            match action {
                PlannedAction::Remove if is_alone => {
                    self.remove_expecting(&stored, (expect, referrers), &deletion, caller.held.clone()).await?;
                    return Ok(PlannedAction::Remove);
                }
                PlannedAction::Remove => mutations.extend(tombstone::removal_by(&stored, &deletion)),
                PlannedAction::Mark => {
                    renew_records(&self.core, &mut stored);
                    mutations.extend(marked(stored, &deletion));
                }
            }
        }
        let batch = Batch { expect, referrers, belongs_to_deletion: true, ..Batch::new(mutations) };
        self.core.backend.commit(batch.held(caller.held.clone())).await?;
        Ok(action)
    }

    /// Returns a resource without the references for which `goes` holds; `name` names it in errors.
    pub(super) async fn cleared(
        &self,
        registry: &Registry,
        stored: EncodedResource,
        name: &str,
        goes: &(dyn Fn(&ResourceKey, OnDelete) -> bool + Sync),
    ) -> Result<pb::Resource, RemovalError> {
        let stored = stored.decode()?;
        let refused = |error: Error| RemovalError::Refused(error.context(&format!("clearing references of {name}")));
        let id = stored.id.clone().unwrap_or_default();
        let kind = registry.resolve(&type_of(&id)).map_err(refused)?.clone();
        let mut next = stored.clone();
        RequestHooks::new(kind.clone(), &Caller::host(mortise_store::Consistency::Consistent))
            .upgrade(&mut next)
            .await
            .map_err(refused)?;
        let holder = tenancy_of(&id);
        if let Some(data) = &mut next.data {
            let is_gone = |reference: &_| {
                target_of(registry, reference, holder).is_ok_and(|target| goes(&target, reference.on_delete))
            };
            let cleared = kind.references.clear(kind.schema.message(), &data.value, &is_gone);
            data.value = cleared.map_err(|fault| refused(Error::new(Code::FailedPrecondition, fault.to_string())))?;
        }
        next.references = records(registry, &kind, &next, Some(&stored), Strictness::Lenient).map_err(refused)?;
        next.generation = ids::ulid();
        server_meta::set(&kind, &mut next, None, Some(&stored));
        Ok(next)
    }

    /// Returns the error for a blocked plan: names the blocking resources as far as the caller may read them.
    pub(crate) async fn refusal(&self, registry: &Registry, caller: &Caller, plan: &DeletionPlan) -> Error {
        let root = plan.deletions.first().and_then(|root| root.stored.decode_id().ok().flatten()).unwrap_or_default();
        let mut reasons = Vec::new();
        let count = plan.protected.len() + plan.blocks.len();
        for protected in plan.protected.iter().take(MAX_NAMED_BLOCKERS) {
            let named = self.named(registry, caller, protected).await;
            reasons.push(format!("meta.lifecycle.block_deletion of {named} is set"));
        }
        for link in plan.blocks.iter().take(MAX_NAMED_BLOCKERS.saturating_sub(reasons.len())) {
            let named = self.named(registry, caller, &link.referrer).await;
            let target = plan.deletions.iter().find(|planned| link.target.is(&planned.stored));
            let target = match target {
                Some(target) => self.named(registry, caller, &target.stored).await,
                None => "it".to_owned(),
            };
            reasons.push(format!("data.{} of {named} refers to {target}", link.field));
        }
        if count > reasons.len() {
            reasons.push(format!("{} more", count - reasons.len()));
        }
        let what = format!(
            "{} cannot be deleted: {}; delete or change these first",
            types::describe(&root),
            reasons.join("; ")
        );
        Error::new(Code::FailedPrecondition, what)
    }

    async fn named(&self, registry: &Registry, caller: &Caller, resource: &EncodedResource) -> String {
        if is_readable(registry, caller, resource).await {
            let id = resource.decode_id().ok().flatten().unwrap_or_default();
            return types::describe(&id);
        }
        "a resource that you may not read".to_owned()
    }
}

/// Returns the mutations that mark and hold a resource, with work for the garbage collector; none if it is
/// marked and held already. `deletion` is the uid of the resource whose deletion this is a part of.
pub(crate) fn marked(mut stored: pb::Resource, deletion: &str) -> Vec<Mutation> {
    let is_held = meta::finalizers(&stored.metadata).contains(REFERENCES_FINALIZER);
    if meta::is_marked(&stored.metadata) && is_held {
        return Vec::new();
    }
    if !meta::is_marked(&stored.metadata) {
        tombstone::mark(&mut stored);
    }
    meta::add_finalizer(&mut stored.metadata, REFERENCES_FINALIZER);
    stored.generation = ids::ulid();
    server_meta::set_touched(&mut stored);
    let work = tombstone::pending(&stored, deletion);
    vec![Mutation::Put(Box::new(stored)), work]
}
