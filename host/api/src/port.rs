//! Accepts connections, for both ports. After a fault that concerns all connections, such as too many open files, the
//! port waits. A repeated fault is logged once in a while.

use std::{io, net::SocketAddr, time::Duration};

use mortise_service::Source;
use tokio::{
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, sleep},
};

/// Wait after a failed accept.
const ACCEPT_RETRY_WAIT: Duration = Duration::from_millis(500);

/// Longest time in which a client reads nothing while the server stops.
pub(crate) const STOPPING_STALL_TIMEOUT: Duration = Duration::from_millis(250);

/// Shortest time between two log lines of a kind.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// Connections that wait to be accepted. The system may have a lower limit.
pub(crate) const BACKLOG: u32 = 1_024;

/// Takes an address without listening: clients are refused until [`TcpSocket::listen`].
///
/// # Errors
/// Another process listens on the address, or it does not belong to this machine.
pub(crate) fn reserve(addr: SocketAddr) -> io::Result<TcpSocket> {
    let socket = if addr.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    // Connections of an earlier server may still be ending.
    socket.set_reuseaddr(true)?;
    socket.bind(addr)?;
    Ok(socket)
}

/// A listening port.
pub(crate) struct Port {
    listener: TcpListener,
    /// The port's name in the log.
    name: &'static str,
    failed: LogThrottle,
    full: LogThrottle,
}

impl Port {
    /// Wraps an open port with its name.
    pub(crate) fn new(listener: TcpListener, name: &'static str) -> Self {
        Self { listener, name, failed: LogThrottle::default(), full: LogThrottle::default() }
    }

    /// Accepts the next connection, and returns the source of its address. Dropping the future loses no connection.
    pub(crate) async fn next(&mut self) -> (TcpStream, Source) {
        loop {
            match self.listener.accept().await {
                Ok((stream, addr)) => {
                    // A failure only makes answers slower, which are written whole.
                    let _ = stream.set_nodelay(true);
                    return (stream, Source::from_address(addr.ip()));
                }
                Err(e) => {
                    if self.failed.due(Instant::now()) {
                        tracing::warn!("{}: cannot accept a connection: {e}", self.name);
                    }
                    sleep(ACCEPT_RETRY_WAIT).await;
                }
            }
        }
    }

    /// Logs that a connection is refused, with the setting of the limit.
    pub(crate) fn full(&mut self, setting: &str) {
        if self.full.due(Instant::now()) {
            tracing::warn!(
                "{}: too many connections are open: one address has seven eighths of them, or no address has two more than \
                 the next and none is idle; further ones are refused (limit {setting})",
                self.name
            );
        }
    }
}

/// Lets a log line through at once, and then none for [`LOG_INTERVAL`].
#[derive(Default)]
struct LogThrottle(Option<Instant>);

impl LogThrottle {
    fn due(&mut self, now: Instant) -> bool {
        let due = self.0.is_none_or(|logged_at| now.duration_since(logged_at) >= LOG_INTERVAL);
        if due {
            self.0 = Some(now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_is_not_said_again_for_a_while() {
        let (mut line, begun) = (LogThrottle::default(), Instant::now());
        let is_due = |line: &mut LogThrottle, after| line.due(begun + after);
        assert!(is_due(&mut line, Duration::ZERO));
        assert!(!is_due(&mut line, Duration::ZERO));
        assert!(!is_due(&mut line, LOG_INTERVAL - Duration::from_millis(1)));
        assert!(is_due(&mut line, LOG_INTERVAL));
        assert!(!is_due(&mut line, LOG_INTERVAL * 2 - Duration::from_millis(1)));
        assert!(is_due(&mut line, LOG_INTERVAL * 2));
    }
}
