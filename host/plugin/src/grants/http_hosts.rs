//! Hosts that reconcilers may send HTTP requests to: the entries of `[plugin.<name>.grants] http`.
//!
//! # Contract
//! An entry is a host, with a scheme and a port if it needs them: `api.example.org` is https on port 443 and nothing
//! else, `api.example.org:8443` https on that port, `http://127.0.0.1:8080` plain http, which has to be said.
//! `*.example.net` is every name below `example.net`, however deep, and not `example.net` itself. IPv6 addresses are in
//! brackets.
//!
//! A request is compared by its own scheme, host and port, as text, letters of either case alike: no name is looked up,
//! and no other way to write an address is understood. So `127.1`, a dot at the end and `user@host` match nothing. Only
//! what was parsed here is sent on ([`Target::authority`]), so no other parser can see another host in the same text.
//!
//! # Limits
//! Whoever grants a name grants what it resolves to, private addresses included: it is his resolver.

use std::{
    fmt,
    net::{Ipv4Addr, Ipv6Addr},
};

use serde::{Deserialize, Serialize};

/// Longest name of a host, bytes.
const MAX_NAME: usize = 253;

/// A granted host, or all names below one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpHost {
    /// Whether it covers the names below, and not the host itself.
    below: bool,
    target: Target,
}

/// Where a request goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    scheme: Scheme,
    host: Host,
    port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Host {
    /// In lower case.
    Name(String),
    V4(Ipv4Addr),
    V6(Ipv6Addr),
}

impl HttpHost {
    /// Whether it covers every host that `other` does.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        let names = match (&self.target.host, &other.target.host) {
            (Host::Name(own), Host::Name(others)) if self.below && other.below => {
                own == others || others.strip_suffix(own.as_str()).is_some_and(|labels| labels.ends_with('.'))
            }
            _ => return !other.below && self.covers(&other.target),
        };
        names && self.target.scheme == other.target.scheme && self.target.port == other.target.port
    }

    /// Whether a request may go there.
    pub(crate) fn covers(&self, to: &Target) -> bool {
        let same = match (&self.target.host, &to.host) {
            (Host::Name(granted), Host::Name(asked)) if self.below => {
                asked.strip_suffix(granted.as_str()).is_some_and(|labels| labels.len() > 1 && labels.ends_with('.'))
            }
            (granted, asked) => !self.below && granted == asked,
        };
        same && self.target.scheme == to.scheme && self.target.port == to.port
    }
}

impl Target {
    /// Reads a request's scheme and authority; none if they are not plain ones.
    pub(crate) fn read(scheme: &str, authority: &str) -> Option<Self> {
        let scheme = Scheme::read(scheme)?;
        let (host, port) = split(authority)?;
        Some(Self { scheme, host: Host::read(host)?, port: port.map_or(Some(scheme.port()), number)? })
    }

    /// Host and port, in the one way that they are written.
    pub(crate) fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }
}

impl Scheme {
    fn read(text: &str) -> Option<Self> {
        [Self::Http, Self::Https].into_iter().find(|one| text.eq_ignore_ascii_case(one.name()))
    }

