//! The origin of a request, as recorded in the audit log.

use std::{fmt, net::SocketAddr, sync::OnceLock};

use super::caller::Source;
use crate::core::ids;

/// Longest request number taken from a client, bytes.
const MAX_REQUEST_ID_BYTES: usize = 64;

/// The way by which a request came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Surface {
    /// The gRPC port, or the unix socket.
    Grpc,
    /// The HTTP port.
    Http,
    /// The DNS port.
    Dns,
    /// A controller of a plugin.
    Controller,
    /// The replication from another region.
    Region,
    /// The garbage collector of owner references.
    Collector,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// Unknown, or no other end.
    Unknown,
    /// An address.
    Address(SocketAddr),
    /// A user of this machine, by id.
    User(u32),
}

/// The origin of a request.
#[derive(Debug)]
pub struct Origin {
    /// Way by which the request came.
    pub surface: Surface,
    /// Other end of the connection.
    pub remote: Remote,
    request: OnceLock<String>,
}

impl Origin {
    /// Makes an origin. Takes the client's number if it is valid: up to 64 letters, digits, `-`, `_` and `.`.
    #[must_use]
    pub fn new(surface: Surface, remote: Remote, number: Option<&str>) -> Self {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let fits = |text: &&str| (1..=MAX_REQUEST_ID_BYTES).contains(&text.len()) && text.bytes().all(is_part);
        let request = number.filter(fits).map_or_else(OnceLock::new, |number| OnceLock::from(number.to_owned()));
        Self { surface, remote, request }
    }

    /// Returns the number of the request, the same in each of its records: the client's, or a new one.
    #[must_use]
    pub fn request(&self) -> &str {
        self.request.get_or_init(ids::ulid)
    }
}

impl Surface {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Grpc => "grpc",
            Self::Http => "http",
            Self::Dns => "dns",
            Self::Controller => "controller",
            Self::Region => "region",
            Self::Collector => "collector",
        }
    }
}

impl Remote {
    /// Makes the other end of a connection. A socket that also accepts IPv6 reports IPv4 addresses as IPv6; here they
    /// are IPv4.
    #[must_use]
    pub fn from_address(addr: SocketAddr) -> Self {
        Self::Address(SocketAddr::new(addr.ip().to_canonical(), addr.port()))
    }

    /// Returns the source that stands for everything behind this end: all ports of an address, or a user. `None` if the
    /// end is unknown.
    #[must_use]
    pub fn source(self) -> Option<Source> {
        match self {
            Self::Unknown => None,
            Self::Address(addr) => Some(Source::from_address(addr.ip())),
            Self::User(id) => Some(Source::from_key(("user", id))),
        }
    }
}

impl fmt::Display for Remote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown => Ok(()),
            Self::Address(addr) => addr.fmt(f),
            Self::User(id) => write!(f, "user {id}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_the_same_in_every_spelling_and_a_network_of_ipv6_is_one() {
        let remote = |text: &str| Remote::from_address(text.parse().unwrap());
        assert_eq!(remote("[::ffff:10.1.2.3]:7").to_string(), "10.1.2.3:7");
        assert_eq!(remote("[2001:db8::1]:7").to_string(), "[2001:db8::1]:7");
        let same = |left, other| remote(left).source() == remote(other).source();
        assert!(same("[::ffff:10.1.2.3]:7", "10.1.2.3:8"));
        assert!(same("[2001:db8:0:1::1]:7", "[2001:db8:0:1:ffff::2]:8"));
        assert!(!same("[2001:db8:0:1::1]:7", "[2001:db8:0:2::1]:7"));
        assert!(!same("10.1.2.3:7", "10.1.2.4:7"));
        assert_eq!(Remote::Unknown.source(), None);
        assert_ne!(Remote::User(1).source(), Remote::User(2).source());
    }

    #[test]
    fn a_number_of_the_client_is_taken_if_it_is_one() {
        let number = |given| Origin::new(Surface::Grpc, Remote::Unknown, given).request().to_owned();
        assert_eq!(number(Some("a-1_b.C")), "a-1_b.C");
        for wrong in ["", "a b", "a\n", &"a".repeat(65)] {
            assert_eq!(number(Some(wrong)).len(), 26, "{wrong:?}");
        }
        let origin = Origin::new(Surface::Grpc, Remote::Unknown, None);
        assert_eq!(origin.request(), origin.request());
    }
}
