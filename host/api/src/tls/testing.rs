//! Files of a server and a client, for tests.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    SanType,
};
use tempfile::TempDir;
use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        crypto::ring,
        pki_types::{CertificateDer, PrivateKeyDer, ServerName},
    },
};

use super::{ClientCerts, Tls, TlsOptions};

/// Certificates of an authority, of the server `home.test`, and of the client `robot`.
pub(crate) struct Files {
    dir: TempDir,
    ca: CertificateDer<'static>,
    client: (CertificateDer<'static>, KeyPair),
}

impl Files {
    pub(crate) fn new() -> Self {
        let ca_key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let ca = params.self_signed(&ca_key).unwrap();
        let issuer = Issuer::new(params, ca_key);
        let (server_key, client_key) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
        let server = CertificateParams::new(vec!["home.test".to_owned()]).unwrap();
        let server = server.signed_by(&server_key, &issuer).unwrap();
        let mut client = CertificateParams::new(vec!["robot.test".to_owned()]).unwrap();
        client.distinguished_name = DistinguishedName::new();
        client.distinguished_name.push(DnType::CommonName, "robot");
        client.subject_alt_names.push(SanType::URI("spiffe://test/robot".try_into().unwrap()));
        client.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let client = client.signed_by(&client_key, &issuer).unwrap();
        let dir = tempfile::tempdir().unwrap();
        for (name, text) in
            [("ca.pem", ca.pem()), ("server.pem", server.pem()), ("server.key", server_key.serialize_pem())]
        {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self { dir, ca: ca.der().clone(), client: (client.der().clone(), client_key) }
    }

    /// TLS with optional client certificates.
    pub(crate) async fn load(&self) -> Arc<Tls> {
        let path = |name: &str| self.dir.path().join(name);
        let options = TlsOptions {
            cert_file: path("server.pem"),
            key_file: path("server.key"),
            client_ca_file: Some(path("ca.pem")),
            client_certs: ClientCerts::Optional,
            handshake: Duration::from_secs(10),
            rescan: Duration::from_secs(10),
        };
        Tls::load(options).await.unwrap()
    }

    /// Connects a client, with its certificate or without.
    pub(crate) async fn connect(&self, addr: SocketAddr, with_certificate: bool) -> TlsStream<TcpStream> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.clone()).unwrap();
        let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let (certificate, key) = &self.client;
        let config = match with_certificate {
            true => {
                let key = PrivateKeyDer::Pkcs8(key.serialize_der().into());
                builder.with_client_auth_cert(vec![certificate.clone()], key).unwrap()
            }
            false => builder.with_no_client_auth(),
        };
        let stream = TcpStream::connect(addr).await.unwrap();
        let name = ServerName::try_from("home.test").unwrap();
        TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
    }
}
