//! Tests of connections: who is known, who is answered, and which connections end.

use std::{convert::Infallible, time::Duration};

use axum::{
    body::{Body, Bytes},
    http::StatusCode,
};
use futures::stream;
use http_body_util::{BodyExt as _, Empty};
use hyper::client::conn::http2::{Connection, SendRequest, handshake};
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
    let serving = tokio::spawn(serve(listener, places, router, Router::new(), HttpOptions::default(), tls, stopping));
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
    let serving = tokio::spawn(serve(listener, places, Router::new(), probes, HttpOptions::default(), None, stopping));
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

type Http2 = (SendRequest<Empty<Bytes>>, Connection<TokioIo<TcpStream>, Empty<Bytes>, TokioExecutor>);

/// A port in the clear that stops with the sender.
struct Served {
    addr: std::net::SocketAddr,
    stop: watch::Sender<bool>,
    serving: JoinHandle<()>,
}

impl Served {
    async fn start(router: Router, options: HttpOptions) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr().unwrap();
        let (stop, stopping) = watch::channel(false);
        let places = Places::new("http", 8);
        let serving = tokio::spawn(serve(listener, places, router, Router::new(), options, None, stopping));
        Self { addr, stop, serving }
    }

    async fn connect(&self) -> Http2 {
        let stream = TcpStream::connect(self.addr).await.unwrap();
        handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap()
    }

    async fn stop(self) {
        self.stop.send_replace(true);
        timeout(Duration::from_secs(30), self.serving).await.unwrap().unwrap();
    }
}

fn get(content: &str) -> Request<Empty<Bytes>> {
    let request = Request::get("http://localhost/").header("content-type", content);
    request.body(Empty::new()).unwrap()
}

/// An answer without an end, of which each piece fills the window of a client.
async fn endless() -> Body {
    let pieces = stream::repeat_with(|| Ok::<_, Infallible>(Bytes::from(vec![b'x'; 64 << 10])));
    Body::from_stream(pieces)
}

#[tokio::test]
async fn requests_of_http2_share_a_connection_and_grpc_learns_the_port() {
    let served = Served::start(Router::new().fallback(known), HttpOptions::default()).await;
    let (client, connection) = served.connect().await;
    tokio::spawn(connection);
    let mut answers = Vec::new();
    for _ in 0..3 {
        let mut client = client.clone();
        answers.push(tokio::spawn(async move { client.send_request(get("text/plain")).await.unwrap() }));
    }
    for answer in answers {
        let answer = answer.await.unwrap();
        assert_eq!((answer.status(), answer.version()), (StatusCode::OK, hyper::Version::HTTP_2));
        assert_eq!(answer.into_body().collect().await.unwrap().to_bytes(), "true ");
    }
    let refused = client.clone().send_request(get("application/grpc")).await.unwrap();
    let said = refused.headers()["grpc-message"].to_str().unwrap();
    assert!(refused.headers()["grpc-status"] == "14" && said.starts_with("this%20port%20speaks%20HTTP"), "{said}");
    // A client of HTTP/1 whose method begins as the preface does.
    let mut plain = TcpStream::connect(served.addr).await.unwrap();
    plain.write_all(b"P").await.unwrap();
    plain.write_all(b"OST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    plain.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    drop(client);
    served.stop().await;
}

#[tokio::test]
async fn an_answer_of_http2_that_is_not_taken_ends_its_connection() {
    let options = HttpOptions { stall_timeout: Duration::from_millis(200), ..HttpOptions::default() };
    let served = Served::start(Router::new().fallback(endless), options).await;
    let (mut client, connection) = served.connect().await;
    let connection = tokio::spawn(connection);
    let answer = client.send_request(get("text/plain")).await.unwrap();
    let ended = timeout(Duration::from_secs(30), connection).await.expect("the connection ends").unwrap();
    println!("{ended:?}");
    drop(answer);
    served.stop().await;
}

#[tokio::test]
async fn a_connection_of_http2_without_requests_ends() {
    let options = HttpOptions { request_timeout: Duration::from_millis(200), ..HttpOptions::default() };
    let served = Served::start(Router::new().fallback(known), options).await;
    let (client, connection) = served.connect().await;
    timeout(Duration::from_secs(30), connection).await.expect("the connection ends").unwrap();
    drop(client);
    served.stop().await;
}

#[tokio::test]
async fn a_stop_ends_connections_of_http2_whose_clients_take_nothing() {
    let served = Served::start(Router::new().fallback(endless), HttpOptions::default()).await;
    let (mut client, connection) = served.connect().await;
    let connection = tokio::spawn(connection);
    let answer = client.send_request(get("text/plain")).await.unwrap();
    served.stop().await;
    timeout(Duration::from_secs(30), connection).await.expect("the connection ends").unwrap().ok();
    drop(answer);
}
