//! TLS on both ports: accepted clients, errors of the others, and reloads of the files.

use std::{
    io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};

use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{sleep, timeout},
};
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore, SupportedProtocolVersion,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject as _},
        version::{TLS12, TLS13},
    },
};
use tonic::{
    Code,
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
};

use crate::support::{Client, PATIENCE, Server, Setup, artist, eventually, gvk, mortise, until_closed};
use mortise_resource::pb;

/// The name in the server's certificate.
const HOST: &str = "home.test";

/// Protocol versions of rustls.
static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

/// The answer to a client without TLS.
const WHY: &str = "this port speaks TLS, and the connection is in the clear: use https://";

/// An authority for certificates.
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

/// A certificate with its key, PEM.
#[derive(Clone)]
pub struct Pair {
    pub cert: String,
    pub key: String,
}

impl Pair {
    fn der(&self) -> CertificateDer<'static> {
        CertificateDer::from_pem_slice(self.cert.as_bytes()).unwrap()
    }
}

impl Authority {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    pub fn issue(&self, change: impl FnOnce(&mut CertificateParams)) -> Pair {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec![HOST.to_owned(), "127.0.0.1".to_owned()]).unwrap();
        change(&mut params);
        let cert = params.signed_by(&key, &self.issuer).unwrap();
        Pair { cert: cert.pem(), key: key.serialize_pem() }
    }

    pub fn server(&self) -> Pair {
        self.issue(|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth])
    }

    pub fn client(&self, name: &str) -> Pair {
        self.issue(|params| {
            params.distinguished_name.push(DnType::CommonName, name);
            params.subject_alt_names.clear();
            params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        })
    }
}

/// The files of a server, and their authority.
struct Files {
    ca: Authority,
    server: Pair,
    dir: TempDir,
}

impl Files {
    fn new() -> Self {
        let ca = Authority::new("authority of the test");
        let server = ca.server();
        let files = Self { ca, server, dir: tempfile::tempdir().unwrap() };
        files.put("ca.pem", &files.ca.pem);
        files.put_pair(&files.server);
        files
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        std::fs::write(self.path(name), text).unwrap();
    }

    fn put_pair(&self, pair: &Pair) {
        self.put("server.pem", &pair.cert);
        self.put("server.key", &pair.key);
    }

    /// A server with these files that asks for no client certificates.
    fn setup(&self) -> Setup {
        let path = |name: &str| self.path(name).display().to_string();
        Setup::new()
            .env("MORTISE_TLS_CERT_FILE", path("server.pem"))
            .env("MORTISE_TLS_KEY_FILE", path("server.key"))
            .limit("tls_rescan_ms", 100)
            .tls(self.trust())
    }

    /// A server that asks for client certificates.
    fn mutual(&self, wanted: &str) -> Setup {
        let path = self.path("ca.pem").display().to_string();
        self.setup().env("MORTISE_TLS_CLIENT_CA_FILE", path).env("MORTISE_TLS_CLIENT_CERTS", wanted)
    }

    /// Settings for tonic's clients to trust it.
    fn trust(&self) -> ClientTlsConfig {
        ClientTlsConfig::new().ca_certificate(Certificate::from_pem(&self.ca.pem)).domain_name(HOST)
    }
}

/// TLS settings of a client with rustls.
struct Rustls<'a> {
    trust: &'a str,
    own: Option<&'a Pair>,
    versions: &'a [&'static SupportedProtocolVersion],
    protocol: Option<&'static [u8]>,
    name: &'static str,
}

impl<'a> Rustls<'a> {
    fn trusting(files: &'a Files) -> Self {
        Self { trust: &files.ca.pem, own: None, versions: BOTH, protocol: None, name: HOST }
    }

