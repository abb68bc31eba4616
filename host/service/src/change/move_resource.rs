//! Move: makes a resource of one type out of a resource of another type, in one commit.
//!
//! The new resource passes the hooks of a write. The old one is deleted as by Delete: with a tombstone, which deletes
//! its children, or with a mark while finalizers hold it. If either changes meanwhile, nothing is stored.

use mortise_resource::{
    Code, EncodedResource, Error,
    authorizer::Verb,
    data::{MoveRequest, MoveResponse},
    meta, pb, resource_meta, types,
};
use mortise_store::{Consistency, Expectation, ExpectedId, ExpectedReferrers, Mutation, StoreError};

use super::{changes::Changes, import_result::ImportResult};
use crate::{
    call::{
        Caller, Failure, request_id,
        store_fault::{cas_failure, store_fault},
    },
    core::ids::{self, tenancy_of},
    deletion::{PlannedAction, Purpose},
    planted::{self, Fault},
    references::ResourceKey,
    registry::{Owner, Registry, ResourceType},
    rules::{
        ReadDecision, RequestHooks, admit, builtin_types,
        region::{self, Placement},
        server_meta, tombstone, upgrade,
    },
};

impl Changes {
    /// Makes one attempt to move a resource to another type, or returns the resource that would be stored. Returns the
    /// old resource's generation, too.
    ///
    /// # Errors
    /// Those of [`crate::ResourceService::move_resource`].
    pub(crate) async fn move_resource(
        &self,
        caller: &Caller,
        request: MoveRequest,
    ) -> Result<(MoveResponse, String), Failure> {
        let registry = self.core.types();
        let (id, old_kind) = request_id::complete(&registry, caller, request.id)?;
        let new_kind = registry.resolve(&request.to.ok_or_else(|| Error::invalid("to is required"))?)?.clone();
        check_types(&old_kind, &new_kind)?;
        let old = self.old_for_move(caller, &old_kind, &id, &request.version).await?;
        let old_id = old.id.clone().unwrap_or_default();
        let plugin = new_kind.owner.plugin().map(|plugin| plugin.name()).unwrap_or_default();
        let kept = self.private_bytes.get(plugin, &old_id).await.map_err(|e| failed(&e))?;
        let mut hooks = RequestHooks::new(new_kind.clone(), caller);
        let reply = hooks.move_to(&old, upgrade::schema_version(&old), kept).await?;
        let mut result = ImportResult::read(&new_kind, caller, "move", reply)?;
        let mut resource = pb::Resource {
            id: Some(pb::Id { r#type: Some(new_kind.gvk.to_pb()), uid: String::new(), ..old_id.clone() }),
            owner: old.owner.clone(),
            meta: old.meta.as_deref().map(|meta| Box::new(resource_meta::client_part(meta))),
            metadata: std::mem::take(&mut result.resource.metadata),
            data: result.resource.data.take(),
            ..pb::Resource::default()
        };
        upgrade::set_schema_version(&new_kind, &mut resource);
        let (warnings, units) =
            admit::admit(&self.core, &mut hooks, Verb::Write, &new_kind, &mut resource, None).await?;
        admit::check_size(&self.core, &resource, None)?;
        units.check_unmarked(tenancy_of(&old_id))?;
        self.check_absent(&resource).await?;
        let before = old.generation.clone();
        if request.dry_run {
            return Ok((MoveResponse { resource: Some(resource), warnings }, before));
        }
        if let Some(id) = &mut resource.id {
            id.uid = ids::ulid();
        }
        resource.generation = ids::ulid();
        // The hook's word on `block_deletion` stays in `meta`.
        let client = resource.meta.clone();
        server_meta::set(&new_kind, &mut resource, client.as_deref(), None);
        let policy = units.policy.as_deref();
        let inherited = region::inherited(&self.core, &registry, &new_kind, &resource, policy).await;
        let inherited = inherited.map_err(|e| failed(&e))?;
        region::set_computed(&self.core, &new_kind, &mut resource, Placement { policy, inherited: &inherited }, true)?;
        // The old resource must still exist, in this incarnation; its deletion compares the version.
        let source =
            Expectation { id: ExpectedId::from(&old_id), generation: Some(before.clone()), is_unmarked: false };
        let expect = units.expect.into_iter().chain([source]).collect();
        let references = self.references.check_written(&registry, caller, &new_kind, &resource, None).await?;
        let old_key = ResourceKey::from(&old_id).expected();
        if references.expect.iter().any(|expected| expected.id == old_key) {
            let what = "the moved resource would refer to its old name, which is deleted; remove that reference first";
            let text = format!("{}: {what}", types::describe(&old_id));
            return Err(Error::new(Code::FailedPrecondition, text).into());
        }
        let mut batch = result.batch(&new_kind, resource, expect, references);
        batch.referrers = self.check_unreferenced(&registry, caller, &old).await?;
        if !planted::happens(Fault::MoveKeepsSource) {
            batch.mutations.extend(removal(old));
        }
        caller.start_commit().await;
        let stored = self.core.backend.commit(batch).await.map_err(|e| match e {
            StoreError::CasFailure { .. }
            | StoreError::ExpectationFailed { .. }
            | StoreError::ReferrersChanged
            | StoreError::WrongUid => Failure::Conflict(Error::new(
                Code::Aborted,
                "the resource, its place or its new name changed meanwhile; try again",
            )),
            StoreError::TooLarge { .. } => Error::invalid(e.to_string()).into(),
            e => failed(&e).into(),
        })?;
        let resource = stored.into_iter().flatten().next().map(|stored| stored.decode().map_err(Error::from));
        let resource = resource.transpose()?;
        Ok((MoveResponse { resource, warnings }, before))
    }

    /// Refuses to move a resource while others refer to it, since their references would dangle.
    async fn check_unreferenced(
        &self,
        registry: &Registry,
        caller: &Caller,
        old: &pb::Resource,
    ) -> Result<Vec<ExpectedReferrers>, Error> {
        if !self.deletions.is_planned(registry, old) {
            return Ok(Vec::new());
        }
        let id = old.id.clone().unwrap_or_default();
        let plan = self.deletions.plan(registry, EncodedResource::encode(old)?, Purpose::Delete).await?;
        if plan.is_blocked() {
            return Err(self.deletions.refusal(registry, caller, &plan).await);
        }
        if plan.deletions.len() > 1 || !plan.unset.is_empty() || plan.action() == PlannedAction::Mark {
            let what =
                format!("{} cannot be moved: other resources refer to it; change these first", types::describe(&id));
            return Err(Error::new(Code::FailedPrecondition, what));
        }
        Ok(plan.referrers)
    }

    /// Reads the stored resource that is to be moved, if the caller may read and delete it.
    async fn old_for_move(
        &self,
        caller: &Caller,
        kind: &std::sync::Arc<ResourceType>,
        id: &pb::Id,
        version: &str,
    ) -> Result<pb::Resource, Error> {
        let mut hooks = RequestHooks::new(kind.clone(), caller);
        let reading = hooks.authorize_read(id).await?;
        hooks.release();
        let old = match self.core.backend.read(Consistency::Consistent, id).await {
            Ok(old) => old,
            Err(e @ StoreError::NotFound) => return Err(Error::not_found(e.to_string())),
            Err(e @ StoreError::GroupVersionMismatch { .. }) => return Err(Error::invalid(e.to_string())),
            Err(e) => return Err(failed(&e)),
        };
        // Hooks see the resource in their own schema version; the plugin that moves it sees the stored one.
        let mut seen = old.clone();
        hooks.upgrade(&mut seen).await?;
        if reading == ReadDecision::NeedsResource {
            hooks.authorize_read_of(&EncodedResource::encode(&seen)?).await?;
        }
        hooks.authorize_write(Verb::Delete, &seen, "failed write acl").await?;
        hooks.release();
        builtin_types::refuse_default(kind, &old)?;
        region::check_owner(&self.core, &old)?;
        if !version.is_empty() && version != old.version {
            return Err(cas_failure());
        }
        if meta::is_marked(&old.metadata) {
            let what = format!("{} is marked for deletion; it cannot be moved any more", types::describe(id));
            return Err(Error::new(Code::FailedPrecondition, what));
        }
        Ok(old)
    }
}

/// Refuses pairs of types without a move between them.
fn check_types(old: &ResourceType, new: &ResourceType) -> Result<(), Error> {
    new.check_plugin_present()?;
    let refused = |why: &str| Err(Error::invalid(format!("{} cannot become {}: {why}", old.gvk, new.gvk)));
    if matches!(old.owner, Owner::Host) || matches!(new.owner, Owner::Host) {
        return refused("types of the host cannot be moved");
    }
    if !new.moved_from.contains(&old.gvk) {
        let plugin = new.owner.plugin_name().unwrap_or_default();
        let from = new.moved_from.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        let takes = if from.is_empty() { "nothing".to_owned() } else { from };
        return refused(&format!("plugin {plugin} makes it from {takes} (moved_from in its manifest)"));
    }
    if old.scope != new.scope {
        return refused("their scopes differ");
    }
    Ok(())
}

/// Returns the deletion of the moved resource: a tombstone, or a mark while finalizers hold it.
fn removal(old: pb::Resource) -> Vec<Mutation> {
    if !meta::has_finalizers(&old.metadata) {
        return tombstone::removal(&old);
    }
    let mut marked = old;
    tombstone::mark(&mut marked);
    marked.generation = ids::ulid();
    server_meta::set_touched(&mut marked);
    vec![Mutation::Put(Box::new(marked))]
}

fn failed(error: &StoreError) -> Error {
    store_fault("failed to move resource", error)
}
