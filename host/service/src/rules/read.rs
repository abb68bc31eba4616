//! Reads with the checks of a caller.

use std::sync::Arc;

use mortise_resource::{Code, EncodedResource, Error, pb};
use mortise_store::StoreError;

use super::{
    hooks::{ReadDecision, RequestHooks},
    tenancy::TenancyUnits,
};
use crate::{
    call::{Caller, request_id, store_fault::store_fault},
    core::{
        Core,
        ids::{tenancy_of, type_of},
    },
    registry::{Registry, ResourceType},
};

/// Reads one resource by id, with every check of Read, within a call that was begun.
pub(crate) async fn read_checked(
    core: &Core,
    caller: &Caller,
    request: pb::ReadRequest,
) -> Result<EncodedResource, Error> {
    let registry = core.types();
    let (id, kind) = request_id::complete(&registry, caller, request.id)?;

    let mut hooks = RequestHooks::new(kind.clone(), caller);
    let reading = hooks.authorize_read(&id).await?;
    hooks.release();
    if kind.scope != mortise_resource::Scope::Undefined {
        TenancyUnits::find(core, tenancy_of(&id)).await.map_err(|e| e.for_reading())?;
    }
    let stored = core.backend.read_encoded(caller.consistency, &id).await.map_err(failed)?;
    let resource = hooks.upgraded(stored).await?;
    if reading == ReadDecision::NeedsResource {
        hooks.authorize_read_of(&resource).await?;
    }
    Ok(resource)
}

/// Decides whether a caller may read the resource of an id, before the resource is looked up: so the answer and its
/// time say nothing about the existence of the resource. `None` means no; everyone may read a type that is not
/// registered. An id of a reference has no GroupVersion: then the permission for one version of the type suffices.
///
/// # Errors
/// Faults of the hook.
pub(crate) async fn may_read_name(
    registry: &Registry,
    caller: &Caller,
    id: &pb::Id,
) -> Result<Option<ReadDecision>, Error> {
    let asked = type_of(id);
    let same_kind = |kind: &&Arc<ResourceType>| kind.gvk.group == asked.group && kind.gvk.kind == asked.kind;
    let kinds: Vec<_> = match registry.get(&asked) {
        Some(kind) => vec![kind],
        None => registry.types().iter().filter(same_kind).collect(),
    };
    let mut decision = kinds.is_empty().then_some(ReadDecision::Allowed);
    for kind in kinds {
        let id = pb::Id { r#type: Some(kind.gvk.to_pb()), ..id.clone() };
        match RequestHooks::new(kind.clone(), caller).authorize_read(&id).await {
            Ok(ReadDecision::Allowed) => return Ok(Some(ReadDecision::Allowed)),
            Ok(ReadDecision::NeedsResource) => decision = Some(ReadDecision::NeedsResource),
            Err(error) if error.code == Code::PermissionDenied => {}
            Err(error) => return Err(error),
        }
    }
    Ok(decision)
}

/// Whether a caller may read a resource; false if the check fails.
pub(crate) async fn is_readable(registry: &Registry, caller: &Caller, resource: &EncodedResource) -> bool {
    let Ok(Some(id)) = resource.decode_id() else { return false };
    let Ok(kind) = registry.resolve(&type_of(&id)) else { return false };
    let mut hooks = RequestHooks::new(kind.clone(), caller);
    match hooks.upgraded(resource.clone()).await {
        Ok(current) => hooks.may_read(&current).await.unwrap_or(false),
        Err(_) => false,
    }
}

fn failed(error: StoreError) -> Error {
    match error {
        StoreError::NotFound => Error::not_found(error.to_string()),
        StoreError::GroupVersionMismatch { .. } => Error::invalid(error.to_string()),
        other => store_fault("failed read", &other),
    }
}
