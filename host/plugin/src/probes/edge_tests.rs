//! Probes at their edges: texts with the limits of the check, bodies in pieces, bounds, and TLS.

use std::{sync::Arc, time::Duration};

use mortise_resource::probes::{GrpcProbe, HttpProbe, Probe as WantedProbe, ProbeTls, probe::Check as WantedCheck};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
    time::sleep,
};
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        pki_types::{CertificateDer, PrivateKeyDer},
    },
};

use super::{
    attempt::Finding,
    specification::Kind,
    tests::{Bench, id, report, seconds, server, tcp},
    *,
};
use crate::grants::{Grants, http_hosts::HttpHost};

/// The texts of conditions name the limits of the check.
#[tokio::test(start_paused = true)]
async fn texts_name_the_limits_of_the_check() {
    let bench = Bench::new();
    let last = || bench.memory.messages.lock().last().cloned().unwrap_or_default();
    bench.set("slow", "g", vec![tcp("hangs")]);
    sleep(Duration::from_secs(6)).await;
    assert_eq!(last(), "a connection to hangs:80 took longer than 5s (timeout of the check)");
    bench.set("silent", "g", vec![report(90, Some(1))]);
    sleep(Duration::from_secs(91)).await;
    assert_eq!(last(), "no client reported within 90s (ttl of the check)");
    bench.set("new", "g", vec![WantedProbe { passing_after: 3, ..tcp("passes") }]);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(last(), "; the check passes after 3 of these in a row", "behind the text of the attempt");
}

#[tokio::test(start_paused = true)]
async fn probes_are_bounded() {
    let bench = Bench::new();
    let writer: Arc<dyn ProbeWriter> = bench.memory.clone();
    let refused = |count: usize| {
        let keyed = |number: usize| WantedProbe { key: format!("k-{number}"), ..tcp("web") };
        let wanted = Wanted { probes: (0..count).map(keyed).collect(), ..Wanted::default() };
        bench.probes.set(id("web"), wanted, &bench.permit, &writer).err().map(|failure| failure.message)
    };
    assert_eq!(refused(64), None);
    assert_eq!(refused(65).unwrap(), "probes.set: at most 64 probes of one resource are allowed");
    bench.probes.table.lock().count = MAX_PROBES;
    assert_eq!(refused(64), None, "as many as before");
    bench.probes.end(&id("web"));
    bench.probes.table.lock().count = MAX_PROBES;
    assert!(refused(1).unwrap().contains("a plugin may have 200000 probes"));
}

/// A server that answers one connection with pieces, each in a write of its own, and its port.
async fn in_pieces(pieces: Vec<String>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let _ = stream.read(&mut [0; 4_096]).await;
        for piece in pieces {
            if stream.write_all(piece.as_bytes()).await.is_err() {
                return;
            }
            // A piece of its own for the reader.
            sleep(Duration::from_millis(20)).await;
        }
        let _ = stream.read(&mut [0]).await;
    });
    port
}

async fn asked(http: HttpProbe, ports: &[(&str, u16)]) -> Finding {
    let granted = ports.iter().map(|(scheme, port)| HttpHost::try_from(format!("{scheme}://127.0.0.1:{port}")));
    let granted = granted.map(|host| host.unwrap().into()).collect();
    let permit = Permit::of("p", Grants { http: granted, ..Grants::default() });
    attempted(WantedCheck::Http(http), &permit).await
}

async fn attempted(check: WantedCheck, permit: &Permit) -> Finding {
    let wanted = WantedProbe { check: Some(check), timeout: seconds(5), ..tcp("") };
    let Kind::Active { check, .. } = Specification::read(wanted).unwrap().kind else { panic!("an active check") };
    Network::new().attempt(&check, permit).await
}

#[tokio::test]
async fn a_text_is_found_over_two_pieces_of_a_body_and_not_behind_the_bound() {
    let head = "HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n";
    let probe = |port: u16| HttpProbe {
        url: format!("http://127.0.0.1:{port}/"),
        body: "ready".to_owned(),
        ..HttpProbe::default()
    };
    let port = in_pieces(vec![format!("{head}state: re"), "ady".to_owned()]).await;
    assert_eq!(asked(probe(port), &[("http", port)]).await.reason, "Answered");
    let port = in_pieces(vec![head.to_owned(), "x".repeat(64 << 10), "ready".to_owned()]).await;
    let found = asked(probe(port), &[("http", port)]).await;
    assert_eq!(found.reason, "Body", "{}", found.message);
    assert!(found.message.ends_with("without \"ready\" in the first 65536 bytes of the body"), "{}", found.message);
}

type Authority = CertifiedIssuer<'static, KeyPair>;

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// A server with a certificate of an authority for a name, that answers each connection; and its port.
async fn secure(authority: &Authority, name: &str, protocol: &'static str, answer: String) -> u16 {
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    let (chain, key) =
        (vec![CertificateDer::from(leaf.der().to_vec())], PrivateKeyDer::try_from(key.serialize_der()).unwrap());
    let mut config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![protocol.into()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            let Ok(mut stream) = acceptor.accept(stream).await else { continue };
            let _ = stream.read(&mut [0; 4_096]).await;
            let _ = stream.write_all(answer.as_bytes()).await;
            let _ = stream.shutdown().await;
        }
    });
    port
}

