//! Connections to hosts that the operator granted. See [`crate::Context::tcp`].

use std::time::Duration;

#[cfg(target_arch = "wasm32")]
use crate::host::Host as _;
use crate::{Failure, host::AnyHost};

/// Asks whether something accepts connections, at hosts and ports that are in `tcp` of the plugin's grants.
#[derive(Clone, Copy)]
pub struct Tcp<'a> {
    host: &'a AnyHost,
}

impl<'a> Tcp<'a> {
    pub(crate) const fn new(host: &'a AnyHost) -> Self {
        Self { host }
    }

    /// Opens a connection and closes it, without a byte sent or read; answers how long that took, to the microsecond.
    ///
    /// The host is a DNS name, an IPv4 or an IPv6 address. A name's addresses are tried in turn within the timeout, which
    /// is 1 ms at least, and as much as the host lets a call wait (`controllers.host_call_ms`) at most.
    ///
    /// # Errors
    /// [`Failure::DENIED`] if it is not granted, [`Failure::LATE`] if it took too long, [`Failure::INVALID`] if it is no
    /// host or port, [`Failure::UNAVAILABLE`] if the connection is refused or the name does not resolve.
    pub fn connect(&self, host: &str, port: u16, timeout: Duration) -> Result<Duration, Failure> {
        // A part of a millisecond is one, not none, which the host refuses.
        let millis = u32::try_from(timeout.as_micros().div_ceil(1_000)).unwrap_or(u32::MAX);
        self.host.tcp_connect(host, port, millis).map(|micros| Duration::from_micros(micros.into()))
    }
}
