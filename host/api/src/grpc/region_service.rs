//! The region service on gRPC: the state of replicas of other regions as data.

use mortise_region::Replication;
use mortise_resource::data;
use tonic::{Request, Response, Status};

use crate::plugin_stubs::region_service_server::RegionService;

/// The service, for gRPC.
pub(crate) struct RegionApi(pub(crate) Replication);

#[tonic::async_trait]
impl RegionService for RegionApi {
    async fn status(
        &self,
        _: Request<data::RegionStatusRequest>,
    ) -> Result<Response<data::RegionStatusResponse>, Status> {
        Ok(Response::new(self.0.report()))
    }
}
