//! The effect of a deletion, as its caller may see it. Resources that the caller may not read are counted without their
//! names.

use mortise_resource::{
    EncodedResource, Error,
    data::{DeleteStep, OnDelete, PlanDeleteResponse, delete_step::Action},
};
use mortise_store::Cursor;

use super::{
    deletions::Deletions,
    plan::{DeletionPlan, PlannedAction},
};
use crate::{
    call::Caller,
    core::Core,
    references::{MAX_READ_RESOURCES, ResourceKey, field_of, follow_fault},
    registry::Registry,
    rules::{access_rules, is_readable},
};

/// A plan as its caller may see it.
pub(crate) struct ShownPlan<'s> {
    core: &'s Core,
    registry: &'s Registry,
    caller: &'s Caller,
    answer: PlanDeleteResponse,
    looked_at: usize,
}

impl<'s> ShownPlan<'s> {
    pub(crate) fn new(deletions: &'s Deletions, registry: &'s Registry, caller: &'s Caller) -> Self {
        Self { core: &deletions.core, registry, caller, answer: PlanDeleteResponse::default(), looked_at: 0 }
    }

    /// Returns the steps of a plan, and of the deferred work after it.
    pub(crate) async fn of_plan(mut self, plan: DeletionPlan) -> Result<PlanDeleteResponse, Error> {
        self.answer.is_blocked = plan.is_blocked();
        self.answer.is_cut = plan.is_later_cut;
        self.show(plan).await?;
        Ok(self.answer)
    }

    async fn show(&mut self, plan: DeletionPlan) -> Result<(), Error> {
        let DeletionPlan { deletions, unset, blocks, protected, later, .. } = plan;
        for deletion in &deletions {
            let action = if deletion.action == PlannedAction::Remove { Action::Delete } else { Action::Mark };
            let (because, field) = deletion.because.clone().unzip();
            self.step(action, &deletion.stored, because, field.unwrap_or_default()).await?;
        }
        for (referrer, targets) in unset.values() {
            for target in targets {
                let field = field_of(referrer, target, OnDelete::Unset)?;
                self.step(Action::Unset, referrer, Some(target.clone()), field).await?;
            }
        }
        for resource in &protected {
            self.step(Action::Block, resource, None, String::new()).await?;
        }
        for block in &blocks {
            self.step(Action::Block, &block.referrer, Some(block.target.clone()), block.field.clone()).await?;
        }
        for later_key in &later {
            let action =
                if later_key.on_delete == OnDelete::AsyncUnset { Action::UnsetLater } else { Action::DeleteLater };
            self.step(action, &later_key.referrer, Some(later_key.target.clone()), later_key.field.clone()).await?;
        }
        for deletion in &deletions {
            let key = ResourceKey::from(deletion.stored.id());
            let id = deletion.stored.decode_id()?.unwrap_or_default();
            let owned = self.core.backend.scan_owned(&id).await.map_err(|e| follow_fault(&e))?;
            self.steps(Action::DeleteLater, owned, &key).await?;
            let dependents = self.core.backend.scan_referrers(&key.expected(), OnDelete::Unspecified).await;
            self.steps(Action::ReleaseLater, dependents.map_err(|e| follow_fault(&e))?, &key).await?;
        }
        Ok(())
    }

    async fn steps(&mut self, action: Action, mut cursor: Box<dyn Cursor>, because: &ResourceKey) -> Result<(), Error> {
        while let Some(page) = cursor.next().await.map_err(|e| follow_fault(&e))? {
            for key in page {
                if action == Action::DeleteLater
                    && key.decode_id()?.is_some_and(|id| access_rules::outlives_owners(&id))
                {
                    continue;
                }
                self.looked_at += 1;
                if self.looked_at > MAX_READ_RESOURCES {
                    self.answer.is_cut = true;
                    return Ok(());
                }
                self.step(action, &key, Some(because.clone()), String::new()).await?;
            }
        }
        Ok(())
    }

    async fn step(
        &mut self,
        action: Action,
        resource: &EncodedResource,
        because: Option<ResourceKey>,
        field: String,
    ) -> Result<(), Error> {
        if !is_readable(self.registry, self.caller, resource).await {
            self.answer.hidden = self.answer.hidden.saturating_add(1);
            return Ok(());
        }
        let because = match because {
            Some(key) => match key.stored(self.core).await.map_err(|e| follow_fault(&e))? {
                Some(found) if is_readable(self.registry, self.caller, &found).await => found.decode_id()?,
                _ => None,
            },
            None => None,
        };
        let step = DeleteStep { action: action.into(), id: resource.decode_id()?, because, field };
        self.answer.steps.push(step);
        Ok(())
    }
}
