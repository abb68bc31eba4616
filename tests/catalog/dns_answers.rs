//! Answers of DNS: large ones, kept ones, names of addresses, host names, times to live, and a missing plugin.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
};

use hickory_proto::{
    op::{Message, ResponseCode},
    rr::RecordType,
};
use mortise_resource::{
    data,
    grpc::catalog::{Endpoint, Health, Service, ServiceEndpoints},
    pb,
};
use tonic::Code;

use super::dns::{answers, ask, endpoint, endpoints, query, start, tcp, udp, with_edns, write_web};
use crate::{
    destination::proxy::Api,
    support::{Setup, any, eventually, id, id_of, plugins::Plugins as _, refusal, resource, tokens::Guarded},
};

const WEB: &str = "web.default.svc.cluster.local.";

fn many(count: u32) -> pb::Resource {
    let address = |number: u32| Ipv4Addr::from(0x0a00_0000 + number).to_string();
    endpoints("web", (0..count).map(|n| endpoint(&format!("w-{n}"), &address(n), 1, &[("http", 80)])).collect())
}

fn declared(dns_ttl_s: Option<i64>) -> pb::Resource {
    let dns_ttl = dns_ttl_s.map(|seconds| prost_types::Duration { seconds, nanos: 0 });
    let data = Service { dns_ttl, ..Service::default() };
    resource(id("catalog.v1.Service", "web"), Some(any("catalog.v1.Service", &data)))
}

/// The answer over UDP to a client that takes 1,232 bytes, and its length.
async fn datagram(dns: SocketAddr, record_type: RecordType) -> (Message, usize) {
    udp(dns, &with_edns(query(WEB, record_type))).await
}

fn ttls(message: &Message) -> BTreeSet<u32> {
    message.answers.iter().map(|record| record.ttl).collect()
}

#[tokio::test]
async fn thousands_of_records_come_whole_over_tcp_and_as_far_as_they_fit_over_udp() {
    let (server, dns) = start().await;
    server.write(many(2_000)).await.unwrap();
    for (record_type, all) in [(RecordType::A, 2_000), (RecordType::SRV, 1_000)] {
        server.write(many(all)).await.unwrap();
        let found = tcp(dns, &[query(WEB, record_type)]).await.remove(0);
        let different: BTreeSet<_> = answers(&found).into_iter().collect();
        assert_eq!((different.len(), found.metadata.truncation), (all as usize, false), "{record_type}");
        let (found, length) = datagram(dns, record_type).await;
        let record = if record_type == RecordType::A { 16 } else { 65 };
        assert!(found.metadata.truncation && (1_233 - record..=1_232).contains(&length), "{length}: {found}");
        assert!(found.edns.is_some(), "{found}");
    }
    // Beyond a message over TCP, some are left out, other ones each time.
    server.write(many(5_000)).await.unwrap();
    let found = tcp(dns, &[query(WEB, RecordType::A), query(WEB, RecordType::A)]).await;
    let (one, two) = (answers(&found[0]), answers(&found[1]));
    assert!(one.len() > 4_000 && one.len() == two.len() && one != two, "{}", one.len());
    assert!(!found[0].metadata.truncation);
}

/// Kept answers are used while nothing has changed, and the first answer after a change shows it.
#[tokio::test]
async fn the_next_answer_shows_each_change() {
    let (server, dns) = start().await;
    let address = |number: u32| format!("10.1.{}.{}", number / 250, number % 250);
    server.write(declared(None)).await.unwrap();
    let mut written = None;
    for number in 0..100 {
        let web = endpoints("web", vec![endpoint("web-1", &address(number), 1, &[("http", 80)])]);
        written = Some(server.write(web).await.unwrap());
        for _ in 0..2 {
            assert_eq!(answers(&ask(dns, WEB, RecordType::A).await), [format!("A {}", address(number))]);
        }
        // A change of another resource changes nothing.
        server.write(endpoints("other", vec![endpoint("other-1", &address(number), 1, &[])])).await.unwrap();
        assert_eq!(answers(&ask(dns, WEB, RecordType::A).await), [format!("A {}", address(number))]);
    }
    server.write(declared(Some(60))).await.unwrap();
    assert_eq!(ttls(&ask(dns, WEB, RecordType::A).await), [60].into());
    server.delete(&id_of(&written.unwrap()), "").await.unwrap();
    let found = ask(dns, WEB, RecordType::A).await;
    assert_eq!((found.metadata.response_code, found.answers.len()), (ResponseCode::NoError, 0));
}

