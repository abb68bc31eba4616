//! The watch service on gRPC: changes of a resource, a page, or all matching resources.

use futures::stream::{self, BoxStream};
use mortise_resource::{
    Error,
    data::{WatchResourceRequest, WatchResourceResponse, WatchResourcesRequest, WatchResourcesResponse},
    grpc::mortise::watch_service_server::WatchService,
};
use mortise_service::{ResourceChanges, ResourceService, ResourcesChanges};
use tonic::{Request, Response, Status};
use tracing::Span;

use super::{
    resource_service::caller_of,
    status::{answer, status},
};
use crate::call::{run_guarded, span, type_span};

/// The service, for gRPC.
pub(crate) struct WatchApi(pub(crate) ResourceService);

#[tonic::async_trait]
impl WatchService for WatchApi {
    type WatchResourceStream = BoxStream<'static, Result<WatchResourceResponse, Status>>;
    type WatchResourcesStream = BoxStream<'static, Result<WatchResourcesResponse, Status>>;

    async fn watch_resource(
        &self,
        request: Request<WatchResourceRequest>,
    ) -> Result<Response<Self::WatchResourceStream>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = span("watch.WatchResource", request.id.as_ref());
        let changes = answer(span, Box::pin(self.0.watch_resource(&caller, request))).await?.into_inner();
        Ok(Response::new(messages(changes)))
    }

    async fn watch_resources(
        &self,
        request: Request<WatchResourcesRequest>,
    ) -> Result<Response<Self::WatchResourcesStream>, Status> {
        let caller = caller_of(&request)?;
        let request = request.into_inner();
        let span = type_span("watch.WatchResources", request.resource_type.as_ref());
        let changes = answer(span, Box::pin(self.0.watch_resources(&caller, request))).await?.into_inner();
        Ok(Response::new(messages(changes)))
    }
}

/// A source of watch messages.
trait Messages: Send + 'static {
    type Message: Send + 'static;

    fn next(&mut self) -> impl Future<Output = Result<Self::Message, Error>> + Send;
}

impl Messages for ResourceChanges {
    type Message = WatchResourceResponse;

    async fn next(&mut self) -> Result<WatchResourceResponse, Error> {
        self.next().await
    }
}

impl Messages for ResourcesChanges {
    type Message = WatchResourcesResponse;

    async fn next(&mut self) -> Result<WatchResourcesResponse, Error> {
        self.next().await
    }
}

/// The messages of a watch; an error is the last item.
fn messages<W: Messages>(watch: W) -> BoxStream<'static, Result<W::Message, Status>> {
    let watch = Box::new(watch);
    Box::pin(stream::try_unfold(watch, async |mut watch| {
        let message = run_guarded(Span::none(), Box::pin(watch.next())).await.map_err(status)?;
        Ok(Some((message, watch)))
    }))
}
