//! Delete: by id, idempotent.
//!
//! A resource without finalizers is removed at once, and its tombstone leads to the deletion of its children
//! ([`crate::deletion::reaper`]). A resource with finalizers is marked, and removed with the last of them. References
//! to it count ([`crate::deletion::plan`]).

use super::write_mode::WriteMode;
use crate::{
    call::{
        Call, Caller, Failure, Method, Retry, WriterQueues, request_id,
        store_fault::{cas_failure, store_fault},
        with_outcome,
    },
    deletion::{PlannedAction, Purpose, RemovalError},
    planted::{self, Fault},
    references::ResourceKey,
    registry::Registry,
    rules::{RequestHooks, access_rules, builtin_types, region, tombstone},
    service::ResourceService,
};
use mortise_resource::{Code, Diagnostic, EncodedResource, Error, authorizer::Verb, meta, pb};
use mortise_store::{Consistency, StoreError};

/// A deleted incarnation.
#[derive(Debug, Clone, PartialEq)]
pub struct Deleted {
    /// Its id, uid included.
    pub id: pb::Id,
    /// Version of a resource that finalizers hold, with its mark; `None` if the resource is gone.
    pub marked: Option<String>,
    /// Consequences beyond the resource.
    pub warnings: Vec<Diagnostic>,
    /// Generations before and after; the latter is empty if the resource is gone.
    generations: [String; 2],
}

/// Attempts of a deletion while the referrers of the resource keep changing.
const MAX_PLANS: u32 = 16;
/// Attempts before a deletion waits for the turns of the resources that it changes.
const PLANS_WITHOUT_TURNS: u32 = 2;

impl ResourceService {
    /// Deletes a resource. A missing resource, or one with another uid, counts as deleted. A version makes the deletion
    /// conditional.
    ///
    /// # Errors
    /// `InvalidArgument`: the id, the type, the scope. `PermissionDenied`. `FailedPrecondition`: another region owns
    /// the resource. `Aborted`: the version is not the stored one. The errors of Write when a resource with finalizers
    /// is marked.
    pub async fn delete(&self, caller: &Caller, request: pb::DeleteRequest) -> Result<pb::DeleteResponse, Error> {
        let deleted = self.delete_stored(caller, request).await?;
        Ok(pb::DeleteResponse { warnings: deleted.map(|deleted| deleted.warnings).unwrap_or_default() })
    }

    /// Deletes as [`ResourceService::delete`]; returns the deleted incarnation, also if the request named none.
    ///
    /// # Errors
    /// Those of [`ResourceService::delete`].
    pub async fn delete_stored(&self, caller: &Caller, request: pb::DeleteRequest) -> Result<Option<Deleted>, Error> {
        let service = self.clone();
        with_outcome(&self.core, caller, |caller| async move { service.recorded_deletion(&caller, request).await })
            .await
    }

    async fn recorded_deletion(&self, caller: &Caller, request: pb::DeleteRequest) -> Result<Option<Deleted>, Error> {
        let mut call = Call::begin(&self.core, caller, Method::Delete).await?;
        call.about(request.id.as_ref());
        let deleted = self.deleted(caller, request).await;
        if let Ok(Some(Deleted { id, generations: [before, after], .. })) = &deleted {
            call.changed(Some(id), before, after);
        }
        call.end(deleted).await
    }

    async fn deleted(&self, caller: &Caller, request: pb::DeleteRequest) -> Result<Option<Deleted>, Error> {
        let registry = self.core.types();
        let checked = request_id::complete(&registry, caller, request.id);
        let (id, kind) = match checked.and_then(|(id, kind)| kind.check_deletable().map(|()| (id, kind))) {
            Ok(checked) => checked,
            // As for a missing resource, so that the answer tells no caller without permissions which types there are.
            Err(_) if !caller.authorizer.has_permissions() => return Ok(None),
            Err(error) => return Err(error),
        };

        let version = request.version;
        let mut retry = Retry::new(&self.writers, caller, &id, &version);
        loop {
            retry.queue().await?;
            let mut stored = match self.core.backend.read(Consistency::Consistent, &id).await {
                Ok(stored) => stored,
                Err(StoreError::NotFound) => return Ok(None),
                Err(e) => return Err(store_fault("failed read", &e)),
            };
            let mut hooks = RequestHooks::new(kind.clone(), caller);
            hooks.upgrade(&mut stored).await?;
            hooks.authorize_write(Verb::Delete, &stored, "failed write acl").await?;
            hooks.release();
            access_rules::check_deletion(&self.core, caller, &kind, &stored)?;
            let warnings = access_rules::users_of_policy(&self.core, caller, &kind, &id.name).await;
            builtin_types::refuse_default(&kind, &stored)?;
            region::check_owner(&self.core, &stored)?;
            if !version.is_empty() && version != stored.version && !planted::happens(Fault::DeletionIgnoresVersion) {
                return Err(cas_failure());
            }
            let planned = self.deletions.is_planned(&registry, &stored);
            let outcome = match planned {
                true => Box::pin(self.delete_planned(caller, &registry, stored, &mut retry)).await,
                false => self.delete_or_mark(caller, &registry, stored).await,
            };
            match outcome {
                Ok(deleted) => {
                    self.access_updates.settle(&kind).await?;
                    return Ok(Some(Deleted { warnings, ..deleted }));
                }
                Err(failure) => retry.after(failure).await?,
            }
        }
    }

