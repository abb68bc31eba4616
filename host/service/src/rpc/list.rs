//! List: the resources of a type in one place or everywhere.

use mortise_resource::{Error, pb};
use mortise_store::{Query, TypeKey};

use crate::{
    call::{Call, Caller, Method},
    lists::{CheckedList, EncodedList, Selection, check_request},
    rules::RequestHooks,
    service::ResourceService,
};

impl ResourceService {
    /// Lists the resources of a type that the caller may read, in byte order of partition, namespace, name.
    ///
    /// # Errors
    /// `InvalidArgument`: a missing field, the type, a unit, the prefix. `PermissionDenied`: listing as such.
    pub async fn list(&self, caller: &Caller, request: pb::ListRequest) -> Result<pb::ListResponse, Error> {
        let mut resources = Vec::new();
        let each = |resource| -> Result<(), Error> {
            resources.push(resource);
            Ok(())
        };
        self.list_each(caller, request, each).await?;
        Ok(pb::ListResponse { resources })
    }

    /// Lists as [`ResourceService::list`], a page at a time: `each` gets the resources; its error ends the list.
    ///
    /// # Errors
    /// Those of [`ResourceService::list`], and those of `each`.
    pub async fn list_each<E: From<Error>>(
        &self,
        caller: &Caller,
        request: pb::ListRequest,
        each: impl FnMut(pb::Resource) -> Result<(), E> + Send,
    ) -> Result<(), E> {
        self.check_list(caller, request).await?.read(&self.core, each).await
    }

    /// Lists as [`ResourceService::list`], for a client. Waits until the result fits into the shared bytes.
    ///
    /// # Errors
    /// Those of [`ResourceService::list`]; `ResourceExhausted`: the result is larger than all shared bytes, or too many
    /// lists wait.
    pub async fn list_encoded(&self, caller: &Caller, request: pb::ListRequest) -> Result<EncodedList, Error> {
        self.check_list(caller, request).await?.encode(&self.lists).await
    }

    /// Runs the checks, without a read of the store.
    async fn check_list(&self, caller: &Caller, request: pb::ListRequest) -> Result<CheckedList, Error> {
        let mut call = Call::begin(&self.core, caller, Method::List).await?;
        call.about_many(request.r#type.as_ref(), request.tenancy.as_ref(), &request.name_prefix);
        let list = self.checked_list(caller, request).await;
        call.end(list).await
    }

    async fn checked_list(&self, caller: &Caller, request: pb::ListRequest) -> Result<CheckedList, Error> {
        let wanted = request.r#type.ok_or_else(|| Error::invalid("type is required"))?;
        let mut tenancy = request.tenancy.ok_or_else(|| Error::invalid("tenancy is required"))?;
        let registry = self.core.types();
        let kind = check_request(&registry, &wanted, &tenancy, &request.name_prefix)?;
        if kind.scope == mortise_resource::Scope::Partition {
            kind.scope.check_query("type", &kind.gvk.to_string(), &tenancy)?;
        }
        caller.fill_own(kind.scope, &mut tenancy);
        RequestHooks::new(kind.clone(), caller).authorize_list(&tenancy).await?;
        kind.scope.fill_query(&mut tenancy);
        let query = Query { type_key: TypeKey::from(&wanted), tenancy, name_prefix: request.name_prefix };
        Ok(CheckedList::new(Selection::Type(kind, query), registry, caller))
    }
}
