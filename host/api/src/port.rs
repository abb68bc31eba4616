//! Taking connections, as both ports do. An error that has to do with all of them, such as too many open files, is
//! waited out; what goes wrong again and again is said once in a while.

use std::time::Duration;

use tokio::{
    net::{TcpListener, TcpStream},
    time::{Instant, sleep},
};

/// How long is waited after an error.
const ACCEPT_RETRY_WAIT: Duration = Duration::from_millis(500);

/// How long a line is not said again.
const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// A port that is listened on.
pub(crate) struct Port {
    listener: TcpListener,
    /// What the log calls it.
    name: &'static str,
    failed: LogThrottle,
    full: LogThrottle,
}

impl Port {
    /// Over an open port, with its name.
    pub(crate) fn new(listener: TcpListener, name: &'static str) -> Self {
        Self { listener, name, failed: LogThrottle::default(), full: LogThrottle::default() }
    }

    /// The next connection. May be dropped while it waits: none is lost.
    pub(crate) async fn next(&mut self) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    // Answers are written whole; a failure only makes them slower.
                    let _ = stream.set_nodelay(true);
                    return stream;
                }
                Err(e) => {
                    if self.failed.due(Instant::now()) {
                        tracing::warn!("{}: cannot take a connection: {e}", self.name);
                    }
                    sleep(ACCEPT_RETRY_WAIT).await;
                }
            }
        }
    }

    /// Says that a connection is refused since there are too many, and the setting that says how many may be.
    pub(crate) fn full(&mut self, setting: &str) {
        if self.full.due(Instant::now()) {
            tracing::warn!("{}: too many connections are open, further ones are refused (limit {setting})", self.name);
        }
    }
}

/// Lets a log line through at once, and then none for [`LOG_INTERVAL`].
#[derive(Default)]
struct LogThrottle(Option<Instant>);

impl LogThrottle {
    fn due(&mut self, now: Instant) -> bool {
        let due = self.0.is_none_or(|said| now.duration_since(said) >= LOG_INTERVAL);
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
        let said = |line: &mut LogThrottle, after| line.due(begun + after);
        assert!(said(&mut line, Duration::ZERO));
        assert!(!said(&mut line, Duration::ZERO));
        assert!(!said(&mut line, LOG_INTERVAL - Duration::from_millis(1)));
        assert!(said(&mut line, LOG_INTERVAL));
        assert!(!said(&mut line, LOG_INTERVAL * 2 - Duration::from_millis(1)));
        assert!(said(&mut line, LOG_INTERVAL * 2));
    }
}