    /// Connects, and waits for a refusal by the server where one may come: in TLS 1.3 a client has finished before its
    /// certificate is checked.
    async fn connect(&self, addr: SocketAddr) -> io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(self.trust.as_bytes()).unwrap()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(self.versions)
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match self.own {
            None => builder.with_no_client_auth(),
            Some(pair) => builder
                .with_client_auth_cert(vec![pair.der()], PrivateKeyDer::from_pem_slice(pair.key.as_bytes()).unwrap())
                .unwrap(),
        };
        config.alpn_protocols = self.protocol.iter().map(|protocol| protocol.to_vec()).collect();
        let name = ServerName::try_from(self.name).unwrap();
        let stream = TcpStream::connect(addr).await?;
        timeout(PATIENCE, TlsConnector::from(Arc::new(config)).connect(name, stream)).await.expect("in time")
    }

    /// Status and body of a GET.
    async fn get(&self, addr: SocketAddr, path: &str, host: &str) -> io::Result<(u16, String)> {
        let mut stream = self.connect(addr).await?;
        stream.write_all(format!("GET {path} HTTP/1.0\r\nhost: {host}\r\n\r\n").as_bytes()).await?;
        let (answer, end) = until_closed(&mut stream).await;
        end?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
        Ok((head.split(' ').nth(1).unwrap().parse().unwrap(), body.to_owned()))
    }
}

async fn metrics(server: &Server, files: &Files) -> String {
    Rustls::trusting(files).get(server.http, "/metrics", "localhost").await.unwrap().1
}

async fn client(server: &Server, tls: ClientTlsConfig) -> Result<Client, tonic::transport::Error> {
    let endpoint = Channel::from_shared(format!("https://{}", server.grpc)).unwrap().tls_config(tls).unwrap();
    Ok(Client::new(endpoint.connect().await?))
}

