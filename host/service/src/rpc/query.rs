//! Search, WatchResource and WatchResources (`mortise.v1`): queries by the content of resources.

use mortise_resource::{
    Error,
    data::{SearchRequest, SearchResponse, WatchResourceRequest, WatchResourcesRequest},
};

use crate::{
    call::{Call, Caller, Method},
    query::{ResourceChanges, ResourcesChanges},
    service::ResourceService,
};

impl ResourceService {
    /// Returns one page of the matches that the caller may read.
    ///
    /// # Errors
    /// Those of List; `InvalidArgument`: a text of the query, or a token of another one;
    /// `ResourceExhausted`: over a limit of searches.
    pub async fn search(&self, caller: &Caller, request: SearchRequest) -> Result<SearchResponse, Error> {
        if caller.hook_of.is_some() {
            // Part of a request that is already counted and recorded.
            return self.queries.search(caller, request).await;
        }
        let mut call = Call::begin(&self.core, caller, Method::Search).await?;
        call.about_many(request.r#type.as_ref(), request.tenancy.as_ref(), &request.parent);
        let answer = match caller.check_at_least(&self.core) {
            Ok(()) => self.queries.search(caller, request).await,
            Err(error) => Err(error),
        };
        call.end(answer).await
    }

    /// Opens a watch of one resource.
    ///
    /// # Errors
    /// Those of Read; `InvalidArgument`: a path of the mask, a view; `ResourceExhausted`: too many watches.
    pub async fn watch_resource(
        &self,
        caller: &Caller,
        request: WatchResourceRequest,
    ) -> Result<ResourceChanges, Error> {
        let mut call = Call::begin(&self.core, caller, Method::WatchResource).await?;
        call.about(request.id.as_ref());
        let opened = self.queries.watch_resource(caller, request).await;
        call.end(opened).await
    }

    /// Opens a watch of resources of a type.
    ///
    /// # Errors
    /// Those of [`ResourceService::search`]; `InvalidArgument`: fields of the other type of watch, an invalid resume
    /// token, a starting time in the future; `ResourceExhausted`: too many watches.
    pub async fn watch_resources(
        &self,
        caller: &Caller,
        request: WatchResourcesRequest,
    ) -> Result<ResourcesChanges, Error> {
        let mut call = Call::begin(&self.core, caller, Method::WatchResources).await?;
        call.about_many(request.resource_type.as_ref(), request.tenancy.as_ref(), &request.parent);
        let opened = self.queries.watch_resources(caller, request).await;
        call.end(opened).await
    }
}