    const fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    const fn port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

impl Host {
    fn read(text: &str) -> Option<Self> {
        if let Some(address) = text.strip_prefix('[') {
            return address.strip_suffix(']')?.parse().ok().map(Self::V6);
        }
        // A resolver takes a name that ends with a number for an address, in more ways than one.
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

/// Host and port of an authority.
fn split(authority: &str) -> Option<(&str, Option<&str>)> {
    let after = authority.rfind(']').map_or(0, |bracket| bracket + 1);
    match authority.get(after..)?.split_once(':') {
        None => Some((authority, None)),
        Some((before, port)) => Some((authority.get(..after + before.len())?, Some(port))),
    }
}

/// A port, in digits alone.
fn number(port: &str) -> Option<u16> {
    let digits = port.bytes().all(|b| b.is_ascii_digit()) && !port.starts_with('0');
    if digits { port.parse().ok() } else { None }
}

/// Why a text is no host that can be granted, with what to write.
#[derive(Debug, thiserror::Error)]
#[error("{text:?} is no host for grants.http: {why}")]
pub struct HttpHostError {
    text: String,
    why: &'static str,
}

impl TryFrom<String> for HttpHost {
    type Error = HttpHostError;

    fn try_from(text: String) -> Result<Self, HttpHostError> {
        let refused = |why| Err(HttpHostError { text: text.clone(), why });
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Https, text.as_str()),
            Some((scheme, rest)) => match Scheme::read(scheme) {
                Some(scheme) => (scheme, rest),
                None => return refused("the scheme is http or https"),
            },
        };
        if rest.contains(['/', '?', '#']) {
            return refused("it has a path; a host is granted whole, so write it without");
        }
        if rest.contains('@') {
            return refused("it has a user; give that in a header of the request");
        }
        if !rest.is_ascii() {
            return refused("a name with other letters is written as it is looked up, with xn--");
        }
        let (below, rest) = rest.strip_prefix("*.").map_or((false, rest), |rest| (true, rest));
        if rest.contains('*') {
            return refused("`*` may stand for the first labels of a name only, such as \"*.example.net\"");
        }
        let Some((host, port)) = split(rest) else { return refused("write it as \"api.example.org:8443\"") };
        let Some(port) = port.map_or(Some(scheme.port()), number) else {
            return refused("a port is a number from 1 to 65535");
        };
        match Host::read(host) {
            Some(Host::V4(_) | Host::V6(_)) if below => refused("nothing stands below an address"),
            Some(host) => Ok(Self { below, target: Target { scheme, host, port } }),
            None => refused(
                "write a name as \"api.example.org\", without a dot at the end, and an address as \"192.0.2.1\" or \
                 \"[2001:db8::1]\"",
            ),
        }
    }
}

impl From<HttpHost> for String {
    fn from(host: HttpHost) -> Self {
        host.to_string()
    }
}

impl fmt::Display for HttpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Target { scheme, host, port } = &self.target;
        if *scheme == Scheme::Http {
            f.write_str("http://")?;
        }
        if self.below {
            f.write_str("*.")?;
        }
        write!(f, "{host}")?;
        if *port == scheme.port() { Ok(()) } else { write!(f, ":{port}") }
    }
}

