//! A request under `/api` whose type is known: the input of operations on resources.

use std::sync::Arc;

use axum::{body::Body, http::request::Parts};
use mortise_resource::pb;
use mortise_service::{Caller, registry::ResourceType};
use prost_reflect::DescriptorPool;

use crate::authenticate::Authenticated;

use super::{
    HttpOptions, Shared, body::BufferedBody, error::HttpError, json::Printer, media::Content, patch_document::Patch,
    query::Query,
};

/// A request about a type.
pub(super) struct TypeRequest {
    pub(super) shared: Shared,
    pub(super) kind: Arc<ResourceType>,
    pub(super) host: DescriptorPool,
    pub(super) query: Query,
    pub(super) by: Authenticated,
    pub(super) parts: Parts,
    pub(super) body: Body,
}

impl TypeRequest {
    /// The id of a name, with the tenancy of the query.
    pub(super) fn id(&self, name: String) -> pb::Id {
        pb::Id { uid: String::new(), name, r#type: Some(self.kind.gvk.to_pb()), tenancy: Some(self.query.tenancy()) }
    }

    /// The caller, for a request about one resource.
    pub(super) fn caller(&self) -> Caller {
        self.query.caller(&self.parts, &self.by)
    }

    /// The caller, for a request about many resources.
    pub(super) fn caller_of_list(&self) -> Caller {
        self.query.caller_of_list(&self.parts, &self.by)
    }

    /// A printer for resources of the type.
    pub(super) fn printer(&self) -> Printer {
        Printer::new(self.kind.schema.message())
    }

    /// Reads the body as a resource.
    pub(super) async fn resource(&mut self, name: String) -> Result<pb::Resource, HttpError> {
        let read = self.read_body(Content::Resource).await?;
        let mut resource = read.resource(&self.host, self.kind.schema.message()).await?;
        resource.id = Some(self.id(name));
        Ok(resource)
    }

    /// Reads the body as a patch.
    pub(super) async fn patch(&mut self) -> Result<Patch, HttpError> {
        self.read_body(Content::Patch).await?.patch().await
    }

    async fn read_body(&mut self, content: Content) -> Result<BufferedBody, HttpError> {
        let body = std::mem::take(&mut self.body);
        let HttpOptions { max_body_bytes: limit, request_timeout: within, .. } = self.shared.options;
        super::body::read(&self.parts.headers, content, body, limit, within, &self.shared.bodies).await
    }
}
