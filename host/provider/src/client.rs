//! What the provider asks of a server: the resource service and the types, as a caller with an identity like any other.

mod grpc;

use async_trait::async_trait;
use mortise_resource::{
    data::{
        CallFunctionRequest, FunctionInfo, ImportRequest, MoveRequest, PlanResponse, call_function_response::Outcome,
    },
    pb,
};
use tonic::Status;

pub use grpc::GrpcClient;

use crate::schema::{Snapshot, TypeDescription};

/// A server.
#[async_trait]
pub trait ResourceClient: Send + Sync {
    /// Every type that it has.
    async fn types(&self) -> Result<Vec<TypeDescription>, Status>;

    /// What a write would do; `create` plans a creation, whatever is stored.
    async fn plan(&self, resource: pb::Resource, create: bool) -> Result<PlanResponse, Status>;

    /// Gives a resource another type, or says what would come of it.
    async fn move_resource(&self, request: MoveRequest) -> Result<pb::Resource, Status>;

    /// Takes something outside over, or says what would come of it.
    async fn import(&self, request: ImportRequest) -> Result<pb::Resource, Status>;

    /// Every function of its plugins.
    async fn functions(&self) -> Result<Vec<FunctionInfo>, Status>;

    /// Calls a function.
    async fn call_function(&self, request: CallFunctionRequest) -> Result<Outcome, Status>;

    /// One resource; none where there is none of this id and uid.
    async fn read(&self, id: pb::Id) -> Result<Option<pb::Resource>, Status>;

    /// Writes a resource; what is stored then, with warnings.
    async fn write(&self, resource: pb::Resource) -> Result<(pb::Resource, Vec<String>), Status>;

    /// Deletes a resource; one that is not there is gone already.
    async fn delete(&self, id: pb::Id) -> Result<(), Status>;

    /// Lists resources of a type.
    async fn list(&self, request: pb::ListRequest) -> Result<Vec<pb::Resource>, Status>;

    /// Where the server is, for people.
    fn address(&self) -> &str;
}

/// How a server is reached, as far as a configuration says.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The server.
    pub address: Option<String>,
    /// The token.
    pub token: Option<String>,
    /// A file that holds it.
    pub token_file: Option<String>,
    /// Certificates to trust.
    pub ca_file: Option<String>,
    /// This client's certificate.
    pub client_cert: Option<String>,
    /// Its key.
    pub client_key: Option<String>,
    /// The name that the server's certificate is for.
    pub tls_server_name: Option<String>,
}

/// Reaches servers.
#[async_trait]
pub trait Connector: Send + Sync {
    /// Reaches the server that settings mean; what they leave out is as the environment has it.
    ///
    /// # Errors
    /// Why not, for people.
    async fn connect(&self, settings: &ConnectionSettings) -> Result<std::sync::Arc<dyn ResourceClient>, String>;

    /// What a server had when somebody wrote it down, for when none is reached; `None` where nobody did.
    ///
    /// # Errors
    /// Why what was written down cannot be read, for people.
    fn snapshot(&self) -> Result<Option<Snapshot>, String>;
}
