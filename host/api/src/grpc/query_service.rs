//! The query service on gRPC: searches, several reads at once, changes of single fields.

use mortise_resource::{
    data::{BatchGetRequest, BatchGetResponse, SearchRequest, SearchResponse, UpdateRequest, UpdateResponse},
    grpc::mortise::query_service_server::QueryService,
};
use mortise_service::ResourceService;
use tonic::{Request, Response, Status};

use super::{resource_service::caller_of, status::answer};
use crate::call::{call_span, span, type_span};

/// The service, for gRPC.
pub(crate) struct QueryApi(pub(crate) ResourceService);

#[tonic::async_trait]
impl QueryService for QueryApi {
    async fn search(&self, request: Request<SearchRequest>) -> Result<Response<SearchResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = type_span("query.Search", request.r#type.as_ref());
        answer(span, Box::pin(self.0.search(&caller, request))).await
    }

    async fn batch_get(&self, request: Request<BatchGetRequest>) -> Result<Response<BatchGetResponse>, Status> {
        let caller = caller_of(&request)?;
        answer(call_span("query.BatchGet"), Box::pin(self.0.batch_get(&caller, request.into_inner()))).await
    }

    async fn update(&self, request: Request<UpdateRequest>) -> Result<Response<UpdateResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("query.Update", request.resource.as_ref().and_then(|resource| resource.id.as_ref()));
        answer(span, Box::pin(self.0.update(&caller, request))).await
    }
}
