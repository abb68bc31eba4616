//! Hosts and ports for TCP connections of reconcilers: the entries of `[plugin.<name>.grants] tcp`, in the syntax of
//! [`HostPattern`]. A host has a port; `*` alone is every port of every host.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::grants::hosts::{HostError, HostPattern, HostPort};

/// Granted hosts and ports.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct TcpHost(HostPattern);

impl TcpHost {
    /// Whether this entry covers every host and port that `other` covers.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.0.includes(&other.0)
    }

    /// Whether this entry allows a connection to `to`.
    pub(crate) fn covers(&self, to: &HostPort) -> bool {
        self.0.covers(to)
    }
}

impl TryFrom<String> for TcpHost {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        HostPattern::read(&text, None).map(Self).map_err(|fault| HostError::new("tcp", &text, fault))
    }
}

impl From<TcpHost> for String {
    fn from(host: TcpHost) -> Self {
        host.to_string()
    }
}

impl fmt::Display for TcpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.write(f, None)
    }
}
