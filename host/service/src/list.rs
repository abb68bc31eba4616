//! List: the resources of a type in one place or everywhere.

use std::sync::Arc;

use crate::registry::{Registry, ResourceType};
use mortise_resource::{Error, pb, tenancy};
use mortise_store::{Query, TypeKey};

use crate::{caller::Caller, hooks::RequestHooks, service::ResourceService, store_fault::store_fault};

impl ResourceService {
    /// Lists the resources of a type that the caller may read, in byte order of partition, namespace, name.
    ///
    /// # Errors
    /// `InvalidArgument`: a missing field, the type, a unit, the prefix. `PermissionDenied`: listing as such.
    pub async fn list(&self, caller: &Caller, request: pb::ListRequest) -> Result<pb::ListResponse, Error> {
        let wanted = request.r#type.ok_or_else(|| Error::invalid("type is required"))?;
        let mut tenancy = request.tenancy.ok_or_else(|| Error::invalid("tenancy is required"))?;
        let registry = self.types();
        let kind = check(&registry, &wanted, &tenancy, &request.name_prefix)?;
        if kind.scope == mortise_resource::Scope::Partition {
            kind.scope.check_query("type", &kind.gvk.to_string(), &tenancy)?;
        }
        let mut hooks = RequestHooks::new(kind.clone(), caller);
        hooks.authorize_list(&tenancy).await?;
        hooks.release();
        kind.scope.fill_query(&mut tenancy);
        let query = Query { type_key: TypeKey::from(&wanted), tenancy, name_prefix: request.name_prefix };
        let found = self.backend.list(caller.consistency, &query).await.map_err(|e| store_fault("failed list", &e))?;

        let mut resources = Vec::with_capacity(found.len());
        for mut resource in found {
            if !is_of(&resource, &kind) {
                continue;
            }
            hooks.next_item();
            hooks.upgrade(&mut resource).await?;
            if hooks.may_read(&resource).await? {
                resources.push(resource);
            }
        }
        Ok(pb::ListResponse { resources })
    }
}

/// The checks that List and WatchList share, before those of the scope.
pub(crate) fn check(
    registry: &Registry,
    wanted: &pb::Type,
    tenancy: &pb::Tenancy,
    name_prefix: &str,
) -> Result<Arc<ResourceType>, Error> {
    let kind = registry.resolve(wanted)?.clone();
    tenancy::check_query(tenancy)?;
    if name_prefix.to_lowercase() != name_prefix {
        return Err(Error::invalid(format!("name_prefix invalid: must be lowercase alphanumeric, got: {name_prefix}")));
    }
    Ok(kind)
}

/// Whether a stored resource is of this very GroupVersion.
pub(crate) fn is_of(resource: &pb::Resource, kind: &ResourceType) -> bool {
    resource.id.as_ref().and_then(|id| id.r#type.as_ref()).is_some_and(|t| kind.gvk.matches(t))
}
