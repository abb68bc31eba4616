//! The HTTP port with clients that are too large, too slow, too many, or unusual.

use crate::support::{
    Server, Setup, eventually,
    http::{ARTISTS, PROBLEM},
    until_closed,
};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

/// Sends raw bytes and reads until the server closes the connection.
async fn raw(server: &Server, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(server.http).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    // A reset ends the connection, too.
    until_closed(&mut stream).await.0
}

#[tokio::test]
async fn bodies_are_bounded() {
    let server = Setup::new().env("MORTISE_SERVICE_MAX_REQUEST_BYTES", 10_000).start().await;
    let korn = format!("{ARTISTS}/korn");
    let sized = |size: usize| {
        let frame = json!({ "data": { "name": "" } }).to_string().len();
        json!({ "data": { "name": "x".repeat(size - frame) } }).to_string()
    };
    server.ask("PUT", &korn).body(sized(10_000)).await_answer().await.ok();
    for size in [10_001, 20_000, 3_000_000, 8_000_000] {
        let answer = server.ask("PUT", &korn).header("accept", PROBLEM).body(sized(size)).await_answer().await;
        let problem = answer.problem(413, "body-too-large");
        assert!(problem["detail"].as_str().unwrap().contains("service.max_request_bytes"), "{problem}");
    }
    let dry = server.ask("POST", &format!("{korn}/_validate")).body(sized(10_001)).await_answer().await;
    assert_eq!(dry.code(), 413);
    // A body over the limit is refused before it arrives.
    let head =
        format!("PUT {korn} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-length: 30000000\r\n\r\n");
    let answer = raw(&server, head.as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 ") && answer.contains("service.max_request_bytes"), "{answer}");
    // A chunked body without a length.
    let chunk = format!("4000\r\n{}\r\n", "x".repeat(0x4000));
    let head =
        format!("PUT {korn} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n\r\n");
    let answer = raw(&server, format!("{head}{chunk}0\r\n\r\n").as_bytes()).await;
    assert!(answer.starts_with("HTTP/1.1 413 "), "{answer}");
}

/// A body larger than any resource is refused unread, since reading would take many times as much memory.
#[tokio::test]
async fn bodies_are_bounded_by_the_largest_resource() {
    let server = Setup::new().env("MORTISE_STORE_MAX_RESOURCE_BYTES", 4 << 10).start().await;
    let put = async |size: usize| {
        let body = json!({ "data": { "name": "x".repeat(size) } }).to_string();
        server.ask("PUT", &format!("{ARTISTS}/korn")).header("accept", PROBLEM).body(body).await_answer().await
    };
    assert_eq!(put(98_000).await.code(), 400, "8 times as much, and 64 KiB");
    let problem = put(98_400).await.problem(413, "body-too-large");
    assert!(problem["detail"].as_str().unwrap().contains("98304 bytes"), "{problem}");
    assert!(problem["detail"].as_str().unwrap().contains("store.max_resource_bytes"), "{problem}");
}

/// Watches leave connections free for health checks.
#[tokio::test]
async fn watches_take_three_quarters_of_the_connections() {
    let server = Setup::new().env("MORTISE_HTTP_MAX_CONNECTIONS", 8).start().await;
    let watch = async || server.ask("GET", &format!("{ARTISTS}?watch")).open().await;
    let mut open = Vec::new();
    for _ in 0..6 {
        let (head, body) = watch().await;
        assert_eq!(head.status, 200);
        open.push(body);
    }
    let refused = server.ask("GET", &format!("{ARTISTS}?watch")).await_answer().await;
    let problem = refused.problem(429, "resource-exhausted");
    assert!(problem["detail"].as_str().unwrap().contains("http.max_connections"), "{problem}");
    assert_eq!(server.fetch("/healthz").await.code(), 200);
    drop(open);
    eventually("there is room again", async || watch().await.0.status == 200).await;
}

#[tokio::test]
async fn resources_are_bounded_as_over_grpc() {
    let server = Setup::new().env("MORTISE_STORE_MAX_RESOURCE_BYTES", 4 << 10).start().await;
    let big = server.put(&format!("{ARTISTS}/korn"), json!({ "name": "x".repeat(5_000) })).await;
    assert_eq!(big.code(), 400, "{big:?}");
    assert!(big.body.contains("store.max_resource_bytes"), "{big:?}");
}

#[tokio::test]
async fn other_formats_and_encodings_are_refused() {
    let server = Server::start().await;
    let korn = format!("{ARTISTS}/korn");
    let body = json!({ "data": { "name": "K" } }).to_string();
    for media in [
        "application/json",
        "application/json; charset=utf-8",
        "application/json;charset=\"UTF-8\"",
        "APPLICATION/JSON",
        "application/merge-patch+json",
        // The content type of curl's --data, which Consul's documentation uses.
        "application/x-www-form-urlencoded",
        "text/plain",
        "application/octet-stream",
    ] {
        server.ask("PUT", &korn).header("content-type", media).body(body.clone()).await_answer().await.ok();
    }
    for media in ["application/yaml", "text/x-yaml", "application/x+yaml"] {
        let put = server.ask("PUT", &korn).header("content-type", media).body("data:\n  name: K\n");
        put.await_answer().await.ok();
    }
    server.ask("PUT", &korn).header("content-encoding", "identity").body(body.clone()).await_answer().await.ok();
    for (name, value) in [
        ("content-type", "application/xml"),
        ("content-type", "multipart/form-data; boundary=x"),
        ("content-type", "application/x-protobuf"),
        ("content-type", "application/json; charset=latin1"),
        ("content-type", "nonsense"),
        ("content-encoding", "gzip"),
        ("content-encoding", "identity, br"),
    ] {
        let put = server.ask("PUT", &korn).header(name, value).header("accept", PROBLEM).body(body.clone());
        let answer = put.await_answer().await;
        answer.problem(415, "unsupported-media-type");
        let hint = if name == "content-type" {
            ("accept", "application/json, application/yaml")
        } else {
            ("accept-encoding", "identity")
        };
        assert_eq!(answer.header(hint.0), hint.1, "{name}: {value}");
    }
    let plain = server.ask("GET", &korn).header("accept-encoding", "gzip, br").await_answer().await;
    assert_eq!(plain.header("content-encoding"), "");
    plain.ok();
}

#[tokio::test]
async fn slow_clients_are_cut_off() {
    let server = Setup::new().env("MORTISE_HTTP_REQUEST_TIMEOUT_MS", 500).start().await;
    let mut silent = TcpStream::connect(server.http).await.unwrap();
    let mut halfway = TcpStream::connect(server.http).await.unwrap();
    halfway.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n").await.unwrap();
    let mut idle = TcpStream::connect(server.http).await.unwrap();
    idle.write_all(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n").await.unwrap();
    let mut bodiless = TcpStream::connect(server.http).await.unwrap();
    let head = format!("PUT {ARTISTS}/korn HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100\r\n\r\n{{");
    bodiless.write_all(head.as_bytes()).await.unwrap();

    assert_eq!(until_closed(&mut silent).await.0, "");
    assert!(!until_closed(&mut halfway).await.0.starts_with("HTTP/1.1 200"));
    assert!(until_closed(&mut idle).await.0.starts_with("HTTP/1.1 200 OK"), "answered, then closed");
    let answer = until_closed(&mut bodiless).await.0;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("http.request_timeout_ms"), "{answer}");
}

#[tokio::test]
async fn connections_are_bounded() {
    let server = Setup::new().env("MORTISE_HTTP_MAX_CONNECTIONS", 3).start().await;
    let mut held = Vec::new();
    // Connections with a request: idle ones would make room.
    for _ in 0..3 {
        let (head, body) = server.ask("GET", &format!("{ARTISTS}?watch")).open().await;
        assert_eq!(head.status, 200);
        held.push(body);
    }
    let mut last = String::new();
    eventually("one more is refused", async || {
        last = raw(&server, b"GET /v1/types HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await;
        last.starts_with("HTTP/1.1 503 ")
    })
    .await;
    // Health checks are still answered; otherwise a supervisor would restart a server because it is busy.
    for probe in ["/healthz", "/readyz"] {
        let answer = server.fetch(probe).await;
        assert_eq!(answer.code(), 200, "{probe}: {answer:?}");
    }
    let (head, body) = last.split_once("\r\n\r\n").unwrap();
    assert!(body.contains("too many connections are open (limit http.max_connections)"), "{body}");
    assert!(head.contains(&format!("content-length: {}", body.len())), "{head}");
    drop(held);
    eventually("there is room again", async || {
        raw(&server, b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            .await
            .contains("refused_total")
    })
    .await;
}

#[tokio::test]
async fn odd_requests_have_answers() {
    let server = Server::start().await;
    let long = format!("GET /api/{} HTTP/1.1\r\nhost: localhost\r\n\r\n", "a".repeat(200_000));
    for (request, code) in [
        ("GET /healthz HTTP/1.0\r\n\r\n", "200"),
        ("OPTIONS * HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "204"),
        ("GET http://localhost/healthz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "200"),
        ("GET /api/demo/v2/artist/a%2 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "400"),
        ("GET /api/demo/v2/artist/../artist HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "404"),
        ("GET /api/demo/v2/artist?%zz=%ff&=&&& HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "200"),
        ("CONNECT x:80 HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n", "40"),
        ("nonsense\r\n\r\n", "400"),
        (&long, "4"),
    ] {
        let answer = raw(&server, request.as_bytes()).await;
        let head = answer.lines().next().unwrap_or_default();
        assert!(head.split(' ').nth(1).is_some_and(|found| found.starts_with(code)), "{:.60}: {head}", request);
    }
    assert_eq!(server.fetch("/healthz").await.code(), 200);
}

#[tokio::test]
async fn several_requests_share_a_connection() {
    let server = Server::start().await;
    let get = "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let last = "GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    let answers = raw(&server, format!("{get}{get}{last}").as_bytes()).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 3, "{answers}");
}

#[tokio::test]
async fn requests_are_counted() {
    let server = Server::start().await;
    for path in
        ["/healthz", ARTISTS, "/api/demo/v2/artist/x", "/v1/types", "/v1/openapi.json", "/random/1", "/random/2"]
    {
        server.fetch(path).await;
    }
    let metrics = server.fetch("/metrics").await.body;
    for (route, code) in [
        ("/healthz", 200),
        ("/api", 200),
        ("/api", 404),
        ("/v1/types", 200),
        ("/v1/openapi.json", 200),
        ("(none)", 404),
    ] {
        let series = format!("mortise_http_requests_total{{route=\"{route}\",code=\"{code}\"}}");
        assert!(metrics.contains(&series), "{series}:\n{metrics}");
    }
    assert!(metrics.contains("mortise_http_connections "), "{metrics}");
}

#[tokio::test]
async fn the_api_can_be_left_out() {
    let server = Setup::new().env("MORTISE_HTTP_API", false).start().await;
    for path in [ARTISTS, "/v1/types", "/v1/openapi.json"] {
        assert_eq!(server.fetch(path).await.code(), 404, "{path}");
    }
    for path in ["/healthz", "/readyz", "/metrics"] {
        assert_eq!(server.fetch(path).await.code(), 200, "{path}");
    }
}

/// A server that stops finishes the calls in flight.
#[tokio::test]
async fn calls_in_flight_finish() {
    let server = Server::start().await;
    let mut stream = TcpStream::connect(server.http).await.unwrap();
    let body = json!({ "data": { "name": "K" } }).to_string();
    let head = format!(
        "PUT {ARTISTS}/korn HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\n\r\n{}",
        body.len(),
        body.get(..5).unwrap()
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    // The held connection, and the one that asks.
    eventually("it is taken", async || server.metrics().await.contains("\nmortise_http_connections 2\n")).await;
    server.signal("TERM");
    eventually("the server stops", async || server.log().contains("SIGTERM: stopping")).await;
    stream.write_all(body.get(5..).unwrap().as_bytes()).await.unwrap();
    let answer = until_closed(&mut stream).await.0;
    assert!(answer.starts_with("HTTP/1.1 200 OK"), "{answer}");
    let mut server = server;
    assert!(server.ended().await.success());
}
