//! Change of the authority: new files are taken without a restart, and earlier leaves stay valid.

use std::sync::Arc;

use rcgen::KeyPair;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};
use tokio_rustls::{
    TlsConnector,
    rustls::{ClientConfig, RootCertStore, crypto::ring, pki_types::ServerName},
};

use super::{Mesh, der, init, request};
use crate::support::*;

/// The metrics, read over TLS with the bootstrap token.
pub async fn metrics(mesh: &Mesh) -> String {
    let mut roots = RootCertStore::empty();
    roots.add(der(&mesh.read("ca.pem")).into()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(mesh.guarded.server.http).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
    let token = &mesh.guarded.management;
    let head = format!("GET /metrics HTTP/1.0\r\nhost: localhost\r\nx-consul-token: {token}\r\n\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    until_closed(&mut stream).await.0
}

/// Removes the files of the authority for identities, and makes others.
async fn replace(mesh: &Mesh) {
    let other = tempfile::tempdir().unwrap();
    for name in ["ca.pem", "ca.key"] {
        std::fs::copy(mesh.path(name), other.path().join(name)).unwrap();
    }
    let (code, out, err) = init(other.path(), &[]).await;
    assert_eq!(code, Some(0), "{out}{err}");
    for name in ["mesh.key", "mesh.pem"] {
        std::fs::rename(other.path().join(name), mesh.path(name)).unwrap();
    }
}

#[tokio::test]
async fn a_new_authority_is_taken_at_a_signal_and_leaves_of_the_former_stay_valid() {
    // Files are looked at after the signal alone.
    let mesh = Mesh::start("", |setup| setup.serve().limit("tls_rescan_ms", 3_600_000)).await;
    let secret = mesh.token("all", "").await;
    let before = mesh.credentials(&secret, "web.mesh.test").await;
    let former = mesh.read("mesh.pem");
    replace(&mesh).await;
    assert_ne!(mesh.read("mesh.pem"), former);
    assert_eq!(mesh.credentials(&secret, "web.mesh.test").await.answer.intermediate_certificates, [der(&former)]);
    mesh.guarded.server.signal("HUP");
    let after = until("a leaf of the new authority", async || {
        let after = mesh.credentials(&secret, "web.mesh.test").await;
        if after.answer.intermediate_certificates == [der(&mesh.read("mesh.pem"))] { Ok(after) } else { Err("former") }
    })
    .await;
    // The trust anchor is the same, so both connect.
    for credentials in [&before, &after] {
        let channel = mesh.channel(Some(credentials.identity())).await;
        mortise_api::AuthServiceClient::new(channel).who_am_i(mortise_resource::data::WhoAmIRequest {}).await.unwrap();
    }

    // Files that do not fit together are refused, and those from before stay in service.
    std::fs::write(mesh.path("mesh.key"), KeyPair::generate().unwrap().serialize_pem()).unwrap();
    mesh.guarded.server.signal("HUP");
    let refused = "the files of the authority for identities are refused, so those from before stay in service";
    until("a refusal in the log", async || {
        let log = mesh.guarded.server.log();
        if log.contains(refused) { Ok(()) } else { Err(log) }
    })
    .await;
    let log = mesh.guarded.server.log();
    assert!(log.contains("does not belong to the first certificate in"), "{log}");
    mesh.certify(&secret, "web.mesh.test", request(&before.key, &["web.mesh.test"])).await.unwrap();
    let text = metrics(&mesh).await;
    for line in [
        "mortise_identity_reloads_total{outcome=\"loaded\"} 1",
        "mortise_identity_reloads_total{outcome=\"refused\"} 1",
    ] {
        assert!(text.lines().any(|found| found == line), "{line}: {text}");
    }
    assert!(text.contains("mortise_tls_certificate_expiry_seconds{setting=\"identity.cert_file\"}"), "{text}");
}

#[tokio::test]
async fn changed_files_are_taken_without_a_signal() {
    let mesh = Mesh::start("", |setup| setup.limit("tls_rescan_ms", 50)).await;
    let secret = mesh.token("all", "").await;
    replace(&mesh).await;
    until("a leaf of the new authority", async || {
        let after = mesh.credentials(&secret, "web.mesh.test").await;
        if after.answer.intermediate_certificates == [der(&mesh.read("mesh.pem"))] { Ok(()) } else { Err("former") }
    })
    .await;
}
