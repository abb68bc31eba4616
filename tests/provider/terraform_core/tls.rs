//! Core's side of TLS: a self-signed certificate of P-521, and the provider's certificate as its handshake line gives
//! it.
//!
//! The certificates are stored in files, since ring neither creates nor signs with P-521; they protect nothing.

use std::{path::Path, sync::Arc};

use p521::{
    SecretKey,
    ecdsa::{Signature, SigningKey, signature::Signer as _},
    pkcs8::DecodePrivateKey as _,
};
use tokio::net::UnixStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        self, ClientConfig, RootCertStore, SignatureAlgorithm, SignatureScheme,
        client::ResolvesClientCert,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
        sign::{CertifiedKey, Signer},
    },
};

/// A certificate and its key, both in PEM.
#[derive(Debug, Clone, Copy)]
pub struct Certificate {
    pub certificate: &'static str,
    key: &'static str,
}

/// Core's certificate.
pub const CORE_CERTIFICATE: Certificate =
    Certificate { certificate: include_str!("certificates/core.pem"), key: include_str!("certificates/core-key.pem") };

/// A certificate of another party, made in the same way.
pub const OTHER_CERTIFICATE: Certificate = Certificate {
    certificate: include_str!("certificates/other.pem"),
    key: include_str!("certificates/other-key.pem"),
};

/// Connects as core does; `own` is this side's certificate, if any. The provider may still close the connection, since
/// it checks the certificate after this side's handshake is over.
pub async fn connect_tls(
    socket: &Path,
    server: &[u8],
    own: Option<Certificate>,
) -> std::io::Result<TlsStream<UnixStream>> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(server.to_vec())).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    let mut config = match own {
        Some(own) => builder.with_client_cert_resolver(Arc::new(Own::of(own))),
        None => builder.with_no_client_auth(),
    };
    config.alpn_protocols = vec![b"h2".to_vec()];
    let stream = UnixStream::connect(socket).await?;
    TlsConnector::from(Arc::new(config)).connect(ServerName::try_from("localhost").unwrap(), stream).await
}

#[derive(Debug)]
struct Own(Arc<CertifiedKey>);

impl Own {
    fn of(own: Certificate) -> Self {
        let certificate = CertificateDer::from_pem_slice(own.certificate.as_bytes()).unwrap();
        let key = SecretKey::from_pkcs8_der(
            rustls::pki_types::PrivatePkcs8KeyDer::from_pem_slice(own.key.as_bytes()).unwrap().secret_pkcs8_der(),
        );
        let key = SigningKey::from_slice(&key.unwrap().to_bytes()).unwrap();
        Self(Arc::new(CertifiedKey::new(vec![certificate], Arc::new(Key(key)))))
    }
}

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        // As in Go: without a common scheme no certificate is sent.
        schemes.contains(&SignatureScheme::ECDSA_NISTP521_SHA512).then(|| self.0.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[derive(Clone)]
struct Key(SigningKey);

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

impl rustls::sign::SigningKey for Key {
    fn choose_scheme(&self, offered: &[SignatureScheme]) -> Option<Box<dyn Signer>> {
        offered.contains(&SignatureScheme::ECDSA_NISTP521_SHA512).then(|| Box::new(self.clone()) as Box<dyn Signer>)
    }

    fn algorithm(&self) -> SignatureAlgorithm {
        SignatureAlgorithm::ECDSA
    }
}

impl Signer for Key {
    fn sign(&self, message: &[u8]) -> Result<Vec<u8>, rustls::Error> {
        let signature: Signature = self.0.sign(message);
        Ok(signature.to_der().as_bytes().to_vec())
    }

    fn scheme(&self) -> SignatureScheme {
        SignatureScheme::ECDSA_NISTP521_SHA512
    }
}
