//! The origin of a request, as the audit log has it.

use std::{fmt, net::SocketAddr, sync::OnceLock};

use crate::core::ids;

/// Longest number of a request that is taken from its client, bytes.
const MAX_REQUEST: usize = 64;

/// The way that a request came.
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
    /// A copy of another region's resource.
    Region,
}

/// The other end of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Remote {
    /// There is none, or nothing is known of it.
    Unknown,
    /// An address.
    Address(SocketAddr),
    /// A user of this machine, by id.
    User(u32),
}

/// Where a request came from.
#[derive(Debug)]
pub struct Origin {
    /// The way.
    pub surface: Surface,
    /// Who is at the other end.
    pub remote: Remote,
    request: OnceLock<String>,
}

impl Origin {
    /// Of a request that its client has numbered, if the number is one: up to 64 letters, digits, `-`, `_` and `.`.
    #[must_use]
    pub fn new(surface: Surface, remote: Remote, number: Option<&str>) -> Self {
        let is_part = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
        let fits = |text: &&str| (1..=MAX_REQUEST).contains(&text.len()) && text.bytes().all(is_part);
        let request = number.filter(fits).map_or_else(OnceLock::new, |number| OnceLock::from(number.to_owned()));
        Self { surface, remote, request }
    }

    /// The number of the request, the same in each of its records: the client's, or one that is made now.
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
