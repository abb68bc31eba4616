//! ListByOwner: the resources of every type that one incarnation of a resource owns.

use mortise_resource::{Error, pb, types};

use crate::{
    call::{Call, Caller, Method},
    core::ids::type_of,
    lists::{CheckedList, EncodedList, Selection},
    rules::RequestHooks,
    service::ResourceService,
};

impl ResourceService {
    /// Lists the resources that exactly this incarnation owns and that the caller may read. The owner may be deleted.
    ///
    /// # Errors
    /// `InvalidArgument`: the id, its uid, its type or scope, or a child whose type is not registered.
    /// `PermissionDenied`: listing the owner's type.
    pub async fn list_by_owner(
        &self,
        caller: &Caller,
        request: pb::ListByOwnerRequest,
    ) -> Result<pb::ListByOwnerResponse, Error> {
        let mut resources = Vec::new();
        let each = |resource| -> Result<(), Error> {
            resources.push(resource);
            Ok(())
        };
        self.list_each_owned(caller, request, each).await?;
        Ok(pb::ListByOwnerResponse { resources })
    }

    /// Lists as [`ResourceService::list_by_owner`], a page at a time: `each` gets the resources; its error ends the
    /// list.
    ///
    /// # Errors
    /// Those of [`ResourceService::list_by_owner`], and those of `each`.
    pub async fn list_each_owned<E: From<Error>>(
        &self,
        caller: &Caller,
        request: pb::ListByOwnerRequest,
        each: impl FnMut(pb::Resource) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        self.check_list_by_owner(caller, request).await?.read(&self.core, each).await
    }

    /// Lists as [`ResourceService::list_by_owner`], for a client. Waits until the result fits into the shared bytes.
    ///
    /// # Errors
    /// Those of [`ResourceService::list_by_owner`]; `ResourceExhausted`: the result is larger than all shared bytes, or
    /// too many lists wait.
    pub async fn list_by_owner_encoded(
        &self,
        caller: &Caller,
        request: pb::ListByOwnerRequest,
    ) -> Result<EncodedList, Error> {
        self.check_list_by_owner(caller, request).await?.encode(&self.lists).await
    }

    /// Runs the checks, without a read of the store.
    async fn check_list_by_owner(
        &self,
        caller: &Caller,
        request: pb::ListByOwnerRequest,
    ) -> Result<CheckedList, Error> {
        let mut call = Call::begin(&self.core, caller, Method::ListByOwner).await?;
        call.about(request.owner.as_ref());
        let list = self.checked_list_by_owner(caller, request).await;
        call.end(list).await
    }

    async fn checked_list_by_owner(
        &self,
        caller: &Caller,
        request: pb::ListByOwnerRequest,
    ) -> Result<CheckedList, Error> {
        let mut owner = request.owner.ok_or_else(|| Error::invalid("owner is required"))?;
        types::check_id("owner", &mut owner)?;
        if owner.uid.is_empty() {
            return Err(Error::invalid("owner uid is required"));
        }
        let registry = self.core.types();
        let kind = registry.resolve(&type_of(&owner))?.clone();
        let tenancy = owner.tenancy.get_or_insert_default();
        kind.scope.check("resource", &kind.gvk.to_string(), tenancy)?;
        caller.fill(kind.scope, tenancy);
        RequestHooks::new(kind, caller).authorize_list(tenancy).await?;
        Ok(CheckedList::new(Selection::Owner(owner), registry, caller))
    }
}
