//! A connection to a server, with the caller's token on every call and a time limit.

use std::{fmt, time::Duration};

use mortise_resource::grpc::{
    AuthServiceClient, ChangeServiceClient, ControllerServiceClient, FunctionServiceClient, OwnershipServiceClient,
    PluginServiceClient, QueryServiceClient, RegionServiceClient, ResourceServiceClient, ServerServiceClient,
    TypeServiceClient, WatchServiceClient,
};
use tonic::{
    Code, Request, Response, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use super::target::Target;
use crate::error::{CliError, Exit, UNREACHABLE};

/// Largest accepted answer in bytes: a list comes as one message.
const MAX_ANSWER: usize = 1 << 30;

/// Text of a lost connection, behind the subject of the call.
const LOST: &str = ": lost the connection";

/// Remedy for the address of the HTTP port.
const HTTP_PORT: &str =
    "that is the port for HTTP; commands speak gRPC, on port 8502 unless the server's grpc_addr is another";

/// Beginning of the answer of the HTTP port to a call.
const SPEAKS_HTTP: &str = "this port speaks HTTP, not gRPC";

/// Remedy for a caller without a token that lacks a right.
const NO_TOKEN: &str = "give a token: --token-file FILE or `mortise login`; the server wrote the first one to \
                        bootstrap-token in its data directory";

/// Channel that adds the token to every call.
pub type Authorized = InterceptedService<Channel, Token>;

/// Adds the token to a call, if there is a token.
#[derive(Clone)]
pub struct Token(Option<MetadataValue<Ascii>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("x-consul-token", token.clone());
        }
        Ok(request)
    }
}

/// Connection to a server. Cheap to clone; clones share it.
#[derive(Clone)]
pub struct Session {
    channel: Authorized,
    target: std::sync::Arc<Target>,
}

impl Session {
    pub(crate) fn new(channel: Channel, target: Target) -> Result<Self, CliError> {
        let token = target.token.as_deref().map(str::parse::<MetadataValue<Ascii>>).transpose();
        let mut token = token.map_err(|_| CliError::usage("the token holds invalid characters"))?;
        if let Some(token) = &mut token {
            token.set_sensitive(true);
        }
        Ok(Self { channel: InterceptedService::new(channel, Token(token)), target: std::sync::Arc::new(target) })
    }

    /// The resource API.
    #[must_use]
    pub fn resources(&self) -> ResourceServiceClient<Authorized> {
        ResourceServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Searches, and changes of single fields.
    #[must_use]
    pub fn queries(&self) -> QueryServiceClient<Authorized> {
        QueryServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Dependencies between resources, and plans of deletions.
    #[must_use]
    pub fn ownership(&self) -> OwnershipServiceClient<Authorized> {
        OwnershipServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Watches of query results.
    #[must_use]
    pub fn watches(&self) -> WatchServiceClient<Authorized> {
        WatchServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Types of the server.
    #[must_use]
    pub fn types(&self) -> TypeServiceClient<Authorized> {
        TypeServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Management of plugins.
    #[must_use]
    pub fn plugins(&self) -> PluginServiceClient<Authorized> {
        PluginServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Reports of controllers.
    #[must_use]
    pub fn controllers(&self) -> ControllerServiceClient<Authorized> {
        ControllerServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// State of the replicas from other regions.
    #[must_use]
    pub fn regions(&self) -> RegionServiceClient<Authorized> {
        RegionServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Identity and rights of the caller.
    #[must_use]
    pub fn auth(&self) -> AuthServiceClient<Authorized> {
        AuthServiceClient::new(self.channel.clone())
    }

    /// Plans, moves and imports.
    #[must_use]
    pub fn changes(&self) -> ChangeServiceClient<Authorized> {
        ChangeServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Functions of plugins.
    #[must_use]
    pub fn functions(&self) -> FunctionServiceClient<Authorized> {
        FunctionServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// The server as a whole.
    #[must_use]
    pub fn server(&self) -> ServerServiceClient<Authorized> {
        ServerServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Waits for the next message of a stream, at most [`Session::timeout`]. `None` at the end of the stream.
    ///
    /// # Errors
    /// Those of [`Session::call`].
    pub async fn next<T>(&self, thing: impl fmt::Display, stream: &mut Streaming<T>) -> Result<Option<T>, CliError> {
        match tokio::time::timeout(self.target.timeout, stream.message()).await {
            Ok(next) => next.map_err(|status| self.refusal(thing, &status)),
            Err(_) => Err(self.too_late(thing)),
        }
    }

    /// Converts the failure of a call. Over TLS 1.3 a client is connected before the server has checked its
    /// certificate, so the reason for the end may not arrive.
    fn refusal(&self, thing: impl fmt::Display, status: &Status) -> CliError {
        let error = CliError::rpc(thing, status);
        match error.remedy.as_deref() {
            None if status.code() == Code::PermissionDenied => error.remedy(match self.target.token {
                None => NO_TOKEN,
                Some(_) => "`mortise auth whoami` shows the caller and its policies",
            }),
            Some(UNREACHABLE) if self.target.tls.is_some() => error.remedy(
                "the server went away, or wants a certificate of this client that it trusts: --client-cert and \
                 --client-key",
            ),
            _ => error,
        }
    }

    fn too_late(&self, thing: impl fmt::Display) -> CliError {
        let within = self.target.timeout;
        CliError::new(Exit::TimedOut, format!("{thing}: no answer from {} within {within:?}", self.url()))
            .remedy("--timeout DURATION allows more")
    }

    /// The channel itself, for clients of other services.
    #[must_use]
    pub fn channel(&self) -> Authorized {
        self.channel.clone()
    }

    /// The server's address, with its scheme.
    #[must_use]
    pub fn url(&self) -> String {
        self.target.url()
    }

    /// Longest time for an answer, and for a wait.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.target.timeout
    }

    /// Partition and namespace of the context.
    pub(crate) fn context_units(&self) -> (Option<&str>, Option<&str>) {
        (self.target.partition.as_deref(), self.target.namespace.as_deref())
    }

    /// Waits for an answer, at most [`Session::timeout`]. `thing` is the subject of the call, and begins the error's
    /// message. For a stream, only its beginning is awaited.
    ///
    /// # Errors
    /// The server's refusal, a lost connection, or a timeout.
    pub async fn call<T>(
        &self,
        thing: impl fmt::Display,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, CliError> {
        match tokio::time::timeout(self.target.timeout, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) if status.message().starts_with(SPEAKS_HTTP) => {
                let message = format!("{thing}: {} speaks HTTP, not gRPC", self.url());
                Err(CliError::new(Exit::Unreachable, message).remedy(HTTP_PORT))
            }
            Ok(Err(status)) => Err(self.with_port(self.refusal(thing, &status)).await),
            Err(_) => Err(self.too_late(thing)),
        }
    }

    /// Adds to a lost connection that the address is that of HTTP, if it is.
    async fn with_port(&self, error: CliError) -> CliError {
        if error.remedy.as_deref() != Some(UNREACHABLE) {
            return error;
        }
        let target = std::sync::Arc::clone(&self.target);
        match tokio::task::spawn_blocking(move || target.is_http_port()).await {
            Ok(true) => {
                let thing = error.message.split(LOST).next().unwrap_or_default();
                let message = format!("{thing}: {} speaks HTTP, not gRPC", self.url());
                CliError { message, ..error }.remedy(HTTP_PORT)
            }
            _ => error,
        }
    }
}
