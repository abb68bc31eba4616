//! A service exists when its Service does, whatever becomes of its endpoints.

use std::time::Instant;

use hickory_proto::{op::ResponseCode, rr::RecordType};
use mortise_plugin_catalog::proto::catalog::v1::{
    EndpointSlice, Service, ServiceEndpoints, ServicePort, Workload, WorkloadAddress, WorkloadPort,
};
use mortise_resource::pb;

use super::{
    dns::{ask, query, tcp},
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
    let truncated = ask(dns, "web.default.svc.cluster.local.", RecordType::A).await;
    assert!(truncated.metadata.truncation, "a datagram is too small for all of them");
    let absent = ask(dns, "web-70.web.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(absent.metadata.response_code, ResponseCode::NXDomain);
}

/// 20,000 endpoints of one service, of which 200 workloads change: the figures in docs/service-discovery.md. It takes
/// minutes: `cargo test --test wire -- --ignored --nocapture catalog::existence::large`.
#[tokio::test]
#[ignore = "a measurement"]
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

/// A workload with 16 addresses.
fn many(number: u32, weight: u32) -> pb::Resource {
    let at = |last| WorkloadAddress { host: format!("10.{}.{}.{last}", number / 250, number % 250), ports: Vec::new() };
    let data = Workload {
        addresses: (1..=16).map(at).collect(),
        ports: vec![WorkloadPort { name: "http".into(), port: 8080, protocol: 0 }],
        weight,
        ..Workload::default()
    };
    resource(id("catalog.v1.Workload", &format!("web-{number:02}")), Some(any("catalog.v1.Workload", &data)))
}