/// An answer is made once for each state of its service. Other plugins may read the same bytes otherwise.
#[tokio::test]
async fn answers_are_kept_until_their_service_or_the_plugins_change() {
    let (server, dns) = start().await;
    server.write(many(2)).await.unwrap();
    let kept = async || {
        assert_eq!(ask(dns, WEB, RecordType::A).await.metadata.response_code, ResponseCode::NoError);
        let metrics = server.metrics().await;
        let kept = metrics.lines().find_map(|line| line.strip_prefix("mortise_dns_answers_kept_total "));
        kept.map_or(0, |kept| kept.parse::<u64>().unwrap())
    };
    assert_eq!((kept().await, kept().await), (0, 1));
    server.write(endpoints("other", vec![endpoint("other-1", "10.0.0.1", 1, &[])])).await.unwrap();
    assert_eq!(kept().await, 2, "a change of another service");
    server.write(many(3)).await.unwrap();
    assert_eq!((kept().await, kept().await), (2, 3));
    let name = || "catalog".to_owned();
    server.plugins().await.disable(data::DisableRequest { name: name() }).await.unwrap();
    server.plugins().await.enable(data::EnableRequest { name: name() }).await.unwrap();
    assert_eq!((kept().await, kept().await), (3, 4));
}

#[tokio::test]
async fn a_service_has_its_own_time_to_live() {
    let (server, dns) = start().await;
    write_web(&server).await;
    for (ttl, expected) in [(None, 1), (Some(0), 0), (Some(3_600), 3_600), (None, 1)] {
        server.write(declared(ttl)).await.unwrap();
        for (name, record_type) in [
            (WEB, RecordType::A),
            (WEB, RecordType::SRV),
            (WEB, RecordType::ANY),
            ("web-1.web.default.svc.cluster.local.", RecordType::A),
        ] {
            assert_eq!(ttls(&ask(dns, name, record_type).await), [expected].into(), "{name} {record_type}");
        }
        let srv = ask(dns, WEB, RecordType::SRV).await;
        assert!(srv.additionals.iter().all(|record| record.ttl == expected), "{srv}");
    }
    let (code, message) = refusal(server.write(declared(Some(3_601))).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("a time to live is whole seconds, 0s to 3600s"), "{message}");
}

#[tokio::test]
async fn addresses_have_the_names_of_their_workloads() {
    let (server, dns) = start().await;
    write_web(&server).await;
    let ill = Endpoint { health: Health::Critical.into(), ..endpoint("", "10.0.0.1", 1, &[]) };
    server.write(endpoints("plain", vec![ill])).await.unwrap();
    let six = format!("2.{}8.b.d.0.1.0.0.2.ip6.arpa.", "0.".repeat(23));
    let both = ["PTR 10-0-0-1.plain.default.svc.cluster.local.", "PTR web-1.web.default.svc.cluster.local."];
    for (name, expected) in [
        ("1.0.0.10.in-addr.arpa.", both.as_slice()),
        ("2.0.0.10.IN-ADDR.arpa.", &["PTR web-2.web.default.svc.cluster.local."]),
        (six.as_str(), &["PTR web-2.web.default.svc.cluster.local."]),
    ] {
        let found = ask(dns, name, RecordType::PTR).await;
        assert_eq!(answers(&found), expected, "{name}");
        assert!(found.metadata.authoritative && found.answers.iter().all(|record| record.name.to_ascii() == name));
    }
    // Each name leads to the address.
    assert_eq!(answers(&ask(dns, "web-1.web.default.svc.cluster.local.", RecordType::A).await), ["A 10.0.0.1"]);
    let refused = async |name: &str, record_type| {
        let found = ask(dns, name, record_type).await;
        assert_eq!(found.metadata.response_code, ResponseCode::Refused, "{name}: {found}");
    };
    // Other addresses and networks are those of another server.
    refused("9.0.0.10.in-addr.arpa.", RecordType::PTR).await;
    refused("0.0.10.in-addr.arpa.", RecordType::PTR).await;
    refused("1.0.0.10.in-addr.arpa.", RecordType::A).await;
    // A change shows in the very next answer.
    server.write(endpoints("plain", vec![endpoint("new", "10.0.0.9", 1, &[])])).await.unwrap();
    let found = ask(dns, "9.0.0.10.in-addr.arpa.", RecordType::PTR).await;
    assert_eq!(answers(&found), ["PTR new.plain.default.svc.cluster.local."]);
    assert_eq!(answers(&ask(dns, "1.0.0.10.in-addr.arpa.", RecordType::PTR).await), both[1..]);
}

