//! Health over gRPC. A watch ends once it has said that the server stops: open, it would hold up the end.

use std::pin::Pin;

use futures::{Stream, StreamExt as _, stream};
use tonic::{Request, Response, Status};
use tonic_health::{
    pb::{HealthCheckRequest, HealthCheckResponse, health_check_response::ServingStatus, health_server},
    server::HealthService,
};

/// What is said of each service. None stops serving before the server does.
pub(crate) struct Health(pub(crate) HealthService);

#[tonic::async_trait]
impl health_server::Health for Health {
    type WatchStream = Pin<Box<dyn Stream<Item = Result<HealthCheckResponse, Status>> + Send>>;

    async fn check(&self, request: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        self.0.check(request).await
    }

    async fn watch(&self, request: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        let replies = self.0.watch(request).await?.into_inner().flat_map(|reply| {
            let last = reply.as_ref().is_ok_and(|reply| reply.status() == ServingStatus::NotServing);
            let end = last.then(|| Err(Status::unavailable("the server is stopping")));
            stream::iter(std::iter::once(reply).chain(end))
        });
        Ok(Response::new(Box::pin(replies)))
    }
}
