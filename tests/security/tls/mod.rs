//! TLS on both ports: accepted clients, errors of the others, and reloads of the files.

mod client_certificates;
mod files;
mod handshakes;
mod plaintext;

use std::{io, net::SocketAddr, path::PathBuf, sync::Arc};

use mortise_resource::pb;
use rcgen::{CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt as _, net::TcpStream, time::timeout};
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
use tonic::transport::{Certificate, Channel, ClientTlsConfig};

use crate::support::{Client, PATIENCE, Server, Setup, artist, until_closed};

/// The name in the server's certificate.
const HOST: &str = "home.test";

/// Protocol versions of rustls.
static BOTH: &[&SupportedProtocolVersion] = &[&TLS13, &TLS12];

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
