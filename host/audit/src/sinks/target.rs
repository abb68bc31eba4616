//! The kinds of sinks, and connections to them.

use std::{
    fmt,
    io::{self, Write as _},
    net::{TcpStream, ToSocketAddrs as _},
    os::unix::net::{UnixDatagram, UnixStream},
    path::PathBuf,
    str::FromStr,
    time::Duration,
};

use jiff::Zoned;
use serde::{Deserialize, Serialize};

/// The socket of syslog, and that of the journal.
const SYSLOG: &str = "/dev/log";
const JOURNALD: &str = "/run/systemd/journal/socket";

/// Name of the records in syslog and in the journal.
const IDENTIFIER: &str = "mortise-audit";

/// Syslog's facility for security messages that not everyone may read, `authpriv`.
const FACILITY: u8 = 10;

/// Syslog's severity `info`.
const SEVERITY: u8 = 6;

/// A further place of the records.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum Sink {
    /// Datagrams in syslog's form (RFC 3164) to a unix socket.
    Syslog(PathBuf),
    /// Datagrams in the form of systemd's journal to a unix socket.
    Journald(PathBuf),
    /// Lines over a unix stream socket.
    Unix(PathBuf),
    /// Lines over TCP, in the clear; host and port.
    Tcp(String),
}

/// A text that names no sink.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a sink; write syslog, syslog:/PATH, journald, journald:/PATH, unix:/PATH or tcp:HOST:PORT")]
pub struct SinkError(String);

impl FromStr for Sink {
    type Err = SinkError;

    fn from_str(text: &str) -> Result<Self, SinkError> {
        let (kind, rest) = text.split_once(':').map_or((text, None), |(kind, rest)| (kind, Some(rest)));
        let path = |path: Option<&str>| path.filter(|path| path.starts_with('/')).map(PathBuf::from);
        let port = |rest: &str| {
            rest.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok())
        };
        let sink = match kind {
            "syslog" => path(rest.or(Some(SYSLOG))).map(Self::Syslog),
            "journald" => path(rest.or(Some(JOURNALD))).map(Self::Journald),
            "unix" => path(rest).map(Self::Unix),
            "tcp" => rest.filter(|rest| port(rest)).map(|rest| Self::Tcp(rest.to_owned())),
            _ => None,
        };
        sink.ok_or_else(|| SinkError(text.to_owned()))
    }
}

impl fmt::Display for Sink {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Syslog(path) => write!(f, "syslog:{}", path.display()),
            Self::Journald(path) => write!(f, "journald:{}", path.display()),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp:{address}"),
        }
    }
}

impl TryFrom<String> for Sink {
    type Error = SinkError;

    fn try_from(text: String) -> Result<Self, SinkError> {
        text.parse()
    }
}

impl From<Sink> for String {
    fn from(sink: Sink) -> Self {
        sink.to_string()
    }
}

/// An open connection to a sink.
pub(super) enum Connection {
    Syslog(UnixDatagram),
    Journald(UnixDatagram),
    Unix(UnixStream),
    Tcp(TcpStream),
}

impl Connection {
    /// Connects. Blocks for about `timeout` at most, and so does each line that is sent.
    pub(super) fn open(sink: &Sink, timeout: Duration) -> io::Result<Self> {
        let datagrams = |path: &PathBuf| {
            let socket = UnixDatagram::unbound()?;
            socket.connect(path)?;
            socket.set_write_timeout(Some(timeout))?;
            Ok::<_, io::Error>(socket)
        };
        match sink {
            Sink::Syslog(path) => datagrams(path).map(Self::Syslog),
            Sink::Journald(path) => datagrams(path).map(Self::Journald),
            Sink::Unix(path) => {
                let stream = UnixStream::connect(path)?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Self::Unix(stream))
            }
            Sink::Tcp(address) => {
                let address = address.to_socket_addrs()?.next().ok_or(io::ErrorKind::AddrNotAvailable)?;
                let stream = TcpStream::connect_timeout(&address, timeout)?;
                stream.set_write_timeout(Some(timeout))?;
                Ok(Self::Tcp(stream))
            }
        }
    }

    /// Sends a line of the log.
    pub(super) fn send(&mut self, line: &str) -> io::Result<()> {
        let record = line.trim_end();
        match self {
            Self::Syslog(socket) => {
                let (priority, now) = (FACILITY * 8 + SEVERITY, Zoned::now().strftime("%b %e %H:%M:%S").to_string());
                let text = format!("<{priority}>{now} {IDENTIFIER}[{}]: {record}", std::process::id());
                socket.send(text.as_bytes()).map(drop)
            }
            Self::Journald(socket) => {
                let text = format!(
                    "MESSAGE={record}\nPRIORITY={SEVERITY}\nSYSLOG_FACILITY={FACILITY}\nSYSLOG_IDENTIFIER={IDENTIFIER}\n"
                );
                socket.send(text.as_bytes()).map(drop)
            }
            Self::Unix(stream) => stream.write_all(line.as_bytes()),
            Self::Tcp(stream) => stream.write_all(line.as_bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sinks_are_read_and_others_are_refused() {
        for (text, whole) in [
            ("syslog", "syslog:/dev/log"),
            ("syslog:/run/log", "syslog:/run/log"),
            ("journald", "journald:/run/systemd/journal/socket"),
            ("unix:/run/collector.sock", "unix:/run/collector.sock"),
            ("tcp:logs.example.net:514", "tcp:logs.example.net:514"),
            ("tcp:[::1]:514", "tcp:[::1]:514"),
        ] {
            assert_eq!(text.parse::<Sink>().unwrap().to_string(), whole);
        }
        for text in
            ["", "file", "syslog:", "unix", "unix:relative", "tcp:", "tcp:host", "tcp::1", "tcp:host:port", "Syslog"]
        {
            assert!(text.parse::<Sink>().is_err(), "{text}");
        }
    }
}
