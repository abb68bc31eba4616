//! Attempts of probes over the network.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    net::{TcpStream, lookup_host},
    sync::Semaphore,
};

use super::{
    fault::Fault,
    http::{self, Answer},
    specification::{Check, HttpCheck},
    tls,
};
use crate::grants::{
    Permit,
    hosts::{Host, HostPort},
    http_hosts::Target,
};

/// Look-ups of names at once; each may hold a thread for as long as the system's resolver takes.
pub(super) const LOOKUPS: usize = 32;

/// Most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

/// The result of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) passes: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

impl Finding {
    fn passing(reason: &'static str, message: String) -> Self {
        Self { passes: true, reason, message }
    }

    fn failing(reason: &'static str, message: String) -> Self {
        Self { passes: false, reason, message }
    }
}

/// Performs a check once. Tests have their own.
#[async_trait::async_trait]
pub(super) trait Attempt: Send + Sync {
    /// Performs a check. The caller bounds the time, and drops the attempt when it is over.
    async fn attempt(&self, check: &Check, permit: &Permit) -> Finding;

    /// The time for which the process ran, which reports are measured by.
    fn ran(&self) -> Duration {
        mortise_clock::ran()
    }

    /// The result of an attempt that took longer than its timeout.
    fn late(&self, check: &Check, timeout: Duration) -> Finding {
        Finding::failing("Timeout", format!("{} took longer than {timeout:?} (timeout of the check)", described(check)))
    }
}

/// The network of this machine.
pub(super) struct Network {
    lookups: Arc<Semaphore>,
}

fn unreachable(text: impl std::fmt::Display) -> Fault {
    Fault("Unreachable", text.to_string())
}

/// A check in words.
fn described(check: &Check) -> String {
    match check {
        Check::Http(http) => format!("{} {}", http.method, http.url),
        Check::Tcp { host, port } => format!("a connection to {}", at(host, *port)),
        Check::Grpc { host, port, .. } => format!("grpc.health.v1.Health/Check of {}", at(host, *port)),
    }
}

