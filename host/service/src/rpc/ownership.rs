//! GetTree, PlanDelete and SetBlockDeletion (`mortise.v1.OwnershipService`): links between resources, and the effect of
//! a deletion.
//!
//! Resources that the caller may not read are counted without their names.
//!
//! # Limits
//! A tree has links up to [`MAX_DEPTH`] from the resource ([`Walk`] bounds their number). A plan foresees as many
//! resources as one commit of a deletion may have. While an answer is made, its largest size counts against
//! `service.list_bytes` ([`TREE_BYTES`], [`PLAN_BYTES`]).

use mortise_resource::{
    Error,
    authorizer::Verb,
    data::{
        GetTreeRequest, GetTreeResponse, PlanDeleteRequest, PlanDeleteResponse, SetBlockDeletionRequest,
        SetBlockDeletionResponse,
    },
    pb,
};
use mortise_store::{Consistency, StoreError};

use crate::{
    call::{
        Call, Caller, Failure, Method, Retry, request_id,
        store_fault::{cas_failure, store_fault},
        with_outcome,
    },
    deletion::ShownPlan,
    references::{Walk, renew_records},
    rules::{RequestHooks, read_checked, region, server_meta},
    service::ResourceService,
};

/// Bytes of a tree: two ids for each link.
const TREE_BYTES: usize = 4 << 20;
/// Bytes of a plan.
const PLAN_BYTES: usize = 40 << 20;
/// Largest distance from the resource.
const MAX_DEPTH: u32 = 16;
/// Default distance from the resource.
const DEFAULT_DEPTH: u32 = 3;

