//! Makes TLS of a connection.

use std::time::Duration;

use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::TlsAcceptor;

use super::{current::Tls, plain};
use crate::transport::Transport;

/// First byte of a client's first TLS record, in every version: a handshake message.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What a port speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// HTTP/2.
    Grpc,
    /// HTTP/1.
    Http,
}

impl Protocol {
    /// As the log calls the port.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Grpc => "gRPC",
            Self::Http => "HTTP",
        }
    }
}

/// How a handshake ended.
enum Outcome {
    Done(Transport),
    /// The client does not speak TLS, and was told so.
    Plain,
    /// The connection failed, or one side refuses the other.
    Failed(std::io::Error),
    /// It took too long.
    Late(Duration),
}

impl Tls {
    /// Makes TLS of a connection, within the limit on time. `None`: the connection is closed, which is counted.
    ///
    /// It reads of the client what it sends, so it belongs into a task of its own.
    pub(crate) async fn accept(&self, stream: TcpStream, protocol: Protocol) -> Option<Transport> {
        let peer = stream.peer_addr().ok();
        let limit = self.options.handshake;
        let outcome = timeout(limit, self.shake_hands(stream, protocol)).await.unwrap_or(Outcome::Late(limit));
        let counted = match &outcome {
            Outcome::Done(_) => "done",
            Outcome::Plain => "plain",
            Outcome::Failed(_) => "failed",
            Outcome::Late(_) => "late",
        };
        let port = protocol.name();
        metrics::counter!("mortise_tls_handshakes_total", "port" => port, "outcome" => counted).increment(1);
        match outcome {
            Outcome::Done(transport) => return Some(transport),
            Outcome::Plain => tracing::debug!(?peer, "{port}: a client does not speak TLS"),
            Outcome::Failed(e) => tracing::debug!(?peer, "{port}: a TLS handshake failed: {e}"),
            Outcome::Late(limit) => {
                tracing::debug!(?peer, ?limit, "{port}: a TLS handshake took too long (limit tls.handshake_ms)");
            }
        }
        None
    }

    async fn shake_hands(&self, stream: TcpStream, protocol: Protocol) -> Outcome {
        let mut first = [0];
        match stream.peek(&mut first).await {
            Ok(0) => return Outcome::Failed(std::io::ErrorKind::UnexpectedEof.into()),
            Err(e) => return Outcome::Failed(e),
            Ok(_) if first != [HANDSHAKE_RECORD] => {
                plain::explain(stream).await;
                return Outcome::Plain;
            }
            Ok(_) => {}
        }
        match TlsAcceptor::from(self.config(protocol)).accept(stream).await {
            Ok(stream) => Outcome::Done(Transport::Tls(Box::new(stream))),
            Err(e) => Outcome::Failed(e),
        }
    }
}