/// Kept answers and names of addresses are shown to the callers that may read the endpoints alone.
#[tokio::test]
async fn answers_need_the_policies_of_dns() {
    let guarded = Guarded::start(Setup::new().config("[acl]\ndns_policies = [\"dns\"]\n")).await;
    let dns = guarded.server.dns.unwrap();
    let ptr = "1.0.0.10.in-addr.arpa.";
    let code = async |name: &str, record_type| ask(dns, name, record_type).await.metadata.response_code;
    for name in ["web", "secret"] {
        guarded.write(endpoints(name, vec![endpoint(name, "10.0.0.1", 1, &[])])).await;
    }
    guarded.policy("dns", "key \"other\" { policy = \"read\" }", Vec::new()).await;
    eventually("nothing may be read", async || code(WEB, RecordType::A).await == ResponseCode::Refused).await;
    assert_eq!(code(ptr, RecordType::PTR).await, ResponseCode::Refused);
    let web = |level: &str| format!("key \"resource/catalog.v1.ServiceEndpoints/web\" {{ policy = \"{level}\" }}");
    guarded.policy("dns", &web("read"), Vec::new()).await;
    eventually("web may be read", async || code(WEB, RecordType::A).await == ResponseCode::NoError).await;
    assert_eq!(answers(&ask(dns, ptr, RecordType::PTR).await), ["PTR web.web.default.svc.cluster.local."]);
    guarded.policy("dns", &web("deny"), Vec::new()).await;
    eventually("web may not be read", async || code(WEB, RecordType::A).await == ResponseCode::Refused).await;
    assert_eq!(code(ptr, RecordType::PTR).await, ResponseCode::Refused);
}

/// The addresses of a service that is a host name elsewhere come with its CNAME, from the resolver of the system.
#[tokio::test]
async fn the_addresses_of_a_host_name_follow_its_cname() {
    let (server, dns) = start().await;
    server.write(endpoints("web", vec![endpoint("out", "localhost", 1, &[("http", 80)])])).await.unwrap();
    for _ in 0..2 {
        let found = ask(dns, WEB, RecordType::A).await;
        assert_eq!(answers(&found), ["A 127.0.0.1", "CNAME localhost."]);
        let names: Vec<_> = found.answers.iter().map(|record| record.name.to_ascii()).collect();
        assert_eq!(names, [WEB, "localhost."], "the CNAME comes first");
    }
    assert_eq!(answers(&ask(dns, WEB, RecordType::CNAME).await), ["CNAME localhost."]);
    // A name in the zone is not looked up: the resolver of the system may ask this server.
    let own = endpoint("out", "other.default.svc.cluster.local", 1, &[]);
    server.write(endpoints("web", vec![own])).await.unwrap();
    server.write(endpoints("other", vec![endpoint("a", "10.0.0.1", 1, &[])])).await.unwrap();
    assert_eq!(answers(&ask(dns, WEB, RecordType::A).await), ["CNAME other.default.svc.cluster.local."]);
}

/// The resolver of the system may ask this server, for ever.
#[tokio::test]
async fn a_host_name_in_the_zone_is_not_looked_up() {
    let server = Setup::new().env("MORTISE_DESTINATION_ZONE", "localhost").start().await;
    server.write(endpoints("web", vec![endpoint("out", "localhost", 1, &[("http", 80)])])).await.unwrap();
    let found = ask(server.dns.unwrap(), "web.default.svc.localhost.", RecordType::A).await;
    assert_eq!(answers(&found), ["CNAME localhost."]);
}

/// Without the plugin the health of endpoints is unknown: answers fail, new streams are refused, and open ones stay.
#[tokio::test]
async fn a_disabled_catalog_gives_no_frozen_answers() {
    let (server, dns) = start().await;
    write_web(&server).await;
    let code = async |name: &str, of| ask(dns, name, of).await.metadata.response_code;
    let mut stream = Api::Linkerd.of(&server, "web").await;
    stream.added().await;
    assert_eq!(code(WEB, RecordType::A).await, ResponseCode::NoError);
    let name = || "catalog".to_owned();
    server.plugins().await.disable(data::DisableRequest { name: name() }).await.unwrap();
    for (name, record_type) in [
        (WEB, RecordType::A),
        (WEB, RecordType::SRV),
        ("web-1.web.default.svc.cluster.local.", RecordType::A),
        ("none.default.svc.cluster.local.", RecordType::A),
        ("1.0.0.10.in-addr.arpa.", RecordType::PTR),
    ] {
        assert_eq!(code(name, record_type).await, ResponseCode::ServFail, "{name}");
    }
    assert_eq!(code("cluster.local.", RecordType::SOA).await, ResponseCode::NoError);
    let (refused, text) = refusal(Api::Linkerd.get(server.channel().await, "web.default.svc").await.map(|_| ()));
    assert_eq!(refused, Code::Unavailable);
    assert!(text.contains("plugin \"catalog\"") && text.contains("is disabled; enable it"), "{text}");
    server.plugins().await.enable(data::EnableRequest { name: name() }).await.unwrap();
    assert_eq!(code(WEB, RecordType::A).await, ResponseCode::NoError);
    // The open stream is told the next change.
    let one = ServiceEndpoints {
        endpoints: vec![endpoint("web-9", "10.0.0.9", 1, &[("http", 80)])],
        ..ServiceEndpoints::default()
    };
    let web = resource(id("catalog.v1.ServiceEndpoints", "web"), Some(any("catalog.v1.ServiceEndpoints", &one)));
    server.write(web).await.unwrap();
    stream.next().await;
}
