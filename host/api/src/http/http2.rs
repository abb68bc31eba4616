//! HTTP/2 on the HTTP port: the connections that speak it, their limits, and answers that a client does not take.
//!
//! A connection speaks HTTP/2 if TLS has agreed on it (ALPN), or if it begins with HTTP/2's preface in the clear.
//! `Upgrade: h2c` is not answered: RFC 9113 has dropped it.
//!
//! # Limits
//! [`MAX_STREAMS`] requests of a connection at a time; a further one waits at the client. The limits on time are those of
//! HTTP/1, for the whole connection: without a request for `request_timeout` it ends, and so it does with an answer of
//! which the client has taken nothing for `stall_timeout`. An open answer holds one piece of its body, and
//! [`WINDOW_BYTES`] of a request's.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use axum::{
    body::Body,
    http::{HeaderMap, header::CONTENT_TYPE},
    response::Response,
};
use hyper_util::{
    rt::{TokioExecutor, TokioTimer},
    server::conn::auto::Builder,
};
use mortise_service::Reader;
use parking_lot::Mutex;
use tokio::{
    net::TcpStream,
    time::{Instant, sleep},
};
use tonic::{Status, metadata::GRPC_CONTENT_TYPE};

use crate::{places::Usage, transport::Transport};

/// Concurrent requests of a connection.
const MAX_STREAMS: u32 = 32;

/// Bytes of a request's body that a client may send before they are read, of each request and of all together.
const WINDOW_BYTES: u32 = 64 << 10;

/// Largest head of a request, bytes.
const MAX_HEAD_BYTES: u32 = 64 << 10;

/// Beginning of HTTP/2's preface, which no request of HTTP/1 has.
const PREFACE: [u8; 3] = *b"PRI";

/// Pause after a part of these bytes.
const PREFACE_PAUSE: Duration = Duration::from_millis(20);

/// Longest interval between two looks at the answers of a connection.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// Answer to a gRPC call; the command line knows it.
const NOT_GRPC_TEXT: &str =
    "this port speaks HTTP, not gRPC; use the port of gRPC, 8502 unless the server's grpc_addr is another";

/// Returns whether a connection speaks HTTP/2. Without TLS this waits for its first bytes.
pub(super) async fn is_spoken(transport: &Transport) -> bool {
    match transport {
        Transport::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        Transport::Tcp(stream) => begins_with_preface(stream).await,
        Transport::Unix(_) => false,
    }
}

async fn begins_with_preface(stream: &TcpStream) -> bool {
    let mut first = [0; PREFACE.len()];
    loop {
        let read = stream.peek(&mut first).await.unwrap_or(0);
        let seen = first.get(..read).unwrap_or_default();
        if read == 0 || !PREFACE.starts_with(seen) {
            return false;
        }
        if read == PREFACE.len() {
            return true;
        }
        sleep(PREFACE_PAUSE).await;
    }
}

/// Sets the limits of a connection of HTTP/2.
pub(super) fn limit(builder: &mut Builder<TokioExecutor>) {
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(Some(MAX_STREAMS as usize))
        .max_local_error_reset_streams(Some(MAX_STREAMS as usize))
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .max_header_list_size(MAX_HEAD_BYTES)
        .max_send_buf_size(WINDOW_BYTES as usize);
}

/// Returns the answer to a gRPC call; `None` for other requests.
pub(super) fn refuse_grpc(headers: &HeaderMap) -> Option<Response<Body>> {
    let content = headers.get(CONTENT_TYPE)?;
    let is_grpc = content.as_bytes().starts_with(GRPC_CONTENT_TYPE.as_bytes());
    is_grpc.then(|| Status::unavailable(NOT_GRPC_TEXT).into_http())
}

/// The open answers of a connection.
#[derive(Debug, Default)]
pub(super) struct Answers {
    readers: Mutex<Vec<Weak<Reader>>>,
}

impl Answers {
    /// Notes a further answer; returns its reader, which the answer keeps up to date.
    pub(super) fn begin(&self) -> Arc<Reader> {
        let reader = Arc::new(Reader::default());
        let mut readers = self.readers.lock();
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&reader));
        reader
    }

    /// Returns whether the client has taken nothing of an answer for so long, or of one that has to give way.
    pub(super) fn are_stalled(&self, limit: Duration) -> bool {
        let now = Instant::now();
        let readers = self.readers.lock();
        readers.iter().filter_map(Weak::upgrade).any(|reader| {
            reader.unread_for(now).is_some_and(|unread| unread >= limit || (reader.take_asked() && !unread.is_zero()))
        })
    }

    /// Resolves once an answer is stalled.
    pub(super) async fn stalled(&self, limit: Duration) {
        while !self.are_stalled(limit) {
            sleep(LOOK_INTERVAL.min(limit / 4)).await;
        }
    }
}

/// Resolves once a connection has had no call for so long.
pub(super) async fn idle(usage: &Usage, limit: Duration) {
    loop {
        let left = match usage.idle_for(Instant::now()) {
            Some(idle) if idle >= limit => return,
            Some(idle) => limit.saturating_sub(idle),
            None => limit,
        };
        sleep(left).await;
    }
}
