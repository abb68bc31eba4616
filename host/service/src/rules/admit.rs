//! The first half of Write, which is all of MutateAndValidate: shape, type, tenancy, data, hooks, units of the tenancy.

use std::sync::Arc;

use super::{access_rules, hooks::RequestHooks, region_policy, tenancy::TenancyUnits, upgrade};
use crate::{
    call::Caller,
    core::{
        Core,
        ids::{tenancy_of, type_of},
    },
    registry::{Registry, ResourceType},
};
use mortise_resource::{Diagnostic, Error, FieldFault, Scope, authorizer::Verb, pb, resource_meta, types};
use mortise_store::{StoreError, limited_size};

/// Checks an incoming resource, fills in its tenancy, and finds its type.
///
/// # Errors
/// `InvalidArgument`, in this order: required fields, the id, the owner's id, the type, the scope, the data's type, the
/// data's content, the client's part of `meta`.
pub(crate) fn shape(
    caller: &Caller,
    registry: &Registry,
    resource: Option<pb::Resource>,
) -> Result<(pb::Resource, Arc<ResourceType>), Error> {
    let mut resource = resource.ok_or_else(|| Error::invalid("resource is required"))?;
    let id = resource.id.as_mut().ok_or_else(|| Error::invalid("resource.id is required"))?;
    types::check_id("resource.id", id)?;
    if let Some(owner) = &mut resource.owner {
        types::check_id("resource.owner", owner)?;
        types::check_reference("resource.owner", owner)?;
    }
    let kind = registry.resolve(&type_of(id))?.clone();
    let tenancy = id.tenancy.get_or_insert_default();
    kind.scope.check("resource", &kind.gvk.to_string(), tenancy)?;
    caller.fill(kind.scope, tenancy);
    kind.check_deletable()?;
    if let Some(data) = &resource.data {
        check_data(&kind, data)?;
    }
    if let Some(meta) = &resource.meta {
        resource_meta::check(meta).map_err(bad_meta)?;
    }
    upgrade::set_schema_version(&kind, &mut resource);
    Ok((resource, kind))
}

fn bad_meta(FieldFault { path, fault }: FieldFault) -> Error {
    Error::invalid(format!("resource.{path} {fault}")).with_violation(path, fault)
}

/// Checks that data has its type's message.
pub(crate) fn check_data(kind: &ResourceType, data: &prost_types::Any) -> Result<(), Error> {
    let expected = kind.schema.message().full_name();
    if !kind.schema.accepts_url(&data.type_url) {
        let got = data.type_url.strip_prefix("type.googleapis.com/").unwrap_or(&data.type_url);
        return Err(Error::invalid(format!("resource.data is of wrong type (expected={expected:?}, got={got:?})")));
    }
    kind.schema.check(&data.value).map_err(|fault| {
        let error = Error::invalid(format!("resource.data cannot be decoded as {expected}: {fault}"));
        error.with_violation(fault.path, fault.fault)
    })
}

/// Passes a resource through its hooks, in order, and looks up the units of its tenancy. Returns the warnings of
/// validation. `prior` is the stored resource; `verb` says what the write is for.
///
/// # Errors
/// `InvalidArgument` for a resource that is too large, for a unit that does not exist, or for missing data that decides
/// who may read the resource; those of the hooks; `PermissionDenied`.
pub(crate) async fn admit(
    core: &Core,
    hooks: &mut RequestHooks,
    verb: Verb,
    kind: &ResourceType,
    resource: &mut pb::Resource,
    prior: Option<&pb::Resource>,
) -> Result<(Vec<Diagnostic>, TenancyUnits), Error> {
    // Before the hooks: a plugin without room for it is not at fault.
    check_size(core, resource, prior)?;
    hooks.mutate(resource).await?;
    let mut warnings = hooks.validate(resource, prior).await?;
    match access_rules::check_words(core, kind, resource).await {
        Ok(found) => warnings.extend(found),
        // A stored policy with a fault can still be marked for deletion.
        Err(_) if prior.is_some_and(|prior| prior.data == resource.data) => {}
        Err(fault) => return Err(fault),
    }
    access_rules::check_unowned(core, kind, resource, prior).await?;
    if kind.gvk == types::partition() {
        warnings.extend(region_policy::unknown_types(resource, &core.types()));
    }
    hooks.authorize_write(verb, resource, "failed write acl").await?;
    // Stored resources without data can still be changed, to remove them.
    let has_data = resource.data.is_some() || prior.is_some_and(|prior| prior.data.is_none());
    let readable = if has_data { Ok(()) } else { hooks.check_readable_without_data(resource).await };
    access_rules::check_grant(core, &hooks.caller, kind, resource, prior).await?;
    hooks.release();
    let units = tenancy_units(core, kind, resource).await?;
    readable.map(|()| (warnings, units))
}

/// Refuses a resource that the store would refuse, as far as its size is known yet: uid, generation and status come
/// later.
pub(crate) fn check_size(core: &Core, resource: &pb::Resource, stored: Option<&pb::Resource>) -> Result<(), Error> {
    let (size, limit) = (limited_size(resource), core.options.max_resource_bytes);
    if size > limit && stored.is_none_or(|stored| size > limited_size(stored)) {
        return Err(Error::invalid(StoreError::TooLarge { size, limit }.to_string()));
    }
    Ok(())
}

/// Looks up the units of a resource's tenancy.
pub(crate) async fn tenancy_units(
    core: &Core,
    kind: &ResourceType,
    resource: &pb::Resource,
) -> Result<TenancyUnits, Error> {
    match (kind.scope, &resource.id) {
        (Scope::Undefined | Scope::Cluster, _) | (_, None) => Ok(TenancyUnits::default()),
        (_, Some(id)) => TenancyUnits::find(core, tenancy_of(id)).await.map_err(|e| e.for_writing()),
    }
}
