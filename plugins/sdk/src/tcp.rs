//! Connections to granted hosts. See [`crate::Context::tcp`].

use std::time::Duration;

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
use crate::{Failure, host::AnyHost};

/// Checks whether hosts and ports accept connections; they must be in `tcp` of the plugin's grants.
#[derive(Clone, Copy)]
pub struct Tcp<'a> {
    host: &'a AnyHost,
}

impl<'a> Tcp<'a> {
    pub(crate) const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// Opens a connection and closes it, without sending or reading a byte; answers the duration, to the microsecond.
    ///
    /// The host is a DNS name, an IPv4 or an IPv6 address. A name's addresses are tried in turn within the timeout,
    /// which is at least 1 ms, and at most the host's limit for a call (`controllers.host_call_ms`).
    ///
    /// # Errors
    /// [`Failure::DENIED`] if it is not granted, [`Failure::LATE`] if it took too long, [`Failure::INVALID`] if the
    /// host or port is malformed, [`Failure::UNAVAILABLE`] if the connection is refused or the name does not resolve.
    pub fn connect(&self, host: &str, port: u16, timeout: Duration) -> Result<Duration, Failure> {
        // Rounded up: the host refuses a timeout of 0.
        let millis = u32::try_from(timeout.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX);
        self.host.tcp_connect(host, port, millis).map(|micros| Duration::from_micros(micros.into()))
    }
}
