//! Web pages in browsers, which reach every port that their machine reaches: they cannot use the API on either port.

use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};
use tonic::Code;

use crate::support::{PATIENCE, Server, Setup, artist, http::ARTISTS, id};

/// Sends a raw request; returns the first line of the answer, and all of it.
async fn raw(server: &Server, request: String) -> (String, String) {
    let mut stream = TcpStream::connect(server.http).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes in time");
    let answer = String::from_utf8_lossy(&answer).into_owned();
    (answer.lines().next().unwrap_or_default().to_owned(), answer)
}

fn request(method: &str, path: &str, headers: &str) -> String {
    let body = json!({ "data": { "name": "Korn" } }).to_string();
    format!("{method} {path} HTTP/1.1\r\n{headers}connection: close\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// A name that a site resolves to loopback is the same origin for the browser, and stands in `Host`.
#[tokio::test]
async fn a_host_that_is_not_ours_is_refused() {
    let server = Setup::new().env("MORTISE_HTTP_ALLOWED_HOSTS", "api.example.org, other").start().await;
    let korn = format!("{ARTISTS}/korn");
    server.write(artist("stays")).await.unwrap();
    for method in ["PUT", "DELETE", "GET", "OPTIONS"] {
        for path in [korn.as_str(), &format!("{ARTISTS}/stays"), "/v1/types", "/metrics", "/nowhere"] {
            let rebound =
                "host: evil.example:8500\r\norigin: http://evil.example:8500\r\nsec-fetch-site: same-origin\r\n";
            let (head, answer) = raw(&server, request(method, path, rebound)).await;
            assert!(head.starts_with("HTTP/1.1 403 "), "{method} {path}: {answer}");
            assert!(answer.contains("urn:mortise:problem:unknown-host"), "{answer}");
            assert!(answer.contains("evil.example:8500") && answer.contains("http.allowed_hosts"), "{answer}");
        }
    }
    assert_eq!(server.read(&id("demo.v2.Artist", "korn")).await.unwrap_err().code(), Code::NotFound);
    server.read(&id("demo.v2.Artist", "stays")).await.unwrap();
    let port = server.http.port();
    for host in [format!("localhost:{port}"), format!("127.0.0.1:{port}"), "API.example.org".into(), "other:1".into()] {
        let (head, answer) = raw(&server, request("PUT", &korn, &format!("host: {host}\r\n"))).await;
        assert!(head.starts_with("HTTP/1.1 200 "), "{host}: {answer}");
    }
    let (head, _) = raw(&server, request("GET", "/healthz", "host: pod-7.example\r\n")).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "probes name what they like: {head}");
}

#[tokio::test]
async fn a_page_of_another_origin_is_refused() {
    let server = Server::start().await;
    let (korn, stays) = (format!("{ARTISTS}/korn"), format!("{ARTISTS}/stays"));
    server.write(artist("stays")).await.unwrap();
    let host = server.http;
    for from in [
        "origin: http://evil.example\r\n",
        "origin: http://localhost:3000\r\nsec-fetch-site: same-site\r\n",
        "origin: null\r\n",
        "sec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n",
        "sec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n",
    ] {
        for (method, path) in [("PUT", &korn), ("DELETE", &stays), ("POST", &format!("{korn}/_validate"))] {
            let (head, answer) = raw(&server, request(method, path, &format!("host: {host}\r\n{from}"))).await;
            assert!(head.starts_with("HTTP/1.1 403 "), "{method} {from}: {answer}");
            assert!(answer.contains("urn:mortise:problem:cross-origin"), "{answer}");
        }
    }
    let embedded = format!("host: {host}\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: no-cors\r\n");
    let (head, _) = raw(&server, request("GET", &format!("{ARTISTS}?watch"), &embedded)).await;
    assert!(head.starts_with("HTTP/1.1 403 "), "a page holds no watches: {head}");
    assert_eq!(server.read(&id("demo.v2.Artist", "korn")).await.unwrap_err().code(), Code::NotFound);
    server.read(&id("demo.v2.Artist", "stays")).await.unwrap();

    let own = format!("host: {host}\r\norigin: http://{host}\r\nsec-fetch-site: same-origin\r\n");
    let (head, answer) = raw(&server, request("PUT", &korn, &own)).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "{answer}");
    let link = format!("host: {host}\r\nsec-fetch-site: cross-site\r\nsec-fetch-mode: navigate\r\n");
    let (head, answer) = raw(&server, request("GET", &korn, &link)).await;
    assert!(head.starts_with("HTTP/1.1 200 "), "somebody follows a link: {answer}");
}

/// Browsers use HTTP/2 only within TLS; without TLS they use HTTP/1, which the gRPC port refuses.
#[tokio::test]
async fn a_browser_gets_no_word_in_at_the_grpc_port() {
    let server = Server::start().await;
    for start in
        ["POST /hashicorp.consul.resource.ResourceService/List HTTP/1.1", "OPTIONS / HTTP/1.1", "GET / HTTP/1.1"]
    {
        let mut stream = TcpStream::connect(server.grpc).await.unwrap();
        let request = format!(
            "{start}\r\nhost: {}\r\norigin: http://evil.example\r\ncontent-type: text/plain\r\ncontent-length: 33\r\n\r\n\
             PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0",
            server.grpc
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes in time");
        let answer = String::from_utf8_lossy(&answer).to_ascii_lowercase();
        assert!(answer.starts_with("http/1.1 400 "), "{start}: {answer}");
        assert!(!answer.contains("access-control-"), "{start}: no page may read it: {answer}");
    }
    server.write(artist("korn")).await.unwrap();
}
