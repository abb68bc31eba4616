//! ListByOwner: the resources of every type that one incarnation of a resource owns.

use mortise_resource::{Error, pb, types};

use crate::{
    caller::Caller,
    hooks::{RequestHooks, type_of},
    service::ResourceService,
    store_fault::store_fault,
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

        let children = self.backend.list_by_owner(&owner).await;
        let mut children = children.map_err(|e| store_fault("failed list by owner", &e))?;
        // One type after another, so that the instance of one goes back before that of the next is asked for: who waits
        // for a second place with the first in hand may wait for itself.
        children.sort_by_cached_key(|child| types::gvk(&child_type(child)));
        let mut hooks: Option<RequestHooks> = None;
        let mut resources = Vec::with_capacity(children.len());
        for mut child in children {
            let kind = registry.resolve(&child_type(&child))?;
            if hooks.as_ref().is_none_or(|hooks| hooks.kind.gvk != kind.gvk) {
                drop(hooks.take());
            }
            let hooks = hooks.get_or_insert_with(|| RequestHooks::new(kind.clone(), caller));
            hooks.next_item();
            hooks.upgrade(&mut child).await?;
            if hooks.may_read(&child).await? {
                resources.push(child);
            }
        }
        Ok(pb::ListByOwnerResponse { resources })
    }
}

fn child_type(child: &pb::Resource) -> pb::Type {
    child.id.as_ref().map(type_of).unwrap_or_default()
}
