//! A connection of core: a stream, with its session.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

use crate::rpc::Session;

/// A connection.
pub(super) struct Connection<S> {
    stream: S,
    session: Arc<Session>,
    /// Counts the connection until it closes.
    _open: Open,
}

/// Counts connections.
#[derive(Clone, Default)]
pub(super) struct Connections(Arc<tokio::sync::watch::Sender<usize>>);

/// An open connection; dropping it counts it as closed.
pub(super) struct Open(Connections);

impl Connections {
    pub(super) fn open(&self) -> Open {
        self.0.send_modify(|count| *count += 1);
        Open(self.clone())
    }

    pub(super) fn count(&self) -> tokio::sync::watch::Receiver<usize> {
        self.0.subscribe()
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.0.send_modify(|count| *count -= 1);
    }
}

impl<S> Connection<S> {
    pub(super) fn new(stream: S, session: Session, open: Open) -> Self {
        Self { stream, session: Arc::new(session), _open: open }
    }
}

impl<S> Connected for Connection<S> {
    type ConnectInfo = Arc<Session>;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.session.clone()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Connection<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Connection<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
