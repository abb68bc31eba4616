//! A connection of either port, over any transport.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures::stream::BoxStream;
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpStream, UnixStream},
};
use tokio_rustls::server::TlsStream;
use tonic::transport::server::{Connected as _, TcpConnectInfo};

use crate::peer::{LocalUser, PeerCertificate};

/// Connections of local users, whose ids the kernel reports. Root and the server's own user are operators; all others
/// are anonymous, as on the port without a token.
pub type LocalConnections = BoxStream<'static, UnixStream>;

/// The bytes of a connection, after decryption.
pub(crate) enum Transport {
    /// TCP in the clear.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
    /// TLS after its handshake. Boxed, since its state takes a kilobyte.
    Tls(Box<TlsStream<TcpStream>>),
}

/// Calls a method of the stream, pinned.
macro_rules! of_stream {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match $self.get_mut() {
            Self::Tcp(stream) => Pin::new(stream).$method($($argument),*),
            Self::Unix(stream) => Pin::new(stream).$method($($argument),*),
            Self::Tls(stream) => Pin::new(stream).$method($($argument),*),
        }
    };
}

impl Transport {
    /// The TCP connection below; `None` for a unix socket.
    pub(crate) fn tcp(&self) -> Option<&TcpStream> {
        match self {
            Self::Tcp(stream) => Some(stream),
            Self::Unix(_) => None,
            Self::Tls(stream) => Some(stream.get_ref().0),
        }
    }

    /// The addresses of both ends; `None` for a unix socket.
    pub(crate) fn connect_info(&self) -> Option<TcpConnectInfo> {
        self.tcp().map(TcpStream::connect_info)
    }

    /// The user at the other end of a unix socket.
    pub(crate) fn local_user(&self) -> Option<LocalUser> {
        let Self::Unix(stream) = self else { return None };
        stream.peer_cred().ok().map(|peer| LocalUser::new(peer.uid()))
    }

    /// The client's certificate, if the client has shown one.
    pub(crate) fn peer_certificate(&self) -> Option<PeerCertificate> {
        let Self::Tls(stream) = self else { return None };
        let (certificate, issuers) = stream.get_ref().1.peer_certificates()?.split_first()?;
        PeerCertificate::of(certificate, issuers)
            .inspect_err(|e| tracing::warn!("a client's certificate was verified, but its names cannot be read: {e}"))
            .ok()
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        of_stream!(self.poll_read(cx, buf))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        of_stream!(self.poll_write(cx, buf))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_stream!(self.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        of_stream!(self.poll_shutdown(cx))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        of_stream!(self.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Tcp(stream) => stream.is_write_vectored(),
            Self::Unix(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }
}
