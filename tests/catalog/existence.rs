//! A service exists when its Service does, even if all of its endpoints go.

use std::time::Instant;

use hickory_proto::{op::ResponseCode, rr::RecordType};
use mortise_api::catalog;
use mortise_plugin_catalog::proto::catalog::v1::{
    EndpointSlice, Service, ServiceEndpoints, ServicePort, Workload, WorkloadAddress, WorkloadPort,
};
use mortise_resource::pb;

use super::{
    dns::{answers, ask, query, tcp},
    endpoints::{service, workload},
};
use crate::{
    destination::proxy::{Api, Proxy, Said, addrs, at},
    support::{Server, any, controllers::idle, decoded, eventually, id, id_of, resource},
};

fn endpoints_of(name: &str) -> pb::Id {
    id("catalog.v1.ServiceEndpoints", name)
}

/// The first message to a new subscriber.
async fn first(server: &Server, name: &str) -> Said {
    Api::Linkerd.of(server, name).await.next().await
}

#[tokio::test]
async fn a_new_service_is_never_told_as_absent_or_empty() {
    let server = Server::start().await;
    server.write(workload("web-a", "192.0.2.1", 8080)).await.unwrap();
    let mut open = Vec::new();
    for number in 0..20 {
        let name = format!("web{number}");
        server.write(service(&name, "web-")).await.unwrap();
        open.push(Api::Linkerd.of(&server, &name).await);
    }
    for mut stream in open {
        assert_eq!(stream.added().await, addrs(&["192.0.2.1:8080"]));
    }
}

#[tokio::test]
async fn a_service_without_selector_exists_before_and_after_its_endpoints() {
    let server = Server::start().await;
    let mut waiting = Api::Linkerd.of(&server, "web").await;
    assert_eq!(waiting.next().await, Said::NoEndpoints { exists: false });
    let http = ServicePort { name: "http".into(), port: 80, ..ServicePort::default() };
    let data = Service { ports: vec![http.clone()], ..Service::default() };
    let web = resource(id("catalog.v1.Service", "web"), Some(any("catalog.v1.Service", &data)));
    let web = id_of(&server.write(web).await.unwrap());
    assert_eq!(waiting.next().await, Said::NoEndpoints { exists: true });
    assert_eq!(first(&server, "web").await, Said::NoEndpoints { exists: true });
    let written = crate::destination::proxy::service([at("10.0.0.1:8080")]);
    server.set("web", &written).await;
    assert_eq!(waiting.added().await, addrs(&["10.0.0.1:8080"]));
    server.unset("web").await;
    assert_eq!(waiting.next().await, Said::NoEndpoints { exists: true });
    server.delete(&web, "").await.unwrap();
    assert_eq!(waiting.next().await, Said::NoEndpoints { exists: false });
}

#[tokio::test]
async fn endpoints_that_were_deleted_by_hand_are_missed_by_no_subscriber() {
    let server = Server::start().await;
    server.write(workload("web-a", "192.0.2.1", 8080)).await.unwrap();
    server.write(service("web", "web-")).await.unwrap();
    let mut stream = Api::Linkerd.of(&server, "web").await;
    assert_eq!(stream.added().await, addrs(&["192.0.2.1:8080"]));
    for number in 2..6 {
        server.delete(&endpoints_of("web"), "").await.unwrap();
        server.write(workload(&format!("web-{number}"), &format!("192.0.2.{number}"), 8080)).await.unwrap();
        assert_eq!(stream.added().await, addrs(&[&format!("192.0.2.{number}:8080")]), "nothing else is told");
    }
}

