//! List: the resources of a type in one place or everywhere. ListByOwner: the resources of every type that one
//! incarnation of a resource owns.

use mortise_resource::{Error, pb, types};
use mortise_store::{Query, TypeKey};

use crate::{
    call::{Call, Caller, Method},
    core::ids::type_of,
    lists::{CheckedList, EncodedList, Selection, check_request},
    rules::RequestHooks,
    service::ResourceService,
};

/// A request for a list.
pub enum ListQuery {
    /// List: the resources of a type.
    Type(pb::ListRequest),
    /// ListByOwner: the resources that exactly one incarnation owns. The owner may be deleted.
    Owner(pb::ListByOwnerRequest),
}

impl From<pb::ListRequest> for ListQuery {
    fn from(request: pb::ListRequest) -> Self {
        Self::Type(request)
    }
}

impl From<pb::ListByOwnerRequest> for ListQuery {
    fn from(request: pb::ListByOwnerRequest) -> Self {
        Self::Owner(request)
    }
}

impl ResourceService {
    /// Lists the resources that the caller may read, encoded for a client; those of a type in byte order of partition,
    /// namespace, name. Waits until the result fits into the shared bytes.
    ///
    /// # Errors
    /// `InvalidArgument`: a missing field, the type, a unit, the prefix; the owner's id, its uid, or a child whose type
    /// is not registered. `PermissionDenied`: listing the type, or the owner's type, as such. `ResourceExhausted`: the
    /// result is larger than all shared bytes, or too many lists wait.
    pub async fn list(&self, caller: &Caller, request: impl Into<ListQuery>) -> Result<EncodedList, Error> {
        self.check_list(caller, request.into()).await?.encode(&self.lists).await
    }

    /// Lists as [`ResourceService::list`], a page at a time, outside of the shared bytes: `each` gets the resources;
    /// its error ends the list.
    ///
    /// # Errors
    /// Those of [`ResourceService::list`] except `ResourceExhausted`, and those of `each`.
    pub async fn list_each<E: From<Error>>(
        &self,
        caller: &Caller,
        request: impl Into<ListQuery>,
        each: impl FnMut(pb::Resource) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        self.check_list(caller, request.into()).await?.read(&self.core, each).await
    }

    /// Runs the checks, without a read of the store.
    async fn check_list(&self, caller: &Caller, request: ListQuery) -> Result<CheckedList, Error> {
        match request {
            ListQuery::Type(request) => {
                let mut call = Call::begin(&self.core, caller, Method::List).await?;
                call.about_many(request.r#type.as_ref(), request.tenancy.as_ref(), &request.name_prefix);
                let list = self.checked_list(caller, request).await;
                call.end(list).await
            }
            ListQuery::Owner(request) => {
                let mut call = Call::begin(&self.core, caller, Method::ListByOwner).await?;
                call.about(request.owner.as_ref());
                let list = self.checked_list_by_owner(caller, request).await;
                call.end(list).await
            }
        }
    }

    async fn checked_list(&self, caller: &Caller, request: pb::ListRequest) -> Result<CheckedList, Error> {
        caller.check_at_least(&self.core).await?;
        let wanted = request.r#type.ok_or_else(|| Error::invalid("type is required"))?;
        let mut tenancy = request.tenancy.ok_or_else(|| Error::invalid("tenancy is required"))?;
        let registry = self.core.types();
        let kind = check_request(&registry, &wanted, &tenancy, &request.name_prefix)?;
        if kind.scope == mortise_resource::Scope::Partition {
            kind.scope.check_query("type", &kind.gvk.to_string(), &tenancy)?;
        }
        caller.fill_own(kind.scope, &mut tenancy);
        RequestHooks::new(kind.clone(), caller).authorize_list(&tenancy).await?;
        caller.catch_up(&self.core).await?;
        kind.scope.fill_query(&mut tenancy);
        let query = Query { type_key: TypeKey::from(&wanted), tenancy, name_prefix: request.name_prefix };
        Ok(CheckedList::new(Selection::Type(kind, query), registry, caller))
    }

    async fn checked_list_by_owner(
        &self,
        caller: &Caller,
        request: pb::ListByOwnerRequest,
    ) -> Result<CheckedList, Error> {
        caller.check_at_least(&self.core).await?;
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
        caller.catch_up(&self.core).await?;
        Ok(CheckedList::new(Selection::Owner(owner), registry, caller))
    }
}
