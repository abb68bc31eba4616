//! Mortise as the only control plane of Linkerd's proxies: certificates for identities, policies for inbound
//! connections, and two proxies that reach each other with both. The clients are those of Linkerd's own crate.

mod certify;
mod inbound;
mod proxies;
mod rights;
mod rotation;

use std::path::Path;

use linkerd2_proxy_api::identity::{CertifyRequest, CertifyResponse, identity_client::IdentityClient};
use mortise_api::catalog::{InboundRule, Workload, WorkloadAddress, WorkloadPort};
use mortise_resource::pb;
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;
use tokio_rustls::rustls::pki_types::{CertificateDer, pem::PemObject as _};
use tonic::{
    Status,
    transport::{Certificate, Channel, ClientTlsConfig, Identity},
};

use crate::support::{tokens::Guarded, *};

/// The domain of the identities.
pub const DOMAIN: &str = "mesh.test";

/// A name of the server in this domain.
pub const SERVER: &str = "mortise.mesh.test";

pub const WORKLOAD: &str = "catalog.v1.Workload";

/// A server with an authority for identities, made by `mortise tls init`.
pub struct Mesh {
    pub dir: TempDir,
    pub guarded: Guarded,
}

/// A key with its certificate from the server.
pub struct Credentials {
    pub key: KeyPair,
    pub answer: CertifyResponse,
}

/// Runs `mortise tls init` in a directory, with these further arguments.
pub async fn init(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let dir = dir.display().to_string();
    let mut all = vec!["tls", "init", "--dir", &dir, "--mesh", DOMAIN];
    for host in ["localhost", "127.0.0.1", SERVER] {
        all.extend(["--host", host]);
    }
    all.extend(args);
    mortise(&all, &[]).await
}

impl Mesh {
    /// Starts a server with these further settings.
    pub async fn start(config: &str, change: impl FnOnce(Setup) -> Setup) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (code, _, err) = init(dir.path(), &["--client", "admin"]).await;
        assert_eq!(code, Some(0), "{err}");
        let path = |name: &str| dir.path().join(name).display().to_string();
        let setup = Setup::new()
            .config(config)
            .env("MORTISE_TLS_CERT_FILE", path("server.pem"))
            .env("MORTISE_TLS_KEY_FILE", path("server.key"))
            .env("MORTISE_TLS_CLIENT_CA_FILE", path("ca.pem"))
            .env("MORTISE_IDENTITY_CERT_FILE", path("mesh.pem"))
            .env("MORTISE_IDENTITY_KEY_FILE", path("mesh.key"))
            .env("MORTISE_IDENTITY_TRUST_DOMAIN", DOMAIN)
            .env("MORTISE_AUDIT_EVENTS", "changes")
            .tls(trust(dir.path()));
        let guarded = Guarded::start(change(setup)).await;
        Self { dir, guarded }
    }

    pub fn path(&self, name: &str) -> std::path::PathBuf {
        self.dir.path().join(name)
    }

    pub fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// A token that may get certificates for names with this prefix; returns its secret.
    pub async fn token(&self, name: &str, prefix: &str) -> String {
        self.guarded.policy(name, &format!("identity_prefix \"{prefix}\" {{ policy = \"write\" }}"), Vec::new()).await;
        self.guarded.token(name, &[name], |_| ()).await
    }

    /// A connection as a proxy makes it, with a certificate or without.
    pub async fn channel(&self, identity: Option<Identity>) -> Channel {
        let tls = trust(self.dir.path());
        let tls = match identity {
            Some(identity) => tls.identity(identity),
            None => tls,
        };
        connect(self.guarded.server.grpc, Some(tls)).await
    }

    /// Asks for a certificate with a token in the message.
    pub async fn certify(&self, secret: &str, identity: &str, request: Vec<u8>) -> Result<CertifyResponse, Status> {
        let request = asked(secret, identity, request);
        Ok(IdentityClient::new(self.channel(None).await).certify(request).await?.into_inner())
    }

    /// Gets a certificate for a new key.
    pub async fn credentials(&self, secret: &str, identity: &str) -> Credentials {
        let key = KeyPair::generate().unwrap();
        let answer = self.certify(secret, identity, request(&key, &[identity])).await.unwrap();
        Credentials { key, answer }
    }

    /// Records of the audit log for requests for certificates.
    pub fn records(&self) -> Vec<serde_json::Value> {
        let text = std::fs::read_to_string(self.guarded.server.data_dir.join("audit/audit.jsonl")).unwrap();
        let lines = text.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        lines.filter(|record| record["method"] == "Certify").collect()
    }

    pub async fn write_workload(&self, name: &str, workload: &Workload) -> pb::Resource {
        let id = id_in(WORKLOAD, name, "default", "default");
        self.guarded.write(resource(id, Some(any(WORKLOAD, workload)))).await
    }
}

impl Credentials {
    /// The chain and the key, in PEM.
    pub fn identity(&self) -> Identity {
        let ders = [&self.answer.leaf_certificate].into_iter().chain(&self.answer.intermediate_certificates);
        let chain: String = ders.map(|der| pem(der)).collect();
        Identity::from_pem(chain, self.key.serialize_pem())
    }

    /// The leaf and its issuers.
    pub fn chain(&self) -> Vec<CertificateDer<'static>> {
        let ders = [&self.answer.leaf_certificate].into_iter().chain(&self.answer.intermediate_certificates);
        ders.map(|der| CertificateDer::from(der.clone())).collect()
    }
}

/// Trust in the authority that `mortise tls init` made.
pub fn trust(dir: &Path) -> ClientTlsConfig {
    let ca = std::fs::read_to_string(dir.join("ca.pem")).unwrap();
    ClientTlsConfig::new().ca_certificate(Certificate::from_pem(ca)).domain_name("localhost")
}

pub fn asked(secret: &str, identity: &str, request: Vec<u8>) -> CertifyRequest {
    CertifyRequest {
        identity: identity.to_owned(),
        token: secret.as_bytes().to_vec(),
        certificate_signing_request: request,
    }
}

/// A request for a certificate with these DNS names.
pub fn request(key: &KeyPair, names: &[&str]) -> Vec<u8> {
    let names: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    CertificateParams::new(names).unwrap().serialize_request(key).unwrap().der().to_vec()
}

pub fn pem(der: &[u8]) -> String {
    use std::fmt::Write as _;
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = "-----BEGIN CERTIFICATE-----\n".to_owned();
    for line in der.chunks(48) {
        for group in line.chunks(3) {
            let bits = group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
            for place in 0..4 {
                let letter = ALPHABET[(bits >> (18 - 6 * place) & 63) as usize];
                out.push(if place <= group.len() { letter.into() } else { '=' });
            }
        }
        out.push('\n');
    }
    writeln!(out, "-----END CERTIFICATE-----").unwrap();
    out
}

pub fn der(pem: &str) -> Vec<u8> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().to_vec()
}

/// A workload at 127.0.0.1 with the port `http`.
pub fn workload(port: u16, identity: &str, inbound: Vec<InboundRule>) -> Workload {
    let http = WorkloadPort { name: "http".to_owned(), port: port.into(), ..WorkloadPort::default() };
    let address = WorkloadAddress { host: "127.0.0.1".to_owned(), ports: Vec::new() };
    Workload {
        addresses: vec![address],
        ports: vec![http],
        identity: identity.to_owned(),
        inbound,
        ..Workload::default()
    }
}
