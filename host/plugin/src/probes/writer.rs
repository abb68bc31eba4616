//! The way of results into the store.

use async_trait::async_trait;
use mortise_resource::pb;

use crate::failure::Failure;

/// Writes the results of `probes`, as the controller that set them; outlives the call that did.
#[async_trait]
pub trait ProbeWriter: Send + Sync {
    /// Writes a status, as in [`crate::ReconcilerHost::write_status`].
    async fn write_status(&self, id: pb::Id, version: String, key: String, status: pb::Status) -> Result<(), Failure>;

    /// Deletes a resource whose probe failed for too long.
    async fn delete(&self, id: pb::Id) -> Result<(), Failure>;
}
