//! Requests over HTTP/1.1, one connection for each: TLS with certificates verified, bounded bodies, no redirects.
//!
//! Plain http is spoken with loopback addresses, and with all others only if [`Transport`] is allowed to.

use std::{
    io,
    path::PathBuf,
    sync::{Arc, OnceLock},
};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, header};
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Bytes, Incoming};
use hyper_util::rt::TokioIo;
use rustls_pki_types::{CertificateDer, ServerName, pem::PemObject as _};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::AbortHandle,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring},
};
use url::{Host, Url};

use crate::error::RegistryError;

/// The way to servers.
#[derive(Debug, Default)]
pub(crate) struct Transport {
    /// Whether plain http may go to other machines.
    pub(crate) plain: bool,
    /// Authorities (PEM) instead of the system's.
    pub(crate) authorities: Option<PathBuf>,
    tls: OnceLock<Arc<ClientConfig>>,
}

/// A request.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) method: Method,
    pub(crate) url: Url,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Call {
    pub(crate) fn new(method: Method, url: Url) -> Self {
        Self { method, url, headers: HeaderMap::new(), body: Bytes::new() }
    }

    /// Adds a header; a value that no header can have is left out.
    pub(crate) fn with(mut self, name: HeaderName, value: &str) -> Self {
        if let Ok(value) = HeaderValue::from_str(value) {
            self.headers.insert(name, value);
        }
        self
    }

    pub(crate) fn body(mut self, body: Bytes) -> Self {
        self.body = body;
        self
    }
}

/// An answer whose body has not been read. Its connection ends with it.
pub(crate) struct Answer {
    pub(crate) host: String,
    pub(crate) response: Response<Incoming>,
    _connection: Connection,
}

/// The task of a connection.
struct Connection(AbortHandle);

impl Drop for Connection {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Answer {
    pub(crate) fn header(&self, name: &HeaderName) -> Option<&str> {
        self.response.headers().get(name).and_then(|value| value.to_str().ok())
    }

    /// Reads the body; `what` names it in the error of a body that is larger than `limit`.
    pub(crate) async fn bytes(self, what: &str, limit: usize) -> Result<Vec<u8>, RegistryError> {
        let Self { host, response, _connection } = self;
        let mut body = response.into_body();
        let mut bytes = Vec::new();
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|source| RegistryError::Broken { host: host.clone(), source })?;
            let Some(data) = frame.data_ref() else { continue };
            if bytes.len().saturating_add(data.len()) > limit {
                return Err(RegistryError::TooLarge { what: what.to_owned(), limit });
            }
            bytes.extend_from_slice(data);
        }
        Ok(bytes)
    }

    /// Reads the first bytes of the body, for the text of an error.
    pub(crate) async fn beginning(self, limit: usize) -> Vec<u8> {
        let mut body = self.response.into_body();
        let mut bytes = Vec::new();
        while let Some(Ok(frame)) = body.frame().await {
            let data = frame.data_ref().cloned().unwrap_or_default();
            bytes.extend(data.iter().take(limit.saturating_sub(bytes.len())));
            if bytes.len() >= limit {
                break;
            }
        }
        bytes
    }
}

/// Whether a URL leads to this machine.
pub(crate) fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    }
}

impl Transport {
    pub(crate) fn new(plain: bool, authorities: Option<PathBuf>) -> Self {
        Self { plain, authorities, tls: OnceLock::new() }
    }

    /// The scheme for a host: http for this machine, unless authorities were named.
    pub(crate) fn scheme(&self, url: &Url) -> &'static str {
        let is_near = is_loopback(url) && self.authorities.is_none();
        if self.plain || is_near { "http" } else { "https" }
    }

    /// Sends a request, and returns the head of the answer.
    pub(crate) async fn send(&self, call: Call) -> Result<Answer, RegistryError> {
        let url = &call.url;
        let host = shown_host(url);
        if url.scheme() != "https" && !self.plain && !is_loopback(url) {
            return Err(RegistryError::PlainHttp { host });
        }
        let name = match url.host() {
            Some(Host::Domain(domain)) => domain.to_owned(),
            Some(Host::Ipv4(address)) => address.to_string(),
            Some(Host::Ipv6(address)) => address.to_string(),
            None => String::new(),
        };
        let port = url.port_or_known_default().unwrap_or(443);
        let stream = TcpStream::connect((name.as_str(), port)).await;
        let stream = stream.map_err(|source| RegistryError::Connect { host: host.clone(), source })?;
        // Large requests and small answers follow each other.
        let _ = stream.set_nodelay(true);
        if url.scheme() == "https" {
            let stream = self.encrypted(name, &host, stream).await?;
            exchange(stream, call, host).await
        } else {
            exchange(stream, call, host).await
        }
    }

    async fn encrypted(
        &self,
        name: String,
        host: &str,
        stream: TcpStream,
    ) -> Result<impl AsyncRead + AsyncWrite + Unpin + Send + 'static, RegistryError> {
        let tls = |source| RegistryError::Tls { host: host.to_owned(), source };
        let config = match self.tls.get() {
            Some(config) => config.clone(),
            None => {
                let config = self.config(host)?;
                self.tls.get_or_init(|| config).clone()
            }
        };
        let name = ServerName::try_from(name).map_err(|error| tls(io::Error::other(error)))?;
        TlsConnector::from(config).connect(name, stream).await.map_err(tls)
    }

    fn config(&self, host: &str) -> Result<Arc<ClientConfig>, RegistryError> {
        let mut roots = RootCertStore::empty();
        match &self.authorities {
            Some(path) => {
                let fault = |source| RegistryError::Authorities { path: path.clone(), source };
                let bytes = std::fs::read(path).map_err(fault)?;
                for found in CertificateDer::pem_slice_iter(&bytes) {
                    let found = found.map_err(|error| fault(io::Error::other(error.to_string())))?;
                    roots.add(found).map_err(|error| fault(io::Error::other(error)))?;
                }
                if roots.is_empty() {
                    return Err(fault(io::Error::other("the file has no certificate in PEM")));
                }
            }
            None => {
                roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
                if roots.is_empty() {
                    return Err(RegistryError::NoAuthorities);
                }
            }
        }
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| RegistryError::Tls { host: host.to_owned(), source: io::Error::other(error) })?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(Arc::new(config))
    }
}

/// Host and port of a URL.
pub(crate) fn shown_host(url: &Url) -> String {
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    format!("{}{port}", url.host_str().unwrap_or_default())
}

async fn exchange(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    call: Call,
    host: String,
) -> Result<Answer, RegistryError> {
    let broken = |source| RegistryError::Broken { host: host.clone(), source };
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(broken)?;
    // Its fault is that of the answer, too.
    let connection = Connection(tokio::spawn(connection).abort_handle());
    let Call { method, url, headers, body } = call;
    let has_length = !body.is_empty() || matches!(method, Method::POST | Method::PUT);
    let length = body.len();
    let mut request = Request::new(Full::new(body));
    *request.method_mut() = method;
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    if let Ok(target) = format!("{}{query}", url.path()).parse() {
        *request.uri_mut() = target;
    }
    let own = request.headers_mut();
    *own = headers;
    if let Ok(value) = HeaderValue::from_str(&host) {
        own.insert(header::HOST, value);
    }
    own.insert(header::USER_AGENT, HeaderValue::from_static(concat!("mortise/", env!("CARGO_PKG_VERSION"))));
    if has_length {
        own.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    }
    let response = sender.send_request(request).await.map_err(broken)?;
    Ok(Answer { host, response, _connection: connection })
}
