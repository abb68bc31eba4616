//! The ownership service on gRPC: dependencies between resources, and plans of deletions.

use mortise_resource::{
    data::{
        GetTreeRequest, GetTreeResponse, PlanDeleteRequest, PlanDeleteResponse, SetBlockDeletionRequest,
        SetBlockDeletionResponse,
    },
    grpc::mortise::ownership_service_server::OwnershipService,
};
use mortise_service::ResourceService;
use tonic::{Request, Response, Status};

use super::{resource_service::caller_of, status::answer};
use crate::call::span;

/// The service, for gRPC.
pub(crate) struct OwnershipApi(pub(crate) ResourceService);

#[tonic::async_trait]
impl OwnershipService for OwnershipApi {
    async fn get_tree(&self, request: Request<GetTreeRequest>) -> Result<Response<GetTreeResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("ownership.GetTree", request.id.as_ref());
        answer(span, Box::pin(self.0.get_tree(&caller, request))).await
    }

    async fn plan_delete(&self, request: Request<PlanDeleteRequest>) -> Result<Response<PlanDeleteResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("ownership.PlanDelete", request.id.as_ref());
        answer(span, Box::pin(self.0.plan_delete(&caller, request))).await
    }

    async fn set_block_deletion(
        &self,
        request: Request<SetBlockDeletionRequest>,
    ) -> Result<Response<SetBlockDeletionResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("ownership.SetBlockDeletion", request.id.as_ref());
        answer(span, Box::pin(self.0.change_block_deletion(&caller, request))).await
    }
}
