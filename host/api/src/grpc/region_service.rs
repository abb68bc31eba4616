//! The region service on gRPC: the state of replicas of other regions, and the decisions of operators about them.

use mortise_region::Replication;
use mortise_resource::{Error, data};
use tonic::{Request, Response, Status};

use super::status::status;
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

    async fn identify(&self, _: Request<data::IdentifyRequest>) -> Result<Response<data::IdentifyResponse>, Status> {
        answer(self.0.identify().await)
    }

    async fn accept(
        &self,
        request: Request<data::AcceptPeerRequest>,
    ) -> Result<Response<data::AcceptPeerResponse>, Status> {
        answer(self.0.accept(request.into_inner()).await)
    }

    async fn adopt(&self, request: Request<data::AdoptRequest>) -> Result<Response<data::AdoptResponse>, Status> {
        answer(Box::pin(self.0.adopt(request.into_inner())).await)
    }
}

fn answer<T>(answer: Result<T, Error>) -> Result<Response<T>, Status> {
    answer.map(Response::new).map_err(status)
}
