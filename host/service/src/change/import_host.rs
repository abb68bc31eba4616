//! The host of an import. It refuses every question about resources: an import looks at the outside on behalf of its
//! caller.

use async_trait::async_trait;
use mortise_plugin_host::{CacheKey, EachResource, Failure, ReconcilerHost};
use mortise_resource::{Code, pb};

/// The host of an import. External access goes by the plugin's grants, and needs no host.
pub(super) struct ImportHost;

fn refused<T>() -> Result<T, Failure> {
    let text = "an import cannot use resources or the cache; describe the external object alone";
    Err(Failure::new(Code::FailedPrecondition, text))
}

#[async_trait]
impl ReconcilerHost for ImportHost {
    async fn read(&self, _: pb::Id) -> Result<pb::Resource, Failure> {
        refused()
    }

    async fn list(&self, _: pb::Type, _: pb::Tenancy, _: String, _: EachResource<'_>) -> Result<(), Failure> {
        refused()
    }

    async fn list_by_owner(&self, _: pb::Id, _: EachResource<'_>) -> Result<(), Failure> {
        refused()
    }

    async fn write(&self, _: pb::Resource) -> Result<pb::Resource, Failure> {
        refused()
    }

    async fn write_status(&self, _: pb::Id, _: String, _: String, _: pb::Status) -> Result<pb::Resource, Failure> {
        refused()
    }

    async fn delete(&self, _: pb::Id, _: String) -> Result<(), Failure> {
        refused()
    }

    async fn cache_get(&self, _: pb::Type, _: String, _: CacheKey) -> Result<Option<pb::Resource>, Failure> {
        refused()
    }

    async fn cache_list(&self, _: pb::Type, _: String, _: CacheKey, _: EachResource<'_>) -> Result<(), Failure> {
        refused()
    }
}
