//! Connection of the provider for Terraform and OpenTofu to a server: as that of commands, with the settings of the
//! provider's configuration.

use std::{fmt, io, path::PathBuf, sync::Arc};

use async_trait::async_trait;
use mortise_provider::{
    client::{ConnectError, ConnectionSettings, Connector, ExportError, GrpcClient, ResourceClient},
    schema::Snapshot,
};

use tokio::sync::OnceCell;
use tonic::transport::Channel;

use super::{Connect, address::UNIX, target::Target};
use crate::{CliError, env};

/// Connects a provider to servers.
#[derive(Debug, Clone)]
pub struct ProviderConnector {
    server: Server,
    schemas: Option<SchemaFile>,
}

/// A file of types for use without a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SchemaFile {
    /// The user names it.
    Named(PathBuf),
    /// Place where an export puts it; it may be missing.
    Expected(PathBuf),
}

#[derive(Debug, Clone)]
enum Server {
    /// Server by flags, the environment and contexts.
    Environment(Box<Connect>),
    /// Server of this process. The environment is the server's, not the user's, and does not count.
    Local(Local),
}

/// The server of this process.
#[derive(Clone)]
struct Local {
    /// Its socket.
    socket: PathBuf,
    /// The connection that all sessions share.
    shared: Arc<OnceCell<Channel>>,
    types_version: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Local").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl ProviderConnector {
    /// Connects by the environment.
    pub(crate) fn of_environment(schemas: Option<SchemaFile>) -> Self {
        Self { server: Server::Environment(Box::default()), schemas }
    }

    /// Connects by flags, and then by the environment.
    pub(crate) fn of_flags(connect: &Connect) -> Self {
        Self { server: Server::Environment(Box::new(connect.clone())), schemas: None }
    }

    /// Connects to the server of this process behind its socket, and to no other. `types_version` has another value after
    /// each change of the server's types.
    #[must_use]
    pub fn of_socket(socket: PathBuf, types_version: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        let local = Local { socket, shared: Arc::default(), types_version: Arc::new(types_version) };
        Self { server: Server::Local(local), schemas: None }
    }

    /// Connects to the server of these settings.
    ///
    /// # Errors
    /// The server cannot be reached, or the settings are invalid.
    pub(crate) async fn reach(&self, settings: &ConnectionSettings) -> Result<GrpcClient, CliError> {
        let path = |text: &Option<String>| text.as_ref().map(PathBuf::from);
        let given = match &self.server {
            Server::Environment(connect) => (**connect).clone(),
            Server::Local(_) => Connect::default(),
        };
        if *settings == ConnectionSettings::default()
            && let Server::Environment(_) = self.server
        {
            let target = given.resolve(&env::process)?;
            return client_of(&target, connect(&target).await?);
        }
        let wanted = Connect {
            grpc_addr: settings.address.clone(),
            token: settings.token.clone(),
            token_file: path(&settings.token_file),
            ca_file: path(&settings.ca_file),
            client_cert: path(&settings.client_cert),
            client_key: path(&settings.client_key),
            tls_server_name: settings.tls_server_name.clone(),
            ..given
        };
        match &self.server {
            Server::Environment(_) => {
                let target = wanted.resolve(&env::process)?;
                client_of(&target, connect(&target).await?)
            }
            Server::Local(Local { socket, shared, .. }) => {
                let own = format!("{UNIX}{}", socket.display());
                if wanted.grpc_addr.as_ref().is_some_and(|address| *address != own) {
                    return Err(CliError::usage(format!(
                        "core is attached to the server behind {own}, and the provider's configuration names another one"
                    ))
                    .remedy("leave `address` out, or unset TF_REATTACH_PROVIDERS"));
                }
                let target = Connect { grpc_addr: Some(own), ..wanted }.resolve(&|_| None)?;
                client_of(&target, shared.get_or_try_init(|| connect(&target)).await?.clone())
            }
        }
    }
}

async fn connect(target: &Target) -> Result<Channel, CliError> {
    target.endpoint()?.connect().await.map_err(|e| target.unreachable(&e))
}

fn client_of(target: &Target, channel: Channel) -> Result<GrpcClient, CliError> {
    let token = target.token.as_ref().map(|token| token.parse()).transpose();
    let token = token.map_err(|e| CliError::usage("the token holds invalid characters").caused_by(e))?;
    Ok(GrpcClient::new(channel, token, target.url(), target.timeout))
}

#[async_trait]
impl Connector for ProviderConnector {
    async fn connect(&self, settings: &ConnectionSettings) -> Result<Arc<dyn ResourceClient>, ConnectError> {
        let client = self.reach(settings).await.map_err(ConnectError::new)?;
        Ok(Arc::new(client))
    }

    fn types_version(&self) -> Option<u64> {
        match &self.server {
            Server::Environment(_) => None,
            Server::Local(local) => Some((local.types_version)()),
        }
    }

    fn snapshot(&self) -> Result<Option<Snapshot>, ExportError> {
        let (Some(SchemaFile::Named(path)) | Some(SchemaFile::Expected(path))) = &self.schemas else {
            return Ok(None);
        };
        let read = match (Snapshot::read(path), &self.schemas) {
            (Ok(None), Some(SchemaFile::Named(_))) => {
                let fault = "no file with schemas of this release; `mortise provider export` writes one";
                Err(io::Error::new(io::ErrorKind::NotFound, fault))
            }
            (read, _) => read,
        };
        read.map_err(|source| ExportError { path: path.clone(), source })
    }
}
