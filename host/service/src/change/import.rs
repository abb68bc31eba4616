//! Import: stores a resource for an external object, as the type's plugin describes it.
//!
//! The plugin reads the external object with its own grants, on behalf of the caller. The caller therefore first shows
//! that it may write the resource, or, where the plugin finds the name, that it may list the type there. The described
//! resource passes the hooks of a write.
//!
//! # Cost
//!
//! One call of the plugin, the first half of a write, and one commit.

use std::sync::Arc;

use mortise_plugin_host::{Cancel, Reconciler};
use mortise_resource::{
    Code, Error,
    authorizer::Verb,
    data::{ImportRequest, ImportResponse},
    name, pb, types,
};
use mortise_store::StoreError;

use super::{
    changes::Changes,
    import_host::ImportHost,
    import_result::{ImportResult, already_exists, blame_answer},
};
use crate::{
    call::{Caller, store_fault::store_fault},
    core::ids::{self, tenancy_of},
    planted::{self, Fault},
    registry::ResourceType,
    rules::{
        RequestHooks, admit,
        region::{self, Placement},
        server_meta, upgrade,
    },
};

/// Longest external id, bytes.
const MAX_EXTERNAL_ID_BYTES: usize = 1024;

impl Changes {
    /// Stores a resource for an external object, or returns the resource that would be stored.
    ///
    /// # Errors
    /// Those of [`crate::ResourceService::import`].
    pub(crate) async fn import(&self, caller: &Caller, request: ImportRequest) -> Result<ImportResponse, Error> {
        let registry = self.core.types();
        let resource_type = request.r#type.ok_or_else(|| Error::invalid("type is required"))?;
        let kind = registry.resolve(&resource_type)?.clone();
        kind.check_plugin_present()?;
        let importer = kind.owner.plugin().filter(|_| kind.hooks.import).and_then(Reconciler::new);
        let importer = importer.ok_or_else(|| {
            Error::invalid(format!("{}: the type cannot be imported; its plugin has no import", kind.gvk))
        })?;
        let length = request.external_id.len();
        if !(1..=MAX_EXTERNAL_ID_BYTES).contains(&length) || request.external_id.chars().any(char::is_control) {
            let what = format!("external_id must be 1 to {MAX_EXTERNAL_ID_BYTES} bytes without control characters");
            return Err(Error::invalid(format!("{what}, got {length} bytes")));
        }
        if !request.name.is_empty()
            && let Some(fault) = name::fault(&request.name)
        {
            return Err(Error::invalid(format!("name: {fault}")));
        }
        let mut tenancy = request.tenancy.unwrap_or_default();
        kind.scope.check("resource", &kind.gvk.to_string(), &tenancy)?;
        caller.fill(kind.scope, &mut tenancy);

        let mut hooks = RequestHooks::new(kind.clone(), caller);
        let id = pb::Id { r#type: Some(resource_type.clone()), tenancy: Some(tenancy.clone()), ..pb::Id::default() };
        match request.name.is_empty() {
            true => hooks.authorize_list(&tenancy).await?,
            false => {
                let id = Some(pb::Id { name: request.name.clone(), ..id.clone() });
                let wanted = pb::Resource { id, ..pb::Resource::default() };
                hooks.authorize_write(Verb::Write, &wanted, "failed write acl").await?;
            }
        }
        hooks.release();
        let importer = importer.for_caller(caller.number());
        let reply =
            importer.import(resource_type, tenancy, request.external_id, Arc::new(ImportHost), &Cancel::new()).await?;
        let mut result = ImportResult::read(&kind, caller, "import", reply)?;
        let name = match request.name.is_empty() {
            true => found_name(&kind, caller, &result)?,
            false => request.name,
        };
        let mut resource = pb::Resource {
            id: Some(pb::Id { name, ..id }),
            metadata: std::mem::take(&mut result.resource.metadata),
            data: result.resource.data.take(),
            ..pb::Resource::default()
        };
        upgrade::set_schema_version(&kind, &mut resource);
        let (warnings, units) = admit::admit(&self.core, &mut hooks, Verb::Write, &kind, &mut resource, None).await?;
        admit::check_size(&self.core, &resource, None)?;
        units.check_unmarked(resource.id.as_ref().map(tenancy_of).unwrap_or(&pb::Tenancy::default()))?;
        if !planted::happens(Fault::ImportReplaces) {
            self.check_absent(&resource).await?;
        }
        if request.dry_run {
            return Ok(ImportResponse { resource: Some(resource), warnings });
        }
        if let Some(id) = &mut resource.id {
            id.uid = ids::ulid();
        }
        planted::replace_stored(&self.core, &mut resource).await;
        resource.generation = ids::ulid();
        server_meta::set(&kind, &mut resource, None, None);
        let placement = Placement { policy: units.policy.as_deref(), ..Placement::default() };
        region::set_computed(&self.core, &kind, &mut resource, placement, true)?;
        let id = resource.id.clone().unwrap_or_default();
        let references = self.references.check_written(&registry, caller, &kind, &resource, None).await?;
        let batch = result.batch(&kind, resource, units.expect, references);
        caller.start_commit().await;
        let stored = self.core.backend.commit(batch).await.map_err(|e| match e {
            StoreError::CasFailure { .. } | StoreError::WrongUid => already_exists(&id),
            StoreError::ExpectationFailed { .. } => {
                Error::new(Code::Aborted, "its partition or namespace changed; try again")
            }
            StoreError::TooLarge { .. } => Error::invalid(e.to_string()),
            e => store_fault("failed to import resource", &e),
        })?;
        let resource = stored.into_iter().flatten().next().map(|stored| stored.decode()).transpose()?;
        Ok(ImportResponse { resource, warnings })
    }
}

/// Returns the name that the plugin found.
fn found_name(kind: &ResourceType, caller: &Caller, result: &ImportResult) -> Result<String, Error> {
    let mut id = result.resource.id.clone().unwrap_or_default();
    // Only the name counts; a name that no resource can have is a fault.
    id.r#type = Some(kind.gvk.to_pb());
    match types::check_id("id", &mut id) {
        Ok(()) => Ok(id.name),
        Err(fault) => Err(blame_answer(kind, caller, "import", format!("the name that it gives: {fault}"))),
    }
}
