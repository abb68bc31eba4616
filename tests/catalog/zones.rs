//! Zones and labels of endpoints in DNS: names that choose by them, and the zone that a server prefers.

use std::{collections::BTreeSet, net::SocketAddr};

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::RecordType,
};
use mortise_resource::{
    grpc::catalog::{Endpoint, EndpointSlice, Health, Service, ServiceEndpoints, SliceRange},
    pb,
};

use super::dns::{additionals, answers, ask, endpoint, endpoints, start};
use crate::support::{Server, Setup, any, id, id_of, resource};

const WEB: &str = "web.default.svc.cluster.local.";

const HTTP: [(&str, u32); 1] = [("http", 8080)];

/// An endpoint in a zone, with the label `version`.
fn placed(workload: &str, address: &str, zone: &str, version: &str) -> Endpoint {
    let labels = [("version".to_owned(), version.to_owned())].into();
    Endpoint { zone: zone.into(), labels, ..endpoint(workload, address, 1, &HTTP) }
}

fn ill(endpoint: Endpoint) -> Endpoint {
    Endpoint { health: Health::Critical.into(), ..endpoint }
}

/// Two endpoints in rack-1, one of them of version 2, and one in rack-2; the only one in `eu.cold` is ill.
fn racks() -> Vec<Endpoint> {
    vec![
        placed("web-1", "10.0.0.1", "rack-1", "1.0"),
        placed("web-2", "10.0.0.2", "Rack-1", "2.0"),
        placed("web-3", "10.0.0.3", "rack-2", "2.0"),
        ill(placed("web-4", "10.0.0.4", "eu.cold", "2.0")),
    ]
}

async fn preferring(settings: &[(&str, &str)]) -> (Server, SocketAddr) {
    let setup = settings.iter().fold(Setup::new(), |setup, (key, value)| setup.env(key, value));
    let server = setup.start().await;
    let dns = server.dns.unwrap();
    (server, dns)
}

/// The addresses of a message, in its order.
fn in_order(message: &Message) -> Vec<String> {
    message.answers.iter().map(|record| record.data.to_string()).collect()
}

