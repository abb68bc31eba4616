//! The server's address as users write it: `HOST:PORT`, `HOST`, either with `http://` or `https://` before it, or
//! `unix:///PATH` for a socket on this machine.
//!
//! Each fault has a message of its own: docs/decisions/0028-server-addresses-are-parsed-here.md.

use crate::error::CliError;

/// Port of an address without one.
const DEFAULT_PORT: u16 = 8502;

/// Beginning of the address of a socket.
pub(crate) const UNIX: &str = "unix://";

/// Parses an address. Returns whether its scheme demands or excludes TLS, and `host:port`, or a socket's whole address.
///
/// # Errors
/// A fault of usage with the reason.
pub(crate) fn address(text: &str) -> Result<(Option<bool>, String), CliError> {
    let wrong = |why: &str| {
        CliError::usage(format!("the server's address {text:?} {why}"))
            .remedy("--grpc-addr takes HOST:PORT, http://HOST:PORT, https://HOST:PORT or unix:///PATH")
    };
    if let Some(path) = text.strip_prefix(UNIX) {
        return match path.starts_with('/') && !path.contains(char::is_whitespace) {
            true => Ok((Some(false), text.to_owned())),
            false => Err(wrong("has no absolute path without blanks")),
        };
    }
    let (tls, rest) = match text.split_once("://") {
        Some(("https", rest)) => (Some(true), rest),
        Some(("http", rest)) => (Some(false), rest),
        Some((scheme, _)) => return Err(wrong(&format!("has the unknown scheme {scheme:?}"))),
        None => (None, text),
    };
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains(['/', '?', '#', '@']) || rest.contains(char::is_whitespace) {
        return Err(wrong("is more than a host and a port"));
    }
    let (host, port) = match rest.strip_prefix('[') {
        Some(inner) => match inner.split_once(']') {
            Some((host, "")) => (format!("[{host}]"), None),
            Some((host, port)) => {
                (format!("[{host}]"), Some(port.strip_prefix(':').ok_or_else(|| wrong("is malformed"))?))
            }
            None => return Err(wrong("lacks a closing bracket")),
        },
        None => match rest.split_once(':') {
            Some((_, port)) if port.contains(':') => return Err(wrong("needs brackets around an IPv6 address")),
            Some((host, port)) => (host.to_owned(), Some(port)),
            None => (rest.to_owned(), None),
        },
    };
    if host.is_empty() || host == "[]" {
        return Err(wrong("has no host"));
    }
    let port = match port {
        None => DEFAULT_PORT,
        Some(port) => port.parse::<u16>().ok().filter(|p| *p > 0).ok_or_else(|| wrong("has no valid port"))?,
    };
    Ok((tls, format!("{host}:{port}")))
}
