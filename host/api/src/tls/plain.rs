//! Answers a client that does not speak TLS on a port that does, so that its user learns the reason.
//!
//! A gRPC call fails with `Unavailable` and the text, which clients show. Any other request, HTTP/1 or HTTP/2, gets
//! status 400 and the text. After one answer the connection closes. The caller bounds the time.

use std::{convert::Infallible, pin::pin, sync::Arc};

use axum::http::{
    HeaderValue, Request, Response, StatusCode,
    header::{CONTENT_TYPE, HeaderMap},
};
use http_body_util::{BodyExt as _, Full};
use hyper::{
    body::{Bytes, Incoming},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
};
use tokio::{net::TcpStream, sync::Notify};
use tonic::{Status, metadata::GRPC_CONTENT_TYPE};

/// The answer to such a client.
const NOT_TLS_TEXT: &str = "this port speaks TLS, and the connection is in the clear: use https:// in the address, and have \
                    the server's certificate authority trusted (mortise: --tls --ca-file FILE; curl: --cacert FILE)";

/// Bytes of a request's body that are read before the connection closes: with unread bytes, closing would reset the
/// connection and lose the answer.
const MAX_BODY_BYTES: usize = 64 << 10;

/// Bytes of a buffer, and most bytes of a request's head.
const BUFFER_BYTES: u16 = 16 << 10;

/// Concurrent calls of a connection that are answered.
const MAX_STREAMS: u32 = 8;

/// Answers one request.
pub(super) async fn answer_plaintext(stream: TcpStream) {
    let answered = Arc::new(Notify::new());
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).keep_alive(false).max_buf_size(BUFFER_BYTES.into());
    let window = u32::from(u16::MAX);
    builder
        .http2()
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(window)
        .initial_connection_window_size(window)
        .max_header_list_size(BUFFER_BYTES.into());
    let answering = answered.clone();
    let service = service_fn(move |request| {
        let answering = answering.clone();
        async move {
            let answer = answer(request).await;
            answering.notify_one();
            Ok::<_, Infallible>(answer)
        }
    });
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    // The outcome is ignored: nothing is left to send.
    let ended = tokio::select! {
        ended = serving.as_mut() => ended,
        () = answered.notified() => {
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(e) = ended {
        tracing::trace!("a client without TLS: {e}");
    }
}

async fn answer(request: Request<Incoming>) -> Response<Full<Bytes>> {
    if is_grpc(request.headers()) {
        return Status::unavailable(NOT_TLS_TEXT).into_http();
    }
    let mut body = request.into_body();
    let mut left = MAX_BODY_BYTES;
    while let Some(Ok(frame)) = body.frame().await {
        let bytes = frame.data_ref().map_or(0, Bytes::len);
        match left.checked_sub(bytes) {
            Some(less) => left = less,
            None => break,
        }
    }
    let mut response = Response::new(Full::from(format!("{NOT_TLS_TEXT}\n")));
    *response.status_mut() = StatusCode::BAD_REQUEST;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
    response
}

fn is_grpc(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(GRPC_CONTENT_TYPE.as_bytes()))
}