#[tokio::test]
async fn names_choose_endpoints_by_zone_and_by_label() {
    let (server, dns) = preferring(&[("MORTISE_DNS_SHORT_ZONE", "mesh")]).await;
    server.write(endpoints("web", racks())).await.unwrap();
    for (name, expected) in [
        ("rack-1.zone.web.default.svc.cluster.local.", &["A 10.0.0.1", "A 10.0.0.2"][..]),
        ("RACK-2.Zone.web.default.svc.cluster.local.", &["A 10.0.0.3"]),
        ("rack-2.zone.web.default.mesh.", &["A 10.0.0.3"]),
        ("1.0.version.label.web.default.svc.cluster.local.", &["A 10.0.0.1"]),
        ("2.0.version.label.web.default.mesh.", &["A 10.0.0.2", "A 10.0.0.3"]),
        (WEB, &["A 10.0.0.1", "A 10.0.0.2", "A 10.0.0.3"]),
    ] {
        // The second answer is a kept one.
        for _ in 0..2 {
            assert_eq!(answers(&ask(dns, name, RecordType::A).await), expected, "{name}");
        }
    }
    let srv = ask(dns, "_http._tcp.rack-2.zone.web.default.svc.cluster.local.", RecordType::SRV).await;
    assert_eq!(answers(&srv), ["SRV 0 1 8080 web-3.web.default.svc.cluster.local."]);
    assert_eq!(additionals(&srv), ["web-3.web.default.svc.cluster.local. 10.0.0.3".to_owned()].into());
    let srv = ask(dns, "1.0.version.label.web.default.svc.cluster.local.", RecordType::SRV).await;
    assert_eq!(answers(&srv), ["SRV 0 1 8080 web-1.web.default.svc.cluster.local."]);
    // A change shows in the very next answer.
    server.write(endpoints("web", vec![placed("web-1", "10.0.0.1", "rack-2", "3.0")])).await.unwrap();
    let code = async |name: &str| ask(dns, name, RecordType::A).await.metadata.response_code;
    assert_eq!(code("rack-1.zone.web.default.svc.cluster.local.").await, ResponseCode::NXDomain);
    let found = ask(dns, "rack-2.zone.web.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(answers(&found), ["A 10.0.0.1"]);
}

/// Names without records exist above those with records; others do not exist.
#[tokio::test]
async fn zones_and_labels_that_no_endpoint_has_do_not_exist() {
    let (server, dns) = start().await;
    server.write(endpoints("web", racks())).await.unwrap();
    let below = |labels: &str| format!("{labels}.web.default.svc.cluster.local.");
    for (labels, code) in [
        ("eu.cold.zone", ResponseCode::NoError),
        ("cold.zone", ResponseCode::NoError),
        ("zone", ResponseCode::NoError),
        ("label", ResponseCode::NoError),
        ("version.label", ResponseCode::NoError),
        ("0.version.label", ResponseCode::NoError),
        ("_tcp.rack-1.zone", ResponseCode::NoError),
        ("rack-9.zone", ResponseCode::NXDomain),
        ("_http._tcp.rack-9.zone", ResponseCode::NXDomain),
        ("_other._tcp.rack-1.zone", ResponseCode::NXDomain),
        ("3.0.version.label", ResponseCode::NXDomain),
        ("track.label", ResponseCode::NXDomain),
    ] {
        for record_type in [RecordType::A, RecordType::TXT] {
            let found = ask(dns, &below(labels), record_type).await;
            assert_eq!((found.metadata.response_code, found.answers.len()), (code, 0), "{labels} {record_type}");
            assert_eq!(found.authorities.len(), 1, "{labels}: {found}");
        }
    }
    let gone = ask(dns, "rack-1.zone.gone.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(gone.metadata.response_code, ResponseCode::NXDomain);
    let any = ask(dns, &below("rack-1.zone"), RecordType::ANY).await;
    assert_eq!(any.answers.len(), 1, "{any}");
    // Many names, and the longest ones: each costs its own answer alone.
    for number in 0..300 {
        let found = ask(dns, &below(&format!("{number}.zone")), RecordType::A).await;
        assert_eq!(found.metadata.response_code, ResponseCode::NXDomain);
    }
    let long = format!("{0}.{0}.{0}.zone", "z".repeat(63));
    assert_eq!(ask(dns, &below(&long), RecordType::A).await.metadata.response_code, ResponseCode::NXDomain);
    assert_eq!(answers(&ask(dns, &below("rack-2.zone"), RecordType::A).await), ["A 10.0.0.3"]);
}

#[tokio::test]
async fn endpoints_of_the_preferred_zone_come_first() {
    let (server, dns) = preferring(&[("MORTISE_DNS_PREFER_ZONE", "rack-2")]).await;
    server.write(endpoints("web", racks())).await.unwrap();
    let mut others = BTreeSet::new();
    for _ in 0..40 {
        let found = in_order(&ask(dns, WEB, RecordType::A).await);
        assert_eq!((found.len(), found[0].as_str()), (3, "10.0.0.3"), "{found:?}");
        others.insert(found[1].clone());
    }
    assert_eq!(others.len(), 2, "the others follow, in another order each time");
    let target = |priority, number| format!("SRV {priority} 1 8080 web-{number}.web.default.svc.cluster.local.");
    assert_eq!(answers(&ask(dns, WEB, RecordType::SRV).await), [target(0, 3), target(1, 1), target(1, 2)]);

    // Without a healthy endpoint there, the other zones answer.
    let mut all = racks();
    all[2] = ill(all[2].clone());
    server.write(endpoints("web", all)).await.unwrap();
    assert_eq!(answers(&ask(dns, WEB, RecordType::A).await), ["A 10.0.0.1", "A 10.0.0.2"]);
    assert_eq!(answers(&ask(dns, WEB, RecordType::SRV).await), [target(0, 1), target(0, 2)]);
}

#[tokio::test]
async fn enough_endpoints_of_the_preferred_zone_are_alone() {
    let settings = [("MORTISE_DNS_PREFER_ZONE", "rack-1"), ("MORTISE_DNS_PREFER_ZONE_ALONE_FROM", "2")];
    let (server, dns) = preferring(&settings).await;
    let six = Endpoint { ports: Vec::new(), ..placed("web-5", "2001:db8::5", "rack-2", "1.0") };
    let near = |number: u32| placed(&format!("web-{number}"), &format!("10.0.0.{number}"), "rack-1", "1.0");
    let far = placed("web-9", "10.0.0.9", "rack-2", "1.0");
    server.write(endpoints("web", vec![near(1), near(2), far.clone(), six.clone()])).await.unwrap();
    assert_eq!(answers(&ask(dns, WEB, RecordType::A).await), ["A 10.0.0.1", "A 10.0.0.2"]);
    assert_eq!(ask(dns, WEB, RecordType::SRV).await.answers.len(), 2);
    // No near endpoint has such an address.
    assert_eq!(answers(&ask(dns, WEB, RecordType::AAAA).await), ["AAAA 2001:db8::5"]);
    // The names of other zones, and of workloads there, keep their records.
    let other = ask(dns, "rack-2.zone.web.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(answers(&other), ["A 10.0.0.9"]);
    assert_eq!(answers(&ask(dns, &format!("web-9.{WEB}"), RecordType::A).await), ["A 10.0.0.9"]);
    // One is not enough.
    server.write(endpoints("web", vec![near(1), ill(near(2)), far])).await.unwrap();
    assert_eq!(in_order(&ask(dns, WEB, RecordType::A).await), ["10.0.0.1", "10.0.0.9"]);
    assert_eq!(ask(dns, WEB, RecordType::SRV).await.answers.len(), 2);
}

/// A service of 20 slices with a hundred endpoints each; the last has an endpoint of its own kind.
async fn write_slices(server: &Server) {
    let slice = |number: usize| format!("web-slice-{number:02}");
    let data = Service::default();
    let service = resource(id("catalog.v1.Service", "web"), Some(any("catalog.v1.Service", &data)));
    let owner = Some(id_of(&server.write(service).await.unwrap()));
    let range = |number: usize| SliceRange { slice: slice(number), from: format!("w-{number:02}") };
    let head = ServiceEndpoints { slices: (1..=20).map(range).collect(), ..ServiceEndpoints::default() };
    let web = resource(id("catalog.v1.ServiceEndpoints", "web"), Some(any("catalog.v1.ServiceEndpoints", &head)));
    // A slice that no list of a service names is deleted.
    server.write(pb::Resource { owner, ..web }).await.unwrap();
    for number in 1..=20 {
        let usual =
            |place: usize| placed(&format!("w-{number:02}-{place}"), &format!("10.1.{number}.{place}"), "", "1.0");
        let mut endpoints: Vec<_> = (0..100).map(usual).collect();
        if number == 20 {
            endpoints.push(placed("w-20-x", "2001:db8::7", "rack-7", "7.0"));
        }
        let data = EndpointSlice { service: "web".into(), endpoints };
        let id = id("catalog.v1.EndpointSlice", &slice(number));
        server.write(resource(id, Some(any("catalog.v1.EndpointSlice", &data)))).await.unwrap();
    }
}

#[tokio::test]
async fn the_only_endpoint_of_its_kind_is_found_among_many_slices() {
    let (server, dns) = start().await;
    write_slices(&server).await;
    for _ in 0..20 {
        assert_eq!(answers(&ask(dns, WEB, RecordType::AAAA).await), ["AAAA 2001:db8::7"]);
    }
    for name in ["rack-7.zone.web.default.svc.cluster.local.", "7.0.version.label.web.default.svc.cluster.local."] {
        assert_eq!(answers(&ask(dns, name, RecordType::AAAA).await), ["AAAA 2001:db8::7"], "{name}");
        assert_eq!(ask(dns, name, RecordType::SRV).await.answers.len(), 1, "{name}");
    }
    let found = ask(dns, WEB, RecordType::A).await;
    assert!(found.metadata.truncation && found.answers.len() > 70, "{found}");
}

/// An answer with some slices of a large service is not kept: the next one has others.
#[tokio::test]
async fn answers_with_a_part_of_the_slices_are_drawn_again() {
    let (server, dns) = start().await;
    write_slices(&server).await;
    let mut slices = BTreeSet::new();
    let mut asked = 0;
    while slices.len() < 20 {
        asked += 1;
        assert!(asked < 400, "only the slices {slices:?}");
        let found = in_order(&ask(dns, WEB, RecordType::A).await);
        slices.extend(found.iter().filter_map(|address| address.split('.').nth(2)).map(str::to_owned));
    }
}
