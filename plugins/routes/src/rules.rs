//! Rules for the contents of a Route.
//!
//! Valid values consist of letters, digits and a few marks without a meaning in nginx's language: no quotes,
//! braces, semicolons, blanks, dollars, backslashes or control characters, and no letters beyond ASCII.

use std::net::{Ipv4Addr, Ipv6Addr};

use mortise_plugin::{
    Diagnostics, field,
    name::{self, is_dns_name},
};

use crate::proto::edge::v1::{Route, Upstream};

/// Most upstreams of a Route, and of the service that it names.
pub(crate) const UPSTREAMS: usize = 64;
pub(crate) const MAX_COMPUTED_UPSTREAMS: usize = 256;

/// The greatest weight.
pub(crate) const MAX_WEIGHT: u32 = 1000;

/// Most bytes of a path.
const PATH: usize = 1024;

/// A value that a Route may not have. Texts of the Route are cut to a length that fits a line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RuleError {
    #[error(
        "a hostname is a DNS name in lower case such as www.example.org, one such as *.example.org, or _ for any; got {0}"
    )]
    Hostname(String),
    #[error("a path prefix {rule}; got {got}")]
    PathPrefix { rule: &'static str, got: String },
    #[error("a path prefix has at most {PATH} bytes, got {0}")]
    PathLength(usize),
    #[error("a weight is 1 to {MAX_WEIGHT}, got {0}")]
    Weight(u32),
    #[error("an address is one such as 192.0.2.1:8080, [2001:db8::1]:8080 or app.internal:8080; got {0}")]
    Address(String),
    #[error("a port is a number from 1 to 65535; got {0}")]
    Port(String),
}

/// Checks a Route, defaults filled in.
pub(crate) fn judge(route: &Route, diagnostics: &mut Diagnostics) {
    if let Err(error) = hostname(&route.hostname) {
        diagnostics.error(error.to_string()).at(field("hostname"));
    }
    if let Err(error) = path_prefix(&route.path_prefix) {
        diagnostics.error(error.to_string()).at(field("path_prefix"));
    }
    match &route.service {
        None if route.upstreams.is_empty() => {
            let text = "a route needs an upstream, such as 127.0.0.1:8080, or a service";
            diagnostics.error(text).at(field("upstreams"));
        }
        None => check_upstreams(&route.upstreams, UPSTREAMS, diagnostics),
        Some(service) => {
            if !route.upstreams.is_empty() {
                diagnostics.error("a route has upstreams or a service, not both").at(field("upstreams"));
            }
            check_service_name(&service.name, "name", diagnostics);
            if !service.port.is_empty() {
                check_service_name(&service.port, "port", diagnostics);
            }
        }
    }
}

/// Checks a name within the service of a Route.
fn check_service_name(name: &str, part: &str, diagnostics: &mut Diagnostics) {
    if let Some(fault) = name::fault(name) {
        diagnostics.error(fault).at(field("service").field(part));
    }
}

/// Checks upstreams, of which there may be `most`.
pub(crate) fn check_upstreams(upstreams: &[Upstream], most: usize, diagnostics: &mut Diagnostics) {
    let count = upstreams.len();
    if count > most {
        diagnostics
            .error(format!("a route has at most {most} upstreams, got {count}"))
            .at(field("upstreams"))
            .detail("Put another balancer in front of some of them.");
        return;
    }
    let mut known = Vec::new();
    for (upstream, index) in upstreams.iter().zip(0_u32..) {
        let place = || field("upstreams").index(index);
        match address(&upstream.address) {
            Err(error) => {
                diagnostics.error(error.to_string()).at(place().field("address"));
            }
            Ok(address) if known.contains(&address) => {
                diagnostics
                    .error(format!("the address {} is a duplicate", upstream.address))
                    .at(place().field("address"))
                    .detail("Raise the weight of the first one instead.");
            }
            Ok(address) => known.push(address),
        }
        if let Err(error) = weight(upstream.weight) {
            diagnostics.error(error.to_string()).at(place().field("weight"));
        }
    }
}

/// Warns of addresses that nginx must look up when it loads its files: if it cannot, it loads none.
pub(crate) fn warn_of_names(route: &Route, diagnostics: &mut Diagnostics) {
    for (upstream, index) in route.upstreams.iter().zip(0_u32..) {
        if matches!(address(&upstream.address), Ok(Address::Name(name, _)) if name != "localhost") {
            diagnostics
                .warning(
                    "nginx resolves the name when it loads its files, and loads none if that fails; use an IP address, or \
                     set `resolver` in [plugin.routes.settings]",
                )
                .at(field("upstreams").index(index).field("address"));
        }
    }
}

/// Checks a hostname: a DNS name in lower case, one after `*.`, or `_`.
pub(crate) fn hostname(text: &str) -> Result<(), RuleError> {
    if text == "_" || (text.len() <= name::MAX_DNS_NAME_BYTES && is_dns_name(text.strip_prefix("*.").unwrap_or(text))) {
        return Ok(());
    }
    Err(RuleError::Hostname(shown(text)))
}

