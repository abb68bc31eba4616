//! The resource API on gRPC: one line for each RPC.

use std::pin::Pin;

use ::http::{Extensions, HeaderMap};
use futures::{Stream, stream};
use mortise_resource::pb;
use mortise_service::{Caller, ResourceService, Source};
use tonic::{Request, Response, Status, transport::server::TcpConnectInfo};
use tracing::Span;

use super::status::answer;
use crate::{
    authenticate::Authenticated,
    call::{self, span, span_of_type},
    stubs::resource_service_server::ResourceService as Rpc,
};

/// Selects strong reads, by exactly the value `consistent`.
const CONSISTENCY: &str = "x-consul-consistency-mode";

/// The service, for gRPC.
pub(crate) struct ResourceApi(pub(crate) ResourceService);

/// The caller of a request with this head, which the layer of all calls has authenticated.
///
/// # Errors
/// `Internal`: it has not.
pub(super) fn caller(headers: &HeaderMap, extensions: &Extensions) -> Result<Caller, Status> {
    let by = extensions.get::<Authenticated>().ok_or_else(|| Status::internal("the call was not authenticated"))?;
    let strong = headers.get(CONSISTENCY).is_some_and(|value| value == "consistent");
    let connection = extensions.get::<TcpConnectInfo>().and_then(TcpConnectInfo::remote_addr);
    Ok(call::caller(by, strong, Source::of(connection)))
}

pub(super) fn caller_of<T>(request: &Request<T>) -> Result<Caller, Status> {
    caller(request.metadata().as_ref(), request.extensions())
}

fn id_of(resource: Option<&pb::Resource>) -> Option<&pb::Id> {
    resource.and_then(|resource| resource.id.as_ref())
}

#[tonic::async_trait]
impl Rpc for ResourceApi {
    type WatchListStream = Pin<Box<dyn Stream<Item = Result<pb::WatchEvent, Status>> + Send>>;

    async fn read(&self, request: Request<pb::ReadRequest>) -> Result<Response<pb::ReadResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("Read", request.id.as_ref());
        answer(span, Box::pin(self.0.read(&caller, request))).await
    }

    async fn write(&self, request: Request<pb::WriteRequest>) -> Result<Response<pb::WriteResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("Write", id_of(request.resource.as_ref()));
        answer(span, Box::pin(self.0.write(&caller, request))).await
    }

    async fn write_status(
        &self,
        request: Request<pb::WriteStatusRequest>,
    ) -> Result<Response<pb::WriteStatusResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("WriteStatus", request.id.as_ref());
        answer(span, Box::pin(self.0.write_status(&caller, request))).await
    }

    /// Not reached: the layer of all calls answers List in pieces ([`super::list`]).
    async fn list(&self, request: Request<pb::ListRequest>) -> Result<Response<pb::ListResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span_of_type("List", request.r#type.as_ref());
        answer(span, Box::pin(self.0.list(&caller, request))).await
    }

    /// Not reached, as List.
    async fn list_by_owner(
        &self,
        request: Request<pb::ListByOwnerRequest>,
    ) -> Result<Response<pb::ListByOwnerResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("ListByOwner", request.owner.as_ref());
        answer(span, Box::pin(self.0.list_by_owner(&caller, request))).await
    }

    async fn delete(&self, request: Request<pb::DeleteRequest>) -> Result<Response<pb::DeleteResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("Delete", request.id.as_ref());
        answer(span, Box::pin(self.0.delete(&caller, request))).await
    }

    async fn watch_list(
        &self,
        request: Request<pb::WatchListRequest>,
    ) -> Result<Response<Self::WatchListStream>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span_of_type("WatchList", request.r#type.as_ref());
        let events = answer(span, Box::pin(self.0.watch_list(&caller, request))).await?.into_inner();
        let stream = stream::unfold(Some(events), async |events| {
            let mut events = events?;
            Some(match answer(Span::none(), Box::pin(events.next())).await {
                Ok(event) => (Ok(event.into_inner()), Some(events)),
                Err(status) => (Err(status), None),
            })
        });
        Ok(Response::new(Box::pin(stream)))
    }

    async fn mutate_and_validate(
        &self,
        request: Request<pb::MutateAndValidateRequest>,
    ) -> Result<Response<pb::MutateAndValidateResponse>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("MutateAndValidate", id_of(request.resource.as_ref()));
        answer(span, Box::pin(self.0.mutate_and_validate(&caller, request))).await
    }
}
