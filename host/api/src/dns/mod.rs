//! DNS: the healthy endpoints of services as A, AAAA and SRV records, and the names of their addresses as PTR records,
//! over UDP and TCP on a port of its own.
//!
//! # Contract
//! `name.namespace.svc.ZONE` is a service, `_port._tcp.` before it one of its ports, and `workload.` before it one of
//! its workloads; `_name._tcp.namespace.svc.ZONE` has all of its ports. `zone` and `label` before it choose among its
//! endpoints ([`narrow`]). A second zone has short names ([`name`]). Each
//! answer shows the stored `catalog.v1.ServiceEndpoints` at that moment. Without the plugin answers are SERVFAIL, since
//! the health would be that of some earlier time. DNS has no tokens, so all queries have the policies of
//! `acl.dns_policies`. docs/dns.md lists the answers.
//!
//! `serve` has the sockets, `name` parses names, and `resolve` makes the message. `services` reads a service, through
//! `reads`, which notes each version for `cache`; `reverse` finds addresses, `hosts` asks the system's resolver, and
//! `large` has the places. `answer` chooses the records, and `packed` holds them. The messages are hickory-proto's:
//! docs/decisions/0033-the-dns-sockets-are-served-here.md.
//!
//! # Limits
//! At most [`DnsOptions::queries`] queries over UDP are answered at the same time, and a further one is dropped, as
//! clients of UDP expect. Over TCP it is a sixteenth of that, since these answers may be large; further queries wait.
//! Over UDP as many about services of more than 32 KiB, or about addresses, are answered at once; further ones get an
//! empty, truncated answer. Records that are known already need no place. At most [`DnsOptions::max_connections`]
//! connections are open. A further one takes the place of an idle one, or of one of the address with the most
//! ([`crate::places`]), or is closed; and so is a connection that is silent, or takes no answer, for
//! [`DnsOptions::idle`]. An answer over UDP has at most 1,232 bytes (512 without EDNS) and is truncated there; an
//! answer over TCP has 65,535 and leaves records out.

mod answer;
mod cache;
mod hosts;
mod large;
mod name;
mod narrow;
mod packed;
mod reads;
mod resolve;
mod reverse;
mod serve;
mod services;

use std::{io, net::SocketAddr, time::Duration};

use hickory_proto::rr::Name;
use tokio::net::{TcpListener, TcpSocket, UdpSocket};

pub use self::narrow::ZonePreference;
pub(crate) use self::serve::serve;
use crate::port;

/// Options of the DNS port; `[dns]` in config.toml.
#[derive(Debug, Clone)]
pub struct DnsOptions {
    /// Address for UDP and TCP; port 0 lets the system pick one.
    pub addr: SocketAddr,
    /// Whether the server may run without DNS, for example because another server has the port.
    pub optional: bool,
    /// The domain of all names.
    pub zone: Name,
    /// A second domain, of short names; `None` without one.
    pub short_zone: Option<Name>,
    /// The zone of workloads whose endpoints come first.
    pub preference: ZonePreference,
    /// Time to live of answers, seconds.
    pub ttl: u32,
    /// Concurrently answered queries.
    pub queries: usize,
    /// Concurrent connections.
    pub max_connections: usize,
    /// Longest silence of a connection, longest time to answer a query, and longest time to send an answer.
    pub idle: Duration,
}

impl DnsOptions {
    /// Default of `max_connections`.
    pub const MAX_CONNECTIONS: usize = 128;

    /// Default of `idle`.
    pub const IDLE_TIMEOUT: Duration = Duration::from_secs(10);

    /// Reads the domain of all names; `None` for an invalid text.
    #[must_use]
    pub fn parse_zone(text: &str) -> Option<Name> {
        Name::from_ascii(format!("{text}.")).ok()
    }
}

/// The reserved DNS port. Clients of TCP and of UDP are refused.
pub(crate) struct DnsSockets {
    pub(crate) tcp: TcpSocket,
    pub(crate) options: DnsOptions,
}

/// The open DNS ports.
pub(crate) struct DnsPorts {
    pub(crate) udp: UdpSocket,
    pub(crate) tcp: TcpListener,
    pub(crate) options: DnsOptions,
}

/// Attempts to find a port that is free for both UDP and TCP.
const MAX_BIND_ATTEMPTS: usize = 16;

impl DnsSockets {
    /// Takes the address, for TCP, and tries it for UDP: an open socket of UDP would let clients wait.
    ///
    /// # Errors
    /// The address is in use, or does not belong to this machine.
    pub(crate) fn reserve(options: DnsOptions) -> io::Result<Self> {
        let mut tries = if options.addr.port() == 0 { MAX_BIND_ATTEMPTS } else { 1 };
        loop {
            tries -= 1;
            let tcp = port::reserve(options.addr)?;
            // The system picks a port for TCP, which UDP then has to get too.
            match std::net::UdpSocket::bind(tcp.local_addr()?) {
                Ok(_) => return Ok(Self { tcp, options }),
                Err(e) if tries == 0 => return Err(e),
                Err(_) => {}
            }
        }
    }

    /// Opens both ports.
    ///
    /// # Errors
    /// Another process has opened one of them meanwhile.
    pub(crate) async fn open(self) -> io::Result<DnsPorts> {
        let Self { tcp, options } = self;
        let udp = UdpSocket::bind(tcp.local_addr()?).await?;
        Ok(DnsPorts { udp, tcp: tcp.listen(port::BACKLOG)?, options })
    }
}

/// Reads a text as a name in the zone.
#[cfg(feature = "fuzzing")]
pub(crate) fn fuzz(text: &str) {
    use hickory_proto::rr::Name;
    let Ok(zone) = Name::from_ascii("svc.cluster.local.") else { return };
    let short = Name::from_ascii("mesh.").ok();
    let zones = name::Zones { whole: &zone, short: short.as_ref() };
    for name in [Name::from_ascii(text), Name::from_utf8(text)].into_iter().flatten() {
        let _ = name::parse_name(zones, &name);
    }
}
