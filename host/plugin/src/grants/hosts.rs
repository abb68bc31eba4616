//! Hosts and ports, as grants name them and as reconcilers ask for them.
//!
//! # Contract
//! A pattern is a host and a port: `db.internal:5432`, `192.0.2.7:22`, `[2001:db8::1]:22`. `*.example.net:5432` is
//! every name below `example.net`, however deep, and not `example.net` itself. `*:5432` is that port of every host, and
//! `*` every port of every host.
//!
//! Requested hosts are compared as text, ignoring case: names are not looked up, and other ways to write an address are
//! not understood. So `127.1`, a name with a dot at the end and `user@host` match only a `*`, and are refused there
//! too, since they cannot be read.
//!
//! # Limits
//! A grant of a name covers each address that it resolves to, private ones included: the operator controls the
//! resolver.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

/// Longest name of a host, bytes.
const MAX_NAME: usize = 253;

/// Hosts and ports that an entry covers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPattern {
    hosts: Hosts,
    /// `None`: every port.
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Hosts {
    Any,
    /// Names below this one, which is in lower case.
    Below(String),
    One(Host),
}

/// A port of a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostPort {
    pub(crate) host: Host,
    pub(crate) port: u16,
}

/// A host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Host {
    /// Name, in lower case.
    Name(String),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

/// Error for a text that does not name a host to grant, with the text to write instead.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is not a host for grants.{grant}: {source}")]
pub struct HostError {
    text: String,
    grant: &'static str,
    source: HostFault,
}

/// The fault of a text that does not name a host, and the text to write instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HostFault {
    #[error("the scheme is http or https")]
    Scheme,
    #[error("it has a path; write the host without it")]
    Path,
    #[error("it has a user; write the host without it")]
    User,
    #[error("it has letters that are not ASCII; write the name in its xn-- form")]
    NotAscii,
    #[error("write it as \"api.example.org:8443\"")]
    Form,
    #[error("`*` may stand for every host, or for the first labels of a name, such as \"*.example.net\"")]
    Wildcard,
    #[error("a port is a number from 1 to 65535")]
    Port,
    #[error("a port is required, such as \"db.example.org:5432\"")]
    NoPort,
    #[error("an address has no names below it; write it without `*.`")]
    BelowAddress,
    #[error(
        "write a name as \"api.example.org\", without a dot at the end, and an address as \"192.0.2.1\" or \
         \"[2001:db8::1]\""
    )]
    Name,
}

impl HostError {
    pub(crate) fn new(grant: &'static str, text: &str, source: HostFault) -> Self {
        Self { text: text.to_owned(), grant, source }
    }
}

impl HostPattern {
    /// Reads an entry. `port` is the default port; without a default, only `*` may omit the port.
    ///
    /// # Errors
    /// The fault, and the text to write instead.
    pub(crate) fn read(text: &str, port: Option<u16>) -> Result<Self, HostFault> {
        if text.contains(['/', '?', '#']) {
            return Err(HostFault::Path);
        }
        if text.contains('@') {
            return Err(HostFault::User);
        }
        if !text.is_ascii() {
            return Err(HostFault::NotAscii);
        }
        let (below, rest) = text.strip_prefix("*.").map_or((false, text), |rest| (true, rest));
        let Some((host, written)) = split(rest) else { return Err(HostFault::Form) };
        let any = host == "*" && !below;
        if rest.contains('*') && !any {
            return Err(HostFault::Wildcard);
        }
        let port = match written.map(parse_port) {
            Some(None) => return Err(HostFault::Port),
            Some(written) => written,
            None if any => None,
            None if port.is_none() => return Err(HostFault::NoPort),
            None => port,
        };
        let hosts = match (any, Host::read(host)) {
            (true, _) => Hosts::Any,
            (_, Some(Host::Name(name))) if below => Hosts::Below(name),
            (_, Some(_)) if below => return Err(HostFault::BelowAddress),
            (_, Some(host)) => Hosts::One(host),
            (_, None) => return Err(HostFault::Name),
        };
        Ok(Self { hosts, port })
    }

    /// Whether this pattern covers every host and port that `other` covers.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let hosts = match (&self.hosts, &other.hosts) {
            (Hosts::Any, _) => true,
            (Hosts::Below(own), Hosts::Below(others)) => own == others || is_below(own, others),
            (_, Hosts::One(host)) => self.covers_host(host),
            _ => false,
        };
        hosts && (self.port.is_none() || self.port == other.port)
    }

    /// Whether this pattern covers a port of a host.
    pub(crate) fn covers(&self, to: &HostPort) -> bool {
        self.covers_host(&to.host) && self.port.is_none_or(|port| port == to.port)
    }

    fn covers_host(&self, host: &Host) -> bool {
        match (&self.hosts, host) {
            (Hosts::Any, _) => true,
            (Hosts::Below(own), Host::Name(name)) => is_below(own, name),
            (Hosts::Below(_), _) => false,
            (Hosts::One(own), host) => own == host,
        }
    }

    /// Writes the pattern, without its port if that is `usual`.
    pub(crate) fn write(&self, f: &mut fmt::Formatter<'_>, usual: Option<u16>) -> fmt::Result {
        match &self.hosts {
            Hosts::Any => f.write_str("*")?,
            Hosts::Below(name) => write!(f, "*.{name}")?,
            Hosts::One(host) => write!(f, "{host}")?,
        }
        match self.port {
            // A `*` without a port is every port.
            Some(port) if Some(port) != usual || self.hosts == Hosts::Any => write!(f, ":{port}"),
            _ => Ok(()),
        }
    }
}

