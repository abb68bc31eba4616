//! Certificates for identities: the content of a leaf, and the requests that are refused.

use std::{
    sync::Arc,
    time::{Duration, SystemTime},
};

use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, SanType};
use tokio_rustls::rustls::{
    RootCertStore,
    client::{WebPkiServerVerifier, danger::ServerCertVerifier as _},
    crypto::ring,
    pki_types::{CertificateDer, ServerName, UnixTime},
    server::WebPkiClientVerifier,
};
use tonic::Code;

use super::{Mesh, der, request};
use crate::support::*;

/// Checks a chain as both sides of a handshake do, with the authority of `mortise tls init` as the trust anchor.
fn verify(mesh: &Mesh, chain: &[CertificateDer<'static>], name: &str) -> Result<(), String> {
    let mut roots = RootCertStore::empty();
    roots.add(der(&mesh.read("ca.pem")).into()).unwrap();
    let (roots, provider) = (Arc::new(roots), Arc::new(ring::default_provider()));
    let (leaf, issuers) = chain.split_first().unwrap();
    let (now, name) = (UnixTime::now(), ServerName::try_from(name.to_owned()).unwrap());
    let server = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone()).build().unwrap();
    server.verify_server_cert(leaf, issuers, &name, &[], now).map_err(|e| e.to_string())?;
    let client = WebPkiClientVerifier::builder_with_provider(roots, provider).build().unwrap();
    client.verify_client_cert(leaf, issuers, now).map(drop).map_err(|e| e.to_string())
}

#[tokio::test]
async fn a_token_with_the_right_gets_a_short_lived_leaf_that_both_sides_accept() {
    let mesh = Mesh::start("[identity]\nlifetime_s = 3600\nclock_allowance_s = 30\n", |setup| setup).await;
    let secret = mesh.token("web", "web.").await;
    let before = SystemTime::now();
    // A file of a token ends with a line feed.
    let web = mesh.credentials(&format!("{secret}\n"), "web.mesh.test").await;
    let after = SystemTime::now();
    assert_eq!(web.answer.intermediate_certificates, [der(&mesh.read("mesh.pem"))]);
    assert_eq!(verify(&mesh, &web.chain(), "web.mesh.test"), Ok(()));
    assert!(verify(&mesh, &web.chain(), "api.mesh.test").unwrap_err().contains("not valid for name"));
    let leaf = mortise_keys::certificate::Certificate::parse(&web.answer.leaf_certificate).unwrap();
    assert_eq!(leaf.identities(), ["web.mesh.test"]);
    assert_eq!(
        (leaf.alternative_names(), leaf.is_ca, leaf.subject.as_str()),
        (vec!["web.mesh.test".to_owned()], false, "")
    );
    assert_eq!(leaf.issuer, "CN=mortise identities in mesh.test");
    let end = SystemTime::try_from(web.answer.valid_until.unwrap()).unwrap();
    let hour = Duration::from_secs(3600);
    // Certificates have whole seconds.
    assert!(before + hour <= end + Duration::from_secs(1) && end <= after + hour);
    let seconds = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64;
    assert_eq!(leaf.not_after, seconds(end));
    assert!((seconds(before) - 30..=seconds(after) - 30).contains(&leaf.not_before));

    // Each certificate has a number of its own, also for the same key.
    let again = mesh.certify(&secret, "web.mesh.test", request(&web.key, &["web.mesh.test"])).await.unwrap();
    let again = mortise_keys::certificate::Certificate::parse(&again.leaf_certificate).unwrap();
    assert_ne!(again.serial, leaf.serial);
    let records = until("two records", async || {
        let records = mesh.records();
        if records.len() == 2 { Ok(records) } else { Err(records) }
    })
    .await;
    for (record, serial) in records.iter().zip([&leaf.serial, &again.serial]) {
        assert_eq!((&record["name"], &record["serial"]), (&"web.mesh.test".into(), &serial.as_str().into()));
        assert_eq!(
            (&record["accessor"], &record["decision"], &record["code"]),
            (&"web".into(), &"allow".into(), &"OK".into())
        );
        assert_eq!((&record["surface"], &record["method"]), (&"grpc".into(), &"Certify".into()));
    }
    assert!(!format!("{records:?}").contains(&secret));
    metric_until(&mesh, "mortise_identity_certificates_total{outcome=\"issued\"} 2").await;
}

/// Waits for a line among the metrics, read over TLS.
async fn metric_until(mesh: &Mesh, line: &str) {
    until(line, async || {
        let text = super::rotation::metrics(mesh).await;
        if text.lines().any(|found| found == line) { Ok(()) } else { Err(text) }
    })
    .await;
}

