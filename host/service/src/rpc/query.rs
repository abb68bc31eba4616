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
        let answer = async {
            caller.check_at_least(&self.core).await?;
            caller.catch_up(&self.core).await?;
            self.queries.search(caller, request).await
        };
        let answer = answer.await;
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

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arc_swap::ArcSwap;
    use mortise_resource::{Code, types};
    use mortise_store::{Backend, Consistency, Options as StoreOptions, SledBackend};

    use super::*;
    use crate::{core::Options, registry::Registry};

    /// A kept version would outlive the request that the hook is a part of.
    #[tokio::test]
    async fn a_hook_searches_the_newest_version_alone() {
        let dir = tempfile::tempdir().unwrap();
        let store = SledBackend::open(StoreOptions::new(dir.path().join("store"))).unwrap();
        let backend: Arc<dyn Backend> = Arc::new(store);
        let registry = Arc::new(ArcSwap::from_pointee(Registry::builtin().unwrap()));
        let service = ResourceService::new(backend, registry, Options::default());
        let host = Caller::host(Consistency::Consistent);
        let hook = host.clone().in_hook_of("p".into());
        let search = |at: &str| SearchRequest {
            r#type: Some(types::partition().to_pb()),
            at: at.to_owned(),
            ..SearchRequest::default()
        };
        service.search(&host, search("now")).await.unwrap();
        service.search(&hook, search("")).await.unwrap();
        for at in ["now", "1"] {
            let refused = service.search(&hook, search(at)).await.unwrap_err();
            assert_eq!(refused.code, Code::InvalidArgument, "{refused}");
            assert!(refused.message.starts_with("at is not for the search of a hook"), "{refused}");
        }
    }
}