/// The entry that grants this host and port.
impl From<HostPort> for HostPattern {
    fn from(HostPort { host, port }: HostPort) -> Self {
        Self { hosts: Hosts::One(host), port: Some(port) }
    }
}

impl HostPort {
    /// Reads an authority, whose port may be omitted if there is a usual one. `None` if it is not in plain form.
    pub(crate) fn read(authority: &str, usual: Option<u16>) -> Option<Self> {
        let (host, port) = split(authority)?;
        Some(Self { host: Host::read(host)?, port: port.map_or(usual, parse_port)? })
    }
}

/// The canonical form.
impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

impl Host {
    /// Reads a name or an address, with IPv6 in brackets. `None` for any other form.
    pub(crate) fn read(text: &str) -> Option<Self> {
        if let Some(address) = text.strip_prefix('[') {
            return address.strip_suffix(']')?.parse().ok().map(Self::V6);
        }
        // A resolver takes a name that ends with a number for an address, in several forms.
        let last = text.rsplit('.').next()?;
        if last.starts_with(|first: char| first.is_ascii_digit()) {
            return text.parse().ok().map(Self::V4);
        }
        let label = |label: &str| {
            (1..=63).contains(&label.len())
                && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_')
                && !label.starts_with('-')
                && !label.ends_with('-')
        };
        (text.len() <= MAX_NAME && text.split('.').all(label)).then(|| Self::Name(text.to_ascii_lowercase()))
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::V4(address) => write!(f, "{address}"),
            Self::V6(address) => write!(f, "[{address}]"),
        }
    }
}

/// Whether a name is below another.
fn is_below(above: &str, name: &str) -> bool {
    name.strip_suffix(above).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
}

/// Host and port of an authority.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    let after = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority.get(after..)?.split_once(':') {
        None => Some((authority, None)),
        Some((before, port)) => Some((authority.get(..after + before.len())?, Some(port))),
    }
}

/// A port, of digits only.
fn parse_port(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
    if digits { port.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> HostPattern {
        HostPattern::read(text, None).unwrap()
    }

    /// Patterns from the widest to the narrowest: each line is a pattern, a target that it covers, and one that it does
    /// not.
    const PATTERNS: [(&str, &str, Option<&str>); 9] = [
        ("*", "anything.at.all:1", None),
        ("*:5432", "[2001:db8::1]:5432", Some("db.example.net:5433")),
        ("*.example.net:5432", "a.b.example.net:5432", Some("example.net:5432")),
        ("*.b.example.net:5432", "a.b.example.net:5432", Some("c.example.net:5432")),
        ("a.b.example.net:5432", "A.b.Example.NET:5432", Some("x.a.b.example.net:5432")),
        ("example.net:5432", "example.net:5432", Some("a.example.net:5432")),
        ("example.net:22", "example.net:22", Some("example.net:23")),
        ("192.0.2.7:5432", "192.0.2.7:5432", Some("192.0.2.8:5432")),
        ("[2001:db8::1]:22", "[2001:DB8:0::1]:22", Some("[2001:db8::2]:22")),
    ];

    #[test]
    fn a_pattern_covers_what_it_says() {
        for (text, covered, not) in PATTERNS {
            let covers = |to: &str| pattern(text).covers(&HostPort::read(to, None).unwrap());
            assert!(covers(covered), "{text} {covered}");
            assert!(not.is_none_or(|not| !covers(not)), "{text} {not:?}");
        }
    }

    #[test]
    fn every_pattern_is_compared_with_every_other() {
        // For each pattern, the positions of the other patterns that it includes.
        let includes: [&[usize]; 9] =
            [&[1, 2, 3, 4, 5, 6, 7, 8], &[2, 3, 4, 5, 7], &[3, 4], &[4], &[], &[], &[], &[], &[]];
        for (index, (text, ..)) in PATTERNS.iter().enumerate() {
            for (other, (narrower, ..)) in PATTERNS.iter().enumerate() {
                let expected = index == other || includes[index].contains(&other);
                assert_eq!(pattern(text).includes(&pattern(narrower)), expected, "{text} includes {narrower}");
            }
        }
    }

    #[test]
    fn patterns_read_as_they_are_written() {
        for (text, ..) in PATTERNS {
            struct Shown(HostPattern);
            impl fmt::Display for Shown {
                fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                    self.0.write(f, None)
                }
            }
            assert_eq!(Shown(pattern(text)).to_string(), text);
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for (bad, says) in [
            ("", "a port is required"),
            ("db.example.org", "a port is required"),
            ("*.example.org", "a port is required"),
            ("db.example.org:", "a port is a number"),
            ("*:", "a port is a number"),
            ("*:0", "a port is a number"),
            ("*:*", "a port is a number"),
            ("db.example.org:*", "`*` may stand"),
            ("**", "`*` may stand"),
            ("*.*:1", "`*` may stand"),
            ("*.:1", "write a name"),
            (":22", "write a name"),
            ("db.example.org.:22", "write a name"),
            ("127.1:22", "write a name"),
            ("*.192.0.2.1:22", "no names below it"),
            ("postgres://db:5432", "has a path"),
            ("me@db:5432", "has a user"),
            ("bücher:22", "xn--"),
        ] {
            let refused = HostPattern::read(bad, None).unwrap_err().to_string();
            assert!(refused.contains(says), "{bad}: {refused}");
        }
    }
}
