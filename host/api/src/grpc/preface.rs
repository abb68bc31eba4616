//! The beginning of a connection: the preface that HTTP/2 requires of every client, in time, and the answer to a client
//! that speaks something else.
//!
//! Nothing is sent before the client's first bytes are known to be HTTP/2's: to a client of HTTP/1 the server's
//! settings would be garbage. Such a client gets one answer in HTTP/1.1 with the reason. Then its bytes are read and
//! dropped until it closes the connection, at most [`MAX_DROPPED_BYTES`] and until the preface is late: closing with
//! unread bytes would reset the connection, and lose the answer.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{
    FutureExt as _,
    future::{BoxFuture, Fuse, FusedFuture as _},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    sync::watch,
    time::sleep,
};

use super::content_type::NOT_GRPC_TEXT;

/// The constant bytes of the preface.
const HTTP2_BEGINNING: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Fewest bytes that a client sends at first: the constant ones, and the head of a settings frame.
pub(super) const PREFACE_BYTES: usize = HTTP2_BEGINNING.len() + 9;

/// Bytes of a client of another protocol that are read and dropped.
const MAX_DROPPED_BYTES: usize = 64 << 10;

/// Bytes that are dropped at once.
const DROP_BUFFER_BYTES: usize = 1 << 10;

/// The wait for the preface, and its limit.
pub(super) struct Preface {
    read: usize,
    patience: Fuse<BoxFuture<'static, ()>>,
}

/// The protocol of a client, as far as it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Spoken {
    /// All bytes so far are HTTP/2's, but some are missing.
    Unknown,
    /// HTTP/2; the rest of the preface may be missing.
    Http2,
    /// Another protocol.
    Other,
}

impl Preface {
    /// Waits for `limit` at most, or until the server stops.
    pub(super) fn new(limit: Duration, mut stopping: watch::Receiver<bool>) -> Self {
        let patience = async move {
            tokio::select! {
                () = sleep(limit) => {}
                // An error means that the sender is gone, which also means stop.
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        };
        Self { read: 0, patience: patience.boxed().fuse() }
    }

    /// Takes the bytes that have arrived.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Spoken {
        let expected = HTTP2_BEGINNING.get(self.read..).unwrap_or_default();
        if bytes.iter().zip(expected).any(|(byte, expected)| byte != expected) {
            return Spoken::Other;
        }
        self.read += bytes.len();
        self.spoken()
    }

    /// The protocol, by the bytes so far.
    pub(super) fn spoken(&self) -> Spoken {
        if self.read < HTTP2_BEGINNING.len() { Spoken::Unknown } else { Spoken::Http2 }
    }

    /// Whether the preface is complete.
    pub(super) fn is_complete(&self) -> bool {
        self.read >= PREFACE_BYTES
    }

    /// Fails once the time is up.
    pub(super) fn poll_deadline<T>(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<T>> {
        if !self.patience.is_terminated() {
            ready!(self.patience.poll_unpin(cx));
        }
        Poll::Ready(Err(io::Error::new(
            io::ErrorKind::TimedOut,
            "the client did not begin HTTP/2 in time (limit http.request_timeout_ms)",
        )))
    }
}

/// The answer to a client of another protocol.
pub(super) struct ForeignAnswer {
    unsent: Vec<u8>,
    is_shut_down: bool,
    /// Bytes that may still be dropped.
    room: usize,
}

impl ForeignAnswer {
    pub(super) fn new() -> Self {
        let length = NOT_GRPC_TEXT.len();
        let answer = format!(
            "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain; charset=utf-8\r\ncontent-length: {length}\r\n\
             connection: close\r\n\r\n{NOT_GRPC_TEXT}"
        );
        Self { unsent: answer.into_bytes(), is_shut_down: false, room: MAX_DROPPED_BYTES }
    }

    /// Ready at the end of the connection.
    pub(super) fn poll<T>(&mut self, transport: &mut T, cx: &mut Context<'_>) -> Poll<io::Result<()>>
    where
        T: AsyncRead + AsyncWrite + Unpin,
    {
        while !self.unsent.is_empty() {
            let sent = ready!(Pin::new(&mut *transport).poll_write(cx, &self.unsent))?;
            self.unsent.drain(..sent.min(self.unsent.len()));
        }
        if !self.is_shut_down {
            ready!(Pin::new(&mut *transport).poll_shutdown(cx))?;
            self.is_shut_down = true;
        }
        let mut dropped = [0; DROP_BUFFER_BYTES];
        while self.room > 0 {
            let mut buffer = ReadBuf::new(&mut dropped);
            ready!(Pin::new(&mut *transport).poll_read(cx, &mut buffer))?;
            match buffer.filled().len() {
                0 => self.room = 0,
                bytes => self.room = self.room.saturating_sub(bytes),
            }
        }
        Poll::Ready(Ok(()))
    }
}
