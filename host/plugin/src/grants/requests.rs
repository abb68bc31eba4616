//! Requests of a plugin's manifest for grants.
//!
//! # Contract
//! A plugin whose manifest has requests gets what is both requested and granted, and nothing else. A manifest without
//! requests, as in every component built before requests existed, gets everything that is granted. Controllers request
//! the types that they manage and watch implicitly.
//!
//! # Limits
//! [`MAX_REQUESTS`] requests, with names of [`MAX_NAME`] and reasons of [`MAX_REASON`] bytes.

use std::fmt;

use mortise_resource::{manifest as wire, types::Gvk};

use crate::grants::{
    Grants, Instances, PatternError, TypePattern,
    hosts::{HostError, HostPort},
    http_hosts::{HttpHost, Target},
    tcp_hosts::TcpHost,
};

/// Most requests of one plugin.
const MAX_REQUESTS: usize = 64;

/// Longest name of a directory or a secret, bytes.
const MAX_NAME: usize = 253;

/// Longest reason, bytes.
const MAX_REASON: usize = 1_024;

/// A thing to grant, written as in config.toml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Grant {
    /// A directory, by its name.
    Directory(String),
    /// A secret, by its name.
    Secret(String),
    /// Hosts for HTTP requests.
    Http(HttpHost),
    /// Hosts and ports for TCP connections.
    Tcp(TcpHost),
    /// Types to read.
    Read(TypePattern),
    /// Types to write, and to read.
    Write(TypePattern),
    /// Reuse of the instances of hooks. The manifest asks for it in a field of its own.
    Reuse,
}

/// A request of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRequest {
    /// The requested thing.
    pub grant: Grant,
    /// Purpose, in the plugin's words.
    pub reason: String,
}

/// All requests of a plugin.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantRequests(Vec<GrantRequest>);

/// Reason that a request cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RequestError {
    /// Too many of them.
    #[error("at most {MAX_REQUESTS}, got: {0}")]
    TooMany(usize),
    /// The request has no field that this host knows.
    #[error("a request names a directory, a secret, a host for http or tcp, or a type to read or to write")]
    Unknown,
    /// A name is empty or too long.
    #[error("a name has 1 to {MAX_NAME} bytes, got: {0}")]
    Name(usize),
    /// The reason is missing or too long.
    #[error("{grant}: the reason is required, up to {MAX_REASON} bytes")]
    Reason {
        /// The requested thing.
        grant: Grant,
    },
    /// The type cannot be read.
    #[error(transparent)]
    Type(#[from] PatternError),
    /// The host cannot be read.
    #[error(transparent)]
    Host(#[from] HostError),
}

impl Grant {
    /// Tells whether it is about any host: `*`, or `http://*`.
    fn is_of_any_host(&self) -> bool {
        match self {
            Self::Http(host) => matches!(host.to_string().as_str(), "*" | "http://*"),
            Self::Tcp(host) => host.to_string() == "*",
            _ => false,
        }
    }

    /// Whether `other` includes all of this grant.
    fn is_within(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Directory(left), Self::Directory(other)) | (Self::Secret(left), Self::Secret(other)) => {
                left == other
            }
            (Self::Http(left), Self::Http(other)) => other.includes(left),
            (Self::Tcp(left), Self::Tcp(other)) => other.includes(left),
            (Self::Read(left), Self::Read(other) | Self::Write(other)) | (Self::Write(left), Self::Write(other)) => {
                other.includes(left)
            }
            (Self::Reuse, Self::Reuse) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Grant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Directory(name) => write!(f, "directories.{name}"),
            Self::Secret(name) => write!(f, "secrets.{name}"),
            Self::Http(host) => write!(f, "http {host}"),
            Self::Tcp(host) => write!(f, "tcp {host}"),
            Self::Read(pattern) => write!(f, "read {pattern}"),
            Self::Write(pattern) => write!(f, "write {pattern}"),
            Self::Reuse => f.write_str("instances reuse"),
        }
    }
}

