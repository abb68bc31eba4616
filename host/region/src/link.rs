//! The connection to a peer. Its files are read again whenever a watch begins, and a changed file leads to a new
//! connection. The channel itself reconnects on its own.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use futures::{StreamExt as _, stream::BoxStream};
use mortise_resource::{
    data::{
        BatchGetRequest, BatchGetResponse, IdentifyRequest, IdentifyResponse, WatchResourcesRequest,
        WatchResourcesResponse,
    },
    grpc::{QueryServiceClient, REGION_HEADER, RegionServiceClient, STORE_HEADER, WatchServiceClient},
};
use tokio::sync::Mutex;
use tonic::{
    Request, Status,
    metadata::{Ascii, MetadataValue},
    service::{Interceptor, interceptor::InterceptedService},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

use crate::{error::FollowError, options::PeerOptions};

/// Most bytes of an answer to a BatchGet; a single larger resource is allowed.
const MAX_BATCH_BYTES: usize = 16 << 20;
/// Bytes of a message beside its resources.
const MESSAGE_OVERHEAD_BYTES: usize = 1 << 20;
/// Most bytes of a file with a key, a certificate or a token.
const MAX_FILE_BYTES: u64 = 1 << 20;
/// The longest time to connect.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// Bytes that the peer may send before they are read: for a stream, and for all streams. Each stream has its own bound;
/// under a common bound, streams that wait for an answer could block that answer.
const WINDOW_BYTES: (u32, u32) = (1 << 20, (1 << 31) - 1);

type Authorized = InterceptedService<Channel, Token>;

/// Adds the token to each call.
#[derive(Clone)]
pub(crate) struct Token(Option<MetadataValue<Ascii>>);

impl Interceptor for Token {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.0 {
            request.metadata_mut().insert("x-consul-token", token.clone());
        }
        Ok(request)
    }
}

/// The content of the connection's files.
#[derive(PartialEq, Eq, Default)]
struct Files {
    ca: Option<Vec<u8>>,
    identity: Option<(Vec<u8>, Vec<u8>)>,
    token: Option<Vec<u8>>,
}

/// The messages of a watch.
pub(crate) type Messages = BoxStream<'static, Result<WatchResourcesResponse, Status>>;

/// The calls to a peer.
///
/// A call for a store fails with FailedPrecondition if the server at the other end has another one, or is of another
/// region than the peer.
#[async_trait]
pub(crate) trait PeerCalls: Send + Sync {
    async fn identify(&self) -> Result<IdentifyResponse, Status>;
    async fn watch(&self, store: &str, request: WatchResourcesRequest) -> Result<Messages, Status>;
    async fn batch_get(&self, store: &str, request: BatchGetRequest) -> Result<BatchGetResponse, Status>;
}

/// The way to a peer.
#[async_trait]
pub(crate) trait Dial: Send + Sync {
    /// Returns the connection.
    async fn open(&self) -> Result<Arc<dyn PeerCalls>, FollowError>;
}

/// The connection to one peer.
pub(crate) struct Link {
    options: PeerOptions,
    max_message: usize,
    open: Mutex<Option<(Files, Connection)>>,
}

/// A connection, which opens at its first call. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Connection {
    /// Region of the peer.
    region: String,
    calls: Authorized,
    max_message: usize,
}

#[cfg(test)]
impl Connection {
    /// Makes a connection to a region over a channel.
    pub(crate) fn over(region: &str, channel: Channel) -> Self {
        let calls = InterceptedService::new(channel, Token(None));
        Self { region: region.to_owned(), calls, max_message: MAX_BATCH_BYTES }
    }
}

impl Link {
    /// Doubles the limit for resources: the host's own fields in a resource do not count, and may take as much again.
    pub(crate) fn new(options: PeerOptions, max_resource_bytes: usize) -> Self {
        let max_message =
            MAX_BATCH_BYTES.max(max_resource_bytes.saturating_mul(2)).saturating_add(MESSAGE_OVERHEAD_BYTES);
        Self { options, max_message, open: Mutex::default() }
    }

    /// Returns the connection, or a new one when its files have changed. The channel opens at its first call.
    async fn connection(&self) -> Result<Connection, FollowError> {
        let mut open = self.open.lock().await;
        let options = self.options.clone();
        // The task neither panics nor is aborted.
        let files = tokio::task::spawn_blocking(move || read(&options)).await.map_err(|_| FollowError::Ended)??;
        if let Some((known, connection)) = &*open
            && *known == files
        {
            return Ok(connection.clone());
        }
        let connection = self.connect(&files)?;
        *open = Some((files, connection.clone()));
        Ok(connection)
    }