/// As the entry that grants it.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HttpHost { below: false, target: self.clone() }.fmt(f)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> HttpHost {
        HttpHost::try_from(text.to_owned()).unwrap()
    }

    /// Whether an entry lets a request to a scheme and an authority through.
    fn lets(granted: &str, scheme: &str, authority: &str) -> bool {
        Target::read(scheme, authority).is_some_and(|to| entry(granted).covers(&to))
    }

    #[test]
    fn a_host_alone_is_https_on_its_port() {
        assert!(lets("api.example.org", "https", "api.example.org"));
        assert!(lets("api.example.org", "https", "api.example.org:443"));
        assert!(!lets("api.example.org", "http", "api.example.org"), "plain");
        assert!(!lets("api.example.org", "http", "api.example.org:443"), "plain on that port");
        assert!(!lets("api.example.org", "https", "api.example.org:8443"));
        assert!(!lets("api.example.org", "https", "example.org"));
        assert!(!lets("api.example.org", "https", "x.api.example.org"));
    }

    #[test]
    fn scheme_and_port_are_what_the_entry_says() {
        assert!(lets("api.example.org:8443", "https", "api.example.org:8443"));
        assert!(!lets("api.example.org:8443", "https", "api.example.org"));
        assert!(lets("http://127.0.0.1:8080", "http", "127.0.0.1:8080"));
        assert!(!lets("http://127.0.0.1:8080", "https", "127.0.0.1:8080"));
        assert!(!lets("http://127.0.0.1:8080", "http", "127.0.0.1"));
        assert!(lets("http://intern", "http", "intern:80"));
        assert!(!lets("http://intern", "ftp", "intern:80"));
    }

    #[test]
    fn letters_of_either_case_are_alike() {
        assert!(lets("API.Example.ORG", "HTTPS", "api.EXAMPLE.org"));
        assert_eq!(entry("HTTP://API.Example.ORG").to_string(), "http://api.example.org");
    }

    #[test]
    fn a_wildcard_is_every_name_below() {
        for below in ["a.example.net", "a.b.example.net", "A.EXAMPLE.NET", "a.example.net:443"] {
            assert!(lets("*.example.net", "https", below), "{below}");
        }
        for other in
            ["example.net", ".example.net", "badexample.net", "example.net.evil.org", "a.example.net.", "*.example.net"]
        {
            assert!(!lets("*.example.net", "https", other), "{other}");
        }
        assert!(lets("http://*.example.net:8080", "http", "a.example.net:8080"));
    }

    #[test]
    fn a_user_in_the_authority_matches_nothing() {
        for abuse in [
            "api.example.org@evil.org",
            "api.example.org:443@evil.org",
            "evil.org@api.example.org",
            "user:password@api.example.org",
            "@api.example.org",
        ] {
            assert_eq!(Target::read("https", abuse), None, "{abuse}");
        }
    }

    #[test]
    fn other_ways_to_write_a_host_match_nothing() {
        for abuse in [
            "",
            ":443",
            "api.example.org.",
            "api..example.org",
            "api.example.org%00.evil.org",
            "api.example.org\\.evil.org",
            "api.example.org/",
            "api.example.org#evil",
            " api.example.org",
            "api.example.org\t",
            "аpi.example.org",
            "127.1",
            "127.0.0.1.",
            "0127.0.0.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "127.0.0.0x1",
            "-api.example.org",
        ] {
            assert_eq!(Target::read("https", abuse), None, "{abuse:?}");
        }
    }

    #[test]
    fn ports_are_plain_numbers() {
        for abuse in ["", "0", "+443", "0443", "443:80", "65536", "4 43", "https", "-1", "443@evil.org"] {
            assert_eq!(Target::read("https", &format!("api.example.org:{abuse}")), None, "{abuse:?}");
        }
        assert_eq!(Target::read("https", "api.example.org:65535").unwrap().port, 65535);
    }

    #[test]
    fn addresses_of_ipv6_are_compared_as_addresses() {
        for same in ["[::1]:8080", "[0:0:0:0:0:0:0:1]:8080", "[::0001]:8080"] {
            assert!(lets("http://[::1]:8080", "http", same), "{same}");
        }
        for other in [
            "[::2]:8080",
            "[::1]",
            "::1:8080",
            "[::1%25eth0]:8080",
            "[::1]x:8080",
            "x[::1]:8080",
            "[::ffff:127.0.0.1]:8080",
        ] {
            assert!(!lets("http://[::1]:8080", "http", other), "{other}");
        }
        assert!(!lets("http://127.0.0.1", "http", "[::ffff:127.0.0.1]"));
        assert_eq!(Target::read("http", "[0::1]:80").unwrap().authority(), "[::1]:80");
    }

    #[test]
    fn what_is_sent_is_what_was_compared() {
        assert_eq!(Target::read("https", "API.example.org").unwrap().authority(), "api.example.org:443");
        assert_eq!(Target::read("http", "API.example.org").unwrap().to_string(), "http://api.example.org");
        assert_eq!(Target::read("http", "127.0.0.1:9").unwrap().to_string(), "http://127.0.0.1:9");
    }

    #[test]
    fn what_is_no_host_is_refused_with_what_to_write() {
        for (bad, says) in [
            ("", "write a name"),
            ("*", "`*` may stand"),
            ("*.", "write a name"),
            ("a.*.org", "`*` may stand"),
            ("*.*.org", "`*` may stand"),
            ("*example.org", "`*` may stand"),
            ("*.192.0.2.1", "below an address"),
            ("*.[::1]", "below an address"),
            ("ftp://example.org", "http or https"),
            ("://example.org", "http or https"),
            ("https://", "write a name"),
            ("https://example.org/", "has a path"),
            ("example.org/v1", "has a path"),
            ("example.org?x", "has a path"),
            ("user@example.org", "has a user"),
            ("example.org:0", "a port is"),
            ("example.org:", "a port is"),
            ("example.org:99999", "a port is"),
            ("example.org.", "without a dot at the end"),
            ("exa mple.org", "write a name"),
            ("127.1", "write a name"),
            ("::1", "a port is"),
            ("[::1", "a port is"),
            ("bücher.example", "xn--"),
        ] {
            let refused = HttpHost::try_from(bad.to_owned()).unwrap_err().to_string();
            assert!(refused.starts_with(&format!("{bad:?}")) && refused.contains(says), "{bad}: {refused}");
        }
    }

    #[test]
    fn entries_read_as_they_are_written() {
        for text in
            ["api.example.org", "api.example.org:8443", "http://127.0.0.1:8080", "*.example.net", "http://[::1]"]
        {
            assert_eq!(entry(text).to_string(), text);
            assert_eq!(serde_json::to_string(&entry(text)).unwrap(), format!("{text:?}"));
        }
        assert_eq!(entry("https://api.example.org:443").to_string(), "api.example.org");
    }
}