impl GrantRequests {
    /// Reads the requests of a manifest.
    ///
    /// # Errors
    /// The first fault.
    pub(crate) fn read(wire: wire::GrantRequests) -> Result<Self, RequestError> {
        use wire::grant_request::Wants;
        if wire.requests.len() > MAX_REQUESTS {
            return Err(RequestError::TooMany(wire.requests.len()));
        }
        let named = |name: String| {
            if (1..=MAX_NAME).contains(&name.len()) { Ok(name) } else { Err(RequestError::Name(name.len())) }
        };
        let read = |wire: wire::GrantRequest| {
            let grant = match wire.wants.ok_or(RequestError::Unknown)? {
                Wants::Directory(name) => Grant::Directory(named(name)?),
                Wants::Secret(name) => Grant::Secret(named(name)?),
                Wants::Http(host) => Grant::Http(HttpHost::try_from(host)?),
                Wants::Tcp(host) => Grant::Tcp(TcpHost::try_from(host)?),
                Wants::Read(pattern) => Grant::Read(TypePattern::try_from(pattern)?),
                Wants::Write(pattern) => Grant::Write(TypePattern::try_from(pattern)?),
            };
            if !(1..=MAX_REASON).contains(&wire.reason.len()) {
                return Err(RequestError::Reason { grant });
            }
            Ok(GrantRequest { grant, reason: wire.reason })
        };
        wire.requests.into_iter().map(read).collect::<Result<_, _>>().map(Self)
    }

    /// Requests, in the manifest's order.
    pub fn iter(&self) -> impl Iterator<Item = &GrantRequest> {
        self.0.iter()
    }

    fn any(&self, asks: impl Fn(&Grant) -> bool) -> bool {
        self.0.iter().any(|request| asks(&request.grant))
    }

    pub(super) fn directory(&self, name: &str) -> bool {
        self.any(|grant| matches!(grant, Grant::Directory(asked) if asked == name))
    }

    pub(super) fn secret(&self, name: &str) -> bool {
        self.any(|grant| matches!(grant, Grant::Secret(asked) if asked == name))
    }

    pub(super) fn http(&self, target: &Target) -> bool {
        self.any(|grant| matches!(grant, Grant::Http(asked) if asked.covers(target)))
    }

    pub(super) fn tcp(&self, to: &HostPort) -> bool {
        self.any(|grant| matches!(grant, Grant::Tcp(asked) if asked.covers(to)))
    }

    pub(super) fn reads(&self, gvk: &Gvk) -> bool {
        self.any(|grant| matches!(grant, Grant::Read(asked) | Grant::Write(asked) if asked.covers(gvk)))
    }

    pub(super) fn writes(&self, gvk: &Gvk) -> bool {
        self.any(|grant| matches!(grant, Grant::Write(asked) if asked.covers(gvk)))
    }

    /// Whether a grant has an effect: it covers at least a part of some request.
    pub fn is_requested(&self, granted: &Grant) -> bool {
        let overlaps = |granted: &Grant| self.any(|asked| asked.is_within(granted) || granted.is_within(asked));
        // Writing includes reading, and perhaps only reading is requested.
        overlaps(granted) || matches!(granted, Grant::Write(pattern) if overlaps(&Grant::Read(pattern.clone())))
    }
}

impl Grants {
    /// Each granted thing.
    pub fn iter(&self) -> impl Iterator<Item = Grant> {
        let directories = self.directories.keys().cloned().map(Grant::Directory);
        let secrets = self.secrets.keys().cloned().map(Grant::Secret);
        let hosts = self.http.iter().map(|entry| Grant::Http(entry.host.clone()));
        let connects = self.tcp.iter().cloned().map(Grant::Tcp);
        let read = self.read.iter().cloned().map(Grant::Read);
        let write = self.write.iter().cloned().map(Grant::Write);
        let reuse = (self.instances == Instances::Reuse).then_some(Grant::Reuse);
        directories.chain(secrets).chain(hosts).chain(connects).chain(read).chain(write).chain(reuse)
    }

