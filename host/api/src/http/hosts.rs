//! Hosts of this server: the names and addresses in the `Host` header for which requests are answered. `browsers` has
//! the reason and the list.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use crate::tls::Tls;

/// The hosts for which requests are answered. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Hosts {
    listening: IpAddr,
    allowed: Arc<[String]>,
    tls: Option<Arc<Tls>>,
}

impl Hosts {
    /// The hosts of a server with this listening address: the names of `http.allowed_hosts` and of the certificate are
    /// added.
    pub(crate) fn new(listening: SocketAddr, allowed: &[String], tls: Option<Arc<Tls>>) -> Self {
        let allowed = allowed.iter().map(|name| name.to_ascii_lowercase()).collect();
        Self { listening: listening.ip().to_canonical(), allowed, tls }
    }

    pub(super) fn contains(&self, host: &str) -> bool {
        let address = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        if let Ok(address) = address.parse::<IpAddr>() {
            let address = address.to_canonical();
            return self.listening.is_unspecified() || address == self.listening || address.is_loopback();
        }
        let name = host.to_ascii_lowercase();
        let name = name.strip_suffix('.').unwrap_or(&name);
        name == "localhost"
            || name.ends_with(".localhost")
            || self.allowed.iter().any(|allowed| allowed == name)
            || self.tls.as_ref().is_some_and(|tls| tls.names(name))
    }
}
