//! The provider's client of a server: resources and types, with the rights of its identity like any other caller.

mod details;
mod grpc;
mod retry;

use std::{io, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use mortise_resource::{
    data::{
        BackupRequest, BackupResponse, CallFunctionRequest, FunctionInfo, ImportRequest, ImportResponse, MoveRequest,
        MoveResponse, PlanDeleteResponse, PlanResponse, SearchRequest, SearchResponse, call_function_response::Outcome,
    },
    pb,
};
use tonic::{Status, Streaming};

pub use details::diagnostics_of;
pub use grpc::GrpcClient;
pub(crate) use grpc::resource;

use crate::schema::{PluginChange, Snapshot, TypeDescription};

/// A server. Each call fails with the server's status, or with a status for a fault of the connection or a timeout.
/// Plans, writes, moves and imports in which a plugin's hook ran out of time are repeated: nothing was written then.
/// Answers are whole in memory.
#[async_trait]
pub trait ResourceClient: Send + Sync {
    /// Every type of the server.
    async fn types(&self) -> Result<Vec<TypeDescription>, Status>;

    /// Plans a write, without writing; `create` plans a creation even if the resource exists.
    async fn plan(&self, resource: pb::Resource, create: bool) -> Result<PlanResponse, Status>;

    /// Gives a resource another type; a dry run returns the resource that would result.
    async fn move_resource(&self, request: MoveRequest) -> Result<MoveResponse, Status>;

    /// Imports something from outside; a dry run returns the resource that would result.
    async fn import(&self, request: ImportRequest) -> Result<ImportResponse, Status>;

    /// Every function of its plugins.
    async fn functions(&self) -> Result<Vec<FunctionInfo>, Status>;

    /// Calls a function.
    async fn call_function(&self, request: CallFunctionRequest) -> Result<Outcome, Status>;

    /// Reads a resource; `None` if no resource has this id and uid.
    async fn read(&self, id: pb::Id) -> Result<Option<pb::Resource>, Status>;

    /// Writes a resource; returns the stored one. Its plan had the warnings.
    async fn write(&self, resource: pb::Resource) -> Result<pb::Resource, Status>;

    /// Deletes a resource; succeeds if it does not exist.
    async fn delete(&self, id: pb::Id) -> Result<(), Status>;

    /// The effect of a deletion on other resources, without deleting.
    async fn plan_delete(&self, id: pb::Id) -> Result<PlanDeleteResponse, Status>;

    /// The place of resources whose requests name none, as far as the token decides it; empty units are the server's
    /// defaults.
    async fn own_place(&self) -> Result<pb::Tenancy, Status>;

    /// Finds a page of resources of a type.
    async fn search(&self, request: SearchRequest) -> Result<SearchResponse, Status>;

    /// The resource of a plugin.
    async fn plugin(&self, name: &str) -> Result<pb::Resource, Status>;

    /// Changes a plugin; returns its resource after the change.
    async fn change_plugin(&self, change: PluginChange, name: &str) -> Result<pb::Resource, Status>;

    /// Takes a backup, which comes in pieces.
    async fn backup(&self, request: BackupRequest) -> Result<Streaming<BackupResponse>, Status>;

    /// Address of the server, for people.
    fn address(&self) -> &str;
}

/// Settings of the connection to a server; `None` for those that the configuration leaves out.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ConnectionSettings {
    /// The server.
    pub address: Option<String>,
    /// The token.
    pub token: Option<String>,
    /// A file that holds the token.
    pub token_file: Option<String>,
    /// Certificates to trust.
    pub ca_file: Option<String>,
    /// This client's certificate.
    pub client_cert: Option<String>,
    /// The key of this client's certificate.
    pub client_key: Option<String>,
    /// The name that the server's certificate is for.
    pub tls_server_name: Option<String>,
}

/// Connects to servers.
#[async_trait]
pub trait Connector: Send + Sync {
    /// Connects to the server of the settings; the environment gives the settings that are left out.
    ///
    /// # Errors
    /// [`ConnectError`].
    async fn connect(&self, settings: &ConnectionSettings) -> Result<Arc<dyn ResourceClient>, ConnectError>;

    /// The exported types and functions of a server, for use without a server; `None` without an export.
    ///
    /// # Errors
    /// [`ExportError`].
    fn snapshot(&self) -> Result<Option<Snapshot>, ExportError>;

    /// Number of the types of the only server that it connects to: each change of the types gives another number.
    /// `None` if such a change stays unseen.
    fn types_version(&self) -> Option<u64> {
        None
    }
}

/// Reason why a [`Connector`] has no connection, with a remedy for the user.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
pub struct ConnectError(Box<dyn std::error::Error + Send + Sync>);

impl ConnectError {
    /// Keeps the connector's own error.
    #[must_use]
    pub fn new(source: impl std::error::Error + Send + Sync + 'static) -> Self {
        Self(Box::new(source))
    }
}

/// The file of an export cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}", path.display())]
pub struct ExportError {
    /// The file.
    pub path: PathBuf,
    /// Cause.
    pub source: io::Error,
}
