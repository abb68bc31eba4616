//! A server's address, credentials and TLS files, as decided from flags, environment and context, and the endpoint made
//! of them.

use std::{path::PathBuf, time::Duration};

use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use super::address::UNIX;
use crate::error::{self, CliError, Exit, innermost};

/// Longest time to establish a connection.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

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