    /// Tells whether all of `wanted` is granted. A plugin that asks for any host leaves the choice to the operator, so one of
    /// them is enough.
    #[must_use]
    pub fn includes(&self, wanted: &Grant) -> bool {
        let covers =
            |granted: Grant| wanted.is_within(&granted) || (wanted.is_of_any_host() && granted.is_within(wanted));
        self.iter().any(covers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(wants: wire::grant_request::Wants) -> wire::GrantRequest {
        wire::GrantRequest { wants: Some(wants), reason: "since it must".into() }
    }

    fn read(requests: Vec<wire::GrantRequest>) -> Result<GrantRequests, String> {
        GrantRequests::read(wire::GrantRequests { requests }).map_err(|e| e.to_string())
    }

    #[test]
    fn a_request_is_written_as_a_grant_is() {
        use wire::grant_request::Wants;
        let read = read(vec![
            request(Wants::Directory("nginx".into())),
            request(Wants::Secret("token".into())),
            request(Wants::Http("http://example.org:8080".into())),
            request(Wants::Tcp("db.internal:5432".into())),
            request(Wants::Read("demo.v2.*".into())),
            request(Wants::Write("edge.v1.Route".into())),
        ]);
        let shown: Vec<_> = read.unwrap().iter().map(|request| request.grant.to_string()).collect();
        let expected = [
            "directories.nginx",
            "secrets.token",
            "http http://example.org:8080",
            "tcp db.internal:5432",
            "read demo.v2.*",
            "write edge.v1.Route",
        ];
        assert_eq!(shown, expected);
    }

    #[test]
    fn what_is_no_request_is_refused() {
        use wire::grant_request::Wants;
        let refused = |wants| read(vec![request(wants)]).unwrap_err();
        assert!(refused(Wants::Read("demo".into())).contains("is not a type"));
        assert!(refused(Wants::Http("ftp://x".into())).contains("the scheme is http or https"));
        assert!(refused(Wants::Tcp("db.internal".into())).contains("is not a host for grants.tcp: a port is required"));
        assert!(refused(Wants::Secret(String::new())).contains("1 to 253 bytes"));
        assert!(refused(Wants::Directory("x".repeat(254))).contains("1 to 253 bytes"));
        assert!(
            read(vec![wire::GrantRequest { wants: None, reason: "r".into() }])
                .unwrap_err()
                .contains("names a directory")
        );
        for reason in [String::new(), "x".repeat(1_025)] {
            let fault = read(vec![wire::GrantRequest { wants: Some(Wants::Secret("s".into())), reason }]).unwrap_err();
            assert!(fault.starts_with("secrets.s: the reason is required"), "{fault}");
        }
        assert!(read(vec![request(Wants::Secret("s".into())); 64]).is_ok());
        assert!(read(vec![request(Wants::Secret("s".into())); 65]).unwrap_err().contains("at most 64, got: 65"));
    }

    #[test]
    fn what_is_within_what() {
        let http = |text: &str| Grant::Http(HttpHost::try_from(text.to_owned()).unwrap());
        let tcp = |text: &str| Grant::Tcp(TcpHost::try_from(text.to_owned()).unwrap());
        let reads = |text: &str| Grant::Read(TypePattern::try_from(text.to_owned()).unwrap());
        let writes = |text: &str| Grant::Write(TypePattern::try_from(text.to_owned()).unwrap());
        for (left, other, within) in [
            (http("a.example.net"), http("*.example.net"), true),
            (http("*.a.example.net"), http("*.example.net"), true),
            (http("*.example.net"), http("*.example.net"), true),
            (http("*.example.net"), http("a.example.net"), false),
            (http("example.net"), http("*.example.net"), false),
            (http("a.example.net:8443"), http("*.example.net"), false),
            (http("a.example.net"), http("*"), true),
            (http("http://a.example.net"), http("*"), false),
            (http("*"), http("*.example.net"), false),
            (tcp("db.internal:5432"), tcp("*"), true),
            (tcp("*"), tcp("db.internal:5432"), false),
            (tcp("a.example.net:1"), http("*"), false),
            (reads("demo.v2.Artist"), reads("demo.v2.*"), true),
            (reads("demo.v2.*"), reads("demo.v2.Artist"), false),
            (reads("demo.v2.Artist"), writes("demo.v2.Artist"), true),
            (writes("demo.v2.Artist"), reads("demo.v2.Artist"), false),
            (Grant::Secret("a".into()), Grant::Directory("a".into()), false),
        ] {
            assert_eq!(left.is_within(&other), within, "{left} in {other}");
        }
    }

    #[test]
    fn a_request_for_any_host_is_granted_by_one_host() {
        let host = |text: &str| HttpHost::try_from(text.to_owned()).unwrap();
        let granted = Grants { http: vec![host("dns.example.org").into()], ..Grants::default() };
        for (wanted, is_granted) in [
            ("*", true),
            ("http://*", false),
            ("*.example.org", false),
            ("dns.example.org", true),
            ("example.org", false),
        ] {
            assert_eq!(granted.includes(&Grant::Http(host(wanted))), is_granted, "{wanted}");
        }
        assert!(!granted.includes(&Grant::Tcp(TcpHost::try_from("*".to_owned()).unwrap())));
        assert!(!Grants::default().includes(&Grant::Http(host("*"))));
    }
}
