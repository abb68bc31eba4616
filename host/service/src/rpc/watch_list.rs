//! WatchList: a snapshot, its end, then every change, in commit order ([`Events`]).

use mortise_resource::{Error, pb};
use mortise_store::{ListKey, Query, TypeKey};

use crate::{
    call::{Call, Caller, Method},
    lists::{Events, OpenWatch, WatchPermission, WatchScope, check_request},
    rules::RequestHooks,
    service::ResourceService,
};

impl ResourceService {
    /// Opens a watch. An absent tenancy means every partition and namespace.
    ///
    /// # Errors
    /// `InvalidArgument`: the type, a unit, the prefix, the scope. `PermissionDenied`: listing. `ResourceExhausted`:
    /// too many watches.
    pub async fn watch_list(&self, caller: &Caller, request: pb::WatchListRequest) -> Result<Events, Error> {
        let mut call = Call::begin(&self.core, caller, Method::WatchList).await?;
        call.about_many(request.r#type.as_ref(), request.tenancy.as_ref(), &request.name_prefix);
        let events = self.opened(caller, request).await;
        call.end(events).await
    }

    async fn opened(&self, caller: &Caller, request: pb::WatchListRequest) -> Result<Events, Error> {
        let wanted = request.r#type.ok_or_else(|| Error::invalid("type is required"))?;
        let registry = self.core.types();
        let kind = registry.resolve(&wanted)?;
        let mut tenancy = request.tenancy.unwrap_or_else(|| kind.scope.everywhere());
        let kind = check_request(&registry, &wanted, &tenancy, &request.name_prefix)?;
        kind.scope.check_query("resource", &kind.gvk.to_string(), &tenancy)?;
        // Before the caller is authorized, or a change in between would be missed.
        let permission = WatchPermission::now(&self.core, caller);
        caller.fill_own(kind.scope, &mut tenancy);
        RequestHooks::new(kind.clone(), caller).authorize_list(&tenancy).await?;
        let asked = tenancy.clone();
        kind.scope.fill_query(&mut tenancy);

        let query = Query { type_key: TypeKey::from(&wanted), tenancy, name_prefix: request.name_prefix };
        let scope = WatchScope::Many(kind.gvk.clone(), asked);
        let open = OpenWatch::new(&self.lists, caller, "WatchList", scope, permission)?;
        Ok(Events::new(&self.lists, query, request.after.map(list_key), open))
    }
}

/// Returns the position of a resource in the order of lists.
fn list_key(id: pb::Id) -> ListKey {
    let pb::Tenancy { partition, namespace } = id.tenancy.unwrap_or_default();
    ListKey { partition, namespace, name: id.name }
}
