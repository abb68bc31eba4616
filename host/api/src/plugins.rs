//! The plugin service on gRPC. An upload is collected here, within the limit of a component; what it means is the
//! manager's business.

use std::pin::Pin;

use futures::Stream;
use mortise_manager::Manager;
use mortise_resource::{Code, Error, data};
use tokio::sync::Semaphore;
use tonic::{Request, Response, Status, Streaming};

use crate::{grpc::answer, plugin_stubs::plugin_service_server::PluginService, status::status};

/// Uploads at once: each is held in memory until it is whole.
const UPLOADS: usize = 4;

/// The service, for gRPC.
pub(crate) struct Plugins {
    manager: Manager,
    uploads: Semaphore,
}

impl Plugins {
    pub(crate) fn new(manager: Manager) -> Self {
        Self { manager, uploads: Semaphore::new(UPLOADS) }
    }

    async fn upload(&self, mut stream: Streaming<data::InstallRequest>) -> Result<data::InstallResponse, Error> {
        let _upload = self.uploads.try_acquire().map_err(|_| {
            Error::new(Code::ResourceExhausted, format!("{UPLOADS} plugins are being uploaded already; try again"))
        })?;
        let broken = |e: Status| Error::invalid(format!("the upload ended early: {}", e.message()));
        let first = stream.message().await.map_err(broken)?;
        let first = first.ok_or_else(|| Error::invalid("name is required, in the first message"))?;
        let data::InstallRequest { name, sha256, chunk: mut bytes } = first;
        for (field, value) in [("name", &name), ("sha256", &sha256)] {
            if value.is_empty() {
                return Err(Error::invalid(format!("{field} is required, in the first message")));
            }
        }
        while let Some(next) = stream.message().await.map_err(broken)? {
            if (!next.name.is_empty() && next.name != name) || (!next.sha256.is_empty() && next.sha256 != sha256) {
                return Err(Error::invalid("name and sha256 stand in the first message, and do not change after it"));
            }
            if bytes.len().saturating_add(next.chunk.len()) > self.manager.component_limit() {
                return Err(self.manager.too_large());
            }
            bytes.extend_from_slice(&next.chunk);
        }
        let (plugin, unchanged) = self.manager.install(name, &sha256, bytes).await?;
        Ok(data::InstallResponse { plugin: Some(plugin), unchanged })
    }
}

#[tonic::async_trait]
impl PluginService for Plugins {
    async fn install(
        &self,
        request: Request<Streaming<data::InstallRequest>>,
    ) -> Result<Response<data::InstallResponse>, Status> {
        answer(self.upload(request.into_inner())).await
    }

    async fn remove(&self, request: Request<data::RemoveRequest>) -> Result<Response<data::RemoveResponse>, Status> {
        let removed = self.manager.remove(request.into_inner().name);
        answer(async { removed.await.map(|plugin| data::RemoveResponse { plugin }) }).await
    }

    async fn rollback(
        &self,
        request: Request<data::RollbackRequest>,
    ) -> Result<Response<data::RollbackResponse>, Status> {
        let rolled_back = self.manager.rollback(request.into_inner().name);
        answer(async { rolled_back.await.map(|plugin| data::RollbackResponse { plugin: Some(plugin) }) }).await
    }

    async fn reset(&self, request: Request<data::ResetRequest>) -> Result<Response<data::ResetResponse>, Status> {
        let reset = self.manager.reset(request.into_inner().name);
        answer(async { reset.await.map(|plugin| data::ResetResponse { plugin: Some(plugin) }) }).await
    }

    async fn disable(&self, request: Request<data::DisableRequest>) -> Result<Response<data::DisableResponse>, Status> {
        let disabled = self.manager.disable(request.into_inner().name);
        answer(async { disabled.await.map(|plugin| data::DisableResponse { plugin: Some(plugin) }) }).await
    }

    async fn enable(&self, request: Request<data::EnableRequest>) -> Result<Response<data::EnableResponse>, Status> {
        let enabled = self.manager.enable(request.into_inner().name);
        answer(async { enabled.await.map(|plugin| data::EnableResponse { plugin: Some(plugin) }) }).await
    }

    async fn inspect(&self, request: Request<data::InspectRequest>) -> Result<Response<data::InspectResponse>, Status> {
        answer(self.manager.inspect(request.into_inner().name)).await
    }

    type LogsStream = Pin<Box<dyn Stream<Item = Result<data::LogLine, Status>> + Send>>;

    async fn logs(&self, request: Request<data::LogsRequest>) -> Result<Response<Self::LogsStream>, Status> {
        let name = request.into_inner().name;
        self.manager.inspect(name).await.map_err(status)?;
        Err(Status::unimplemented("logs of plugins are not kept by this build; they go to the server's own log"))
    }
}
