//! Certificates of clients, also of those that browsers add to requests of web pages.

use rcgen::ExtendedKeyUsagePurpose;
use tokio::{io::AsyncWriteExt as _, time::timeout};
use tokio_rustls::rustls::version::{TLS12, TLS13};
use tonic::transport::Identity;

use super::{Authority, Files, HOST, Pair, Rustls, is_served};
use crate::support::{PATIENCE, artist, eventually, until_closed};

#[tokio::test]
async fn client_certificates_are_optional_or_required_and_never_of_another_authority() {
    let files = Files::new();
    let robot = files.ca.client("robot");
    let forged = Authority::new("authority of the test").client("robot");
    // A server's certificate is not valid for a client.
    let misused = files.ca.server();
    let expired = files.ca.issue(|params| {
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    });
    let with = |pair: &Pair| files.trust().identity(Identity::from_pem(&pair.cert, &pair.key));
    for wanted in ["optional", "required"] {
        let server = files.mutual(wanted).tls(with(&robot)).start().await;
        server.write(artist("korn")).await.unwrap();
        let optional = wanted == "optional";
        assert_eq!(is_served(&server, files.trust()).await, optional, "none is {wanted}");
        for refused in [&forged, &misused, &expired] {
            assert!(!is_served(&server, with(refused)).await, "{wanted}");
        }
        for versions in [&[&TLS12], &[&TLS13]] {
            let get = async |own| {
                let client = Rustls { own, versions, ..Rustls::trusting(&files) };
                let answer = client.get(server.http, "/healthz", "localhost").await;
                answer.map(|(code, _)| code).map_err(|e| e.to_string())
            };
            assert_eq!(get(Some(&robot)).await, Ok(200), "{wanted}");
            let without = get(None).await;
            assert_eq!(without.as_ref().ok(), optional.then_some(&200), "{wanted}: {without:?}");
            for refused in [&forged, &misused, &expired] {
                let why = get(Some(refused)).await.unwrap_err();
                assert!(why.contains("received fatal alert"), "{wanted}: {why}");
            }
        }
        let says = if optional { "clients may show certificates" } else { "clients must show certificates" };
        assert!(server.log().contains(says), "{}", server.log());
    }
}

/// A client of TLS 1.3 has finished before its certificate is checked, and writes before it reads.
#[tokio::test]
async fn a_client_that_is_refused_can_write_until_it_has_read_why() {
    let files = Files::new();
    let forged = Authority::new("another").client("robot");
    let robot = files.ca.client("robot");
    let server = files.mutual("required").tls(files.trust().identity(Identity::from_pem(&robot.cert, &robot.key)));
    let server = server.start().await;
    for (port, addr) in [("gRPC", server.grpc), ("HTTP", server.http)] {
        let client = Rustls { own: Some(&forged), versions: &[&TLS13], ..Rustls::trusting(&files) };
        let mut stream = client.connect(addr).await.unwrap();
        // The result must be the same without this wait.
        let refused = format!("mortise_tls_handshakes_total{{port=\"{port}\",outcome=\"failed\"}} 1\n");
        let good = Rustls { own: Some(&robot), ..Rustls::trusting(&files) };
        let page = async || good.get(server.http, "/metrics", "localhost").await.unwrap().1;
        eventually("the server refuses", async || page().await.contains(&refused)).await;
        for part in ["GET /healthz HTTP/1.1\r\n", "host: localhost\r\n", "\r\n"] {
            stream.write_all(part.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
        }
        let why = until_closed(&mut stream).await.1.unwrap_err().to_string();
        assert!(why.contains("received fatal alert"), "{why}");
        // The connection does not stay open for long.
        let (mut below, _) = stream.into_inner();
        let _ = until_closed(&mut below).await;
    }
}

/// A web page can reach the gRPC port over TLS, with the user's client certificate.
#[tokio::test]
async fn requests_of_web_pages_to_the_grpc_port_are_refused() {
    let files = Files::new();
    let server = files.setup().start().await;
    let client = Rustls { protocol: Some(b"h2"), ..Rustls::trusting(&files) };
    let stream = client.connect(server.grpc).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    let path = format!("https://{HOST}/hashicorp.consul.resource.ResourceService/List");
    for (content_type, expected) in [
        (Some("text/plain"), 415),
        (Some("application/x-www-form-urlencoded"), 415),
        (None, 415),
        (Some("application/grpc"), 200),
        (Some("application/grpc+proto"), 200),
    ] {
        let mut request = hyper::Request::post(&path);
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        // An empty message.
        let body = http_body_util::Full::new(bytes::Bytes::from_static(&[0; 5]));
        let answer = timeout(PATIENCE, sender.send_request(request.body(body).unwrap())).await.unwrap().unwrap();
        assert_eq!(answer.status(), expected, "{content_type:?}");
    }
}
