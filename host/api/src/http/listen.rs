//! The connections of the HTTP port: their number, time limits, and their end.
//!
//! HTTP/1 and HTTP/2 ([`http2`]), over TLS if it is enabled: then a connection begins with a handshake in a task of its
//! own. A connection that sends no request for `request_timeout`, or does not take its answer for `stall_timeout`, is closed. So a connection
//! costs a little memory for a bounded time, except watches, which last as long as their clients listen. A request that
//! is not complete a moment after the stop does not delay the end (`unfinished`).
//!
//! When all connections are in use, another one makes room ([`crate::places`]): an idle one, which is one without a
//! whole head of a request, or between two requests; or one of the address with the most, which ends within its answer.
//! If none makes room, a few more get answers to `/healthz` and `/readyz` only: a busy server is not dead, and must not
//! be restarted. Beyond these few, a new connection replaces the oldest one, so that silent clients cannot block the
//! others.

use std::{
    collections::VecDeque,
    pin::pin,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use axum::{
    Router,
    http::header::{CONNECTION, RETRY_AFTER},
    response::Response,
};
use hyper::{Request, body::Incoming, service::service_fn};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto::Builder,
    service::TowerToHyperService,
};
use mortise_service::{Remote, Source};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::{JoinHandle, JoinSet},
    time::{Instant, timeout},
};
use tower::Service as _;

use super::{
    HttpOptions,
    accept::Form,
    error::{ErrorKind, HttpError},
    http2,
    stall::StallTimeout,
    unfinished::{AnswerBody, RequestBody},
};
use crate::{
    places::{Place, Places},
    port::{Port, STOPPING_STALL_TIMEOUT},
    tasks::STOPPING_REQUEST_WAIT,
    tls::{Protocol, Tls},
    transport::Transport,
};

/// The answer on connections beyond the limit.
const FULL_TEXT: &str = "too many connections are open (limit http.max_connections); try again";

/// Longest time for the request on such a connection.
const PROBE_TIMEOUT: Duration = Duration::from_secs(1);

/// Concurrent connections beyond the limit.
const MAX_PROBES: usize = 64;

/// Bytes of each buffer of a connection; the head of a request has to fit.
const BUFFER_BYTES: usize = 64 << 10;

