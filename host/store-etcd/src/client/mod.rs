//! Calls of etcd: one connection to each of its servers, of which one is in use until it fails.
//!
//! Every call that may not be stale says that it needs a leader, has a deadline ([`CALL_TIMEOUT`]), and moves to the next
//! server after a fault of the connection. Nothing is repeated here: the caller knows whether a call may run twice.

mod fault;
mod pb;
mod transaction;

use std::{
    future::Future,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use parking_lot::Mutex;
use tonic::{
    Request, Response, Status, Streaming,
    metadata::{AsciiMetadataValue, MetadataValue},
    transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity},
};

pub(crate) use self::{fault::Fault, pb::*, transaction::Transaction};
use crate::{
    error::EtcdError,
    options::{Credentials, EtcdOptions, Tls},
};

/// Longest time of a call.
pub(crate) const CALL_TIMEOUT: Duration = Duration::from_secs(3);
/// Longest time of a connection attempt.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Pause between two checks of an idle connection, and the longest wait for their answers.
const KEEP_ALIVE: Duration = Duration::from_secs(3);
/// Largest answer, bytes. A part of a watch has at most 2 MiB; a larger page of a range is asked again with fewer keys.
const MAX_ANSWER_BYTES: usize = 16 << 20;

/// A cluster.
pub(crate) struct Client {
    servers: Vec<(String, Channel)>,
    /// Server in use.
    current: AtomicUsize,
    credentials: Option<Credentials>,
    token: Mutex<Option<AsciiMetadataValue>>,
}

impl Client {
    /// Makes the connections, which open when they are used.
    pub(crate) fn new(options: &EtcdOptions) -> Result<Self, EtcdError> {
        let servers = options.endpoints.iter().map(|addr| {
            let channel = endpoint(addr, options.tls.as_ref())?.connect_lazy();
            Ok((addr.clone(), channel))
        });
        let servers: Vec<_> = servers.collect::<Result<_, EtcdError>>()?;
        if servers.is_empty() {
            return Err(EtcdError::Setting { setting: "endpoints", fault: "no address is given".to_owned() });
        }
        let credentials = options.credentials.clone();
        Ok(Self { servers, current: AtomicUsize::new(0), credentials, token: Mutex::new(None) })
    }

    /// Returns the addresses of the servers.
    pub(crate) fn endpoints(&self) -> impl Iterator<Item = &str> {
        self.servers.iter().map(|(addr, _)| addr.as_str())
    }

    pub(crate) async fn range(&self, request: RangeRequest) -> Result<RangeResponse, Fault> {
        self.call(request, |channel, request| async move { kv(channel).range(request).await }).await
    }

    /// Reads a range in parts. A part may come late, so the caller bounds its wait for each.
    pub(crate) async fn range_stream(&self, request: RangeRequest) -> Result<Streaming<RangeStreamResponse>, Fault> {
        let (index, channel) = self.current()?;
        let mut request = self.request(request).await?;
        request.metadata_mut().remove("grpc-timeout");
        let opened = timed(async { kv(channel).range_stream(request).await }).await;
        opened.map_err(|status| self.failed(index, status))
    }

    pub(crate) async fn txn(&self, request: TxnRequest) -> Result<TxnResponse, Fault> {
        self.call(request, |channel, request| async move { kv(channel).txn(request).await }).await
    }

    /// Makes a lease with a life in seconds; returns its id.
    pub(crate) async fn grant_lease(&self, seconds: i64) -> Result<i64, Fault> {
        let call = |channel, request| async move { LeaseClient::new(channel).lease_grant(request).await };
        Ok(self.call(LeaseGrantRequest { ttl: seconds, id: 0 }, call).await?.id)
    }

    /// Renews a lease; returns whether it still exists.
    pub(crate) async fn renew_lease(&self, id: i64) -> Result<bool, Fault> {
        let call = |channel, request: Request<LeaseKeepAliveRequest>| async move {
            let request = request.map(tokio_stream::once);
            let mut answers = LeaseClient::new(channel).lease_keep_alive(request).await?.into_inner();
            let answer = answers.message().await?;
            Ok(Response::new(answer.is_some_and(|answer| answer.ttl > 0)))
        };
        self.call(LeaseKeepAliveRequest { id }, call).await
    }

    /// Ends a lease.
    pub(crate) async fn revoke_lease(&self, id: i64) -> Result<(), Fault> {
        let call = |channel, request| async move { LeaseClient::new(channel).lease_revoke(request).await };
        self.call(LeaseRevokeRequest { id }, call).await.map(drop)
    }

    /// Returns the state of one server.
    pub(crate) async fn status(&self, endpoint: &str) -> Result<StatusResponse, Fault> {
        let (_, channel) = self.servers.iter().find(|(addr, _)| addr == endpoint).ok_or_else(Fault::unknown_server)?;
        let request = self.request(StatusRequest {}).await?;
        let mut client = MaintenanceClient::new(channel.clone());
        Ok(timed(client.status(request)).await?)
    }

