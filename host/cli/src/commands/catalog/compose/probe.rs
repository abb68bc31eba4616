//! Requests and connections that a command of a health check makes to its own container.

use std::time::Duration;

/// Reason why a command has no counterpart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum CommandError {
    #[error("only one command is loaded, with `|| exit 1` behind it at most; give the workload a check yourself")]
    Shell,
    #[error("the program {0:?} has no counterpart; give the workload a check by http, tcp, grpc or ttl")]
    Program(String),
    #[error("the option {0:?} has no counterpart; give the workload a check yourself")]
    Option(String),
    #[error("it has no URL that the server could ask")]
    Url,
    #[error("it asks {0:?}, which is not the container")]
    Host(String),
    #[error("{0:?} is not a port from 1 to 65535")]
    Port(String),
}

/// A command that asks a port of its container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) kind: Kind,
    pub(super) port: u16,
    /// Longest time by the command's own options.
    pub(super) timeout: Option<Duration>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Http {
        scheme: String,
        method: String,
        path: String,
        headers: Vec<(String, String)>,
        /// Statuses that pass; `None` for the server's default.
        statuses: Option<(u32, u32)>,
        redirects: u32,
    },
    Tcp,
    Grpc {
        service: String,
    },
}

/// Splits `host:port`; an IPv6 address is in brackets.
pub(super) fn split_port(text: &str) -> (&str, Option<&str>) {
    match text.rsplit_once(':') {
        Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
        _ => (text, None),
    }
}

pub(super) fn number(text: &str) -> Result<u16, CommandError> {
    text.parse().ok().filter(|number| *number != 0).ok_or_else(|| CommandError::Port(text.to_owned()))
}

/// Checks that a host is the container itself.
pub(super) fn is_own(host: &str, own: &[&str]) -> Result<(), CommandError> {
    const LOCAL: [&str; 6] = ["localhost", "127.0.0.1", "0.0.0.0", "[::1]", "::1", "[::]"];
    if LOCAL.contains(&host) || own.contains(&host) { Ok(()) } else { Err(CommandError::Host(host.to_owned())) }
}
