//! Delete: by id, idempotent.
//!
//! A resource without finalizers is removed at once, and its tombstone makes its children follow ([`crate::reaper`]).
//! One with finalizers is marked, and removed with the last of them.

use crate::registry::Registry;
use mortise_resource::{Code, Error, authorizer::Verb, meta, pb, types};
use mortise_store::{Consistency, StoreError};

use crate::{
    audit::Method,
    builtin,
    caller::Caller,
    hooks::{RequestHooks, type_of},
    removal,
    retry::{Failure, Retry},
    service::ResourceService,
    store_fault::store_fault,
    write::{WriteMode, cas_failure},
};

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
        let mut call = self.begin(caller, Method::Delete).await?;
        call.about(request.id.as_ref());
        let deleted = self.deleted(caller, request).await;
        if let Ok(Some(Deleted { id, generations: [before, after], .. })) = &deleted {
            call.changed(Some(id), before, after);
        }
        call.end(deleted).await
    }

    async fn deleted(&self, caller: &Caller, request: pb::DeleteRequest) -> Result<Option<Deleted>, Error> {
        let mut id = request.id.ok_or_else(|| Error::invalid("id is required"))?;
        types::check_id("id", &mut id)?;
        let registry = self.types();
        let kind = registry.resolve(&type_of(&id))?.clone();
        let tenancy = id.tenancy.get_or_insert_default();
        kind.scope.check("resource", &kind.gvk.to_string(), tenancy)?;
        caller.fill(kind.scope, tenancy);
        kind.check_deletable()?;

        let version = request.version;
        let exact = !version.is_empty() && !id.uid.is_empty();
        let consistency = if exact { Consistency::Eventual } else { Consistency::Consistent };
        let mut retry = Retry::new(version.is_empty());
        loop {
            let mut stored = match self.backend.read(consistency, &id).await {
                Ok(stored) => stored,
                Err(StoreError::NotFound) => return Ok(None),
                Err(e) => return Err(store_fault("failed read", &e)),
            };
            let mut hooks = RequestHooks::new(kind.clone(), caller);
            hooks.upgrade(&mut stored).await?;
            hooks.authorize_write(Verb::Delete, &stored, "failed write acl").await?;
            hooks.release();
            builtin::refuse_default(&kind, &stored)?;
            self.check_region(&stored)?;
            if !version.is_empty() && version != stored.version {
                return Err(cas_failure());
            }
            match self.delete_or_mark(caller, &registry, stored).await {
                Ok(deleted) => {
                    self.settle(&kind).await?;
                    return Ok(Some(deleted));
                }
                Err(failure) => retry.after(failure).await?,
            }
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
            return self.remove(&stored).await.map(|()| deleted(id, None, String::new())).map_err(failed);
        }
        if meta::is_marked(&stored.metadata) {
            return Ok(deleted(id, Some(version), before.clone()));
        }
        let mut marked = stored;
        removal::mark(&mut marked);
        let request = pb::WriteRequest { resource: Some(marked) };
        let error = match self.write_as(caller, registry, request, WriteMode::of(Verb::Delete)).await {
            Ok(written) => {
                let (version, generation) = (written.resource.version(), written.resource.generation());
                return Ok(deleted(id, Some(version.to_owned()), generation.to_owned()));
            }
            Err(error) if error.code == Code::Aborted => return Err(Failure::Conflict(error)),
            Err(error) => error,
        };
        // To Write, a resource that is gone by now is one to be created, which fails in its own way.
        match self.backend.read(Consistency::Consistent, &id).await {
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