    /// Returns whether a resource is stored in this version.
    async fn is_unchanged(&self, id: &pb::Id, version: &str) -> Result<bool, StoreError> {
        let now = ResourceKey::from(id).stored(&self.core).await?;
        Ok(now.is_some_and(|now| now.version() == version))
    }

    /// Deletes a resource and the resources that go with it along its references; marks it while something holds it.
    async fn delete_planned(
        &self,
        caller: &Caller,
        registry: &Registry,
        stored: pb::Resource,
        retry: &mut Retry<'_>,
    ) -> Result<Deleted, Failure> {
        let (id, before) = (stored.id.clone().unwrap_or_default(), stored.generation.clone());
        let deleted = |marked, after| Deleted {
            id: id.clone(),
            marked,
            warnings: Vec::new(),
            generations: [before.clone(), after],
        };
        if meta::is_marked(&stored.metadata) && meta::has_finalizers(&stored.metadata) {
            return Ok(deleted(Some(stored.version), before.clone()));
        }
        let root = EncodedResource::encode(&stored).map_err(|fault| Failure::Final(fault.into()))?;
        let (mut plans, mut turns) = (0, Vec::new());
        let done = loop {
            let plan = self.deletions.plan(registry, root.clone(), Purpose::Delete).await;
            let plan = plan.map_err(|error| Failure::Final(error.into()))?;
            plans += 1;
            if plans > PLANS_WITHOUT_TURNS && turns.is_empty() && !plan.unset.is_empty() {
                // Writers without a pause could otherwise come first each time.
                let changed = plan.unset.keys().map(|key| WriterQueues::key(&key.id()));
                let all: Vec<_> = [WriterQueues::key(&id)].into_iter().chain(changed).collect();
                drop(plan);
                retry.give_up_turn();
                turns = self.writers.wait_for_all(all.into_iter(), caller.queue_key()).await.map_err(Failure::Final)?;
                continue;
            }
            caller.start_commit().await;
            match self.deletions.carry_out(registry, caller, plan).await {
                // The resource is unchanged, its referrers are not: plan again.
                Err(RemovalError::Store(StoreError::ReferrersChanged)) if plans < MAX_PLANS => {}
                // So it may be if another resource of the plan was written meanwhile.
                Err(error)
                    if error.is_conflict()
                        && plans < MAX_PLANS
                        && self.is_unchanged(&id, &stored.version).await.map_err(failed)? => {}
                done => break done,
            }
        };
        match done {
            Ok(PlannedAction::Remove) => Ok(deleted(None, String::new())),
            Ok(PlannedAction::Mark) => {
                let now = ResourceKey::from(&id).stored(&self.core).await;
                let now = now.map_err(failed)?.filter(|now| now.uid() == id.uid);
                let (version, generation) = now
                    .map_or((None, String::new()), |now| (Some(now.version().to_owned()), now.generation().to_owned()));
                Ok(deleted(version, generation))
            }
            Err(error) if error.is_conflict() => Err(Failure::Conflict(cas_failure())),
            Err(RemovalError::Store(error)) => Err(failed(error)),
            Err(RemovalError::Refused(error)) => Err(Failure::Final(error)),
        }
    }

    /// Removes a resource, or marks it while finalizers hold it.
    async fn delete_or_mark(
        &self,
        caller: &Caller,
        registry: &Registry,
        stored: pb::Resource,
    ) -> Result<Deleted, Failure> {
        let (id, version) = (stored.id.clone().unwrap_or_default(), stored.version.clone());
        let before = stored.generation.clone();
        let deleted =
            |id, marked, after| Deleted { id, marked, warnings: Vec::new(), generations: [before.clone(), after] };
        if !meta::has_finalizers(&stored.metadata) || planted::happens(Fault::FinalizerIgnored) {
            caller.start_commit().await;
            return self
                .deletions
                .remove(&stored, caller.held.clone())
                .await
                .map(|()| deleted(id, None, String::new()))
                .map_err(failed);
        }
        if meta::is_marked(&stored.metadata) {
            return Ok(deleted(id, Some(version), before.clone()));
        }
        let mut marked = stored;
        tombstone::mark(&mut marked);
        let request = pb::WriteRequest { resource: Some(marked) };
        let mode = WriteMode { has_read: true, ..WriteMode::new(Verb::Delete) };
        let error = match self.write_as(caller, registry, request, mode).await {
            Ok(written) => {
                let (version, generation) = (written.resource.version(), written.resource.generation());
                return Ok(deleted(id, Some(version.to_owned()), generation.to_owned()));
            }
            Err(error) if error.code == Code::Aborted => return Err(Failure::Conflict(error)),
            Err(error) => error,
        };
        // Write would take a deleted resource for a new one, and fail with another error.
        match self.core.backend.read(Consistency::Consistent, &id).await {
            Err(StoreError::NotFound) => Ok(deleted(id, None, String::new())),
            Ok(now) if now.version != version => Err(Failure::Conflict(cas_failure())),
            _ => Err(Failure::Final(error)),
        }
    }
}

fn failed(error: StoreError) -> Failure {
    match error {
        // Another incarnation came between read and commit.
        StoreError::CasFailure { .. } | StoreError::WrongUid => Failure::Conflict(cas_failure()),
        other => Failure::Final(store_fault("failed delete", &other)),
    }
}