    fn connect(&self, files: &Files) -> Result<Connection, FollowError> {
        let address = &self.options.address;
        let wrong = |source| FollowError::Settings { address: address.clone(), source };
        let mut endpoint = Endpoint::from_shared(address.clone())
            .map_err(wrong)?
            .connect_timeout(CONNECT_TIMEOUT)
            .http2_keep_alive_interval(self.options.keep_alive)
            .keep_alive_timeout(self.options.keep_alive)
            .keep_alive_while_idle(true)
            .initial_stream_window_size(WINDOW_BYTES.0)
            .initial_connection_window_size(WINDOW_BYTES.1)
            .tcp_nodelay(true);
        if address.starts_with("https:") {
            let mut tls = match &files.ca {
                Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
                None => ClientTlsConfig::new().with_native_roots(),
            };
            if let Some((certificate, key)) = &files.identity {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            if let Some(name) = &self.options.tls_server_name {
                tls = tls.domain_name(name);
            }
            endpoint = endpoint.tls_config(tls).map_err(wrong)?;
        }
        let token = files.token.as_deref().map(|token| self.token(token)).transpose()?;
        let calls = InterceptedService::new(endpoint.connect_lazy(), Token(token));
        Ok(Connection { region: self.options.name.clone(), calls, max_message: self.max_message })
    }

    fn token(&self, bytes: &[u8]) -> Result<MetadataValue<Ascii>, FollowError> {
        let path = || self.options.token_file.clone().unwrap_or_default();
        let text = bytes.trim_ascii();
        let value = MetadataValue::try_from(text).ok().filter(|_| !text.is_empty());
        let mut value = value.ok_or_else(|| FollowError::Token { path: path() })?;
        value.set_sensitive(true);
        Ok(value)
    }
}

#[async_trait]
impl Dial for Link {
    async fn open(&self) -> Result<Arc<dyn PeerCalls>, FollowError> {
        Ok(Arc::new(self.connection().await?))
    }
}

#[async_trait]
impl PeerCalls for Connection {
    async fn identify(&self) -> Result<IdentifyResponse, Status> {
        let mut client = RegionServiceClient::new(self.calls.clone());
        Ok(client.identify(IdentifyRequest {}).await?.into_inner())
    }

    async fn watch(&self, store: &str, request: WatchResourcesRequest) -> Result<Messages, Status> {
        let client = WatchServiceClient::new(self.calls.clone());
        let mut client = client.max_decoding_message_size(self.max_message);
        Ok(client.watch_resources(addressed(&self.region, store, request)).await?.into_inner().boxed())
    }

    async fn batch_get(&self, store: &str, request: BatchGetRequest) -> Result<BatchGetResponse, Status> {
        let client = QueryServiceClient::new(self.calls.clone());
        let mut client = client.max_decoding_message_size(self.max_message);
        Ok(client.batch_get(addressed(&self.region, store, request)).await?.into_inner())
    }
}

/// Returns a call for the store with this id in this region; for any store if the id is empty.
fn addressed<T>(region: &str, store: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    for (header, value) in [(STORE_HEADER, store), (REGION_HEADER, region)] {
        if let Ok(value) = MetadataValue::try_from(value)
            && !value.is_empty()
        {
            request.metadata_mut().insert(header, value);
        }
    }
    request
}

fn read(options: &PeerOptions) -> Result<Files, FollowError> {
    let read = |what: &'static str, path: &PathBuf| {
        read_regular(path).map_err(|source| FollowError::File { what, path: path.clone(), source })
    };
    let identity = match &options.identity {
        Some((certificate, key)) => Some((read("cert_file", certificate)?, read("key_file", key)?)),
        None => None,
    };
    Ok(Files {
        ca: options.ca_file.as_ref().map(|path| read("ca_file", path)).transpose()?,
        identity,
        token: options.token_file.as_ref().map(|path| read("token_file", path)).transpose()?,
    })
}

/// Reads a regular file of at most [`MAX_FILE_BYTES`]. Others, such as a pipe, may never end.
fn read_regular(path: &Path) -> io::Result<Vec<u8>> {
    let metadata = std::fs::metadata(path)?;
    if !metadata.is_file() || metadata.len() > MAX_FILE_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "it is not a regular file of at most 1 MiB"));
    }
    std::fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_names_the_store_and_the_region_that_it_is_for() {
        let headers = |store: &str| addressed("eu", store, ()).metadata().clone();
        let known = headers("01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(known.get(STORE_HEADER).unwrap(), "01ARZ3NDEKTSV4RRFFQ69G5FAV");
        assert_eq!(known.get(REGION_HEADER).unwrap(), "eu");
        assert_eq!(headers("").get(STORE_HEADER), None, "a release without ids");
        assert_eq!(headers("").get(REGION_HEADER).unwrap(), "eu");
    }
}
