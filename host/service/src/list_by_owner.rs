//! ListByOwner: the resources of every type that one incarnation of a resource owns.

use std::collections::HashMap;

use mortise_resource::{Error, pb, types};

use crate::{
    caller::Caller,
    hooks::{RequestHooks, type_of},
    service::ResourceService,
};

impl ResourceService {
    /// Lists the resources that exactly this incarnation owns and that the caller may read. The owner may be gone.
    ///
    /// # Errors
    /// `InvalidArgument`: the id, its uid, its type or scope, or a child whose type is not registered.
    /// `PermissionDenied`: listing the owner's type.
    pub async fn list_by_owner(
        &self,
        caller: &Caller,
        request: pb::ListByOwnerRequest,
    ) -> Result<pb::ListByOwnerResponse, Error> {
        let mut owner = request.owner.ok_or_else(|| Error::invalid("owner is required"))?;
        types::check_id("owner", &mut owner)?;
        if owner.uid.is_empty() {
            return Err(Error::invalid("owner uid is required"));
        }
        let registry = self.types();
        let kind = registry.resolve(&type_of(&owner))?.clone();
        let tenancy = owner.tenancy.get_or_insert_default();
        kind.scope.check("resource", &kind.gvk.to_string(), tenancy)?;
        kind.scope.fill(tenancy);
        let place = tenancy.clone();
        RequestHooks::new(kind, caller).authorize_list(&place).await?;

        let children = self
            .backend
            .list_by_owner(&owner)
            .await
            .map_err(|e| Error::internal(format!("failed list by owner: {e}")))?;
        let mut hooks_by_type = HashMap::new();
        let mut resources = Vec::with_capacity(children.len());
        for mut child in children {
            let of = child.id.as_ref().map(type_of).unwrap_or_default();
            let kind = registry.resolve(&of)?;
            let hooks =
                hooks_by_type.entry(kind.gvk.clone()).or_insert_with(|| RequestHooks::new(kind.clone(), caller));
            hooks.next_item();
            hooks.upgrade(&mut child).await?;
            if hooks.may_read(&child).await? {
                resources.push(child);
            }
        }
        Ok(pb::ListByOwnerResponse { resources })
    }
}
