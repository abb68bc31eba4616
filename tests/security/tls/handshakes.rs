//! Handshakes: versions, protocols, authorities, bounds and time.

use std::time::{Duration, Instant};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::rustls::version::{TLS12, TLS13};

use super::{Authority, Files, HOST, Rustls, is_served, metrics};
use crate::support::{PATIENCE, artist, eventually, mortise, until_closed};

#[tokio::test]
async fn both_ports_speak_tls_and_the_command_line_does() {
    let files = Files::new();
    let server = files.setup().start().await;
    server.write(artist("korn")).await.unwrap();
    let http = Rustls { protocol: Some(b"http/1.1"), ..Rustls::trusting(&files) };
    assert_eq!(http.get(server.http, "/healthz", "localhost").await.unwrap().0, 200);
    let (code, body) = http.get(server.http, "/api/demo/v2/artist/korn", "127.0.0.1").await.unwrap();
    assert_eq!(code, 200, "{body}");
    assert!(body.contains("korn"), "{body}");
    // The names in the certificate are hosts of this server; others are not.
    for (host, expected) in [(HOST, 200), ("HOME.test:8500", 200), ("evil.test", 403)] {
        assert_eq!(http.get(server.http, "/v1/types", host).await.unwrap().0, expected, "{host}");
    }
    let ca = files.path("ca.pem").display().to_string();
    let args = ["types", "-o", "name", "--ca-file", &ca, "--tls-server-name", HOST];
    let (code, out, err) = mortise(&args, &[("MORTISE_GRPC_ADDR", &server.grpc.to_string())]).await;
    assert_eq!(code, Some(0), "{err}");
    assert!(out.contains("demo.v2.Artist"), "{out}");
    let log = server.log();
    assert!(log.contains("TLS on both ports; clients are not asked for certificates"), "{log}");
    let metrics = metrics(&server, &files).await;
    assert!(metrics.contains("\nmortise_tls_handshakes_total{port=\"gRPC\",outcome=\"done\"} 2\n"), "{metrics}");
    let expiry = metrics.lines().find(|line| line.starts_with("mortise_tls_certificate_expiry_seconds")).unwrap();
    assert!(expiry.contains("{setting=\"tls.cert_file\"}"), "{expiry}");
    let seconds: f64 = expiry.rsplit_once(' ').unwrap().1.parse().unwrap();
    // rcgen's own default expires in the year 4095.
    assert!((2e9..7e10).contains(&seconds), "{expiry}");
}

#[tokio::test]
async fn versions_and_protocols_are_agreed_on_or_refused() {
    let files = Files::new();
    let server = files.setup().start().await;
    for (addr, protocols, other) in
        [(server.grpc, &[&b"h2"[..]][..], &b"http/1.1"[..]), (server.http, &[&b"http/1.1"[..], b"h2"], b"h3")]
    {
        for protocol in protocols {
            for versions in [&[&TLS12], &[&TLS13]] {
                let client = Rustls { versions, protocol: Some(protocol), ..Rustls::trusting(&files) };
                let stream = client.connect(addr).await.unwrap();
                let session = stream.get_ref().1;
                assert_eq!(session.protocol_version(), Some(versions[0].version));
                assert_eq!(session.alpn_protocol(), Some(*protocol));
            }
        }
        let client = Rustls { protocol: Some(other), ..Rustls::trusting(&files) };
        let refused = client.connect(addr).await.unwrap_err().to_string();
        assert!(refused.contains("NoApplicationProtocol"), "{refused}");

        let mut old = TcpStream::connect(addr).await.unwrap();
        old.write_all(&client_hello(0x0302)).await.unwrap();
        let mut alert = [0; 7];
        timeout(PATIENCE, old.read_exact(&mut alert)).await.unwrap().unwrap();
        assert_eq!((alert[0], alert[5], alert[6]), (0x15, 2, 70), "fatal: protocol_version");
        let (answer, end) = until_closed(&mut old).await;
        assert_eq!((answer.as_str(), end.unwrap()), ("", 0));
    }
}

/// The opening message of a client that supports nothing newer than `version`, with suites of that time.
fn client_hello(version: u16) -> Vec<u8> {
    let mut hello = version.to_be_bytes().to_vec();
    hello.extend([7; 32]);
    hello.push(0);
    // ECDHE with RSA and ECDSA, AES-128-CBC, SHA-1; the null compression; P-256, and its signatures.
    hello.extend([0, 4, 0xc0, 0x13, 0xc0, 0x09, 1, 0, 0, 22]);
    hello.extend([0, 10, 0, 4, 0, 2, 0, 23, 0, 11, 0, 2, 1, 0, 0, 13, 0, 4, 0, 2, 4, 3]);
    let mut message = vec![1, 0];
    message.extend((hello.len() as u16).to_be_bytes());
    message.extend(hello);
    let mut record = vec![0x16, 3, 1];
    record.extend((message.len() as u16).to_be_bytes());
    record.extend(message);
    record
}

