//! The TLS handshake of a connection.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

use super::{current::Tls, plain};
use crate::transport::Transport;

/// First byte of a client's first TLS record in every version: a handshake message.
const HANDSHAKE_RECORD: u8 = 0x16;

/// Time for the client to read TLS's alert before the connection closes.
const ALERT_READ_TIMEOUT: Duration = Duration::from_secs(1);

/// Most bytes of the client that are read meanwhile.
const MAX_UNREAD_BYTES: u64 = 64 << 10;

/// The protocol of a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/2.
    Grpc,
    /// HTTP/2 and HTTP/1.
    Http,
}

impl Protocol {
    /// The port's name in the log.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
        }
    }
}

/// The outcome of a handshake.
enum Outcome {
    Done(Transport),
    /// The client does not speak TLS, and got an answer that explains it.
    Plain,
    /// The connection failed, or one side rejected the other.
    Failed(io::Error, Option<TcpStream>),
    /// The handshake exceeded this limit.
    Late(Duration),
}

impl Tls {
    /// Makes the TLS handshake of a connection, within the time limit. `None`: the handshake failed, and the connection
    /// is closed and counted.
    ///
    /// The client decides how long this takes, so it belongs into a task of its own.
    pub(crate) async fn accept(&self, stream: TcpStream, protocol: Protocol) -> Option<Transport> {
        let peer = stream.peer_addr().ok();
        let limit = self.options.handshake;
        let outcome = timeout(limit, self.perform(stream, protocol)).await.unwrap_or(Outcome::Late(limit));
        let counted = match &outcome {
            Outcome::Done(_) => "done",
            Outcome::Plain => "plain",
            Outcome::Failed(..) => "failed",
            Outcome::Late(_) => "late",
        };
        let port = protocol.name();
        metrics::counter!("mortise_tls_handshakes_total", "port" => port, "outcome" => counted).increment(1);
        match outcome {
            Outcome::Done(transport) => return Some(transport),
            Outcome::Plain => tracing::debug!(?peer, "{port}: a client does not speak TLS"),
            Outcome::Failed(e, stream) => {
                tracing::debug!(?peer, "{port}: a TLS handshake failed: {e}");
                if let Some(stream) = stream {
                    close_after_alert(stream).await;
                }
            }
            Outcome::Late(limit) => {
                tracing::debug!(?peer, ?limit, "{port}: a TLS handshake took too long");
            }
        }
        None
    }

    async fn perform(&self, stream: TcpStream, protocol: Protocol) -> Outcome {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(0) => return Outcome::Failed(io::ErrorKind::UnexpectedEof.into(), None),
            Err(e) => return Outcome::Failed(e, None),
            Ok(_) if first != [HANDSHAKE_RECORD] => {
                plain::answer_plaintext(stream).await;
                return Outcome::Plain;
            }
            Ok(_) => {}
        }
        match TlsAcceptor::from(self.config(protocol)).accept(stream).into_fallible().await {
            Ok(stream) => Outcome::Done(Transport::Tls(Box::new(stream))),
            Err((e, stream)) => Outcome::Failed(e, Some(stream)),
        }
    }
}

/// Closes a connection with an alert for the client. If unread bytes were left, closing would reset the connection and
/// lose the alert; a TLS 1.3 client has sent its first request by the time its certificate is rejected.
async fn close_after_alert(mut stream: TcpStream) {
    let leave = async {
        stream.shutdown().await?;
        tokio::io::copy(&mut stream.take(MAX_UNREAD_BYTES), &mut tokio::io::sink()).await
    };
    // The connection closes in any case.
    let _ = timeout(ALERT_READ_TIMEOUT, leave).await;
}