#[tokio::test]
async fn every_kind_of_key_that_clients_accept_is_certified() {
    let mesh = Mesh::start("", |setup| setup).await;
    let secret = mesh.token("all", "").await;
    for algorithm in [&rcgen::PKCS_ECDSA_P256_SHA256, &rcgen::PKCS_ECDSA_P384_SHA384, &rcgen::PKCS_ED25519] {
        let key = KeyPair::generate_for(algorithm).unwrap();
        let answer = mesh.certify(&secret, "web.mesh.test", request(&key, &["web.mesh.test"])).await.unwrap();
        let credentials = super::Credentials { key, answer };
        assert_eq!(verify(&mesh, &credentials.chain(), "web.mesh.test"), Ok(()), "{algorithm:?}");
    }
    let rsa = include_bytes!("../../../host/keys/src/certificate/requests/rsa-2048.der").to_vec();
    let answer = mesh.certify(&secret, "web.mesh.test", rsa).await.unwrap();
    let credentials = super::Credentials { key: KeyPair::generate().unwrap(), answer };
    assert_eq!(verify(&mesh, &credentials.chain(), "web.mesh.test"), Ok(()));
}

#[tokio::test]
async fn requests_that_ask_for_something_else_are_refused_with_a_text_that_names_it() {
    let mesh = Mesh::start("", |setup| setup).await;
    let secret = mesh.token("all", "").await;
    let key = KeyPair::generate().unwrap();
    let identity = "web.mesh.test";
    let with = |change: &dyn Fn(&mut CertificateParams)| {
        let mut params = CertificateParams::new(vec![identity.to_owned()]).unwrap();
        change(&mut params);
        params.serialize_request(&key).unwrap().der().to_vec()
    };
    let good = request(&key, &[identity]);
    let mut unsigned = good.clone();
    *unsigned.last_mut().unwrap() ^= 1;
    let mut longer = good.clone();
    longer.push(0);
    for (request, fault) in [
        (request(&key, &["api.mesh.test"]), "asks for the alternative name \"api.mesh.test\""),
        (request(&key, &[identity, "api.mesh.test"]), "asks for 2 alternative names"),
        (request(&key, &[identity, "192.0.2.1"]), "asks for 2 alternative names"),
        (request(&key, &[]), "asks for no alternative name"),
        (
            with(&|params| params.subject_alt_names.push(SanType::URI("spiffe://mesh.test/web".try_into().unwrap()))),
            "asks for 2 alternative names",
        ),
        (
            with(&|params| params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained)),
            "asks for the certificate of an authority",
        ),
        (
            with(&|params| {
                let other = rcgen::CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0]);
                params.custom_extensions.push(other);
            }),
            "asks for the extension 1.2.3",
        ),
        (unsigned, "has a signature that does not belong to its key"),
        (longer, "has 1 more bytes behind the certificate request"),
        (vec![0x30; 8_193], "has 8193 bytes, and the limit is 8192"),
        (
            include_bytes!("../../../host/keys/src/certificate/requests/p521.der").to_vec(),
            "has an unsupported key; use RSA (2048 to 4096 bits), P-256, P-384 or Ed25519",
        ),
        (b"garbage".to_vec(), "is not a certificate request in DER"),
        (Vec::new(), "is not a certificate request in DER"),
    ] {
        let refused = mesh.certify(&secret, identity, request).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        let text = refused.message();
        assert!(text.starts_with("certificate_signing_request ") && text.contains(fault), "{fault}: {text}");
    }
    // Uses of the key may be asked for; those of the certificate are the authority's.
    let uses = with(&|params| params.extended_key_usages = vec![ExtendedKeyUsagePurpose::CodeSigning]);
    mesh.certify(&secret, identity, uses).await.unwrap();
}

#[tokio::test]
async fn identities_outside_of_the_trust_domain_are_refused() {
    let mesh = Mesh::start("", |setup| setup).await;
    let secret = mesh.token("all", "").await;
    let key = KeyPair::generate().unwrap();
    for identity in
        ["localhost", "admin", "mesh.test", "web.other.test", "Web.mesh.test", "spiffe://other.test/web", ""]
    {
        let refused = mesh.certify(&secret, identity, request(&key, &[])).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
        assert!(refused.message().contains("is not an identity of the trust domain \"mesh.test\""), "{refused}");
    }
    let refused = mesh.certify(&secret, super::SERVER, request(&key, &[super::SERVER])).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("\"mortise.mesh.test\" is a name of this server"), "{refused}");
    // The authority of `mortise tls init` may sign DNS names alone, under any settings of the server.
    let spiffe = "spiffe://mesh.test/web";
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.subject_alt_names.push(SanType::URI(spiffe.try_into().unwrap()));
    let request = params.serialize_request(&key).unwrap().der().to_vec();
    let refused = mesh.certify(&secret, spiffe, request).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("clients would refuse the certificate"), "{refused}");
}

#[tokio::test]
async fn a_server_without_an_authority_does_not_have_the_method() {
    let server = Server::start().await;
    let request = super::asked("", "web.mesh.test", Vec::new());
    let mut client = linkerd2_proxy_api::identity::identity_client::IdentityClient::new(server.channel().await);
    assert_eq!(client.certify(request).await.unwrap_err().code(), Code::Unimplemented);
}
