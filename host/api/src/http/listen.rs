//! The connections of the HTTP port: their number, time limits, and their end.
//!
//! HTTP/1, over TLS if it is enabled: then a connection begins with a handshake in a task of its own. A connection that
//! sends no request for `request_timeout`, or does not take its answer for `stall_timeout`, is closed. So a connection
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
use hyper::{Request, body::Incoming, server::conn::http1::Builder, service::service_fn};
use hyper_util::{
    rt::{TokioIo, TokioTimer},
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
    stall::StallTimeout,
    unfinished::{AnswerBody, RequestBody},
};
use crate::{
    places::{Place, Places},
    port::Port,
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
    let addr = transport.tcp().and_then(|tcp| tcp.peer_addr().ok());
    let (source, remote) = (Source::from_key(addr), addr.map_or(Remote::Unknown, Remote::from_address));
    let certificate = transport.peer_certificate();
    let stream = StallTimeout::new(transport, options.stall_timeout);
    let (touched, hurry, reader) = (stream.activity_flag(), stream.stopping_flag(), stream.reader());
    let (writing, until_stopped) = (stream.writing_flag(), stopping.clone());
    let usage = place.usage.clone();
    let service = service_fn(move |mut request: Request<Incoming>| {
        let running = usage.begin_call();
        let extensions = request.extensions_mut();
        extensions.insert(source);
        extensions.insert(remote);
        extensions.insert(reader.clone());
        extensions.insert(usage.clone());
        if let Some(certificate) = &certificate {
            extensions.insert(certificate.clone());
        }
        let request = request.map(|body| RequestBody::new(body, until_stopped.clone()));
        // A router is always ready.
        let answering = router.clone().call(request);
        async move { answering.await.map(|answer| answer.map(|body| AnswerBody { inner: body, _call: running })) }
    });
    let mut serving = pin!(
        Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(options.request_timeout)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), service)
    );
    let ended = tokio::select! {
        ended = &mut serving => ended,
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
        let serving = Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(PROBE_TIMEOUT)
            .keep_alive(false)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(transport), TowerToHyperService::new(probes));
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
mod tests {
    use std::time::Duration;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    use super::*;
    use crate::{peer::PeerCertificate, tls::testing};

    /// The facts about a request's client that the router knows.
    async fn known(request: axum::extract::Request) -> String {
        let names = request.extensions().get::<PeerCertificate>().map(|certificate| certificate.names.join(" "));
        let source = request.extensions().get::<Source>().copied();
        format!("{} {}", source.is_some_and(|source| source != Source::default()), names.unwrap_or_default())
    }

    #[tokio::test]
    async fn requests_know_where_they_come_from_and_by_which_certificate() {
        let files = testing::Files::new();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopping) = watch::channel(false);
        let (router, tls) = (Router::new().fallback(known), Some(files.load().await));
        let places = Places::new("http", 8);
        let serving =
            tokio::spawn(serve(listener, places, router, Router::new(), HttpOptions::default(), tls, stopping));
        for (with_certificate, names) in [(true, "robot.test spiffe://test/robot robot"), (false, "")] {
            let mut client = files.connect(addr, with_certificate).await;
            client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
            let mut answer = String::new();
            client.read_to_string(&mut answer).await.unwrap();
            assert!(answer.ends_with(&format!("\r\n\r\ntrue {names}")), "{answer}");
        }
        stop.send_replace(true);
        timeout(Duration::from_secs(30), serving).await.unwrap().unwrap();
    }

    /// A probe is answered while every connection is in use and any number of silent ones wait.
    #[tokio::test]
    async fn a_probe_is_answered_beside_connections_beyond_the_limit_that_say_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopping) = watch::channel(false);
        let places = Places::new("http", 0);
        let probes = Router::new().fallback(|| async { "well" });
        let serving =
            tokio::spawn(serve(listener, places, Router::new(), probes, HttpOptions::default(), None, stopping));
        let mut silent = Vec::new();
        for _ in 0..MAX_PROBES + 10 {
            silent.push(TcpStream::connect(addr).await.unwrap());
        }
        let mut client = TcpStream::connect(addr).await.unwrap();
        client.write_all(b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).await.unwrap();
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nwell"), "{answer}");
        stop.send_replace(true);
        timeout(Duration::from_secs(30), serving).await.unwrap().unwrap();
    }
}
