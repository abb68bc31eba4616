//! Answers the searches of hooks by the resource service. The caller is the plugin, not the client whose request the
//! hook belongs to.
//!
//! The plugin's grants decide before which types it reaches. Types of the plugin itself are open to it; the authorize
//! hooks of other types have the last word.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_plugin_host::LookupHost;
use mortise_resource::{
    Error,
    data::{SearchRequest, SearchResponse},
    pb,
    redaction::Secrets,
};
use mortise_service::{Caller, Consistency, ResourceService, Source};

use super::host::{Identity, note_secrets};

/// The service, for hooks.
pub(crate) struct ServiceLookups(pub(crate) ResourceService);

#[async_trait]
impl LookupHost for ServiceLookups {
    async fn search(&self, plugin: &str, request: SearchRequest) -> Result<SearchResponse, Error> {
        let caller = Caller::new(Arc::new(Identity::of_hooks(plugin)), Consistency::Consistent);
        // Fair sharing counts each plugin as a source of its own.
        let caller = caller.with_source(Source::from_key(("hooks", plugin))).in_hook_of(plugin.into());
        self.0.search(&caller, request).await
    }

    fn note_secrets(&self, resource: &pb::Resource, secrets: &mut Secrets) {
        note_secrets(&self.0, resource, secrets);
    }
}