/// Serves until the stop; then ends idle connections, and resolves when the others have ended.
pub(crate) async fn serve(
    listener: TcpListener,
    places: Arc<Places>,
    router: Router,
    probes: Router,
    options: HttpOptions,
    tls: Option<Arc<Tls>>,
    mut stopping: watch::Receiver<bool>,
) {
    let mut probing = VecDeque::new();
    let mut port = Port::new(listener, Protocol::Http.name());
    let mut connections = JoinSet::new();
    let open = metrics::gauge!("mortise_http_connections");
    loop {
        let (stream, address) = tokio::select! {
            connected = port.next() => connected,
            Some(_) = connections.join_next() => {
                open.set(connections.len() as f64);
                continue;
            }
            () = stopped(&mut stopping) => break,
        };
        let Some(place) = places.take(address, Instant::now()) else {
            port.full("http.max_connections");
            probing.retain(|probe: &JoinHandle<()>| !probe.is_finished());
            if probing.len() >= MAX_PROBES
                && let Some(oldest) = probing.pop_front()
            {
                oldest.abort();
                count_refused();
            }
            probing.push_back(tokio::spawn(probe(stream, tls.clone(), probes.clone())));
            // Connections whose request has arrived are answered before further ones are accepted.
            tokio::task::yield_now().await;
            continue;
        };
        let (tls, router, options, stopping) = (tls.clone(), router.clone(), options.clone(), stopping.clone());
        connections.spawn(connection(stream, place, tls, router, options, stopping));
        open.set(connections.len() as f64);
    }
    drop(port);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    place: Place,
    tls: Option<Arc<Tls>>,
    router: Router,
    options: HttpOptions,
    mut stopping: watch::Receiver<bool>,
) {
    let transport = tokio::select! {
        transport = transport(stream, tls) => transport,
        () = stopped(&mut stopping) => return,
        () = place.usage.has_to_leave() => return,
    };
    let Some(transport) = transport else { return };
    let is_http2 = tokio::select! {
        is_http2 = timeout(options.request_timeout, http2::is_spoken(&transport)) => is_http2,
        () = stopped(&mut stopping) => return,
        () = place.usage.has_to_leave() => return,
    };
    let Ok(is_http2) = is_http2 else { return };
    let addr = transport.tcp().and_then(|tcp| tcp.peer_addr().ok());
    let (source, remote) = (Source::from_key(addr), addr.map_or(Remote::Unknown, Remote::from_address));
    let certificate = transport.peer_certificate();
    let stream = StallTimeout::new(transport, options.stall_timeout);
    let (touched, hurry, reader) = (stream.activity_flag(), stream.stopping_flag(), stream.reader());
    let (writing, until_stopped) = (stream.writing_flag(), stopping.clone());
    let usage = place.usage.clone();
    let answers = Arc::new(http2::Answers::default());
    let opened = is_http2.then(|| answers.clone());
    let service = service_fn(move |mut request: Request<Incoming>| {
        let running = usage.begin_call();
        // The answers of HTTP/1 come one after the other, so the connection is their reader.
        let own = opened.as_ref().map(|answers| answers.begin());
        let reader = own.clone().unwrap_or_else(|| reader.clone());
        let refused = own.as_ref().and_then(|_| http2::refuse_grpc(request.headers()));
        let extensions = request.extensions_mut();
        extensions.insert(source);
        extensions.insert(remote);
        extensions.insert(reader);
        extensions.insert(usage.clone());
        if let Some(certificate) = &certificate {
            extensions.insert(certificate.clone());
        }
        let request = request.map(|body| RequestBody::new(body, until_stopped.clone()));
        // A router is always ready.
        let answering = router.clone().call(request);
        async move {
            let answer = match refused {
                Some(answer) => Ok(answer),
                None => answering.await,
            };
            answer.map(|answer| answer.map(|body| AnswerBody::new(body, own, running)))
        }
    });
    let mut builder = Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(options.request_timeout).max_buf_size(BUFFER_BYTES);
    http2::limit(&mut builder);
    let builder = if is_http2 { builder.http2_only() } else { builder.http1_only() };
    let mut serving = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = &mut serving => ended,
        () = answers.stalled(options.stall_timeout), if is_http2 => return,
        () = http2::idle(&place.usage, options.request_timeout), if is_http2 => {
            serving.as_mut().graceful_shutdown();
            match timeout(STOPPING_REQUEST_WAIT, &mut serving).await {
                Ok(ended) => ended,
                // Its client takes neither the rest of an answer nor the end.
                Err(_) => return,
            }
        }
        () = stopped(&mut stopping) => {
            if !touched.load(Ordering::Relaxed) {
                return;
            }
            hurry.store(true, Ordering::Relaxed);
            serving.as_mut().graceful_shutdown();
            loop {
                match timeout(STOPPING_REQUEST_WAIT, &mut serving).await {
                    Ok(ended) => break ended,
                    // Half the head of a request, for example.
                    Err(_) if place.usage.is_idle() && !writing.load(Ordering::Relaxed) => return,
                    Err(_) if answers.are_stalled(STOPPING_STALL_TIMEOUT) => return,
                    Err(_) => {}
                }
            }
        }
        () = place.usage.has_to_leave() => {
            if place.usage.is_idle() || place.usage.ends_calls() {
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

/// The transport of a connection; `None` if the TLS handshake failed.
async fn transport(stream: TcpStream, tls: Option<Arc<Tls>>) -> Option<Transport> {
    match tls {
        None => Some(Transport::Tcp(stream)),
        Some(tls) => tls.accept(stream, Protocol::Http).await,
    }
}

async fn stopped(stopping: &mut watch::Receiver<bool>) {
    // An error means that the sender is gone, which also means stop.
    let _ = stopping.wait_for(|stop| *stop).await;
}

/// Serves one request on a connection beyond the limit.
async fn probe(stream: TcpStream, tls: Option<Arc<Tls>>, probes: Router) {
    let serving = async {
        let Some(transport) = transport(stream, tls).await else { return };
        let mut builder = Builder::new(TokioExecutor::new());
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(PROBE_TIMEOUT)
            .keep_alive(false)
            .max_buf_size(BUFFER_BYTES);
        http2::limit(&mut builder);
        let serving = builder.serve_connection(TokioIo::new(transport), TowerToHyperService::new(probes));
        drop(serving.await);
    };
    // The outcome is ignored: the client comes again.
    let _ = timeout(PROBE_TIMEOUT * 2, serving).await;
}

/// Answers everything but probes on such a connection.
pub(super) async fn full(request: axum::extract::Request) -> Response {
    count_refused();
    let fault = HttpError::new(ErrorKind::Busy, FULL_TEXT);
    let fault = fault.with_header(CONNECTION, "close").with_header(RETRY_AFTER, "1");
    let path = request.uri().path();
    fault.into_response(Form::at_path(path, request.headers()), path)
}

fn count_refused() {
    metrics::counter!("mortise_http_connections_refused_total").increment(1);
}

#[cfg(test)]
mod tests;