/// 70 workloads of 16 addresses: more endpoints than a slice has.
#[tokio::test]
async fn slices_are_parts_of_one_service_for_proxies_and_resolvers() {
    let server = Server::start().await;
    for number in 0..70 {
        server.write(many(number, 1)).await.unwrap();
    }
    server.write(service("web", "web-")).await.unwrap();
    let mut stream = Api::Linkerd.of(&server, "web").await;
    let mut proxy = Proxy { is_first: true, ..Proxy::default() };
    while proxy.set.len() < 70 * 16 {
        let said = stream.next().await;
        assert!(matches!(said, Said::Add(..)), "it is filled, and nothing leaves it: {said:?}");
        proxy.hear(said);
    }
    let head: ServiceEndpoints = decoded(&server.read(&id("catalog.v1.ServiceEndpoints", "web")).await.unwrap());
    assert_eq!(head.slices.len(), 1);
    eventually("no endpoint is in two parts", async || {
        let slice = server.read(&id("catalog.v1.EndpointSlice", &head.slices[0].slice)).await.unwrap();
        let head: ServiceEndpoints = decoded(&server.read(&id("catalog.v1.ServiceEndpoints", "web")).await.unwrap());
        head.endpoints.len() + decoded::<EndpointSlice>(&slice).endpoints.len() == 70 * 16
    })
    .await;
    for changed in [0, 69] {
        server.write(many(changed, 7)).await.unwrap();
        assert_eq!(stream.added().await.len(), 16, "the addresses of one workload");
    }
    let dns = server.dns.expect("dev switches it on");
    for (name, of, expected) in [
        ("web-00.web", RecordType::A, 16),
        ("web-69.web", RecordType::A, 16),
        ("web", RecordType::A, 70 * 16),
        ("_http._tcp.web", RecordType::SRV, 70),
    ] {
        let name = format!("{name}.default.svc.cluster.local.");
        let answers = tcp(dns, &[query(&name, of)]).await.remove(0).answers;
        assert_eq!(answers.len(), expected, "{name}");
    }
    // A change of a slice alone shows in the very next answer.
    server.write(many(69, 9)).await.unwrap();
    assert_eq!(stream.added().await.len(), 16);
    let srv = tcp(dns, &[query("_http._tcp.web.default.svc.cluster.local.", RecordType::SRV)]).await.remove(0);
    let weights = answers(&srv).iter().filter(|record| record.starts_with("SRV 0 9 8080 web-69.")).count();
    assert_eq!((weights, srv.answers.len()), (1, 70));
    let reverse = ask(dns, "7.69.0.10.in-addr.arpa.", RecordType::PTR).await;
    assert_eq!(answers(&reverse), ["PTR web-69.web.default.svc.cluster.local."]);
    let truncated = ask(dns, "web.default.svc.cluster.local.", RecordType::A).await;
    assert!(truncated.metadata.truncation, "a datagram is too small for all of them");
    let absent = ask(dns, "web-70.web.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(absent.metadata.response_code, ResponseCode::NXDomain);
}

/// A part that never comes holds back the others for some seconds, and then no longer.
#[tokio::test]
async fn a_slice_that_never_comes_hides_no_other_endpoint() {
    let server = Server::start().await;
    let absent = catalog::SliceRange { slice: "web-slice-01".into(), from: "w".into() };
    let known = |addr: &str| {
        let head = crate::destination::proxy::service([at(addr)]);
        catalog::ServiceEndpoints { slices: vec![absent.clone()], ..head }
    };
    server.set("web", &known("10.0.0.1:8080")).await;
    let mut stream = Api::Linkerd.of(&server, "web").await;
    assert_eq!(stream.added().await, addrs(&["10.0.0.1:8080"]));
    server.set("web", &known("10.0.0.2:8080")).await;
    assert_eq!(stream.added().await, addrs(&["10.0.0.2:8080"]));
}

/// 20,000 endpoints of one service, of which 200 workloads change: the figures in docs/service-discovery.md. It takes
/// minutes: `cargo test --test wire -- --ignored --nocapture catalog::existence::large`.
#[tokio::test]
#[ignore = "prints figures, and takes minutes"]
async fn large_services_cost_what_changes() {
    const WORKLOADS: u32 = 1_250;
    let server = Server::start().await;
    for number in 0..WORKLOADS {
        server.write(many(number, 1)).await.unwrap();
    }
    server.write(service("web", "web-")).await.unwrap();
    let begun = Instant::now();
    let mut stream = Api::Linkerd.of(&server, "web").await;
    let mut proxy = Proxy { is_first: true, ..Proxy::default() };
    while proxy.set.len() < WORKLOADS as usize * 16 {
        proxy.hear(stream.next().await);
    }
    println!("20,000 endpoints were there after {:?}", begun.elapsed());
    let before = idle(&server, "catalog/slices").await;
    let begun = Instant::now();
    for number in 0..200 {
        server.write(many(number * 6, 7)).await.unwrap();
    }
    let written = begun.elapsed();
    let mut told = 0;
    while told < 200 * 16 {
        told += stream.added().await.len();
    }
    println!("200 changes: written after {written:?}, with the reader after {:?}", begun.elapsed());
    println!("{} reconciles of slices, {told} addresses told", idle(&server, "catalog/slices").await - before);
    assert_eq!(told, 200 * 16, "nothing else was told");
}

/// Subscribers of a service with slices, of which workloads come, change and go, and endpoints are deleted by hand: the
/// number of messages in which it is empty or absent. It takes minutes:
/// `MORTISE_CHURN_EVENTS=10000 cargo test --test wire -- --ignored --nocapture catalog::existence::churn`. With
/// `MORTISE_CHURN_SUBSCRIBERS=600` they get over a million messages on a machine that does nothing else.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "prints figures, and takes minutes"]
async fn churn_of_slices_empties_nothing() {
    let number = |name: &str, usual| std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let (events, subscribers) = (number("MORTISE_CHURN_EVENTS", 1_000_u32), number("MORTISE_CHURN_SUBSCRIBERS", 50));
    let server = Server::start().await;
    let mut rng = fastrand::Rng::with_seed(48);
    let mut truth: std::collections::BTreeMap<u32, u32> = (0..90).map(|number| (number, 1)).collect();
    for number in truth.keys() {
        server.write(many(*number, 1)).await.unwrap();
    }
    server.write(service("web", "web-")).await.unwrap();
    let mut following = tokio::task::JoinSet::new();
    let (end, ended) = tokio::sync::watch::channel(None);
    for _ in 0..subscribers {
        let (mut stream, mut ended) = (Api::Linkerd.of(&server, "web").await, ended.clone());
        following.spawn(async move {
            let mut proxy = Proxy { is_first: true, ..Proxy::default() };
            let (mut messages, mut empty) = (0_usize, 0_usize);
            while ended.borrow_and_update().as_ref() != Some(&proxy.set) {
                tokio::select! {
                    said = stream.message() => {
                        let said = said.unwrap().unwrap();
                        messages += 1;
                        empty += usize::from(matches!(said, Said::NoEndpoints { .. }));
                        proxy.hear(said);
                    }
                    _ = ended.changed() => {}
                }
            }
            (messages, empty)
        });
    }
    let begun = Instant::now();
    for event in 1..=events {
        let (number, weight) = (rng.u32(..130), rng.u32(1..1_000));
        let goes = truth.len() > 60 && rng.u32(..3) == 0 && truth.remove(&number).is_some();
        match goes {
            true => server.delete(&id("catalog.v1.Workload", &format!("web-{number:02}")), "").await.unwrap(),
            false => {
                truth.insert(number, weight);
                server.write(many(number, weight)).await.unwrap();
            }
        }
        if event % 1_000 == 0 {
            server.delete(&endpoints_of("web"), "").await.unwrap();
        }
    }
    let mut all = Api::Linkerd.of(&server, "web").await;
    let mut proxy = Proxy { is_first: true, ..Proxy::default() };
    let is_whole = |proxy: &Proxy| {
        let weights = proxy.set.values().map(|told| told.weight).map(u64::from).sum::<u64>();
        let expected = truth.values().map(|weight| 16 * u64::from(*weight)).sum::<u64>();
        proxy.set.len() == 16 * truth.len() && weights == expected
    };
    while !is_whole(&proxy) {
        proxy.hear(all.next().await);
    }
    end.send_replace(Some(proxy.set));
    let (mut messages, mut empty) = (0, 0);
    for (of_one, empty_of_one) in following.join_all().await {
        (messages, empty) = (messages + of_one, empty + empty_of_one);
    }
    println!(
        "{events} events in {:?}: {messages} messages to {subscribers}, {empty} of them empty or absent",
        begun.elapsed()
    );
    assert_eq!(empty, 0);
}

/// A workload with 16 addresses.
fn many(number: u32, weight: u32) -> pb::Resource {
    let at = |last| WorkloadAddress { host: format!("10.{}.{}.{last}", number / 250, number % 250), ports: Vec::new() };
    let data = Workload {
        addresses: (1..=16).map(at).collect(),
        ports: vec![WorkloadPort { name: "http".into(), port: 8080, protocol: 0, opaque: false }],
        weight,
        ..Workload::default()
    };
    resource(id("catalog.v1.Workload", &format!("web-{number:02}")), Some(any("catalog.v1.Workload", &data)))
}