/// Whether a client is served over gRPC: a finished handshake does not show that the client's certificate was accepted.
async fn is_served(server: &Server, tls: ClientTlsConfig) -> bool {
    let Ok(mut client) = client(server, tls).await else { return false };
    client.write(pb::WriteRequest { resource: Some(artist("korn")) }).await.is_ok()
}

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
    for (addr, protocol, other) in
        [(server.grpc, &b"h2"[..], &b"http/1.1"[..]), (server.http, &b"http/1.1"[..], &b"h2"[..])]
    {
        for versions in [&[&TLS12], &[&TLS13]] {
            let client = Rustls { versions, protocol: Some(protocol), ..Rustls::trusting(&files) };
            let stream = client.connect(addr).await.unwrap();
            let session = stream.get_ref().1;
            assert_eq!(session.protocol_version(), Some(versions[0].version));
            assert_eq!(session.alpn_protocol(), Some(protocol));
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
    for addr in [server.grpc, server.http] {
        let client = Rustls { own: Some(&forged), versions: &[&TLS13], ..Rustls::trusting(&files) };
        let mut stream = client.connect(addr).await.unwrap();
        for part in ["GET /healthz HTTP/1.1\r\n", "host: localhost\r\n", "\r\n"] {
            // Gives the server time to refuse; the result must be the same without it.
            sleep(Duration::from_millis(50)).await;
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

/// The certificate that the server shows to new clients of a port.
async fn shown(files: &Files, addr: SocketAddr) -> CertificateDer<'static> {
    let stream = Rustls::trusting(files).connect(addr).await.unwrap();
    stream.get_ref().1.peer_certificates().unwrap()[0].clone().into_owned()
}

#[tokio::test]
async fn new_files_are_taken_and_no_connection_is_dropped() {
    let files = Files::new();
    let server = files.setup().start().await;
    let mut watch = server.watch(gvk("demo.v2.Artist"), None, "").await.unwrap();
    assert_eq!(watch.snapshot().await, []);
    assert_eq!(shown(&files, server.grpc).await, files.server.der());
    let renewed = files.ca.server();
    files.put_pair(&renewed);
    for addr in [server.grpc, server.http] {
        eventually("new connections see the new one", async || shown(&files, addr).await == renewed.der()).await;
    }
    server.write(artist("korn")).await.unwrap();
    assert_eq!(watch.upsert().await.id.unwrap().name, "korn");

    // certbot and Kubernetes do it so: a link is switched.
    let linked = files.ca.server();
    for version in ["1", "2"] {
        std::fs::create_dir(files.path(version)).unwrap();
        let pair = if version == "1" { &renewed } else { &linked };
        std::fs::write(files.path(version).join("server.pem"), &pair.cert).unwrap();
        std::fs::write(files.path(version).join("server.key"), &pair.key).unwrap();
    }
    let link = |from: &str, to: &str| {
        let temporary = files.path("link");
        std::os::unix::fs::symlink(to, &temporary).unwrap();
        std::fs::rename(temporary, files.path(from)).unwrap();
    };
    link("now", "1");
    link("server.pem", "now/server.pem");
    link("server.key", "now/server.key");
    link("now", "2");
    eventually("the new target is seen", async || shown(&files, server.http).await == linked.der()).await;
    server.write(artist("coltrane")).await.unwrap();
    assert_eq!(watch.upsert().await.id.unwrap().name, "coltrane");
    assert!(!metrics(&server, &files).await.contains("outcome=\"refused\""), "{}", server.log());
}

#[tokio::test]
async fn new_files_that_are_broken_leave_the_old_in_service() {
    let files = Files::new();
    let robot = files.ca.client("robot");
    let identity = Identity::from_pem(&robot.cert, &robot.key);
    let server = files.mutual("required").tls(files.trust().identity(identity.clone())).start().await;
    let refused = async |times: usize, says: &str| {
        let said = || {
            let log = server.log();
            let lines = log.lines().filter(|line| line.contains("ERROR") && line.contains("are refused"));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        eventually("the error is logged", async || said().len() >= times).await;
        assert_eq!(said().len(), times, "once for each: {said:?}", said = said());
        assert!(said().last().unwrap().contains(says), "{says}: {}", said().last().unwrap());
        assert!(is_served(&server, files.trust().identity(identity.clone())).await, "{says}");
        let client = Rustls { own: Some(&robot), ..Rustls::trusting(&files) };
        let metrics = client.get(server.http, "/metrics", "localhost").await.unwrap().1;
        let line = format!("\nmortise_tls_reloads_total{{outcome=\"refused\"}} {times}\n");
        assert!(metrics.contains(&line), "{metrics}");
    };
    files.put("server.pem", "nonsense");
    refused(1, "tls.cert_file: ").await;
    // The certificate does not fit the former key.
    files.put("server.pem", &files.ca.server().cert);
    refused(2, "does not belong to the first certificate in").await;
    std::fs::remove_file(files.path("server.pem")).unwrap();
    refused(3, "cannot read").await;
    files.put("server.pem", &files.server.cert);
    eventually("the valid files are in service", async || server.log().contains("the changed files are in service"))
        .await;
    files.put("ca.pem", "");
    refused(4, "tls.client_ca_file: ").await;
    // Another authority for clients: clients of the former one are refused.
    let other = Authority::new("another");
    files.put("ca.pem", &other.pem);
    let new = other.client("robot");
    let new = files.trust().identity(Identity::from_pem(new.cert, new.key));
    eventually("the other authority is believed", async || is_served(&server, new.clone()).await).await;
    assert!(!is_served(&server, files.trust().identity(identity)).await);
    server.write(artist("korn")).await.unwrap();
}

#[tokio::test]
async fn a_client_without_tls_gets_the_reason() {
    let files = Files::new();
    let server = files.setup().start().await;
    for addr in [server.grpc, server.http] {
        for request in [
            "GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n".to_owned(),
            "GET / HTTP/1.0\r\n\r\n".to_owned(),
            format!("POST /api HTTP/1.1\r\nhost: a\r\ncontent-length: 40000\r\n\r\n{}", "x".repeat(40_000)),
            format!("PUT /api HTTP/1.1\r\nhost: a\r\ncontent-length: 999999999\r\n\r\n{}", "x".repeat(100_000)),
        ] {
            let mut stream = TcpStream::connect(addr).await.unwrap();
            // The server may close before it has taken all of it.
            let _ = stream.write_all(request.as_bytes()).await;
            let mut answer = Vec::new();
            let _ = timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("the server closes in time");
            let answer = String::from_utf8_lossy(&answer);
            assert!(request.len() > 100_000 || answer.starts_with("HTTP/1."), "{answer:?}");
            assert!(request.len() > 100_000 || answer.contains(" 400 Bad Request\r\n"), "{answer:?}");
            assert!(request.len() > 100_000 || answer.contains(WHY), "{answer:?}");
        }
        // A call of a standard gRPC client.
        let channel = Channel::from_shared(format!("http://{addr}")).unwrap().connect().await.unwrap();
        let request = pb::WriteRequest { resource: Some(artist("korn")) };
        let status = Client::new(channel).write(request).await.unwrap_err();
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert!(status.message().contains(WHY), "{status:?}");
        // Bytes of no known protocol.
        let mut stream = TcpStream::connect(addr).await.unwrap();
        stream.write_all(b"\x00\x01\x02\r\n\r\n").await.unwrap();
        assert!(!until_closed(&mut stream).await.0.contains("200"));
    }
    let (code, _, err) = mortise(&["types"], &[("MORTISE_GRPC_ADDR", &server.grpc.to_string())]).await;
    assert_eq!(code, Some(1));
    assert!(err.contains(WHY) && err.contains("--tls --ca-file FILE"), "{err}");
    assert!(server.log().lines().filter(|line| line.contains("ERROR") || line.contains("WARN")).count() == 0);
}

#[tokio::test]
async fn the_command_line_names_the_missing_flag() {
    let files = Files::new();
    let robot = files.ca.client("robot");
    let server = files.mutual("required").tls(files.trust().identity(Identity::from_pem(&robot.cert, &robot.key)));
    let server = server.start().await;
    let forged = Authority::new("authority of the test").client("robot");
    for (name, text) in
        [("robot.pem", &robot.cert), ("robot.key", &robot.key), ("no.pem", &forged.cert), ("no.key", &forged.key)]
    {
        files.put(name, text);
    }
    let addr = server.grpc.to_string();
    let types = async |args: &[&str]| {
        let args: Vec<_> = args
            .iter()
            .map(|arg| {
                if arg.ends_with(".pem") || arg.ends_with(".key") {
                    files.path(arg).display().to_string()
                } else {
                    (*arg).to_owned()
                }
            })
            .collect();
        let args: Vec<_> = ["types"].into_iter().chain(args.iter().map(String::as_str)).collect();
        let (code, _, err) = mortise(&args, &[("MORTISE_GRPC_ADDR", &addr)]).await;
        (code, err)
    };
    const OWN: &str = "wants a certificate of this client that it trusts: --client-cert and --client-key";
    let own = ["--ca-file", "ca.pem", "--client-cert", "robot.pem", "--client-key", "robot.key"];
    assert_eq!(types(&own).await, (Some(0), String::new()));
    for (args, says) in [
        (&["--tls"][..], "--ca-file FILE names the authority"),
        (&["--ca-file", "ca.pem", "--tls-server-name", "away.test"], "--tls-server-name NAME gives the name"),
        (&["--ca-file", "ca.pem"], OWN),
        (&["--ca-file", "ca.pem", "--client-cert", "no.pem", "--client-key", "no.key"], OWN),
    ] {
        let (code, err) = types(args).await;
        assert_eq!(code, Some(3), "{args:?}: {err}");
        let hint = err.lines().find(|line| line.trim_start().starts_with("hint: "));
        assert!(hint.is_some_and(|hint| hint.contains(says)), "{args:?}: {err}");
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
    let metrics = metrics(&server, &files).await;
    assert!(metrics.contains("\nmortise_tls_handshakes_total{port=\"gRPC\",outcome=\"late\"} 101\n"), "{metrics}");
    assert!(metrics.contains("\nmortise_tls_handshakes_total{port=\"HTTP\",outcome=\"late\"} 100\n"), "{metrics}");
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

#[tokio::test]
async fn faults_at_the_start_name_setting_file_and_remedy() {
    let files = Files::new();
    let other = files.ca.server();
    files.put("other.key", &other.key);
    files.put("empty.pem", "");
    let dir = files.dir.path().display().to_string();
    let data = format!("{dir}/data");
    let start = async |settings: &[(&str, &str)]| {
        let settings: Vec<_> = settings
            .iter()
            .map(|(key, value)| {
                let value = if value.contains('.') { format!("{dir}/{value}") } else { (*value).to_owned() };
                (format!("MORTISE_TLS_{key}"), value)
            })
            .collect();
        let env: Vec<_> = settings.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        let (code, out, err) = mortise(&["serve", "--data-dir", &data], &env).await;
        assert_eq!(out, "", "{err}");
        (code, err)
    };
    let pair = [("CERT_FILE", "server.pem"), ("KEY_FILE", "server.key")];
    for (settings, code, says) in [
        (vec![pair[0]], 2, "tls.cert_file has no effect without tls.key_file; set both, or neither"),
        (vec![pair[1]], 2, "tls.key_file has no effect without tls.cert_file"),
        (vec![("CLIENT_CA_FILE", "ca.pem")], 2, "tls.client_ca_file has no effect without tls.cert_file"),
        (vec![pair[0], pair[1], ("CLIENT_CERTS", "required")], 2, "tls.client_certs has no effect without"),
        (vec![("CLIENT_CERTS", "perhaps")], 2, "unknown variant `perhaps`, expected `optional` or `required`"),
        (vec![("CERT_FILE", "missing.pem"), pair[1]], 1, "mortise: tls.cert_file: cannot read "),
        (vec![("CERT_FILE", "empty.pem"), pair[1]], 1, "empty.pem holds no certificate (PEM: -----BEGIN CERTIFICATE"),
        (vec![("CERT_FILE", "server.key"), pair[1]], 1, "server.key holds no certificate"),
        (vec![pair[0], ("KEY_FILE", "server.pem")], 1, "mortise: tls.key_file: "),
        (vec![pair[0], ("KEY_FILE", "other.key")], 1, "other.key does not belong to the first certificate in "),
        (vec![pair[0], pair[1], ("CLIENT_CA_FILE", "empty.pem")], 1, "mortise: tls.client_ca_file: "),
    ] {
        let (ended, err) = start(&settings).await;
        assert!(ended == Some(code) && err.contains(says), "{settings:?}: {ended:?}: {err}");
    }
    assert!(!Path::new(&data).exists(), "nothing is opened before");
}

#[tokio::test]
async fn an_expired_certificate_is_a_warning() {
    let files = Files::new();
    files.put_pair(&files.ca.issue(|params| params.not_after = rcgen::date_time_ymd(2020, 1, 1)));
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| files.path(name).display().to_string();
    let settings = [("MORTISE_TLS_CERT_FILE", path("server.pem")), ("MORTISE_TLS_KEY_FILE", path("server.key"))];
    let mut server = tokio::process::Command::new(env!("CARGO_BIN_EXE_mortise"))
        .args(["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--data-dir"])
        .arg(dir.path())
        .envs(settings)
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut ready = [0; 14];
    timeout(PATIENCE, server.stdout.as_mut().unwrap().read_exact(&mut ready)).await.unwrap().unwrap();
    assert_eq!(&ready, b"mortise ready:");
    let mut log = String::new();
    let mut stderr = server.stderr.take().unwrap();
    while !log.contains("expired at 2020-01-01T00:00:00Z; put a new one into the file, since clients refuse this one") {
        let mut part = [0; 4096];
        let read = timeout(PATIENCE, stderr.read(&mut part)).await.expect("the error is logged").unwrap();
        assert!(read > 0, "{log}");
        log.push_str(&String::from_utf8_lossy(&part[..read]));
    }
}
