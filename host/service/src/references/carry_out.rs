//! A planned deletion as one commit.

use mortise_resource::{Code, EncodedResource, Error, data::OnDelete, meta, pb, types};
use mortise_store::{Batch, Mutation, StoreError};

use super::{
    FINALIZER, ResourceKey,
    plan::{DeletionPlan, Doomed, Fate, PlanError},
    records::{Reading, records, target_of},
};
use crate::{
    caller::Caller,
    hooks::{RequestHooks, type_of},
    ids,
    read::tenancy_of,
    registry::Registry,
    removal, server_meta,
    service::ResourceService,
};

/// Blockers that an error names.
const NAMED: usize = 3;

/// Why a deletion did not take place. Nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum RemovalError {
    /// A fault of the store, or a conflict.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Something that refers to the resource refuses it.
    #[error("{0}")]
    Refused(Error),
}

impl From<PlanError> for RemovalError {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Store(error) => Self::Store(error),
            too_far => Self::Refused(too_far.into()),
        }
    }
}

impl From<mortise_resource::EncodingError> for RemovalError {
    fn from(fault: mortise_resource::EncodingError) -> Self {
        Self::Store(fault.into())
    }
}

impl RemovalError {
    /// Whether another attempt, on what is stored by then, may succeed.
    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Store(StoreError::CasFailure { .. } | StoreError::WrongUid | StoreError::ReferrersChanged))
    }
}

impl ResourceService {
    /// Deletes, marks and clears what a plan says, and leaves work for the garbage collector. Returns what became of the
    /// resource itself.
    ///
    /// # Errors
    /// A plan that is blocked; one that something changed under; an upgrade of what is to be cleared.
    pub(crate) async fn carry_out(
        &self,
        registry: &Registry,
        caller: &Caller,
        plan: DeletionPlan,
    ) -> Result<Fate, RemovalError> {
        if plan.is_blocked() {
            return Err(RemovalError::Refused(self.refusal(registry, caller, &plan).await));
        }
        let fate = plan.fate();
        // The place is held until it is done.
        let DeletionPlan { doomed, unset, referrers, place: _place, .. } = plan;
        let mut mutations = Vec::new();
        for (stored, targets) in unset.into_values() {
            let goes = |target: &ResourceKey, on_delete| on_delete == OnDelete::Unset && targets.contains(target);
            let name = self.named(registry, caller, &stored).await;
            let cleared = self.cleared(registry, stored, &name, &goes).await?;
            mutations.push(Mutation::Put(Box::new(cleared)));
        }
        let is_alone = doomed.len() == 1 && mutations.is_empty();
        for Doomed { stored, fate, .. } in doomed {
            let mut stored = stored.decode()?;
            match fate {
                Fate::Remove if is_alone => {
                    self.remove_expecting(&stored, referrers).await?;
                    return Ok(Fate::Remove);
                }
                Fate::Remove => mutations.extend(removal::mutations(&stored)),
                Fate::Mark => {
                    self.renew_records(&mut stored);
                    mutations.extend(marked(stored));
                }
            }
        }
        self.backend.commit(Batch { referrers, belongs_to_deletion: true, ..Batch::new(mutations) }).await?;
        Ok(fate)
    }

    /// A resource without the references for which `goes` holds; `name` is what errors call it.
    pub(crate) async fn cleared(
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
        RequestHooks::new(kind.clone(), &Caller::host(crate::Consistency::Consistent))
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
        next.references = records(registry, &kind, &next, Some(&stored), Reading::Lenient).map_err(refused)?;
        next.generation = ids::ulid();
        server_meta::set(&kind, &mut next, None, Some(&stored));
        Ok(next)
    }

    /// The error of a plan that is blocked: names what blocks, as far as the caller may read it.
    pub(crate) async fn refusal(&self, registry: &Registry, caller: &Caller, plan: &DeletionPlan) -> Error {
        let root = plan.doomed.first().and_then(|root| root.stored.decode_id().ok().flatten()).unwrap_or_default();
        let mut reasons = Vec::new();
        let count = plan.protected.len() + plan.blocks.len();
        for protected in plan.protected.iter().take(NAMED) {
            let named = self.named(registry, caller, protected).await;
            reasons.push(format!("meta.lifecycle.block_deletion of {named} is set"));
        }
        for link in plan.blocks.iter().take(NAMED.saturating_sub(reasons.len())) {
            let named = self.named(registry, caller, &link.referrer).await;
            let target = plan.doomed.iter().find(|doomed| link.target.is(&doomed.stored));
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
        if self.is_readable(registry, caller, resource).await {
            let id = resource.decode_id().ok().flatten().unwrap_or_default();
            return types::describe(&id);
        }
        "a resource that you may not read".to_owned()
    }

    /// Whether a caller may read a resource; not, where it cannot be told.
    pub(crate) async fn is_readable(&self, registry: &Registry, caller: &Caller, resource: &EncodedResource) -> bool {
        let Ok(Some(id)) = resource.decode_id() else { return false };
        let Ok(kind) = registry.resolve(&type_of(&id)) else { return false };
        let mut hooks = RequestHooks::new(kind.clone(), caller);
        match hooks.upgraded(resource.clone()).await {
            Ok(current) => hooks.may_read(&current).await.unwrap_or(false),
            Err(_) => false,
        }
    }
}

/// What marks a resource, and holds it, with work for the garbage collector, unless that was done.
pub(crate) fn marked(mut stored: pb::Resource) -> Vec<Mutation> {
    let is_held = meta::finalizers(&stored.metadata).contains(FINALIZER);
    if meta::is_marked(&stored.metadata) && is_held {
        return Vec::new();
    }
    if !meta::is_marked(&stored.metadata) {
        removal::mark(&mut stored);
    }
    meta::add_finalizer(&mut stored.metadata, FINALIZER);
    stored.generation = ids::ulid();
    server_meta::set_touched(&mut stored);
    let work = removal::pending(&stored.id.clone().unwrap_or_default());
    vec![Mutation::Put(Box::new(stored)), work]
}
