//! TLS of probes: rustls, with the built-in roots of the Mozilla programme or with the check's own authorities.

use std::sync::Arc;

use tokio::net::TcpStream;
use tokio_rustls::{
    TlsConnector,
    client::TlsStream,
    rustls::{
        ClientConfig, RootCertStore,
        pki_types::{CertificateDer, ServerName, pem::PemObject as _},
    },
};

use super::fault::Fault;
use crate::grants::hosts::{Host, HostPort};

/// Protocols to ask for.
pub(super) const HTTP_1: &[u8] = b"http/1.1";
pub(super) const HTTP_2: &[u8] = b"h2";

/// Begins TLS with a server, and verifies it by the authorities (PEM; the built-in ones without), and by the name, or
/// its host without one.
pub(super) async fn connect(
    authorities: &str,
    server_name: &str,
    to: &HostPort,
    stream: TcpStream,
    protocol: &[u8],
) -> Result<TlsStream<TcpStream>, Fault> {
    let mut roots = RootCertStore::empty();
    if authorities.is_empty() {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
    } else {
        for certificate in CertificateDer::pem_slice_iter(authorities.as_bytes()) {
            let added = certificate.map(|certificate| roots.add(certificate));
            if !matches!(added, Ok(Ok(()))) {
                return Err(Fault("Tls", "the check's CA is not a list of certificates in PEM".to_owned()));
            }
        }
    }
    let name = match (server_name, &to.host) {
        ("", Host::Name(name)) => name.clone(),
        ("", Host::V4(ip)) => ip.to_string(),
        ("", Host::V6(ip)) => ip.to_string(),
        (name, _) => name.to_owned(),
    };
    let server = ServerName::try_from(name.clone()).map_err(|_| Fault("Tls", format!("{name:?} is no server name")))?;
    let mut config = ClientConfig::builder().with_root_certificates(roots).with_no_client_auth();
    config.alpn_protocols = vec![protocol.to_vec()];
    let connected = TlsConnector::from(Arc::new(config)).connect(server, stream).await;
    connected.map_err(|e| Fault("Tls", format!("the handshake with {name} failed: {e}")))
}
