//! What the searches of hooks are answered by.

use std::sync::Arc;

use async_trait::async_trait;
use mortise_resource::{
    Error,
    data::{SearchRequest, SearchResponse},
    pb,
    redaction::Secrets,
};

use crate::grants::Permit;

/// Answers the searches of hooks: the resource service, behind a [`Sandbox`](crate::Sandbox).
#[async_trait]
pub trait LookupHost: Send + Sync {
    /// Searches with the rights of the plugin of this name, to which the type is open. Waits for no place.
    async fn search(&self, plugin: &str, request: SearchRequest) -> Result<SearchResponse, Error>;

    /// Adds what the redacted fields of a resource hold.
    fn note_secrets(&self, _resource: &pb::Resource, _secrets: &mut Secrets) {}
}

/// What the hooks of one request search with.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) host: Arc<dyn LookupHost>,
    pub(crate) permit: Arc<Permit>,
}