#[tokio::test]
async fn a_server_of_another_authority_or_name_is_not_believed() {
    let files = Files::new();
    let server = files.setup().start().await;
    let other = Authority::new("another");
    let strangers = Rustls { trust: &other.pem, ..Rustls::trusting(&files) };
    let misled = Rustls { name: "away.test", ..Rustls::trusting(&files) };
    for addr in [server.grpc, server.http] {
        let refused = strangers.connect(addr).await.unwrap_err().to_string();
        assert!(refused.contains("UnknownIssuer"), "{refused}");
        let refused = misled.connect(addr).await.unwrap_err().to_string();
        assert!(refused.contains("not valid for name"), "{refused}");
    }
    eventually("the refusals are counted", async || {
        metrics(&server, &files).await.contains("mortise_tls_handshakes_total{port=\"HTTP\",outcome=\"failed\"} 2")
    })
    .await;
}

#[tokio::test]
async fn clients_that_are_slow_at_the_handshake_delay_nobody_and_end() {
    const LIMIT: Duration = Duration::from_secs(3);
    let files = Files::new();
    let server = files.setup().limit("tls_handshake_ms", LIMIT.as_millis()).start().await;
    let begun = Instant::now();
    let mut silent = Vec::new();
    for number in 0..200 {
        let addr = if number % 2 == 0 { server.grpc } else { server.http };
        let mut stream = TcpStream::connect(addr).await.unwrap();
        // Nothing, and the beginnings of TLS, of HTTP/1 and of HTTP/2.
        let hello = client_hello(0x0303);
        let says = [&b""[..], &hello[..20], b"GET / HT", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"][number / 2 % 4];
        stream.write_all(says).await.unwrap();
        silent.push(stream);
    }
    // A byte now and then does not extend the time of a handshake.
    let slow = TcpStream::connect(server.grpc).await.unwrap();
    let (mut reading, mut writing) = slow.into_split();
    let drip = tokio::spawn(async move {
        for byte in client_hello(0x0303) {
            if writing.write_all(&[byte]).await.is_err() {
                return;
            }
            // The pace of a slow client.
            sleep(Duration::from_millis(100)).await;
        }
    });
    assert!(is_served(&server, files.trust()).await);
    assert_eq!(Rustls::trusting(&files).get(server.http, "/healthz", "localhost").await.unwrap().0, 200);
    let meanwhile = metrics(&server, &files).await;
    let mut late = meanwhile.lines().filter(|line| line.contains("outcome=\"late\""));
    assert!(late.all(|line| line.ends_with(" 0")), "it was served before the first ended: {meanwhile}");
    for stream in &mut silent {
        let _ = until_closed(stream).await;
    }
    let _ = until_closed(&mut reading).await;
    assert!(begun.elapsed() >= LIMIT, "{:?}", begun.elapsed());
    drip.abort();
    // A connection is counted a moment after it is closed.
    eventually("each is counted", async || {
        let metrics = metrics(&server, &files).await;
        [("gRPC", 101), ("HTTP", 100)].iter().all(|(port, count)| {
            metrics.contains(&format!("\nmortise_tls_handshakes_total{{port=\"{port}\",outcome=\"late\"}} {count}\n"))
        })
    })
    .await;
}

#[tokio::test]
async fn connections_are_bounded_before_their_handshakes() {
    let files = Files::new();
    let setup = files.setup().env("MORTISE_GRPC_MAX_CONNECTIONS", 3).env("MORTISE_HTTP_MAX_CONNECTIONS", 2);
    let server = setup.start().await;
    let _held = [TcpStream::connect(server.grpc).await.unwrap(), TcpStream::connect(server.grpc).await.unwrap()];
    let mut refused = TcpStream::connect(server.grpc).await.unwrap();
    assert_eq!(until_closed(&mut refused).await.0, "", "closed without a word");
    let _held = [TcpStream::connect(server.http).await.unwrap(), TcpStream::connect(server.http).await.unwrap()];
    let client = Rustls::trusting(&files);
    // Health checks are still answered.
    assert_eq!(client.get(server.http, "/healthz", "localhost").await.unwrap().0, 200);
    assert_eq!(client.get(server.http, "/v1/types", "localhost").await.unwrap().0, 503);
    server.write(artist("korn")).await.unwrap();
}

#[tokio::test]
async fn handshakes_under_way_do_not_delay_the_end() {
    let files = Files::new();
    let mut server = files.setup().long_grace().start().await;
    let _held = [TcpStream::connect(server.grpc).await.unwrap(), TcpStream::connect(server.http).await.unwrap()];
    server.signal("TERM");
    assert!(server.ended().await.success(), "{}", server.log());
    assert!(!server.log().contains("did not finish in time"), "{}", server.log());
}