fn at(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

impl Network {
    pub(super) fn new() -> Self {
        Self { lookups: Arc::new(Semaphore::new(LOOKUPS)) }
    }

    /// Connects to the first address of a host that accepts.
    async fn connect(&self, to: &HostPort) -> Result<TcpStream, Fault> {
        let addresses = match &to.host {
            Host::V4(ip) => vec![SocketAddr::new((*ip).into(), to.port)],
            Host::V6(ip) => vec![SocketAddr::new((*ip).into(), to.port)],
            Host::Name(name) => {
                let turn = self.lookups.clone().acquire_owned().await.map_err(unreachable)?;
                let (name, port) = (name.clone(), to.port);
                // The place is held until the resolver has answered, even if the attempt is over by then.
                let looked_up = tokio::spawn(async move {
                    let found = lookup_host((name.as_str(), port)).await;
                    drop(turn);
                    found.map(|found| found.take(MAX_ADDRESSES).collect::<Vec<_>>())
                });
                let found = looked_up.await.map_err(unreachable)?;
                found.map_err(|e| unreachable(format!("the name does not resolve: {e}")))?
            }
        };
        let mut fault = unreachable("the name has no address");
        for address in addresses {
            match TcpStream::connect(address).await {
                Ok(stream) => {
                    let _ = stream.set_nodelay(true);
                    return Ok(stream);
                }
                Err(e) => fault = unreachable(format!("{address}: {e}")),
            }
        }
        Err(fault)
    }

    async fn http(&self, check: &HttpCheck, permit: &Permit) -> Result<String, Fault> {
        let (mut url, mut method, mut headers) = (check.url.clone(), check.method.clone(), check.headers.clone());
        let mut server_name = check.tls.server_name.as_str();
        for hop in 0..=check.redirects {
            let scheme = url.scheme_str().unwrap_or_default();
            let authority = url.authority().map(|authority| authority.as_str()).unwrap_or_default();
            let to = Target::read(scheme, authority)
                .ok_or_else(|| unreachable(format!("{url} is not the URL of a host over http or https")))?;
            if !permit.sends_to(&to) {
                return Err(Fault(
                    "NotGranted",
                    format!("requests to {to} are not granted; {}", permit.http_remedy(&to)),
                ));
            }
            let stream = self.connect(to.at()).await?;
            let answer = match scheme {
                "https" => {
                    let stream = tls::connect(&check.tls.ca, server_name, to.at(), stream, tls::HTTP_1).await?;
                    http::ask(stream, check, &method, &headers, &url).await?
                }
                _ => http::ask(stream, check, &method, &headers, &url).await?,
            };
            match answer {
                Answer::Passes(status) => return Ok(format!("was answered {status}")),
                Answer::Fails(reason, text) => return Err(Fault(reason, text)),
                Answer::Redirect(..) if hop == check.redirects => {
                    let text = format!("was redirected more than {hop} times (redirects of the check)");
                    return Err(Fault("Redirects", text));
                }
                Answer::Redirect(status, location) => {
                    let next = http::join(&url, &location).ok_or_else(|| {
                        Fault("Redirects", format!("was redirected to {location:?}, which is no URL"))
                    })?;
                    // The check's headers, its host and secrets among them, and its server name are meant for its own
                    // server.
                    if (next.scheme(), next.authority()) != (url.scheme(), url.authority()) {
                        headers.clear();
                        server_name = "";
                    }
                    method = http::method_after(status, method);
                    url = next;
                }
            }
        }
        Err(Fault("Redirects", "was not answered".to_owned()))
    }

    async fn tcp(&self, host: &str, port: u16, permit: &Permit) -> Result<String, Fault> {
        let to = HostPort::read(&at(host, port), None);
        let to = to.ok_or_else(|| unreachable(format!("{host:?} is neither a DNS name nor an address")))?;
        if !permit.connects_to(&to) {
            return Err(Fault(
                "NotGranted",
                format!("connections to {to} are not granted; {}", permit.tcp_remedy(&to)),
            ));
        }
        self.connect(&to).await.map(|_| "was accepted".to_owned())
    }

    async fn grpc(&self, check: &Check, permit: &Permit) -> Result<String, Fault> {
        let Check::Grpc { host, port, service, tls } = check else { return Err(unreachable("not a gRPC check")) };
        let scheme = if tls.is_some() { "https" } else { "http" };
        let to = Target::read(scheme, &at(host, *port)).ok_or_else(|| unreachable(format!("{host:?} is no host")))?;
        if !permit.sends_to(&to) {
            return Err(Fault("NotGranted", format!("requests to {to} are not granted; {}", permit.http_remedy(&to))));
        }
        let stream = self.connect(to.at()).await?;
        match tls {
            Some(tls) => {
                let stream = tls::connect(&tls.ca, &tls.server_name, to.at(), stream, tls::HTTP_2).await?;
                http::grpc_health(stream, scheme, &to.authority(), service).await
            }
            None => http::grpc_health(stream, scheme, &to.authority(), service).await,
        }
    }
}

#[async_trait::async_trait]
impl Attempt for Network {
    async fn attempt(&self, check: &Check, permit: &Permit) -> Finding {
        let (reason, done) = match check {
            Check::Http(http) => ("Answered", self.http(http, permit).await),
            Check::Tcp { host, port } => ("Connected", self.tcp(host, *port, permit).await),
            Check::Grpc { .. } => ("Serving", self.grpc(check, permit).await),
        };
        match done {
            Ok(text) => Finding::passing(reason, format!("{} {text}", described(check))),
            Err(Fault(reason @ ("Unreachable" | "Tls" | "NotGranted"), text)) => {
                Finding::failing(reason, format!("{}: {text}", described(check)))
            }
            Err(Fault(reason, text)) => Finding::failing(reason, format!("{} {text}", described(check))),
        }
    }
}
