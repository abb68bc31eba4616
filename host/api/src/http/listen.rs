//! The connections of the HTTP port: how many, for how long, and their end.
//!
//! HTTP/1. A connection that sends no request for `request_timeout`, or does not take what is sent for `stall_timeout`, is
//! closed; so one costs a little memory for a bounded time, but for watches, which last as long as their clients listen.

use std::{pin::pin, sync::atomic::Ordering, time::Duration};

use axum::Router;
use hyper::server::conn::http1::Builder;
use hyper_util::{
    rt::{TokioIo, TokioTimer},
    service::TowerToHyperService,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinSet,
};

use super::{HttpOptions, stall::StallTimeout};
use crate::port::Port;

/// What connections beyond the limit are told.
const FULL: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\nretry-after: 1\r\n\
    content-type: text/plain; charset=utf-8\r\ncontent-length: 59\r\n\r\ntoo many connections are open (limit http.max_connections)\n";

/// How long that may take.
const FULL_WITHIN: Duration = Duration::from_secs(1);

/// Buffers of one connection, bytes each; a request's head has to fit.
const BUFFER: usize = 64 << 10;

/// Serves until told to stop; then ends idle connections, and resolves when the others have answered what they were request.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    options: HttpOptions,
    mut stopping: watch::Receiver<bool>,
) {
    let mut port = Port::new(listener, "HTTP");
    let mut connections = JoinSet::new();
    let open = metrics::gauge!("mortise_http_connections");
    loop {
        let stream = tokio::select! {
            stream = port.next() => stream,
            Some(_) = connections.join_next() => {
                open.set(connections.len() as f64);
                continue;
            }
            () = stopped(&mut stopping) => break,
        };
        if connections.len() >= options.max_connections {
            metrics::counter!("mortise_http_connections_refused_total").increment(1);
            port.full("http.max_connections");
            refuse(stream);
            continue;
        }
        connections.spawn(connection(stream, router.clone(), options.clone(), stopping.clone()));
        open.set(connections.len() as f64);
    }
    drop(port);
    while connections.join_next().await.is_some() {}
}

async fn connection(stream: TcpStream, router: Router, options: HttpOptions, mut stopping: watch::Receiver<bool>) {
    let stream = StallTimeout::new(stream, options.stall_timeout);
    let touched = stream.touched();
    let mut serving = pin!(
        Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.request_timeout)
            .max_buf_size(BUFFER)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router))
    );
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = stopped(&mut stopping) => {
            if !touched.load(Ordering::Relaxed) {
                return;
            }
            serving.as_mut().graceful_shutdown();
            serving.await
        }
    };
    if let Err(e) = ended {
        tracing::debug!("HTTP: a connection ended: {e}");
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which means stop too.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Answers 503 in a task of its own, since the client may not read it.
fn refuse(mut stream: TcpStream) {
    tokio::spawn(async move {
        let _ = tokio::time::timeout(FULL_WITHIN, async {
            stream.write_all(FULL).await?;
            stream.shutdown().await?;
            // Closed with its request unread, the connection would be reset, and the answer lost.
            let mut request = [0; 1024];
            while stream.read(&mut request).await? > 0 {}
            Ok::<_, std::io::Error>(())
        })
        .await;
    });
}
