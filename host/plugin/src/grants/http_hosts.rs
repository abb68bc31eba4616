//! Hosts for HTTP requests of reconcilers: the entries of `[plugin.<name>.grants] http`.
//!
//! # Contract
//! An entry is a host, with a scheme and a port if it needs them: `api.example.org` is https on port 443 only,
//! `api.example.org:8443` https on that port, `http://127.0.0.1:8080` plain http, which must be explicit.
//! `*.example.net` is every name below `example.net`, however deep, and not `example.net` itself. `*` is https to every
//! port of every host, `http://*` plain http. IPv6 addresses are in brackets.
//!
//! A request is compared by its own scheme, host and port ([`HostPattern`]). The host sends the parsed form on
//! ([`Target::authority`]), so no other parser can see another host in the same text.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::grants::hosts::{HostError, HostFault, HostPattern, HostPort};

/// A granted host, all names below one, or every host, with a scheme.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HttpHost {
    scheme: Scheme,
    pattern: HostPattern,
}

/// Destination of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    scheme: Scheme,
    host_port: HostPort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheme {
    Http,
    Https,
}

impl HttpHost {
    /// Whether this entry covers every host that `other` covers.
    pub(crate) fn includes(&self, other: &Self) -> bool {
        self.scheme == other.scheme && self.pattern.includes(&other.pattern)
    }

    /// Whether this entry allows a request to `to`.
    pub(crate) fn covers(&self, to: &Target) -> bool {
        self.scheme == to.scheme && self.pattern.covers(&to.host_port)
    }
}

impl Target {
    /// Reads a request's scheme and authority. `None` if they are not in plain form.
    pub(crate) fn read(scheme: &str, authority: &str) -> Option<Self> {
        let scheme = Scheme::read(scheme)?;
        Some(Self { scheme, host_port: HostPort::read(authority, Some(scheme.port()))? })
    }

    /// Host and port.
    pub(crate) fn at(&self) -> &HostPort {
        &self.host_port
    }

    /// Host and port, in canonical form.
    pub(crate) fn authority(&self) -> String {
        self.host_port.to_string()
    }
}

impl Scheme {
    fn read(text: &str) -> Option<Self> {
        [Self::Http, Self::Https].into_iter().find(|scheme| text.eq_ignore_ascii_case(scheme.name()))
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

impl TryFrom<String> for HttpHost {
    type Error = HostError;

    fn try_from(text: String) -> Result<Self, HostError> {
        let refused = |fault| HostError::new("http", &text, fault);
        let (scheme, rest) = match text.split_once("://") {
            None => (Scheme::Https, text.as_str()),
            Some((scheme, rest)) => (Scheme::read(scheme).ok_or_else(|| refused(HostFault::Scheme))?, rest),
        };
        let pattern = HostPattern::read(rest, Some(scheme.port())).map_err(refused)?;
        Ok(Self { scheme, pattern })
    }
}

impl From<HttpHost> for String {
    fn from(host: HttpHost) -> Self {
        host.to_string()
    }
}

impl fmt::Display for HttpHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.scheme == Scheme::Http {
            f.write_str("http://")?;
        }
        self.pattern.write(f, Some(self.scheme.port()))
    }
}

/// The entry that grants this target.
impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        HttpHost { scheme: self.scheme, pattern: self.host_port.clone().into() }.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> HttpHost {
        HttpHost::try_from(text.to_owned()).unwrap()
    }

    /// Whether an entry allows a request to a scheme and an authority.
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

    /// A `*` is every host and every port, of one scheme.
    #[test]
    fn a_star_alone_is_everything_of_its_scheme() {
        for (scheme, other, star) in
            [("https", "http", "*"), ("https", "http", "https://*"), ("http", "https", "http://*")]
        {
            for to in ["api.example.org", "api.example.org:1", "192.0.2.7:8080", "[2001:db8::1]:65535"] {
                assert!(lets(star, scheme, to) && !lets(star, other, to), "{star} {to}");
            }
            assert!(!lets(star, scheme, "user@example.org") && !lets(star, scheme, "127.1"), "{star}");
        }
        assert!(lets("http://*:8080", "http", "a:8080") && !lets("http://*:8080", "http", "a:8081"));
        assert!(lets("*:443", "https", "a") && !lets("*:443", "https", "a:8443"));
    }

    #[test]
    fn what_includes_what() {
        for (left, other, includes) in [
            ("*", "https://*", true),
            ("*", "http://*", false),
            ("http://*", "*", false),
            ("*", "api.example.org", true),
            ("*", "api.example.org:8443", true),
            ("*", "*.example.org:8443", true),
            ("*", "http://api.example.org", false),
            ("http://*", "http://[::1]:8080", true),
            ("*:443", "*", false),
            ("*:443", "api.example.org", true),
            ("*.example.org", "*", false),
            ("api.example.org", "*", false),
        ] {
            assert_eq!(entry(left).includes(&entry(other)), includes, "{left} {other}");
        }
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
        assert_eq!(Target::read("https", "api.example.org:65535").unwrap().host_port.port, 65535);
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
            ("**", "`*` may stand"),
            ("*:x", "a port is"),
            ("*.", "write a name"),
            ("a.*.org", "`*` may stand"),
            ("*.*.org", "`*` may stand"),
            ("*example.org", "`*` may stand"),
            ("*.192.0.2.1", "no names below it"),
            ("*.[::1]", "no names below it"),
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
        for text in [
            "api.example.org",
            "api.example.org:8443",
            "http://127.0.0.1:8080",
            "*.example.net",
            "http://[::1]",
            "*",
            "http://*",
            "*:443",
            "http://*:8080",
        ] {
            assert_eq!(entry(text).to_string(), text);
            assert_eq!(serde_json::to_string(&entry(text)).unwrap(), format!("{text:?}"));
        }
        assert_eq!(entry("https://api.example.org:443").to_string(), "api.example.org");
    }
}
