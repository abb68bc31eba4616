//! The end of a connection after its last byte was sent.
//!
//! # Contract
//! Bytes that the client has sent meanwhile are read and thrown away until it ends the connection, too. Then the socket
//! has no unread bytes, and is closed without a reset.
//!
//! # Limits
//! [`LONGEST`] and [`MOST_BYTES`]: a client that does not end the connection is reset after that.

use std::{
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, ReadBuf},
    time::{Sleep, sleep},
};

/// Longest time for the client to end the connection. Tests of connections wait for events.
const LONGEST: Duration = Duration::from_secs(if cfg!(test) { 600 } else { 1 });

/// Most bytes that are thrown away: more than a client sends before it sees the end.
const MOST_BYTES: usize = 4 << 20;

/// Bytes of one read.
const READ_BYTES: usize = 4 << 10;

/// A connection whose end was sent.
pub(super) struct Lingering {
    deadline: Pin<Box<Sleep>>,
    bytes_left: usize,
}

impl Lingering {
    pub(super) fn new() -> Self {
        Self::within(LONGEST)
    }

    fn within(longest: Duration) -> Self {
        Self { deadline: Box::pin(sleep(longest)), bytes_left: MOST_BYTES }
    }

    /// Reads until the client ends the connection, or a limit is reached. Ready at the end.
    pub(super) fn poll_end(&mut self, mut transport: impl AsyncRead + Unpin, cx: &mut Context<'_>) -> Poll<()> {
        let mut space = [std::mem::MaybeUninit::uninit(); READ_BYTES];
        while self.deadline.as_mut().poll(cx).is_pending() && self.bytes_left > 0 {
            let mut buf = ReadBuf::uninit(&mut space);
            match ready!(Pin::new(&mut transport).poll_read(cx, &mut buf)) {
                Ok(()) if !buf.filled().is_empty() => {
                    self.bytes_left = self.bytes_left.saturating_sub(buf.filled().len());
                }
                Ok(()) | Err(_) => break,
            }
        }
        Poll::Ready(())
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_silent_client_is_waited_for_no_longer_than_the_limit() {
        let (_client, mut server) = tokio::io::duplex(64);
        let begun = tokio::time::Instant::now();
        let mut lingering = Lingering::within(Duration::from_secs(1));
        poll_fn(|cx| lingering.poll_end(&mut server, cx)).await;
        assert_eq!(begun.elapsed().as_secs(), 1);
    }
}
