//! A connection to a server, with the caller's token on every call and a bound on how long one takes.

use std::{fmt, time::Duration};

use mortise_resource::grpc::{
    AuthServiceClient, ChangeServiceClient, ControllerServiceClient, FunctionServiceClient, OwnershipServiceClient,
    PluginServiceClient, QueryServiceClient, RegionServiceClient, ResourceServiceClient, ServerServiceClient,
    TypeServiceClient, WatchServiceClient,
};
use tonic::{
    Request, Response, Status, Streaming,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::Channel,
};

use super::target::Target;
use crate::error::{CliError, Exit, UNREACHABLE};

/// Largest answer that is taken: a list comes as one message.
const MAX_ANSWER: usize = 1 << 30;

/// A channel that puts the token on every call.
pub type Authorized = InterceptedService<Channel, Token>;

/// Puts the token on a call, if there is one.
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

/// A connection. Cheap to clone; clones share it.
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

    /// What depends on what, and what deletions would do.
    #[must_use]
    pub fn ownership(&self) -> OwnershipServiceClient<Authorized> {
        OwnershipServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Watches of what queries find.
    #[must_use]
    pub fn watches(&self) -> WatchServiceClient<Authorized> {
        WatchServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Which types there are.
    #[must_use]
    pub fn types(&self) -> TypeServiceClient<Authorized> {
        TypeServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// Looks after plugins.
    #[must_use]
    pub fn plugins(&self) -> PluginServiceClient<Authorized> {
        PluginServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// What controllers do.
    #[must_use]
    pub fn controllers(&self) -> ControllerServiceClient<Authorized> {
        ControllerServiceClient::new(self.channel.clone()).max_decoding_message_size(MAX_ANSWER)
    }

    /// What the server has of other regions.
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

    /// Waits for the next message of a stream, for as long as an answer may take. `None` at its end.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub async fn next<T>(&self, thing: impl fmt::Display, stream: &mut Streaming<T>) -> Result<Option<T>, CliError> {
        match tokio::time::timeout(self.target.timeout, stream.message()).await {
            Ok(next) => next.map_err(|status| self.refusal(thing, &status)),
            Err(_) => Err(self.too_late(thing)),
        }
    }

    /// What went wrong with a call. Over TLS 1.3 a client is connected before the server has looked at its certificate,
    /// and whether the reason for the end is heard is a matter of luck.
    fn refusal(&self, thing: impl fmt::Display, status: &Status) -> CliError {
        let error = CliError::rpc(thing, status);
        match error.remedy.as_deref() {
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

    /// How long an answer may take, and a wait.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.target.timeout
    }

    /// Partition and namespace that the context names.
    pub(crate) fn context_units(&self) -> (Option<&str>, Option<&str>) {
        (self.target.partition.as_deref(), self.target.namespace.as_deref())
    }

    /// Waits for an answer, for as long as one may take. `thing` is what the call is about, and begins the error's
    /// message. For a stream, only its beginning is waited for.
    ///
    /// # Errors
    /// What the server answered, that it is gone, or that it took too long.
    pub async fn call<T>(
        &self,
        thing: impl fmt::Display,
        call: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, CliError> {
        match tokio::time::timeout(self.target.timeout, call).await {
            Ok(Ok(answer)) => Ok(answer.into_inner()),
            Ok(Err(status)) => Err(self.refusal(thing, &status)),
            Err(_) => Err(self.too_late(thing)),
        }
    }
}
