//! The function service on gRPC.

use mortise_resource::{
    data::{CallFunctionRequest, CallFunctionResponse, ListFunctionsRequest, ListFunctionsResponse},
    grpc::mortise::function_service_server::FunctionService,
};
use mortise_service::ResourceService;
use tonic::{Request, Response, Status};

use super::{resource_service::caller_of, status::answer};
use crate::call::call_span;

/// The service, for gRPC.
pub(crate) struct FunctionApi(pub(crate) ResourceService);

#[tonic::async_trait]
impl FunctionService for FunctionApi {
    async fn list_functions(
        &self,
        _: Request<ListFunctionsRequest>,
    ) -> Result<Response<ListFunctionsResponse>, Status> {
        Ok(Response::new(ListFunctionsResponse { functions: self.0.functions() }))
    }

    async fn call_function(
        &self,
        request: Request<CallFunctionRequest>,
    ) -> Result<Response<CallFunctionResponse>, Status> {
        let caller = caller_of(&request)?;
        answer(call_span("functions.CallFunction"), Box::pin(self.0.call_function(&caller, request.into_inner()))).await
    }
}
