//! Delete: by id, idempotent.
//!
//! A resource without finalizers is removed at once, and its tombstone makes its children follow ([`crate::deletion::reaper`]).
//! One with finalizers is marked, and removed with the last of them. What refers to it has a say ([`crate::deletion::plan`]).

use super::write::WriteMode;
use crate::{
    call::{
        Call, Caller, Failure, Method, Retry, request_id,
        store_fault::{cas_failure, store_fault},
    },
    deletion::{PlannedAction, Purpose, RemovalError},
    references::ResourceKey,
    registry::Registry,
    rules::{RequestHooks, builtin_types, region, tombstone},
    service::ResourceService,
};
use mortise_resource::{Code, EncodedResource, Error, authorizer::Verb, meta, pb};
use mortise_store::{Consistency, StoreError};

/// An incarnation that was deleted.
#[derive(Debug, Clone, PartialEq)]
pub struct Deleted {
    /// Its id, uid included.
    pub id: pb::Id,
    /// The version in which it is marked for deletion, for one that has finalizers; `None` for one that is gone.
    pub marked: Option<String>,
    /// Its generation before, and after, which is empty for one that is gone.
    generations: [String; 2],
}

/// Plans of a deletion, while what refers to the resource keeps changing.
const MAX_PLANS: u32 = 16;

impl ResourceService {
    /// Deletes a resource. One that does not exist, or exists with another uid, counts as deleted. A version makes the
    /// deletion conditional.
    ///
    /// # Errors
    /// `InvalidArgument`: the id, the type, the scope. `PermissionDenied`. `FailedPrecondition`: it belongs to another
    /// region. `Aborted`: the version is not the stored one. The errors of Write when a resource with finalizers is marked.
    pub async fn delete(&self, caller: &Caller, request: pb::DeleteRequest) -> Result<pb::DeleteResponse, Error> {
        self.delete_stored(caller, request).await.map(|_| pb::DeleteResponse {})
    }

    /// As [`ResourceService::delete`]; answers the incarnation that was deleted, whichever the request named.
    ///
    /// # Errors
    /// As [`ResourceService::delete`].
    pub async fn delete_stored(&self, caller: &Caller, request: pb::DeleteRequest) -> Result<Option<Deleted>, Error> {
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
        let (id, kind) = request_id::complete(&registry, caller, request.id)?;
        kind.check_deletable()?;

        let version = request.version;
        let exact = !version.is_empty() && !id.uid.is_empty();
        let consistency = if exact { Consistency::Eventual } else { Consistency::Consistent };
        let mut retry = Retry::new(version.is_empty());
        loop {
            let mut stored = match self.core.backend.read(consistency, &id).await {
                Ok(stored) => stored,
                Err(StoreError::NotFound) => return Ok(None),
                Err(e) => return Err(store_fault("failed read", &e)),
            };
            let mut hooks = RequestHooks::new(kind.clone(), caller);
            hooks.upgrade(&mut stored).await?;
            hooks.authorize_write(Verb::Delete, &stored, "failed write acl").await?;
            hooks.release();
            builtin_types::refuse_default(&kind, &stored)?;
            region::check_owner(&self.core, &stored)?;
            if !version.is_empty() && version != stored.version {
                return Err(cas_failure());
            }
            let planned = self.deletions.is_planned(&registry, &stored);
            let outcome = match planned {
                true => Box::pin(self.delete_planned(caller, &registry, stored)).await,
                false => self.delete_or_mark(caller, &registry, stored).await,
            };
            match outcome {
                Ok(deleted) => {
                    self.access_updates.settle(&kind).await?;
                    return Ok(Some(deleted));
                }
                Err(failure) => retry.after(failure).await?,
            }
        }
    }

    /// Deletes a resource with what goes with it, by what refers to it; marks it while something holds it.
    async fn delete_planned(
        &self,
        caller: &Caller,
        registry: &Registry,
        stored: pb::Resource,
    ) -> Result<Deleted, Failure> {
        let (id, before) = (stored.id.clone().unwrap_or_default(), stored.generation.clone());
        let deleted = |marked, after| Deleted { id: id.clone(), marked, generations: [before.clone(), after] };
        if meta::is_marked(&stored.metadata) && meta::has_finalizers(&stored.metadata) {
            return Ok(deleted(Some(stored.version), before.clone()));
        }
        let root = EncodedResource::encode(&stored).map_err(|fault| Failure::Final(fault.into()))?;
        let mut plans = 0;
        let done = loop {
            let plan = self.deletions.plan(registry, root.clone(), Purpose::Delete).await;
            let plan = plan.map_err(|error| Failure::Final(error.into()))?;
            plans += 1;
            match self.deletions.carry_out(registry, caller, plan).await {
                // The resource is as it was; what refers to it is not.
                Err(RemovalError::Store(StoreError::ReferrersChanged)) if plans < MAX_PLANS => {}
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
        let deleted = |id, marked, after| Deleted { id, marked, generations: [before.clone(), after] };
        if !meta::has_finalizers(&stored.metadata) {
            return self.deletions.remove(&stored).await.map(|()| deleted(id, None, String::new())).map_err(failed);
        }
        if meta::is_marked(&stored.metadata) {
            return Ok(deleted(id, Some(version), before.clone()));
        }
        let mut marked = stored;
        tombstone::mark(&mut marked);
        let request = pb::WriteRequest { resource: Some(marked) };
        let error = match self.write_as(caller, registry, request, WriteMode::new(Verb::Delete)).await {
            Ok(written) => {
                let (version, generation) = (written.resource.version(), written.resource.generation());
                return Ok(deleted(id, Some(version.to_owned()), generation.to_owned()));
            }
            Err(error) if error.code == Code::Aborted => return Err(Failure::Conflict(error)),
            Err(error) => error,
        };
        // To Write, a resource that is gone by now is one to be created, which fails in its own way.
        match self.core.backend.read(Consistency::Consistent, &id).await {
            Err(StoreError::NotFound) => Ok(deleted(id, None, String::new())),
            Ok(now) if now.version != version => Err(Failure::Conflict(cas_failure())),
            _ => Err(Failure::Final(error)),
        }
    }
}

fn failed(error: StoreError) -> Failure {
    match error {
        StoreError::CasFailure { .. } => Failure::Conflict(cas_failure()),
        other => Failure::Final(store_fault("failed delete", &other)),
    }
}
