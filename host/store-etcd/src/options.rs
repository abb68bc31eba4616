//! Options of a cluster.

use std::fmt;

/// An etcd cluster, and the place in it.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// Addresses of etcd's servers, as `host:port`; `https` is used if [`EtcdOptions::tls`] is given.
    pub endpoints: Vec<String>,
    /// Beginning of every key, such as `/mortise/`. Servers with the same prefix share their content.
    pub prefix: String,
    /// User of etcd, if it asks for one.
    pub credentials: Option<Credentials>,
    /// TLS, if etcd has it.
    pub tls: Option<Tls>,
}

/// A user of etcd.
#[derive(Clone)]
pub struct Credentials {
    /// Name of the user.
    pub username: String,
    /// Password; never logged.
    pub password: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").field("username", &self.username).finish_non_exhaustive()
    }
}

/// Certificates, as PEM.
#[derive(Clone, Default)]
pub struct Tls {
    /// Authorities of etcd's certificates; `None` for those of the system.
    pub authorities: Option<Vec<u8>>,
    /// Certificate and key of this client.
    pub identity: Option<(Vec<u8>, Vec<u8>)>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("has_identity", &self.identity.is_some()).finish_non_exhaustive()
    }
}