    /// Opens a watch. The stream has no deadline; the connection's checks end it when the server is gone.
    pub(crate) async fn watch(&self, create: WatchCreateRequest) -> Result<Streaming<WatchResponse>, Fault> {
        let (index, channel) = self.current()?;
        let first = WatchRequest { request_union: Some(watch_request::RequestUnion::CreateRequest(create)) };
        // The request stream stays open, since etcd ends the watch with it.
        let requests = tokio_stream::StreamExt::chain(tokio_stream::once(first), tokio_stream::pending());
        let mut request = self.request(()).await?.map(|()| requests);
        request.metadata_mut().remove("grpc-timeout");
        let opened = timed(WatchClient::new(channel).max_decoding_message_size(MAX_ANSWER_BYTES).watch(request)).await;
        opened.map_err(|status| self.failed(index, status))
    }

    /// Moves to the next server, unless another call did.
    fn failed(&self, index: usize, status: Status) -> Fault {
        let fault = Fault::from(status);
        if fault.is_of_connection() {
            self.leave(index);
        }
        fault
    }

    /// Returns the number of the server in use.
    pub(crate) fn in_use(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    /// Moves on from a server that lags behind the others, unless another call did.
    pub(crate) fn leave(&self, index: usize) {
        let next = (index + 1) % self.servers.len().max(1);
        // Another call may have moved on already.
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    fn current(&self) -> Result<(usize, Channel), Fault> {
        let index = self.current.load(Ordering::Relaxed);
        let (_, channel) = self.servers.get(index).ok_or_else(Fault::unknown_server)?;
        Ok((index, channel.clone()))
    }

    /// Calls the current server; once more with a new token if etcd has forgotten the old one.
    async fn call<Q: Clone, A, F>(&self, message: Q, call: impl Fn(Channel, Request<Q>) -> F) -> Result<A, Fault>
    where
        F: Future<Output = Result<Response<A>, Status>>,
    {
        let (index, channel) = self.current()?;
        let request = self.request(message.clone()).await?;
        match timed(call(channel.clone(), request)).await {
            Err(status) if self.credentials.is_some() && fault::is_token_gone(&status) => {
                *self.token.lock() = None;
                let request = self.request(message).await?;
                timed(call(channel, request)).await.map_err(|status| self.failed(index, status))
            }
            answered => answered.map_err(|status| self.failed(index, status)),
        }
    }

    /// Makes a request with the metadata of every call.
    async fn request<Q>(&self, message: Q) -> Result<Request<Q>, Fault> {
        let mut request = Request::new(message);
        request.set_timeout(CALL_TIMEOUT);
        request.metadata_mut().insert("hasleader", MetadataValue::from_static("true"));
        if let Some(credentials) = &self.credentials {
            request.metadata_mut().insert("token", self.token(credentials).await?);
        }
        Ok(request)
    }

    async fn token(&self, credentials: &Credentials) -> Result<AsciiMetadataValue, Fault> {
        if let Some(token) = self.token.lock().clone() {
            return Ok(token);
        }
        let (index, channel) = self.current()?;
        let Credentials { username, password } = credentials.clone();
        let mut request = Request::new(AuthenticateRequest { name: username, password });
        request.set_timeout(CALL_TIMEOUT);
        let answer = timed(AuthClient::new(channel).authenticate(request)).await;
        let answer = answer.map_err(|status| self.failed(index, status))?;
        let token = AsciiMetadataValue::try_from(answer.token).map_err(|_| Fault::bad_token())?;
        *self.token.lock() = Some(token.clone());
        Ok(token)
    }
}

fn kv(channel: Channel) -> KvClient<Channel> {
    KvClient::new(channel).max_decoding_message_size(MAX_ANSWER_BYTES)
}

/// Ends a call whose server does not even refuse it in time.
async fn timed<A>(call: impl Future<Output = Result<Response<A>, Status>>) -> Result<A, Status> {
    match tokio::time::timeout(CALL_TIMEOUT, call).await {
        Ok(answer) => answer.map(Response::into_inner),
        Err(_) => Err(Status::deadline_exceeded("no answer in time")),
    }
}

fn endpoint(addr: &str, tls: Option<&Tls>) -> Result<Endpoint, EtcdError> {
    let wrong = |setting| {
        move |error: tonic::transport::Error| {
            let fault = std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string);
            EtcdError::Setting { setting, fault: format!("{addr}: {fault}") }
        }
    };
    let scheme = if tls.is_some() { "https" } else { "http" };
    let addr_alone = addr.strip_prefix("http://").or_else(|| addr.strip_prefix("https://")).unwrap_or(addr);
    let endpoint = Endpoint::from_shared(format!("{scheme}://{addr_alone}")).map_err(wrong("endpoints"))?;
    let endpoint = endpoint
        .connect_timeout(CONNECT_TIMEOUT)
        .http2_keep_alive_interval(KEEP_ALIVE)
        .keep_alive_timeout(KEEP_ALIVE)
        .keep_alive_while_idle(true)
        .tcp_nodelay(true);
    let Some(Tls { authorities, identity }) = tls else { return Ok(endpoint) };
    let mut config = match authorities {
        Some(pem) => ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem)),
        None => ClientTlsConfig::new().with_native_roots(),
    };
    if let Some((cert, key)) = identity {
        config = config.identity(Identity::from_pem(cert, key));
    }
    endpoint.tls_config(config).map_err(wrong("ca_file"))
}
