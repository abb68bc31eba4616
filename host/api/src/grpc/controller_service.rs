//! The controller service on gRPC: the state of controllers as data.

use mortise_plugin_manager::controllers::ControllerManager;
use mortise_resource::data;
use tonic::{Request, Response, Status};

use crate::plugin_stubs::controller_service_server::ControllerService;

/// The service, for gRPC.
pub(crate) struct ControllerApi(pub(crate) ControllerManager);

#[tonic::async_trait]
impl ControllerService for ControllerApi {
    async fn list(
        &self,
        request: Request<data::ListControllersRequest>,
    ) -> Result<Response<data::ListControllersResponse>, Status> {
        let controllers = self.0.reports(&request.into_inner().plugin);
        Ok(Response::new(data::ListControllersResponse { controllers }))
    }
}
