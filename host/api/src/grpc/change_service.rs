//! The change service on gRPC: plans, moves, imports.

use mortise_resource::{
    data::{ImportRequest, ImportResponse, MoveRequest, MoveResponse, PlanRequest, PlanResponse},
    grpc::mortise::change_service_server::ChangeService,
    pb,
};
use mortise_service::ResourceService;
use tonic::{Request, Response, Status};

use super::{resource_service::caller_of, status::answer};
use crate::call::span;

/// The service, for gRPC.
pub(crate) struct ChangeApi(pub(crate) ResourceService);

#[tonic::async_trait]
impl ChangeService for ChangeApi {
    async fn plan(&self, request: Request<PlanRequest>) -> Result<Response<PlanResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("change.Plan", request.resource.as_ref().and_then(|resource| resource.id.as_ref()));
        answer(span, Box::pin(self.0.plan(&caller, request))).await
    }

    async fn r#move(&self, request: Request<MoveRequest>) -> Result<Response<MoveResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("change.Move", request.id.as_ref());
        answer(span, Box::pin(self.0.move_resource(&caller, request))).await
    }

    async fn import(&self, request: Request<ImportRequest>) -> Result<Response<ImportResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let id = pb::Id {
            r#type: request.r#type.clone(),
            tenancy: request.tenancy.clone(),
            name: request.name.clone(),
            uid: String::new(),
        };
        answer(span("change.Import", Some(&id)), Box::pin(self.0.import(&caller, request))).await
    }
}
