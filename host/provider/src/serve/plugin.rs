//! Services that core expects of a process besides the provider: a call to end it, and two streams that stay empty.

use std::pin::Pin;

use tokio::sync::watch;
use tokio_stream::{Stream, pending};
use tonic::{Request, Response, Status, Streaming};

use crate::proto::plugin::{
    ConnInfo, Empty, StdioData, grpc_broker_server::GrpcBroker, grpc_controller_server::GrpcController,
    grpc_stdio_server::GrpcStdio,
};

/// The call to end a process that core started. `None` for a server, which core cannot end.
#[derive(Clone, Default)]
pub(super) struct Controller(pub(super) Option<watch::Sender<bool>>);

#[tonic::async_trait]
impl GrpcController for Controller {
    async fn shutdown(&self, _: Request<Empty>) -> Result<Response<Empty>, Status> {
        if let Some(end) = &self.0 {
            end.send_replace(true);
        }
        Ok(Response::new(Empty {}))
    }
}

type Silent<T> = Pin<Box<dyn Stream<Item = Result<T, Status>> + Send>>;

/// Output of the process for core: always empty.
pub(super) struct Stdio;

#[tonic::async_trait]
impl GrpcStdio for Stdio {
    type StreamStdioStream = Silent<StdioData>;

    async fn stream_stdio(&self, _: Request<()>) -> Result<Response<Self::StreamStdioStream>, Status> {
        Ok(Response::new(Box::pin(pending())))
    }
}

/// Further connections for core: never any.
pub(super) struct Broker;

#[tonic::async_trait]
impl GrpcBroker for Broker {
    type StartStreamStream = Silent<ConnInfo>;

    async fn start_stream(&self, _: Request<Streaming<ConnInfo>>) -> Result<Response<Self::StartStreamStream>, Status> {
        Ok(Response::new(Box::pin(pending())))
    }
}
