//! The server service on gRPC.

use std::sync::Arc;

use mortise_plugin_manager::Manager;
use mortise_resource::data;
use mortise_resource::grpc::mortise::server_service_server::ServerService;
use tonic::{Request, Response, Status};

use super::{
    backup::{Pieces, backup},
    status::answer,
};
use crate::{call::call_span, configuration::Configuration, observability::server_status::Sources};

/// The service, for gRPC.
pub(crate) struct ServerApi {
    pub(crate) sources: Sources,
    pub(crate) manager: Manager,
    pub(crate) configuration: Arc<dyn Configuration>,
}

#[tonic::async_trait]
impl ServerService for ServerApi {
    async fn status(
        &self,
        _: Request<data::ServerStatusRequest>,
    ) -> Result<Response<data::ServerStatusResponse>, Status> {
        answer(call_span("server.Status"), self.sources.status()).await
    }

    async fn list_members(
        &self,
        _: Request<data::ListMembersRequest>,
    ) -> Result<Response<data::ListMembersResponse>, Status> {
        answer(call_span("server.ListMembers"), self.sources.members()).await
    }

    async fn reload(&self, _: Request<data::ReloadRequest>) -> Result<Response<data::ReloadResponse>, Status> {
        answer(call_span("server.Reload"), self.configuration.reload()).await
    }

    async fn metrics(&self, _: Request<data::MetricsRequest>) -> Result<Response<data::MetricsResponse>, Status> {
        answer(call_span("server.Metrics"), async { Ok(data::MetricsResponse { text: self.sources.metrics.render() }) })
            .await
    }

    async fn settings(&self, _: Request<data::SettingsRequest>) -> Result<Response<data::SettingsResponse>, Status> {
        answer(call_span("server.Settings"), self.configuration.settings()).await
    }

    type BackupStream = Pieces;

    async fn backup(&self, request: Request<data::BackupRequest>) -> Result<Response<Pieces>, Status> {
        let config = !request.into_inner().without_config;
        answer(call_span("server.Backup"), backup(&self.manager, &self.sources.service, config)).await
    }
}
