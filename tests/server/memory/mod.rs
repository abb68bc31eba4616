//! Clients that read nothing, or never finish a request: the server's memory for them is bounded, and is freed. The
//! server stops without them.
//!
//! They use HTTP/2 directly, since a gRPC client reads ahead of its caller.

mod compiling;
mod crowds;
mod unfinished_requests;
mod unread_answers;

use bytes::{BufMut as _, Bytes, BytesMut};
use http_body_util::{BodyExt as _, StreamBody, combinators::BoxBody};
use hyper::{
    Request, Response,
    body::{Frame, Incoming},
    client::conn::http2,
};
use hyper_util::rt::{TokioExecutor, TokioIo};
use mortise_resource::pb;
use prost::Message;
use tokio::{net::TcpSocket, time::timeout};

use crate::support::{PATIENCE, Server, Setup, artist, eventually};

const MIB: usize = 1 << 20;

type Body = BoxBody<Bytes, std::convert::Infallible>;

/// A connection to the gRPC port, with small windows.
struct Connection {
    sender: http2::SendRequest<Body>,
    addr: std::net::SocketAddr,
}

impl Connection {
    async fn open(server: &Server) -> Self {
        Self::with_window(server, 65_535).await
    }

    /// Opens a connection with a window of this many bytes for all answers together.
    async fn with_window(server: &Server, bytes: u32) -> Self {
        Self::from_address([127, 0, 0, 1], server, bytes).await
    }

    /// Opens a connection from an address, which stands for another machine.
    async fn from_address(address: [u8; 4], server: &Server, bytes: u32) -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind((address, 0).into()).unwrap();
        let stream = socket.connect(server.grpc).await.unwrap();
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder.initial_stream_window_size(65_535).initial_connection_window_size(bytes);
        let (sender, connection) = builder.handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection);
        Self { sender, addr: server.grpc }
    }

    /// Begins a call; its request is `start`, and stays unfinished if `open` is true.
    async fn call(&self, path: &str, start: Vec<Bytes>, open: bool) -> Response<Incoming> {
        let frames = start.into_iter().map(|bytes| Ok(Frame::data(bytes)));
        let frames = tokio_stream::iter(frames);
        let body = match open {
            true => StreamBody::new(tokio_stream::StreamExt::chain(frames, tokio_stream::pending())).boxed_unsync(),
            false => StreamBody::new(frames).boxed_unsync(),
        };
        let request = Request::post(format!("http://{}{path}", self.addr))
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(BoxBody::new(SyncBody(std::sync::Mutex::new(body))))
            .unwrap();
        timeout(PATIENCE, self.sender.clone().send_request(request)).await.expect("an answer begins in time").unwrap()
    }

    async fn ask(&self, method: &str, message: &impl Message) -> Response<Incoming> {
        self.call(&format!("/hashicorp.consul.resource.ResourceService/{method}"), vec![framed(message)], false).await
    }
}

/// A body that is used by one thread at a time.
struct SyncBody(std::sync::Mutex<http_body_util::combinators::UnsyncBoxBody<Bytes, std::convert::Infallible>>);

impl hyper::body::Body for SyncBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: std::pin::Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        std::pin::Pin::new(&mut *self.0.lock().unwrap()).poll_frame(cx)
    }
}

fn prefix(length: usize) -> Bytes {
    let mut prefix = BytesMut::new();
    prefix.put_u8(0);
    prefix.put_u32(length as u32);
    prefix.freeze()
}

fn framed(message: &impl Message) -> Bytes {
    [prefix(message.encoded_len()), message.encode_to_vec().into()].concat().into()
}

/// The status at the end of an answer, and its message.
async fn status(mut answer: Response<Incoming>) -> (String, String) {
    let text = |headers: &hyper::HeaderMap, name| headers.get(name).map(|value| value.to_str().unwrap().to_owned());
    let said = |headers: &hyper::HeaderMap| {
        Some((text(headers, "grpc-status")?, text(headers, "grpc-message").unwrap_or_default()))
    };
    if let Some(said) = said(answer.headers()) {
        return said;
    }
    let ending = async {
        while let Some(frame) = answer.body_mut().frame().await {
            if let Some(said) = frame.unwrap().trailers_ref().and_then(said) {
                return said;
            }
        }
        panic!("an answer without a status")
    };
    timeout(PATIENCE, ending).await.expect("the answer ends in time")
}

/// Bytes of a server's memory beyond `before`.
fn growth(server: &Server, before: usize) -> usize {
    server.resident_bytes().saturating_sub(before)
}

/// The largest growth until the first unread answer is ended.
async fn peak_until_stalled(server: &Server, before: usize) -> usize {
    let mut most = 0;
    eventually("an answer is ended", async || {
        most = most.max(growth(server, before));
        server.metric("mortise_grpc_answers_stalled_total").await.is_some_and(|ended| ended > 0.0)
    })
    .await;
    most
}

/// An artist of about this many bytes.
fn heavy(name: &str, bytes: usize) -> pb::Resource {
    let mut artist = artist(name);
    artist.metadata.insert("weight".into(), "x".repeat(bytes));
    artist
}

/// A server whose store keeps little in memory, so that the memory for clients shows.
fn lean() -> Setup {
    Setup::new()
        .env("MORTISE_STORE_CACHE_BYTES", MIB)
        .env("MORTISE_STORE_HISTORY_BYTES", MIB)
        .env("MORTISE_SANDBOX_DEADLINE_MS", 10_000)
}
