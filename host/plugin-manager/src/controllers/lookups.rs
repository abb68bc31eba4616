//! What answers the searches of hooks: the resource service, to a caller that is the plugin and not who made the request.
//!
//! Which types a plugin reaches its grants have decided before it comes here. Types of the plugin's own are open to it;
//! those of others have the last word by their authorize hooks.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_plugin_host::LookupHost;
use mortise_redaction::Secrets;
use mortise_resource::{
    Error,
    data::{SearchRequest, SearchResponse},
    pb,
};
use mortise_service::{Caller, Consistency, ResourceService, Source};

use super::host::{Identity, note_secrets};

/// The service, for hooks.
pub(crate) struct ServiceLookups(pub(crate) ResourceService);

#[async_trait]
impl LookupHost for ServiceLookups {
    async fn search(&self, plugin: &str, request: SearchRequest) -> Result<SearchResponse, Error> {
        let caller = Caller::new(Arc::new(Identity::of_hooks(plugin)), Consistency::Consistent);
        // What is shared is shared among plugins.
        let caller = caller.with_source(Source::from_key(("hooks", plugin))).in_hook_of(plugin.into());
        self.0.search(&caller, request).await
    }

    fn note_secrets(&self, resource: &pb::Resource, secrets: &mut Secrets) {
        note_secrets(&self.0, resource, secrets);
    }
}