impl ResourceService {
    /// Returns the resources that a resource depends on, and those that depend on it.
    ///
    /// # Errors
    /// Those of Read. `ResourceExhausted`: too many lists wait for shared bytes.
    pub async fn get_tree(&self, caller: &Caller, request: GetTreeRequest) -> Result<GetTreeResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::GetTree).await?;
        call.about(request.id.as_ref());
        let answer = self.tree(caller, request).await;
        call.end(answer).await
    }

    async fn tree(&self, caller: &Caller, request: GetTreeRequest) -> Result<GetTreeResponse, Error> {
        if request.depth > MAX_DEPTH {
            return Err(Error::invalid(format!("depth must be at most {MAX_DEPTH}, got: {}", request.depth)));
        }
        let depth = if request.depth == 0 { DEFAULT_DEPTH } else { request.depth };
        let _share = self.lists.bytes_for(caller, TREE_BYTES).await?;
        let root = read_checked(&self.core, caller, pb::ReadRequest { id: request.id }).await?;
        let registry = self.core.types();
        Walk::new(&self.references, &registry, caller).walk(root, depth).await
    }

    /// Returns the effect of a deletion.
    ///
    /// # Errors
    /// Those of GetTree. `FailedPrecondition`: the deletion reaches too many resources.
    pub async fn plan_delete(&self, caller: &Caller, request: PlanDeleteRequest) -> Result<PlanDeleteResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::PlanDelete).await?;
        call.about(request.id.as_ref());
        let answer = self.deletion_planned(caller, request).await;
        call.end(answer).await
    }

    async fn deletion_planned(&self, caller: &Caller, request: PlanDeleteRequest) -> Result<PlanDeleteResponse, Error> {
        // Taken before the place of a large plan, so that this wait holds no place.
        let _share = self.lists.bytes_for(caller, PLAN_BYTES).await?;
        let root = read_checked(&self.core, caller, pb::ReadRequest { id: request.id }).await?;
        let registry = self.core.types();
        ShownPlan::of(&self.deletions, &registry, caller, root).await
    }

    /// Sets or clears `meta.lifecycle.block_deletion`.
    ///
    /// # Errors
    /// `PermissionDenied`. `NotFound`. `Aborted`: the version is not the stored one.
    pub async fn change_block_deletion(
        &self,
        caller: &Caller,
        request: SetBlockDeletionRequest,
    ) -> Result<SetBlockDeletionResponse, Error> {
        let service = self.clone();
        with_outcome(&self.core, caller, |caller| async move { service.recorded_block(&caller, request).await }).await
    }

    async fn recorded_block(
        &self,
        caller: &Caller,
        request: SetBlockDeletionRequest,
    ) -> Result<SetBlockDeletionResponse, Error> {
        let mut call = Call::begin(&self.core, caller, Method::SetBlockDeletion).await?;
        call.about(request.id.as_ref());
        let answer = self.block_deletion_changed(caller, request).await;
        call.end(answer).await
    }

    async fn block_deletion_changed(
        &self,
        caller: &Caller,
        request: SetBlockDeletionRequest,
    ) -> Result<SetBlockDeletionResponse, Error> {
        let registry = self.core.types();
        let (id, kind) = request_id::complete(&registry, caller, request.id)?;
        kind.check_deletable()?;
        let mut retry = Retry::new(&self.writers, caller, &id, &request.version);
        loop {
            retry.queue().await?;
            let stored = match self.core.backend.read(Consistency::Consistent, &id).await {
                Ok(stored) => stored,
                Err(e @ StoreError::NotFound) => return Err(Error::not_found(e.to_string())),
                Err(e @ StoreError::GroupVersionMismatch { .. }) => return Err(Error::invalid(e.to_string())),
                Err(e) => return Err(store_fault("failed read", &e)),
            };
            let mut seen = stored.clone();
            let mut hooks = RequestHooks::new(kind.clone(), caller);
            hooks.upgrade(&mut seen).await?;
            hooks.authorize_write(Verb::Write, &seen, "failed write acl").await?;
            hooks.release();
            region::check_owner(&self.core, &stored)?;
            if !request.version.is_empty() && request.version != stored.version {
                return Err(cas_failure());
            }
            caller.start_commit().await;
            match self.set_block_deletion(stored, request.block_deletion).await {
                Ok(resource) => return Ok(SetBlockDeletionResponse { resource: Some(resource) }),
                Err(failure) => retry.after(failure).await?,
            }
        }
    }

    /// Sets or clears the block in `stored`, the resource as stored now.
    async fn set_block_deletion(
        &self,
        mut stored: pb::Resource,
        block_deletion: bool,
    ) -> Result<pb::Resource, Failure> {
        server_meta::set_touched(&mut stored);
        if let Some(meta) = &mut stored.meta {
            meta.lifecycle.get_or_insert_default().block_deletion = block_deletion;
        }
        renew_records(&self.core, &mut stored);
        self.core.backend.write_cas(stored).await.map_err(|e| match e {
            StoreError::CasFailure { .. } | StoreError::WrongUid => Failure::Conflict(cas_failure()),
            e => Failure::Final(store_fault("failed to set meta.lifecycle", &e)),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use arc_swap::ArcSwap;
    use mortise_resource::{Code, authorizer::AllowAll, types};
    use mortise_store::{Backend, Options as StoreOptions, SledBackend};
    use tokio::time::timeout;

    use super::*;
    use crate::{call::Source, core::Options, registry::Registry};

    #[tokio::test]
    async fn trees_and_plans_wait_for_room_among_the_lists() {
        let dir = tempfile::tempdir().unwrap();
        let store = SledBackend::open(StoreOptions::new(dir.path().join("store"))).unwrap();
        let backend: Arc<dyn Backend> = Arc::new(store);
        let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
        let options = Options { max_waiting: 1, ..Options::default() };
        let service = ResourceService::new(backend, registry, options);
        let caller =
            |n: u64| Caller::new(Arc::new(AllowAll), Consistency::Consistent).with_source(Source::of_number(n));
        let id = Some(pb::Id {
            r#type: Some(types::partition().to_pb()),
            tenancy: Some(pb::Tenancy::default()),
            name: "nobody".into(),
            uid: String::new(),
        });
        let all = service.lists.bytes.acquire(caller(1).queue_key(), service.lists.bytes.total()).await.unwrap();
        let (first, second) = (caller(2), caller(3));
        let mut tree = Box::pin(service.get_tree(&first, GetTreeRequest { id: id.clone(), depth: 1 }));
        let plan = Box::pin(service.plan_delete(&second, PlanDeleteRequest { id }));
        let moment = Duration::from_millis(50);
        assert!(timeout(moment, &mut tree).await.is_err(), "it waits");
        let refused = plan.await.unwrap_err();
        assert_eq!(refused.code, Code::ResourceExhausted, "{refused}");
        assert!(refused.message.contains("service.max_queued_lists"), "{refused}");
        drop(all);
        assert_eq!(tree.await.unwrap_err().code, Code::NotFound, "it is its turn");
    }
}
