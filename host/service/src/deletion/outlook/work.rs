//! The single pieces of work of an outlook, each as the reaper and the collector do it.

use std::sync::Arc;

use mortise_resource::{
    EncodedResource, IdRef,
    data::{OnDelete, delete_step::Action},
    meta, pb, types,
};
use mortise_store::{DEFERRED_BEHAVIOURS, Query, TypeKey};

use super::{
    super::{
        error::RemovalError,
        owners::{DeletedOwner, DependentFate, judge, without_owners},
        plan::{DeletionPlan, PlanError, PlannedAction, Purpose},
    },
    Cause, Holds, MAX_WORK, Outlook, Progress, Work,
};
use crate::{
    core::ids::{self, tenancy_of},
    references::{ResourceKey, field_of, finalizer::REFERENCES_FINALIZER, is_elsewhere, owner_of, owner_record},
    rules::{
        access_rules,
        builtin_types::{self, TENANCY_FINALIZER},
        region, tombstone,
    },
};

impl Outlook<'_> {
    /// Deletes a resource after the first commit, as [`Deletions::delete_version`] does.
    pub(super) async fn delete(
        &mut self,
        now: EncodedResource,
        purpose: Purpose<'_>,
        because: Cause,
    ) -> Result<Progress, PlanError> {
        let whole = now.decode()?;
        if meta::is_marked(&whole.metadata) && meta::has_finalizers(&whole.metadata) {
            let key = ResourceKey::from(now.id());
            if !self.marked.contains_key(&key) {
                self.marked.insert(key.clone(), (now, because));
                self.begin_work_of_marked(key, &whole);
            }
            return Ok(Progress::Done);
        }
        if !self.deletions.is_planned(self.registry, &whole) {
            self.delete_alone(now, &whole, because, true).await?;
            return Ok(Progress::Done);
        }
        match self.plan(now, purpose).await {
            Ok(plan) if plan.is_blocked() => Ok(Progress::Held(Holds::of(&plan)?)),
            Ok(plan) => self.apply(plan, because, true).await,
            Err(PlanError::TooFar) => Ok(Progress::Held(Holds::because(PlanError::TooFar.to_string()))),
            Err(other) => Err(other),
        }
    }

    /// Deletes a resource to which nothing may refer, or marks it.
    pub(super) async fn delete_alone(
        &mut self,
        now: EncodedResource,
        whole: &pb::Resource,
        because: Cause,
        is_later: bool,
    ) -> Result<(), PlanError> {
        if !meta::has_finalizers(&whole.metadata) {
            return self.goes(now, because, is_later).await;
        }
        let mut marked = whole.clone();
        tombstone::mark(&mut marked);
        self.marks(now, marked, because, is_later)
    }

    /// Supposes that a plan is carried out. Held if a field cannot be cleared.
    pub(super) async fn apply(
        &mut self,
        plan: DeletionPlan,
        because: Cause,
        is_later: bool,
    ) -> Result<Progress, PlanError> {
        let DeletionPlan { deletions, unset, .. } = plan;
        let mut cleared = Vec::new();
        for (key, (referrer, targets)) in unset {
            let goes = |target: &ResourceKey, on_delete| on_delete == OnDelete::Unset && targets.contains(target);
            let next = self.deletions.cleared(self.registry, referrer.clone(), &key.to_string(), &goes).await;
            match next {
                Ok(next) => cleared.push((key, referrer, targets.clone(), EncodedResource::encode(&next)?)),
                Err(RemovalError::Refused(error)) => return Ok(Progress::Held(Holds::because(error.message))),
                Err(RemovalError::Store(error)) => return Err(error.into()),
            }
        }
        let mut because = Some(because);
        for planned in deletions {
            let cause = because.take().unwrap_or(planned.because);
            match planned.action {
                PlannedAction::Remove => self.goes(planned.stored, cause, is_later).await?,
                PlannedAction::Mark => {
                    let mut marked = planned.stored.decode()?;
                    if !meta::is_marked(&marked.metadata) {
                        tombstone::mark(&mut marked);
                    }
                    meta::add_finalizer(&mut marked.metadata, REFERENCES_FINALIZER);
                    self.marks(planned.stored, marked, cause, is_later)?;
                }
            }
        }
        for (key, referrer, targets, next) in cleared {
            let action = if is_later { Action::UnsetLater } else { Action::Unset };
            for target in targets {
                let field = field_of(&referrer, &target, OnDelete::Unset)?;
                self.step(action, referrer.clone(), Some((target, field)), Holds::default());
            }
            self.suppose(key, Some(next));
        }
        Ok(Progress::Done)
    }

    /// Supposes that a resource is gone, and adds the work that follows.
    pub(super) async fn goes(
        &mut self,
        stored: EncodedResource,
        because: Cause,
        is_later: bool,
    ) -> Result<(), PlanError> {
        let key = ResourceKey::from(stored.id());
        let id = stored.decode_id()?.unwrap_or_default();
        self.suppose(key.clone(), None);
        let (core, cause) = (&self.deletions.core, Some((key.clone(), String::new())));
        let mut work = Vec::new();
        let mut dependents = core.backend.scan_referrers(&key.expected(), OnDelete::Unspecified).await?;
        let region = region::owning_region(&stored.decode()?).to_owned();
        let owner = DeletedOwner {
            id: id.clone(),
            key: key.clone(),
            deletion: self.deletion.clone(),
            region,
            deleted_at: None,
        };
        let owner = Arc::new(owner);
        let mut read = 0;
        while let Some(page) = dependents.next().await? {
            read += page.len();
            work.extend(page.iter().map(|found| Work::Release { key: found.id().into(), owner: owner.clone() }));
            if work.len() > MAX_WORK {
                break;
            }
        }
        let mut children = core.backend.scan_owned(&id).await?;
        while let Some(page) = children.next().await? {
            read += page.len();
            for child in page.iter().filter(|child| !region::is_foreign(core, child)) {
                let stays = |id: &pb::Id| builtin_types::is_default(id) || access_rules::outlives_owners(id);
                if !child.decode_id()?.as_ref().is_some_and(stays) {
                    work.push(Work::Delete { key: child.id().into(), because: cause.clone(), within: None });
                }
            }
            if work.len() > MAX_WORK {
                break;
            }
        }
        self.read += read;
        // Earlier deletions that wait for this resource.
        for record in stored.references()?.iter().filter(|record| !record.field.is_empty()) {
            let target = ResourceKey::from(record);
            if !self.marked.contains_key(&target)
                && let Some(waiting) = self.supposed.read(core, &target).await?
                && waiting.deletion_mark().is_some()
                && meta::finalizers(&waiting.decode()?.metadata).contains(REFERENCES_FINALIZER)
            {
                self.marked.insert(target.clone(), (waiting, cause.clone()));
                work.push(Work::Finish { key: target });
            }
        }
        work.into_iter().for_each(|work| self.add(work));
        match self.marked.get(&key).cloned() {
            // The mark has a step already.
            Some(_) if self.steps.iter().any(|step| step.action == Action::Mark && key.is(&step.resource)) => {}
            Some((resource, cause)) => self.step(Action::DeleteLater, resource, cause, Holds::default()),
            None => {
                let action = if is_later { Action::DeleteLater } else { Action::Delete };
                let stored = if is_later { key.stored(&self.deletions.core).await?.unwrap_or(stored) } else { stored };
                self.step(action, stored, because, Holds::default());
            }
        }
        Ok(())
    }

    /// Supposes that a resource is marked, and adds the work that follows.
    pub(super) fn marks(
        &mut self,
        stored: EncodedResource,
        marked: pb::Resource,
        because: Cause,
        is_later: bool,
    ) -> Result<(), PlanError> {
        let key = ResourceKey::from(stored.id());
        self.suppose(key.clone(), Some(EncodedResource::encode(&marked)?));
        if self.marked.contains_key(&key) {
            return Ok(());
        }
        if !is_later {
            self.step(Action::Mark, stored.clone(), because.clone(), Holds::default());
        }
        self.marked.insert(key.clone(), (stored, because));
        self.begin_work_of_marked(key, &marked);
        Ok(())
    }

    pub(super) fn begin_work_of_marked(&mut self, key: ResourceKey, marked: &pb::Resource) {
        let is_unit = meta::finalizers(&marked.metadata).contains(TENANCY_FINALIZER);
        self.add(if is_unit { Work::Empty { key } } else { Work::Finish { key } });
    }

    /// Drops the owner from a resource.
    pub(super) async fn release(&mut self, now: EncodedResource, owner: &DeletedOwner) -> Result<Progress, PlanError> {
        let core = &self.deletions.core;
        let whole = now.decode()?;
        if region::is_foreign(core, &now) || meta::is_marked(&whole.metadata) {
            return Ok(Progress::Done);
        }
        let because = Some((owner.key.clone(), String::new()));
        let fate = |entry: &_, key: &_, known: Option<&_>| owner.fate(core, entry, key, known);
        match judge(self.registry, &whole, &self.deletion, &fate) {
            DependentFate::Unchanged => Ok(Progress::Done),
            DependentFate::Goes(_) => {
                let deletion = self.deletion.clone();
                self.delete(now, Purpose::Follow(&deletion), because).await
            }
            DependentFate::Stays(kept, past) => {
                let holder = whole.id.as_ref().map(tenancy_of).cloned().unwrap_or_default();
                let holds_never = |entry: &_| {
                    let known = owner_record(&whole.references, &owner_of(self.registry, entry, &holder));
                    known.is_some_and(|known| known.owner_uid.is_empty()) && !is_elsewhere(core, entry, known)
                };
                let reason = match !kept.is_empty() && kept.iter().all(holds_never) {
                    true => "deleted later, unless another of its owners exists within service.owner_grace_ms",
                    false => "",
                };
                let next = match without_owners(self.registry, whole.clone(), kept, past) {
                    Ok(next) => EncodedResource::encode(&next)?,
                    Err(RemovalError::Refused(error)) => return Ok(Progress::Held(Holds::because(error.message))),
                    Err(RemovalError::Store(error)) => return Err(error.into()),
                };
                let key = ResourceKey::from(now.id());
                let stored = key.stored(core).await?.unwrap_or(now);
                self.suppose(key, Some(next));
                self.step(Action::ReleaseLater, stored, because, Holds::because(reason.to_owned()));
                Ok(Progress::Done)
            }
        }
    }

    /// Does the deferred work for a marked resource, as the reaper does.
    pub(super) async fn work_off(&mut self, key: &ResourceKey, now: EncodedResource) -> Result<Progress, PlanError> {
        let whole = now.decode()?;
        let finalizers = meta::finalizers(&whole.metadata);
        if !meta::is_marked(&whole.metadata) {
            return Ok(Progress::Done);
        }
        if !finalizers.contains(REFERENCES_FINALIZER) {
            let finalizers = finalizers.into_iter().map(str::to_owned).collect();
            return Ok(Progress::Held(Holds { finalizers, ..Holds::default() }));
        }
        let mut held: Option<Holds> = None;
        for on_delete in DEFERRED_BEHAVIOURS {
            let mut referrers = self.deletions.core.backend.scan_referrers(&key.expected(), on_delete).await?;
            while let Some(page) = referrers.next().await? {
                self.read += page.len();
                if self.bound().is_some() {
                    return Ok(Progress::Held(Holds::default()));
                }
                for referrer in page {
                    if key.is(&referrer) || region::is_foreign(&self.deletions.core, &referrer) {
                        continue;
                    }
                    let Some(referrer) = self.supposed.referrer(referrer, key, on_delete)? else { continue };
                    if let Some(holds) = self.work_off_one(key, referrer, on_delete).await? {
                        held.get_or_insert_default().add(holds);
                    }
                    if self.bound().is_some() {
                        return Ok(Progress::Held(Holds::default()));
                    }
                }
            }
        }
        if let Some(held) = held {
            return Ok(Progress::Held(held));
        }
        let deletion = self.deletion.clone();
        let finish = Purpose::Finish { ignores_finalizers: false, deletion: &deletion };
        match self.plan(now, finish).await {
            Ok(plan) if plan.is_blocked() || plan.action() == PlannedAction::Mark => {
                Ok(Progress::Held(Holds::of(&plan)?))
            }
            Ok(plan) => self.apply(plan, None, true).await,
            Err(PlanError::TooFar) => Ok(Progress::Held(Holds::because(PlanError::TooFar.to_string()))),
            Err(other) => Err(other),
        }
    }

    pub(super) async fn work_off_one(
        &mut self,
        key: &ResourceKey,
        referrer: EncodedResource,
        on_delete: OnDelete,
    ) -> Result<Option<Holds>, PlanError> {
        let because = Some((key.clone(), field_of(&referrer, key, on_delete)?));
        if on_delete == OnDelete::AsyncCascade {
            let deletion = self.deletion.clone();
            return Ok(match self.delete(referrer, Purpose::Follow(&deletion), because).await? {
                Progress::Done => None,
                Progress::Held(holds) => Some(holds),
            });
        }
        let goes = |to: &ResourceKey, how| how == OnDelete::AsyncUnset && to == key;
        let own = ResourceKey::from(referrer.id());
        match self.deletions.cleared(self.registry, referrer.clone(), &own.to_string(), &goes).await {
            Ok(next) => {
                let stored = own.stored(&self.deletions.core).await?.unwrap_or(referrer);
                self.step(Action::UnsetLater, stored, because, Holds::default());
                self.suppose(own, Some(EncodedResource::encode(&next)?));
                Ok(None)
            }
            Err(RemovalError::Refused(error)) => Ok(Some(Holds::because(error.message))),
            Err(RemovalError::Store(error)) => Err(error.into()),
        }
    }

    /// Empties a unit of tenancy, and removes it.
    pub(super) async fn empty(&mut self, key: &ResourceKey, now: EncodedResource) -> Result<Progress, PlanError> {
        let tenancy = ids::within_unit(IdRef::from(&key.id()));
        let mut holds = Holds::default();
        let mut left = Vec::new();
        if let Some(known) = self.left.remove(key) {
            for own in known {
                self.read += 1;
                if let Some(found) = self.supposed.read(&self.deletions.core, &own).await? {
                    left.extend(self.empty_of(key, &tenancy, found, &mut holds).await?);
                }
                if self.bound().is_some() {
                    return Ok(Progress::Held(holds));
                }
            }
        } else {
            for type_key in self.deletions.core.backend.types().await? {
                if type_key == TypeKey::from(&types::tombstone().to_pb()) {
                    continue;
                }
                let query = Query { type_key, tenancy: tenancy.clone(), name_prefix: String::new() };
                let mut content = self.deletions.core.backend.scan(&query).await?;
                while let Some(page) = content.next().await? {
                    self.read += page.len();
                    for found in page {
                        if let Some(found) = self.supposed.now(found) {
                            left.extend(self.empty_of(key, &tenancy, found, &mut holds).await?);
                        }
                        if self.bound().is_some() {
                            return Ok(Progress::Held(holds));
                        }
                    }
                }
            }
        }
        holds.resources.extend(left.iter().cloned());
        self.left.insert(key.clone(), left);
        let whole = now.decode()?;
        let others = meta::finalizers(&whole.metadata).into_iter().filter(|name| *name != TENANCY_FINALIZER);
        holds.finalizers.extend(others.map(str::to_owned));
        if holds.is_empty() {
            self.goes(now, None, true).await?;
            return Ok(Progress::Done);
        }
        Ok(Progress::Held(holds))
    }

    /// Deletes a resource of a unit. Returns its key if it is still there.
    async fn empty_of(
        &mut self,
        unit: &ResourceKey,
        tenancy: &pb::Tenancy,
        found: EncodedResource,
        holds: &mut Holds,
    ) -> Result<Option<ResourceKey>, PlanError> {
        let (own, deletion) = (ResourceKey::from(found.id()), self.deletion.clone());
        let because = Some((unit.clone(), String::new()));
        if let Progress::Held(more) = self.delete(found, Purpose::Empty(tenancy, &deletion), because).await? {
            holds.add(more);
        }
        let is_left = self.supposed.read(&self.deletions.core, &own).await?.is_some();
        Ok(is_left.then_some(own))
    }
}
