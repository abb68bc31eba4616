//! A server's address, credentials and TLS files, as decided from flags, environment and context, and the endpoint made
//! of them.

use std::{
    io::{ErrorKind, Read as _, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    path::PathBuf,
    time::Duration,
};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::address::UNIX;
use crate::error::{self, CliError, Exit, innermost};

/// Longest time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest step of a question to a port that may be that of HTTP.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Interval of HTTP/2 pings, which find a dead connection.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);

/// Connection settings, decided.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Target {
    /// `host:port`, or `unix:///path`.
    pub(crate) addr: String,
    pub(crate) token: Option<String>,
    /// `None` for a connection without TLS.
    pub(crate) tls: Option<Tls>,
    pub(crate) timeout: Duration,
    /// Partition of the context.
    pub(crate) partition: Option<String>,
    pub(crate) namespace: Option<String>,
}

/// Files and name for TLS.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tls {
    pub(crate) ca_file: Option<PathBuf>,
    pub(crate) client_cert: Option<PathBuf>,
    pub(crate) client_key: Option<PathBuf>,
    pub(crate) server_name: Option<String>,
}

impl Target {
    /// The address with its scheme.
    pub(crate) fn url(&self) -> String {
        match (self.addr.starts_with(UNIX), &self.tls) {
            (true, _) => self.addr.clone(),
            (false, Some(_)) => format!("https://{}", self.addr),
            (false, None) => format!("http://{}", self.addr),
        }
    }

    /// Asks whether the server at the address answers as Mortise's HTTP port does. Blocks up to [`PROBE_TIMEOUT`] for
    /// each step.
    pub(crate) fn is_http_port(&self) -> bool {
        if self.tls.is_some() || self.addr.starts_with(UNIX) {
            return false;
        }
        let probe = || {
            let addr = self.addr.to_socket_addrs()?.next().ok_or(ErrorKind::NotFound)?;
            let mut stream = TcpStream::connect_timeout(&addr, PROBE_TIMEOUT)?;
            stream.set_read_timeout(Some(PROBE_TIMEOUT))?;
            stream.set_write_timeout(Some(PROBE_TIMEOUT))?;
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            let mut answer = [0; 12];
            stream.read_exact(&mut answer)?;
            Ok::<_, std::io::Error>(answer)
        };
        // The gRPC port refuses such a request in HTTP, too.
        probe().is_ok_and(|answer| &answer == b"HTTP/1.1 200")
    }

    pub(crate) fn endpoint(&self) -> Result<Endpoint, CliError> {
        let wrong = |e: tonic::transport::Error| CliError::usage(format!("{}: {}", self.url(), innermost(&e)));
        let endpoint = Endpoint::from_shared(self.url())
            .map_err(wrong)?
            .connect_timeout(CONNECT_TIMEOUT.min(self.timeout))
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .initial_stream_window_size(1 << 20)
            .initial_connection_window_size(4 << 20)
            .tcp_nodelay(true);
        match &self.tls {
            None => Ok(endpoint),
            Some(tls) => endpoint.tls_config(tls.config()?).map_err(wrong),
        }
    }

    /// Makes the error for a server that does not answer, or not as it should.
    pub(crate) fn unreachable(&self, error: &tonic::transport::Error) -> CliError {
        let error = CliError::new(
            Exit::Unreachable,
            format!("cannot reach the server at {}: {}", self.url(), innermost(error)),
        );
        let remedy = error::tls_remedy(&error.message).unwrap_or(error::UNREACHABLE);
        error.remedy(remedy)
    }
}

impl Tls {
    fn config(&self) -> Result<ClientTlsConfig, CliError> {
        let read = |file: &PathBuf| std::fs::read(file).map_err(|e| CliError::file("cannot read", file, e));
        let mut config = match &self.ca_file {
            Some(file) => {
                let pem = if file.is_dir() { all_in(file)? } else { read(file)? };
                if !pem.windows(27).any(|w| w == b"-----BEGIN CERTIFICATE-----") {
                    return Err(CliError::usage(format!("{} holds no certificate (PEM)", file.display())));
                }
                ClientTlsConfig::new().ca_certificate(Certificate::from_pem(pem))
            }
            None => ClientTlsConfig::new().with_native_roots(),
        };
        if let (Some(cert), Some(key)) = (&self.client_cert, &self.client_key) {
            config = config.identity(Identity::from_pem(read(cert)?, read(key)?));
        }
        if let Some(name) = &self.server_name {
            config = config.domain_name(name);
        }
        Ok(config)
    }
}

/// Joins all certificates in a directory.
fn all_in(dir: &std::path::Path) -> Result<Vec<u8>, CliError> {
    let wrong = |e| CliError::file("cannot read", dir, e);
    let mut pem = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(wrong)? {
        let path = entry.map_err(wrong)?.path();
        if path.is_file() {
            pem.extend(std::fs::read(&path).map_err(|e| CliError::file("cannot read", &path, e))?);
            pem.push(b'\n');
        }
    }
    Ok(pem)
}