/// A server is verified by the check's authority and by its name: the certificate of another one does not pass.
#[tokio::test]
async fn a_check_verifies_its_server_by_its_own_authority_and_name() {
    let (own, other) = (authority(), authority());
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let port = secure(&own, "web.example", "http/1.1", ok.to_owned()).await;
    let probe = |ca: &str, server_name: &str| HttpProbe {
        url: format!("https://127.0.0.1:{port}/"),
        tls: Some(ProbeTls { ca: ca.to_owned(), server_name: server_name.to_owned() }),
        ..HttpProbe::default()
    };
    let both = format!("{}{}", other.pem(), own.pem());
    for (ca, name, reason, says) in [
        (own.pem().as_str(), "web.example", "Answered", ""),
        (both.as_str(), "web.example", "Answered", ""),
        (own.pem().as_str(), "", "Tls", "the handshake with 127.0.0.1 failed"),
        (own.pem().as_str(), "api.example", "Tls", "the handshake with api.example failed"),
        (other.pem().as_str(), "web.example", "Tls", "the handshake with web.example failed"),
        ("", "web.example", "Tls", "the handshake with web.example failed"),
        ("no certificate", "web.example", "Tls", "the handshake with web.example failed"),
    ] {
        let found = asked(probe(ca, name), &[("https", port)]).await;
        assert_eq!(found.reason, reason, "{name:?}: {}", found.message);
        assert!(found.message.contains(says), "{}", found.message);
    }
    let broken = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let found = asked(probe(broken, "web.example"), &[("https", port)]).await;
    assert!(found.message.ends_with("the check's CA is not a list of certificates in PEM"), "{}", found.message);
}

/// The name of a check is meant for its own server: another one, to which it redirects, has the name of its URL.
#[tokio::test]
async fn the_name_of_a_check_is_not_that_of_another_server() {
    let own = authority();
    let ok = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
    let there = secure(&own, "127.0.0.1", "http/1.1", ok.to_owned()).await;
    let redirect = format!("HTTP/1.1 302 Found\r\nlocation: https://127.0.0.1:{there}/\r\ncontent-length: 0\r\n\r\n");
    let here = secure(&own, "web.example", "http/1.1", redirect).await;
    let probe = HttpProbe {
        url: format!("https://127.0.0.1:{here}/"),
        redirects: 1,
        tls: Some(ProbeTls { ca: own.pem(), server_name: "web.example".to_owned() }),
        ..HttpProbe::default()
    };
    let found = asked(probe, &[("https", here), ("https", there)]).await;
    assert_eq!(found.reason, "Answered", "{}", found.message);
}

#[tokio::test]
async fn a_grpc_check_speaks_tls_where_the_check_has_it() {
    let own = authority();
    let port = secure(&own, "web.example", "h2", String::new()).await;
    let granted = ["http", "https"].map(|scheme| HttpHost::try_from(format!("{scheme}://127.0.0.1:{port}")).unwrap());
    let permit = Permit::of("p", Grants { http: granted.map(Into::into).into(), ..Grants::default() });
    let probe = |name: &str| {
        let tls = Some(ProbeTls { ca: own.pem(), server_name: name.to_owned() });
        WantedCheck::Grpc(GrpcProbe { host: "127.0.0.1".to_owned(), port: port.into(), tls, ..GrpcProbe::default() })
    };
    let wrong = attempted(probe("api.example"), &permit).await;
    assert_eq!(wrong.reason, "Tls", "{}", wrong.message);
    // The server accepts the name and the protocol, and ends the connection instead of an answer.
    let found = attempted(probe("web.example"), &permit).await;
    assert_eq!(found.reason, "Unreachable", "{}", found.message);
}

#[tokio::test]
async fn a_grpc_check_goes_to_granted_servers_alone() {
    let probe = GrpcProbe { host: "127.0.0.1".to_owned(), port: 1, ..GrpcProbe::default() };
    let found = attempted(WantedCheck::Grpc(probe), &Permit::of("p", Grants::default())).await;
    assert_eq!(found.reason, "NotGranted", "{}", found.message);
}

#[tokio::test]
async fn a_check_is_redirected_as_often_as_it_allows() {
    for redirects in [1, 2] {
        let port = server(vec!["HTTP/1.1 302 Found\r\nlocation: /again\r\ncontent-length: 0\r\n\r\n"; 3]).await;
        let probe = HttpProbe { url: format!("http://127.0.0.1:{port}/"), redirects, ..HttpProbe::default() };
        let found = asked(probe, &[("http", port)]).await;
        let expected = format!("was redirected more than {redirects} times (redirects of the check)");
        assert!(found.reason == "Redirects" && found.message.ends_with(&expected), "{}", found.message);
    }
}