/// Checks a path prefix: segments of unreserved characters, each after a slash.
pub(crate) fn path_prefix(text: &str) -> Result<(), RuleError> {
    let rule = if !text.starts_with('/') {
        "begins with a slash"
    } else if text == "/" {
        return Ok(());
    } else if text.len() > PATH {
        return Err(RuleError::PathLength(text.len()));
    } else if text.ends_with('/') {
        "ends without a slash; it covers the paths below it anyway"
    } else if !text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/-._~".contains(&byte)) {
        "has letters, digits and -._~ between its slashes, and nothing else"
    } else if text.split('/').skip(1).any(|segment| matches!(segment, "" | "." | "..")) {
        "has no segments that are empty, . or .."
    } else {
        return Ok(());
    };
    Err(RuleError::PathPrefix { rule, got: shown(text) })
}

/// Checks a weight: 1 to [`MAX_WEIGHT`].
pub(crate) fn weight(weight: u32) -> Result<(), RuleError> {
    if (1..=MAX_WEIGHT).contains(&weight) {
        return Ok(());
    }
    Err(RuleError::Weight(weight))
}

/// Address of an upstream; two ways to write the same one are equal.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address<'a> {
    V4(Ipv4Addr, u16),
    V6(Ipv6Addr, u16),
    Name(&'a str, u16),
}

/// Parses an address.
pub(crate) fn address(text: &str) -> Result<Address<'_>, RuleError> {
    let wrong = || RuleError::Address(shown(text));
    let (host, digits) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port = port(digits).ok_or_else(|| RuleError::Port(shown(text)))?;
    if let Some(inner) = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        return inner.parse().map(|address| Address::V6(address, port)).map_err(|_| wrong());
    }
    // A name that ends in a number would be taken for an address.
    let last = host.rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return host.parse().map(|address| Address::V4(address, port)).map_err(|_| wrong());
    }
    if is_dns_name(host) { Ok(Address::Name(host, port)) } else { Err(wrong()) }
}

/// Parses a port: digits without a sign and without leading zeros.
fn port(digits: &str) -> Option<u16> {
    let plain = digits.bytes().all(|byte| byte.is_ascii_digit()) && !digits.starts_with('0');
    digits.parse().ok().filter(|_| plain)
}

/// Beginning of a text that may be long, quoted and escaped.
pub(crate) fn shown(text: &str) -> String {
    const MAX_SHOWN_CHARACTERS: usize = 80;
    let mut start = text.chars().take(MAX_SHOWN_CHARACTERS).collect::<String>();
    if start.len() < text.len() {
        start.push('…');
    }
    format!("{start:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostnames() {
        let longest = format!("{0}.{0}.{0}.{1}", "a".repeat(63), "b".repeat(61));
        assert_eq!(longest.len(), 253);
        for good in ["localhost", "www.example.org", "*.example.org", "_", "xn--bcher-kva.example", "1.2", &longest] {
            assert_eq!(hostname(good), Ok(()), "{good}");
        }
        let too_long = format!("{longest}b");
        let bad = [
            "",
            ".",
            "a.",
            ".a",
            "a..b",
            "-a",
            "a-",
            "A",
            "a_b",
            "*",
            "*.",
            "a.*",
            "*.*.a",
            "a b",
            "a;b",
            "a{",
            "}",
            "$host",
            "~a",
            "a\n",
            "a\"",
            "a'",
            "a\\",
            "bücher.de",
            "a/b",
            "a:80",
            "__",
            &"a".repeat(64),
            &too_long,
            "a\0",
        ];
        for bad in bad {
            assert!(hostname(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn paths() {
        let longest = format!("/{}", "a".repeat(PATH - 1));
        for good in ["/", "/api", "/api/v1.2", "/~user/a_b-c", "/.well-known", "/...", &longest] {
            assert_eq!(path_prefix(good), Ok(()), "{good}");
        }
        let too_long = format!("{longest}a");
        let bad = [
            "", "api", "/api/", "//", "/a//b", "/.", "/..", "/a/../b", "/a b", "/a;", "/a{", "/a}", "/$uri", "/a\\",
            "/a\"", "/a'", "/a\n", "/a\r", "/a\t", "/a\0", "/a%20b", "/a?b", "/a#b", "/é", "/a*", "/(a)", &too_long,
        ];
        for bad in bad {
            assert!(path_prefix(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn addresses() {
        assert_eq!(address("10.0.0.1:80"), Ok(Address::V4(Ipv4Addr::new(10, 0, 0, 1), 80)));
        assert_eq!(address("[::1]:65535"), Ok(Address::V6(Ipv6Addr::LOCALHOST, 65535)));
        assert_eq!(address("app.internal:8080"), Ok(Address::Name("app.internal", 8080)));
        assert_eq!(address("[0:0::1]:1"), address("[::1]:1"));
        let bad = [
            "",
            ":",
            "a",
            "a:",
            ":80",
            "a:0",
            "a:65536",
            "a:080",
            "a:+80",
            "a:-1",
            "a:8o",
            "10.0.0:80",
            "10.0.0.256:80",
            "1:2",
            "::1:80",
            "[::1]",
            "[::1%eth0]:80",
            "[a]:80",
            "[]:80",
            "[::1:80",
            "::1]:80",
            "unix:/a",
            "unix:/a:80",
            "a b:80",
            "a;:80",
            "A:80",
            "$a:80",
            "a_b:80",
            "http://a:80",
            "a:80 weight=9",
            "a:80;",
            "a:٣",
            "01.2.3.4:80",
        ];
        for bad in bad {
            assert!(address(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn long_values_are_cut_where_they_are_shown() {
        assert_eq!(shown("a\nb"), r#""a\nb""#);
        assert!(shown(&"é".repeat(1000)).len() < 200);
    }
}
