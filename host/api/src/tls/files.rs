//! Reads the TLS files into configurations for rustls.

use std::{path::Path, sync::Arc};

use mortise_keys::certificate::{Certificate, CertificateDer, read_certificates, read_key};
use tokio_rustls::rustls::{
    self, RootCertStore, ServerConfig,
    crypto::{CryptoProvider, ring},
    server::{WebPkiClientVerifier, danger::ClientCertVerifier},
    sign::{CertifiedKey, SingleCertAndKey},
    version::{TLS12, TLS13},
};

use super::{ClientCerts, TlsError, TlsOptions};

const CERT_FILE: &str = "tls.cert_file";
const CLIENT_CA_FILE: &str = "tls.client_ca_file";

/// The content of the files, ready to serve.
pub(super) struct Configs {
    /// Configuration of the gRPC port.
    pub(super) grpc: Arc<ServerConfig>,
    /// Configuration of the HTTP port.
    pub(super) http: Arc<ServerConfig>,
    /// The server's own certificate.
    pub(super) certificate: Certificate,
    /// The certificate of each file that expires first, by the file's setting.
    pub(super) expiring: Vec<(&'static str, Certificate)>,
}

impl Configs {
    /// Reads the files. Blocks.
    ///
    /// # Errors
    /// [`TlsError`].
    pub(super) fn read(options: &TlsOptions) -> Result<Self, TlsError> {
        let provider = Arc::new(ring::default_provider());
        let chain = certificates(CERT_FILE, &options.cert_file)?;
        let described = describe(CERT_FILE, &options.cert_file, &chain)?;
        let key = certified_key(options, chain, &provider)?;
        let mut expiring = Vec::new();
        expiring.extend(first_to_expire(&described).map(|soonest| (CERT_FILE, soonest)));
        let mut verifier = None;
        if let Some(path) = &options.client_ca_file {
            let authorities = certificates(CLIENT_CA_FILE, path)?;
            let described = describe(CLIENT_CA_FILE, path, &authorities)?;
            expiring.extend(first_to_expire(&described).map(|soonest| (CLIENT_CA_FILE, soonest)));
            verifier = Some(client_verifier(path, authorities, options.client_certs, &provider)?);
        }
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&TLS13, &TLS12])
            .map_err(TlsError::Versions)?;
        let builder = match verifier {
            Some(verifier) => builder.with_client_cert_verifier(verifier),
            None => builder.with_no_client_auth(),
        };
        // Each configuration remembers its own sessions, so that a session of one port opens nothing on the other.
        let config = |protocols: &[&[u8]]| {
            let mut config = builder.clone().with_cert_resolver(Arc::new(SingleCertAndKey::from(key.clone())));
            config.alpn_protocols = protocols.iter().map(|protocol| protocol.to_vec()).collect();
            Arc::new(config)
        };
        let (grpc, http) = (config(&[b"h2"]), config(&[b"h2", b"http/1.1"]));
        let mut described = described.into_iter();
        // There is a first one: a file without a certificate was rejected.
        let certificate = described.next().ok_or_else(|| TlsError::File {
            setting: CERT_FILE,
            source: mortise_keys::certificate::PemFileError::NoCertificate { path: options.cert_file.clone() },
        })?;
        Ok(Self { grpc, http, certificate, expiring })
    }

    /// Returns the faults of the files: at most one of the certificate and its key, and one of the authorities. Blocks.
    pub(super) fn faults(options: &TlsOptions) -> Vec<TlsError> {
        let own = TlsOptions { client_ca_file: None, ..options.clone() };
        let own = Self::read(&own).err();
        let clients = options.client_ca_file.as_ref().and_then(|path| {
            let read = certificates(CLIENT_CA_FILE, path).and_then(|authorities| {
                describe(CLIENT_CA_FILE, path, &authorities)?;
                client_verifier(path, authorities, options.client_certs, &Arc::new(ring::default_provider()))
            });
            read.err()
        });
        own.into_iter().chain(clients).collect()
    }

    /// Logs which certificate is in use.
    pub(super) fn log_certificate(&self, what: &str) {
        let Certificate { serial, .. } = &self.certificate;
        tracing::info!(subject = self.certificate.label(), serial, until = %self.certificate.expiry(), "{what}");
    }
}

fn certificates(setting: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    read_certificates(path).map_err(|source| TlsError::File { setting, source })
}

fn describe(
    setting: &'static str,
    path: &Path,
    chain: &[CertificateDer<'static>],
) -> Result<Vec<Certificate>, TlsError> {
    let malformed = |source| TlsError::Malformed { setting, path: path.to_owned(), source };
    chain.iter().map(|der| Certificate::parse(der).map_err(malformed)).collect()
}

fn first_to_expire(certificates: &[Certificate]) -> Option<Certificate> {
    certificates.iter().min_by_key(|certificate| certificate.not_after).cloned()
}

/// The certificate with its key; checks that they belong together.
fn certified_key(
    options: &TlsOptions,
    chain: Vec<CertificateDer<'static>>,
    provider: &CryptoProvider,
) -> Result<CertifiedKey, TlsError> {
    let path = &options.key_file;
    let key = read_key(path).map_err(|source| TlsError::File { setting: "tls.key_file", source })?;
    let unusable = |source| TlsError::Key { path: path.clone(), source };
    let key = CertifiedKey::new(chain, provider.key_provider.load_private_key(key).map_err(unusable)?);
    match key.keys_match() {
        Ok(()) => Ok(key),
        Err(rustls::Error::InconsistentKeys(_)) => {
            Err(TlsError::Mismatch { key: path.clone(), cert: options.cert_file.clone() })
        }
        Err(source) => Err(TlsError::Unusable { setting: CERT_FILE, path: options.cert_file.clone(), source }),
    }
}

fn client_verifier(
    path: &Path,
    authorities: Vec<CertificateDer<'static>>,
    wanted: ClientCerts,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let mut roots = RootCertStore::empty();
    for authority in authorities {
        let unusable = |source| TlsError::Unusable { setting: CLIENT_CA_FILE, path: path.to_owned(), source };
        roots.add(authority).map_err(unusable)?;
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
    let builder = match wanted {
        ClientCerts::Optional => builder.allow_unauthenticated(),
        ClientCerts::Required => builder,
    };
    builder.build().map_err(|source| TlsError::Authorities { path: path.to_owned(), source })
}
