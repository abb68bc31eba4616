//! DNS: the healthy endpoints of services as A, AAAA and SRV records, over UDP and TCP on a port of its own.
//!
//! # Contract
//! `name.namespace.svc.ZONE` is a service, `_port._tcp.` before it one port of it, and `workload.` before it one of its
//! workloads. Each answer is made of `catalog.v1.ServiceEndpoints` as the resource service reads it at that moment, for
//! a caller whose source is the client's address; nothing is cached. docs/dns.md says what is answered to what.
//!
//! The messages are hickory-proto's: docs/decisions/0033-the-dns-sockets-are-served-here.md.
//!
//! # Limits
//! [`DnsOptions::queries`] are answered at once; a further one over UDP is dropped, as clients of UDP expect, and one
//! over TCP waits. [`DnsOptions::max_connections`] are open at once, further ones are closed; one that is silent for
//! [`DnsOptions::idle`], or takes an answer for as long, is closed too. An answer over UDP has at most 1,232 bytes, and
//! over TCP 65,535: what does not fit is truncated there, and here left out.

mod answer;
mod name;
mod resolve;
mod serve;

use std::{io, net::SocketAddr, time::Duration};

use hickory_proto::rr::Name;
use tokio::net::{TcpListener, UdpSocket};

pub(crate) use self::serve::serve;

/// How the DNS port behaves. Part of config.toml as `[dns]`.
#[derive(Debug, Clone)]
pub struct DnsOptions {
    /// Where it listens, UDP and TCP; port 0 lets the system pick one.
    pub addr: SocketAddr,
    /// Whether a server without it is as good, as when another one has the port.
    pub optional: bool,
    /// The domain of all names.
    pub zone: Name,
    /// How long answers may be kept, seconds.
    pub ttl: u32,
    /// Queries that are answered at once.
    pub queries: usize,
    /// Connections at once.
    pub max_connections: usize,
    /// How long a connection may be silent, and how long a query may take.
    pub idle: Duration,
}

impl DnsOptions {
    /// Reads the domain of all names; `None` if it is none.
    #[must_use]
    pub fn parse_zone(text: &str) -> Option<Name> {
        Name::from_ascii(format!("{text}.")).ok()
    }
}

/// The open ports of DNS.
pub(crate) struct DnsPorts {
    pub(crate) udp: UdpSocket,
    pub(crate) tcp: TcpListener,
    pub(crate) options: DnsOptions,
}

/// How often a free port is looked for that UDP and TCP both have.
const MAX_BIND_ATTEMPTS: usize = 16;

impl DnsPorts {
    /// Opens both.
    ///
    /// # Errors
    /// The address is taken, or not this machine's.
    pub(crate) async fn bind(options: DnsOptions) -> io::Result<Self> {
        let mut tries = if options.addr.port() == 0 { MAX_BIND_ATTEMPTS } else { 1 };
        loop {
            tries -= 1;
            let tcp = TcpListener::bind(options.addr).await?;
            // Where the system picks, it picks for TCP.
            match UdpSocket::bind(tcp.local_addr()?).await {
                Ok(udp) => return Ok(Self { udp, tcp, options }),
                Err(e) if tries == 0 => return Err(e),
                Err(_) => {}
            }
        }
    }
}

/// Reads a text as a name in the zone.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    use hickory_proto::rr::Name;
    let Ok(zone) = Name::from_ascii("svc.cluster.local.") else { return };
    for name in [Name::from_ascii(text), Name::from_utf8(text)].into_iter().flatten() {
        let _ = name::parse_name(&zone, &name);
    }
}
