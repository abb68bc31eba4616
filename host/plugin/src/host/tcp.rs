//! `tcp`: checks whether a granted host and port accept connections.
//!
//! # Contract
//! A connection is opened and closed; nothing is sent or read. Host and port are compared with `grants.tcp`
//! (`grants/hosts.rs`), and exactly the compared form is looked up and connected to.
//!
//! # Cost
//! A name costs a thread for blocking work while the system resolves it.
//!
//! # Limits
//! A server makes at most [`MAX_CONCURRENT_CONNECTS`] connects at once; further ones wait, for
//! `controllers.host_call_ms` at most, and the guest's own timeout begins after that. A look-up that outlives its
//! timeout keeps its permit until the resolver has answered, so that the number of threads that wait for resolvers
//! stays bounded. Of a name's addresses, the first [`MAX_ADDRESSES`] are tried in the resolver's order, each for its
//! share of the remaining time.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use mortise_resource::Code;
use tokio::{
    net::{TcpStream, lookup_host},
    sync::OwnedSemaphorePermit,
    time::{Instant, timeout_at},
};

use crate::{
    bindings::imports::mortise::plugin::tcp,
    failure::Failure,
    grants::hosts::{Host, HostPort},
    health::metrics::PluginMetrics,
    host::{
        call_context::{HostCall, HostCallResult},
        state::State,
    },
};

/// Connects of all controllers at once.
pub(crate) const MAX_CONCURRENT_CONNECTS: usize = 32;

/// Most addresses of a name that are tried.
const MAX_ADDRESSES: usize = 8;

const WHAT: &str = "tcp.connect";

impl tcp::Host for State {
    async fn connect(&mut self, host: String, port: u16, timeout_ms: u32) -> HostCallResult<u32> {
        let metrics = self.call_context.as_ref().map(|call_context| call_context.metrics.clone());
        let answer = self.ask(WHAT, |question| connect(question, host, port, timeout_ms)).await;
        if let (Some(metrics), Ok(answer)) = (metrics, &answer) {
            count(&metrics, answer.as_ref().err().map(|failure| failure.code));
        }
        answer
    }
}

/// Counts a finished connect, by the code of its failure.
fn count(metrics: &PluginMetrics, code: Option<u32>) {
    let is = |expected_code: Code| code == Some(expected_code as u32);
    let outcome = match code {
        None => "connected",
        Some(_) if is(Code::PermissionDenied) || is(Code::InvalidArgument) => "denied",
        Some(_) => "failed",
    };
    metrics::counter!("mortise_plugin_tcp_connects_total", "plugin" => metrics.label(), "outcome" => outcome)
        .increment(1);
}

async fn connect(question: HostCall, host: String, port: u16, timeout_ms: u32) -> Result<u32, Failure> {
    let to = target(&host, port)?;
    if timeout_ms == 0 {
        return Err(Failure::new(Code::InvalidArgument, format!("{WHAT}: the timeout must be at least 1 ms")));
    }
    if !question.permit.connects_to(&to) {
        let text = format!("connections to {to} are not granted; {}", question.permit.tcp_remedy(&to));
        return Err(Failure::new(Code::PermissionDenied, text));
    }
    if let Some(answer) = question.host.tcp_connect(&to.to_string()).await {
        return answer.map(micros);
    }
    let turn = question.connect_turns.clone().acquire_owned().await.map_err(|_| stopping())?;
    let begun = Instant::now();
    let until = begun + Duration::from_millis(timeout_ms.into());
    let (addresses, _turn) = match timeout_at(until, resolve(to.clone(), turn)).await {
        Ok(resolved) => resolved?,
        Err(_) => return Err(timed_out(&to, timeout_ms, "its name did not resolve")),
    };
    let mut fault = None;
    let mut left = addresses.len();
    for address in addresses {
        let now = Instant::now();
        let share = until.saturating_duration_since(now) / u32::try_from(left.max(1)).unwrap_or(u32::MAX);
        left = left.saturating_sub(1);
        match timeout_at(now + share, TcpStream::connect(address)).await {
            Ok(Ok(_stream)) => return Ok(micros(begun.elapsed())),
            Ok(Err(e)) => fault = Some(unavailable(&to, &format!("{address}: {e}"))),
            Err(_) => fault = Some(timed_out(&to, timeout_ms, &format!("{address} did not answer"))),
        }
    }
    Err(fault.unwrap_or_else(|| unavailable(&to, "its name has no address")))
}

