//! Hosts of this server: the names and addresses in the `Host` header for which requests are answered. `browsers` has
//! the reason and the list.

use std::{
    net::{IpAddr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use axum::http::uri::Authority;

use super::options::Allowed;
use crate::tls::Tls;

/// The hosts for which requests are answered. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hosts {
    listening: IpAddr,
    #[cfg(feature = "ui")]
    port: u16,
    allowed: Allowed,
    tls: Option<Arc<Tls>>,
}

impl Hosts {
    /// The hosts of a server with this listening address: the names of `http.allowed_hosts` and of the certificate are
    /// added.
    pub(crate) fn new(listening: SocketAddr, allowed: Allowed, tls: Option<Arc<Tls>>) -> Self {
        Self {
            listening: listening.ip().to_canonical(),
            #[cfg(feature = "ui")]
            port: listening.port(),
            allowed,
            tls,
        }
    }

    /// Returns whether the server is reached by TLS.
    #[cfg(feature = "ui")]
    pub(super) fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// Returns the port that the server listens on.
    #[cfg(feature = "ui")]
    pub(super) fn port(&self) -> u16 {
        self.port
    }

    /// Whether the text of a `Host` header names a host of this server, with or without a port, and nothing else.
    pub(super) fn allows(&self, text: &str) -> bool {
        let authority = text.parse::<Authority>().ok().filter(|_| !text.contains('@'));
        // The parser ends a host at the bracket behind an IPv6 address, and ignores the rest.
        authority.is_some_and(|authority| {
            let rest = text.strip_prefix(authority.host());
            rest.is_some_and(is_port) && self.contains(authority.host())
        })
    }

    fn contains(&self, host: &str) -> bool {
        let address = match host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
            Some(bracketed) => bracketed.parse::<Ipv6Addr>().map(IpAddr::from),
            None => host.parse(),
        };
        if let Ok(address) = address {
            let address = address.to_canonical();
            return self.listening.is_unspecified() || address == self.listening || address.is_loopback();
        }
        let name = host.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        name == "localhost"
            || name.ends_with(".localhost")
            || self.allowed.has_host(name)
            || self.tls.as_ref().is_some_and(|tls| tls.names(name))
    }
}

/// Whether the text behind a host is empty or a port, which may be empty, too.
fn is_port(rest: &str) -> bool {
    rest.is_empty() || rest.strip_prefix(':').is_some_and(|port| port.is_empty() || port.parse::<u16>().is_ok())
}
