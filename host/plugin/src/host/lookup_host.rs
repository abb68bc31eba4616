//! Host interface that answers the searches of hooks.

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
    /// Searches with the rights of the named plugin, which may read the type. Never waits for a free slot.
    async fn search(&self, plugin: &str, request: SearchRequest) -> Result<SearchResponse, Error>;

    /// Adds the contents of a resource's redacted fields to `_secrets`.
    fn note_secrets(&self, _resource: &pb::Resource, _secrets: &mut Secrets) {}
}

/// Host and permissions for the searches of one request's hooks.
#[derive(Clone)]
pub(crate) struct Lookup {
    pub(crate) host: Arc<dyn LookupHost>,
    pub(crate) permit: Arc<Permit>,
}
