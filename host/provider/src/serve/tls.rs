//! TLS between core and a process that it started: each side has just made a certificate for itself, and accepts
//! exactly the certificate of the other.
//!
//! Core's certificate uses P-521 and is its own authority. The usual verifier rejects such a certificate, and ring
//! cannot check its signatures; so this module compares its bytes, and checks its signatures with `p521`.

use std::sync::Arc;

use p521::ecdsa::{Signature, VerifyingKey, signature::Verifier as _};
use tokio_rustls::rustls::{
    self, DigitallySignedStruct, DistinguishedName, ServerConfig, SignatureScheme,
    client::danger::HandshakeSignatureValid,
    crypto::{WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, PrivateKeyDer, UnixTime, pem::PemObject as _},
    server::danger::{ClientCertVerified, ClientCertVerifier},
};

/// Reasons why TLS cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Core's certificate cannot be read.
    #[error("PLUGIN_CLIENT_CERT holds no certificate: {0}")]
    ClientCertificate(#[source] rustls::pki_types::pem::Error),
    /// The provider's certificate cannot be made.
    #[error("a certificate cannot be made: {0}")]
    Own(#[from] rcgen::Error),
    /// The certificates cannot be used.
    #[error("TLS cannot be set up: {0}")]
    Config(#[from] rustls::Error),
}

/// The TLS configuration, and the provider's certificate for core.
pub(super) fn config(client: &str) -> Result<(ServerConfig, CertificateDer<'static>), TlsError> {
    let client = CertificateDer::from_pem_slice(client.as_bytes()).map_err(TlsError::ClientCertificate)?;
    let rcgen::CertifiedKey { cert, signing_key } = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let certificate = cert.der().clone();
    let key =
        PrivateKeyDer::try_from(signing_key.serialize_der()).map_err(|why| rustls::Error::General(why.to_owned()))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = ExactClient { certificate: client, algorithms: provider.signature_verification_algorithms };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(vec![certificate.clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok((config, certificate))
}

/// Accepts exactly one client certificate.
#[derive(Debug)]
struct ExactClient {
    certificate: CertificateDer<'static>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ExactClient {
    /// Checks a signature of P-521; `None` for another scheme.
    fn p521(
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Option<Result<HandshakeSignatureValid, rustls::Error>> {
        (signed.scheme == SignatureScheme::ECDSA_NISTP521_SHA512).then(|| {
            let bad = || rustls::Error::InvalidCertificate(rustls::CertificateError::BadSignature);
            let (_, parsed) = x509_parser::parse_x509_certificate(certificate).map_err(|_| bad())?;
            let point = &parsed.public_key().subject_public_key.data;
            let key = VerifyingKey::from_sec1_bytes(point).map_err(|_| bad())?;
            let signature = Signature::from_der(signed.signature()).map_err(|_| bad())?;
            key.verify(message, &signature).map_err(|_| bad())?;
            Ok(HandshakeSignatureValid::assertion())
        })
    }
}

impl ClientCertVerifier for ExactClient {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        match *end_entity == self.certificate {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(rustls::Error::InvalidCertificate(rustls::CertificateError::UnknownIssuer)),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let checked = Self::p521(message, certificate, signed);
        checked.unwrap_or_else(|| verify_tls12_signature(message, certificate, signed, &self.algorithms))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let checked = Self::p521(message, certificate, signed);
        checked.unwrap_or_else(|| verify_tls13_signature(message, certificate, signed, &self.algorithms))
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        let mut schemes = self.algorithms.supported_schemes();
        schemes.push(SignatureScheme::ECDSA_NISTP521_SHA512);
        schemes
    }
}
