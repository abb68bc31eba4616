//! The descriptors of the host's own messages.

use mortise_resource::Error;
use mortise_service::registry::Registry;
use prost_reflect::DescriptorPool;

use super::error::HttpError;

/// The message of every resource.
pub(super) const RESOURCE_MESSAGE: &str = "hashicorp.consul.resource.Resource";

/// The error for a message that the host's own descriptors lack; impossible in a build that passes its tests.
pub(super) fn no_host_message() -> HttpError {
    Error::internal("the host's own descriptors lack a message").into()
}

/// The host's descriptors.
pub(super) fn host_pool(registry: &Registry) -> Result<DescriptorPool, HttpError> {
    registry.pools().next().cloned().ok_or_else(no_host_message)
}
