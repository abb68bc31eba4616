//! Lost answers, and an etcd that goes and comes back.

use std::time::Duration;

use mortise_store::{
    Backend, Consistency, StoreError,
    conformance::fixtures::{id, list, number, numbered, query, resource, write},
};
use mortise_store_etcd::{EtcdBackend, EtcdError, EtcdOptions, Tls};
use mortise_test_process::{
    etcd::{Etcd, ServerTls},
    proxy::Proxy,
};
use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair};

use crate::{
    copy_in,
    etcd::{self, options_at, prefix},
};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_answer_is_found_out_and_nothing_happens_twice() {
    let Some(options) = etcd::options(&prefix()) else { return };
    let proxy = Proxy::start(&options.endpoints[0]).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let through = options_at(&proxy.endpoint, &options.prefix);
    let server = EtcdBackend::open(&through, copy_in(&dir.path().join("1"))).await.unwrap();
    let other = EtcdBackend::open(&options, copy_in(&dir.path().join("2"))).await.unwrap();

    let mut stored = write(&server, &resource("counter")).await;
    for turn in 1..=40 {
        if turn % 2 == 0 {
            proxy.lose_next();
        }
        // A blind repetition would fail here, since its first attempt was stored.
        stored = server.write_cas(numbered(stored, turn)).await.unwrap();
    }
    println!("{} answers were lost", proxy.cuts());
    assert!(proxy.cuts() >= 10, "answers were lost: {}", proxy.cuts());
    let seen = other.read(Consistency::Consistent, &id(&stored)).await.unwrap();
    assert_eq!((number(&seen), &seen), (40, &stored));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_etcd_reads_go_on_and_writes_fail_until_it_is_back() {
    let Some(mut etcd) = etcd::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = options_at(&etcd.endpoint, "/m/");
    let server = EtcdBackend::open(&options, copy_in(&dir.path().join("1"))).await.unwrap();
    let stored = write(&server, &resource("a")).await;
    let mut health = server.health();

    etcd.kill().unwrap();
    let stored_id = id(&stored);
    let (written, read) =
        tokio::join!(server.write_cas(numbered(stored.clone(), 1)), server.read(Consistency::Consistent, &stored_id),);
    assert!(matches!(written, Err(StoreError::Unreachable(_) | StoreError::OutcomeUnknown(_))), "{written:?}");
    assert!(matches!(read, Err(StoreError::Unreachable(_))), "{read:?}");
    assert_eq!(server.read(Consistency::Eventual, &id(&stored)).await.unwrap(), stored);
    let away = tokio::time::timeout(Duration::from_secs(60), health.wait_for(|health| health.away.is_some())).await;
    assert!(!away.unwrap().unwrap().is_ready());
    let another = EtcdBackend::open(&options, copy_in(&dir.path().join("2"))).await;
    assert!(matches!(another, Err(EtcdError::Unreachable(_))), "{another:?}");

    etcd.restart().unwrap();
    let back = tokio::time::timeout(Duration::from_secs(60), health.wait_for(|health| health.away.is_none())).await;
    assert!(back.unwrap().unwrap().is_ready());
    let seen = server.read(Consistency::Consistent, &id(&stored)).await.unwrap();
    let written = server.write_cas(numbered(seen, 2)).await.unwrap();
    assert_eq!(number(&written), 2);
    assert_eq!(list(&server, &query("*", "*", "")).await, [written]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_prefix_of_another_program_and_a_copy_of_another_store_are_refused() {
    let Some(options) = etcd::options(&prefix()) else { return };
    let dir = tempfile::tempdir().unwrap();
    drop(EtcdBackend::open(&options, copy_in(dir.path())).await.unwrap());
    let Some(elsewhere) = etcd::options(&prefix()) else { return };
    let other = EtcdBackend::open(&elsewhere, copy_in(dir.path())).await;
    let text = other.map(drop).unwrap_err().to_string();
    assert!(text.contains("is a copy of the store") && text.contains("store.etcd.endpoints"), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn etcd_is_reached_by_tls_with_a_client_certificate_and_not_without() {
    let dir = tempfile::tempdir().unwrap();
    let authority_key = KeyPair::generate().unwrap();
    let mut about = CertificateParams::new(Vec::new()).unwrap();
    about.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority_pem = about.self_signed(&authority_key).unwrap().pem();
    let issuer = Issuer::new(about, authority_key);
    let issued = |name: &str, usage: ExtendedKeyUsagePurpose| {
        let key = KeyPair::generate().unwrap();
        let mut about = CertificateParams::new(vec![name.to_owned()]).unwrap();
        about.extended_key_usages = vec![usage];
        let cert = about.signed_by(&key, &issuer).unwrap();
        (cert.pem(), key.serialize_pem())
    };
    let (cert, key) = issued("127.0.0.1", ExtendedKeyUsagePurpose::ServerAuth);
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let files = ServerTls {
        ca_file: file("ca.pem", &authority_pem),
        cert_file: file("etcd.pem", &cert),
        key_file: file("etcd.key", &key),
    };
    let Some(etcd) = Etcd::start_with(Some(files)).unwrap() else { return };
    let (cert, key) = issued("mortise", ExtendedKeyUsagePurpose::ClientAuth);
    let tls = Tls { authorities: Some(authority_pem.into_bytes()), identity: None };
    let without = EtcdOptions { tls: Some(tls.clone()), ..options_at(&etcd.endpoint, "/tls/") };
    let refused = EtcdBackend::open(&without, copy_in(&dir.path().join("refused"))).await;
    assert!(matches!(refused, Err(EtcdError::Unreachable(_))), "{refused:?}");
    let identity = Some((cert.into_bytes(), key.into_bytes()));
    let with = EtcdOptions { tls: Some(Tls { identity, ..tls }), ..without };
    let server = EtcdBackend::open(&with, copy_in(&dir.path().join("copy"))).await.unwrap();
    let stored = write(&server, &resource("by-tls")).await;
    assert_eq!(server.read(Consistency::Consistent, &id(&stored)).await.unwrap(), stored);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_with_the_name_of_another_stops_writing() {
    let Some(options) = etcd::options(&prefix()) else { return };
    let dir = tempfile::tempdir().unwrap();
    let (one, copied) = (dir.path().join("one"), dir.path().join("copied"));
    let server = EtcdBackend::open(&options, copy_in(&one)).await.unwrap();
    write(&server, &resource("a")).await;
    std::fs::create_dir(&copied).unwrap();
    std::fs::copy(one.join("server"), copied.join("server")).unwrap();
    let other = EtcdBackend::open(&options, copy_in(&copied)).await.unwrap();
    write(&other, &resource("b")).await;
    let refused = server.write_cas(resource("c")).await.unwrap_err();
    assert!(matches!(&refused, StoreError::Poisoned(why) if why.contains("another server uses the name")), "{refused}");
    assert!(!server.health().borrow().is_ready());
    write(&other, &resource("d")).await;
}

/// A batch that its caller gave up before it was proposed is never stored; one that may be stored is said to be so.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_said_not_to_be_stored_is_not_stored_when_etcd_comes_back() {
    let Some(mut etcd) = etcd::start() else { return };
    let dir = tempfile::tempdir().unwrap();
    let options = options_at(&etcd.endpoint, "/m/");
    let server = std::sync::Arc::new(EtcdBackend::open(&options, copy_in(&dir.path().join("1"))).await.unwrap());
    etcd.kill().unwrap();
    let writers = (0..200).map(|n| {
        let server = server.clone();
        tokio::spawn(async move { (n, server.write_cas(resource(&format!("r-{n:03}"))).await) })
    });
    let (mut not_stored, mut unknown) = (Vec::new(), 0);
    for writer in writers.collect::<Vec<_>>() {
        match writer.await.unwrap() {
            (n, Err(StoreError::Unreachable(_))) => not_stored.push(format!("r-{n:03}")),
            (_, Err(StoreError::OutcomeUnknown(_))) => unknown += 1,
            (n, other) => panic!("{n}: {other:?}"),
        }
    }
    etcd.restart().unwrap();
    let marker = loop {
        match server.write_cas(resource("marker")).await {
            Ok(marker) => break marker,
            Err(StoreError::Unreachable(_)) => {}
            // It may be stored already.
            Err(_) => break server.read(Consistency::Consistent, &id(&resource("marker"))).await.unwrap(),
        }
    };
    let stored: Vec<_> = list(&*server, &query("*", "*", "r-")).await.iter().map(|stored| id(stored).name).collect();
    println!(
        "{} were not stored, {unknown} unknown, {} stored before {}",
        not_stored.len(),
        stored.len(),
        marker.version
    );
    assert!(!not_stored.is_empty() && unknown > 0, "{} were not stored, {unknown} unknown", not_stored.len());
    assert!(not_stored.iter().all(|name| !stored.contains(name)), "{stored:?}");
}
