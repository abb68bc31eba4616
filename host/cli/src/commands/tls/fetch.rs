//! Certificates of a running server, and whether a key belongs to a certificate; both by rustls.

use std::{
    io,
    path::Path,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use mortise_keys::certificate::{CertificateDer, read_certificates, read_key};
use tokio::{net::TcpStream, time::timeout};
use tokio_rustls::{
    TlsConnector,
    rustls::{
        ClientConfig, DigitallySignedStruct, Error, SignatureScheme,
        client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
        crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature},
        pki_types::{ServerName, UnixTime},
        sign::CertifiedKey,
    },
};

use crate::{CliError, Exit};

/// Longest wait for a server.
const FETCH_TIMEOUT: Duration = Duration::from_secs(10);

/// Records the certificates that a server presents, and accepts every issuer. The handshake still verifies that the
/// server has the key.
#[derive(Debug)]
struct Recorder {
    provider: Arc<CryptoProvider>,
    seen: Mutex<Vec<CertificateDer<'static>>>,
}

impl ServerCertVerifier for Recorder {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let chain = [end_entity].into_iter().chain(intermediates).map(|certificate| certificate.clone().into_owned());
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = chain.collect();
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

/// Fetches the certificates of the server at `host:port`, its own first. No data is sent over the connection.
pub(super) async fn chain_of(addr: &str) -> Result<Vec<CertificateDer<'static>>, CliError> {
    let unreachable = || {
        CliError::new(Exit::Unreachable, format!("no certificate from {addr}"))
            .remedy("--server takes HOST:PORT of a port that speaks TLS")
    };
    let host = addr.rsplit_once(':').map_or(addr, |(host, _)| host).trim_matches(['[', ']']);
    let name = ServerName::try_from(host.to_owned()).map_err(|e| unreachable().caused_by(e))?;
    let provider = Arc::new(ring::default_provider());
    let recorder = Arc::new(Recorder { provider: provider.clone(), seen: Mutex::default() });
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| unreachable().caused_by(e))?
        .dangerous()
        .with_custom_certificate_verifier(recorder.clone())
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let connecting = async {
        let stream = TcpStream::connect(addr).await?;
        TlsConnector::from(Arc::new(config)).connect(name, stream).await
    };
    let connected = timeout(FETCH_TIMEOUT, connecting).await;
    // A server may present its certificate and then demand one of this client.
    let seen = std::mem::take(&mut *recorder.seen.lock().unwrap_or_else(PoisonError::into_inner));
    match connected {
        _ if !seen.is_empty() => Ok(seen),
        Ok(Ok(_)) => Err(unreachable().caused_by(io::Error::other("it presents none"))),
        Ok(Err(e)) => Err(unreachable().caused_by(e)),
        Err(_) => {
            let late = io::Error::other(format!("it does not answer within {FETCH_TIMEOUT:?}"));
            Err(unreachable().caused_by(late))
        }
    }
}

/// Rejects a key that does not belong to the certificate.
pub(super) fn check_pair(certificate: &Path, key: &Path) -> Result<(), CliError> {
    let unusable = |e| CliError::usage("an existing file cannot be used").caused_by(e);
    let (chain, key_der) = (read_certificates(certificate).map_err(unusable)?, read_key(key).map_err(unusable)?);
    match CertifiedKey::from_der(chain, key_der, &ring::default_provider()) {
        Ok(_) => Ok(()),
        Err(_) => Err(CliError::usage(format!("{} is not the key of {}", key.display(), certificate.display()))
            .remedy("restore the file that belongs to it, or choose another directory: --dir DIR")),
    }
}
