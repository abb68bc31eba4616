//! A connection with a limit on stalled writes: a write without progress for too long fails, and the connection ends
//! with everything that depends on it, such as a watch. While the server stops, the limit is a quarter of a second. A
//! stalled write also fails if its answer has to give way to calls that wait ([`Reader`]).

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use mortise_service::Reader;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep, sleep},
};

use crate::{port::STOPPING_STALL_TIMEOUT, transport::Transport};

/// A stream whose writes have a time limit.
pub(super) struct StallTimeout {
    stream: Transport,
    limit: Duration,
    /// The timer of a waiting write.
    waiting: Option<Pin<Box<Sleep>>>,
    /// Whether anything was ever read.
    activity_flag: Arc<AtomicBool>,
    /// Whether the server stops.
    stopping_flag: Arc<AtomicBool>,
    reader: Arc<Reader>,
    /// Whether a write waits for the client.
    writing_flag: Arc<AtomicBool>,
}

impl StallTimeout {
    /// Wraps a connection; `limit` is the longest wait for one write.
    pub(super) fn new(stream: Transport, limit: Duration) -> Self {
        let (activity_flag, stopping_flag, writing_flag, reader) = Default::default();
        Self { stream, limit, waiting: None, activity_flag, stopping_flag, writing_flag, reader }
    }

    /// The client, as its answers see it.
    pub(super) fn reader(&self) -> Arc<Reader> {
        self.reader.clone()
    }

    /// The flag for a stopping server; the next poll of the connection reads it.
    pub(super) fn stopping_flag(&self) -> Arc<AtomicBool> {
        self.stopping_flag.clone()
    }

    /// The flag for a write that waits for the client.
    pub(super) fn writing_flag(&self) -> Arc<AtomicBool> {
        self.writing_flag.clone()
    }

    /// The flag for a client that has ever sent something.
    pub(super) fn activity_flag(&self) -> Arc<AtomicBool> {
        self.activity_flag.clone()
    }

    /// Bounds the time of a write: takes the state of a poll, and fails once the write has waited for too long.
    fn within<T>(&mut self, cx: &mut Context<'_>, polled: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        self.writing_flag.store(polled.is_pending(), Ordering::Relaxed);
        if polled.is_ready() {
            if self.waiting.take().is_some() {
                self.reader.set_unread(None);
            }
            return polled;
        }
        if self.waiting.is_none() {
            self.reader.set_unread(Some(Instant::now()));
        }
        if self.reader.poll_asked(cx).is_ready() {
            let what = "the client read nothing of the answer while others waited to begin theirs";
            return Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)));
        }
        let hurries = self.stopping_flag.load(Ordering::Relaxed);
        let limit = if hurries { self.limit.min(STOPPING_STALL_TIMEOUT) } else { self.limit };
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(limit)));
        let latest = Instant::now() + limit;
        if hurries && waiting.deadline() > latest {
            waiting.as_mut().reset(latest);
        }
        ready!(waiting.as_mut().poll(cx));
        // Another poll fails again.
        waiting.as_mut().reset(Instant::now());
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client stopped reading (limit http.stall_timeout_ms)",
        )))
    }
}

impl AsyncRead for StallTimeout {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        if buf.filled().len() > before {
            self.activity_flag.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for StallTimeout {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.within(cx, polled)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let polled = Pin::new(&mut self.stream).poll_flush(cx);
        self.within(cx, polled)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // TLS may still have to write its end.
        let polled = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.within(cx, polled)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let polled = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.within(cx, polled)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