/// Reads the host and port that a guest asks for.
fn target(host: &str, port: u16) -> Result<HostPort, Failure> {
    // An address of IPv6 needs brackets only before a port.
    let host = match host.parse() {
        Ok(IpAddr::V6(address)) => Some(Host::V6(address)),
        _ => Host::read(host),
    };
    let refused = |what: &str| Failure::new(Code::InvalidArgument, format!("{WHAT}: {what}"));
    if port == 0 {
        return Err(refused("a port is a number from 1 to 65535"));
    }
    let host = host.ok_or_else(|| refused("the host is neither a DNS name nor an address; omit scheme and port"))?;
    Ok(HostPort { host, port })
}

/// Addresses of a host. The permit is kept until the resolver has answered, even after the caller's timeout.
async fn resolve(to: HostPort, turn: OwnedSemaphorePermit) -> Result<(Vec<SocketAddr>, OwnedSemaphorePermit), Failure> {
    let name = match to.host {
        Host::V4(address) => return Ok((vec![SocketAddr::new(address.into(), to.port)], turn)),
        Host::V6(address) => return Ok((vec![SocketAddr::new(address.into(), to.port)], turn)),
        Host::Name(ref name) => Arc::<str>::from(name.as_str()),
    };
    let port = to.port;
    let looked_up = tokio::spawn(async move {
        let found = lookup_host((&*name, port)).await.map(|found| found.take(MAX_ADDRESSES).collect::<Vec<_>>());
        (found, turn)
    });
    match looked_up.await {
        Ok((Ok(addresses), turn)) => Ok((addresses, turn)),
        Ok((Err(e), _)) => Err(unavailable(&to, &format!("its name does not resolve: {e}"))),
        Err(_) => Err(stopping()),
    }
}

fn micros(took: Duration) -> u32 {
    u32::try_from(took.as_micros()).unwrap_or(u32::MAX)
}

fn timed_out(to: &HostPort, timeout_ms: u32, what: &str) -> Failure {
    Failure::new(Code::DeadlineExceeded, format!("{WHAT} to {to}: {what} in time (timeout {timeout_ms} ms)"))
}

fn unavailable(to: &HostPort, what: &str) -> Failure {
    Failure::new(Code::Unavailable, format!("{WHAT} to {to}: {what}"))
}

fn stopping() -> Failure {
    Failure::new(Code::Unavailable, "the server is stopping; try again later")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for_is_one_host_and_one_port() {
        let read = |host: &str, port| target(host, port).map(|to| to.to_string()).map_err(|e| (e.code, e.message));
        assert_eq!(read("DB.internal", 5432).unwrap(), "db.internal:5432");
        assert_eq!(read("192.0.2.7", 22).unwrap(), "192.0.2.7:22");
        for address in ["2001:db8::1", "[2001:db8::1]", "2001:DB8:0::1"] {
            assert_eq!(read(address, 22).unwrap(), "[2001:db8::1]:22", "{address}");
        }
        for bad in ["", "*", "db:22", "tcp://db", "127.1", "db.internal.", "me@db", "d b", "2130706433"] {
            let (code, message) = read(bad, 22).unwrap_err();
            assert!(code == Code::InvalidArgument as u32 && message.contains("neither a DNS name nor"), "{bad}");
        }
        assert!(read("db", 0).unwrap_err().1.contains("1 to 65535"));
    }
}
