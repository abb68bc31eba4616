//! DNS: the endpoints of services as records, over UDP and TCP, and answers without records.

use std::{
    collections::BTreeSet,
    net::{Ipv4Addr, SocketAddr},
};

use hickory_proto::{
    op::{Edns, Message, MessageType, OpCode, Query, ResponseCode},
    rr::{DNSClass, Name, RecordType},
};
use mortise_resource::{
    grpc::catalog::{Endpoint, EndpointPort, Health, Service, ServiceEndpoints, ServicePort},
    pb,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpStream, UdpSocket},
    process::Command,
    time::timeout,
};

use crate::support::{PATIENCE, Server, Setup, any, eventually, id, resource, skipped};

pub(super) async fn start() -> (Server, SocketAddr) {
    let server = Setup::new().start().await;
    let dns = server.dns.expect("dev switches it on");
    (server, dns)
}

pub(super) fn endpoint(workload: &str, address: &str, weight: u32, ports: &[(&str, u32)]) -> Endpoint {
    let ports =
        ports.iter().map(|(name, port)| EndpointPort { name: (*name).into(), port: *port, protocol: 1, opaque: false });
    Endpoint {
        workload: workload.into(),
        address: address.into(),
        weight,
        health: Health::Passing.into(),
        ports: ports.collect(),
        ..Endpoint::default()
    }
}

pub(super) fn endpoints(name: &str, endpoints: Vec<Endpoint>) -> pb::Resource {
    let port = |name: &str, port| ServicePort {
        name: name.into(),
        port,
        target_port: name.into(),
        protocol: 1,
        opaque: false,
    };
    let ports = vec![port("http", 80), port("admin", 81)];
    let data = ServiceEndpoints { endpoints, ports, ..ServiceEndpoints::default() };
    resource(id("catalog.v1.ServiceEndpoints", name), Some(any("catalog.v1.ServiceEndpoints", &data)))
}

/// `web`: two healthy workloads, one of them with two addresses, and one that is not healthy.
pub(super) async fn write_web(server: &Server) {
    let both = [("http", 8080), ("admin", 8081)];
    let ill = Endpoint { health: Health::Critical.into(), ..endpoint("web-3", "10.0.0.3", 1, &both) };
    let all = vec![
        endpoint("web-1", "10.0.0.1", 5, &both),
        endpoint("web-2", "10.0.0.2", 7, &[("http", 9090)]),
        endpoint("web-2", "2001:db8::2", 7, &[("http", 9090)]),
        ill,
    ];
    server.write(endpoints("web", all)).await.unwrap();
}

pub(super) fn query(name: &str, of: RecordType) -> Message {
    let mut message = Message::new(4711, MessageType::Query, OpCode::Query);
    message.add_query(Query::query(Name::from_ascii(name).unwrap(), of));
    message
}

pub(super) fn with_edns(mut message: Message) -> Message {
    let mut edns = Edns::new();
    edns.set_max_payload(4_096);
    message.set_edns(edns);
    message
}

async fn send(dns: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    socket.connect(dns).await.unwrap();
    socket.send(bytes).await.unwrap();
    let mut buffer = vec![0; 65_535];
    let length = timeout(PATIENCE, socket.recv(&mut buffer)).await.expect("an answer").unwrap();
    buffer.truncate(length);
    buffer
}

pub(super) async fn udp(dns: SocketAddr, message: &Message) -> (Message, usize) {
    let bytes = send(dns, &message.to_vec().unwrap()).await;
    (Message::from_vec(&bytes).unwrap(), bytes.len())
}

pub(super) async fn tcp(dns: SocketAddr, messages: &[Message]) -> Vec<Message> {
    let mut stream = TcpStream::connect(dns).await.unwrap();
    for message in messages {
        let bytes = message.to_vec().unwrap();
        stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.unwrap();
        stream.write_all(&bytes).await.unwrap();
    }
    let mut answers = Vec::new();
    for _ in messages {
        let length = timeout(PATIENCE, stream.read_u16()).await.unwrap().unwrap();
        let mut bytes = vec![0; length.into()];
        stream.read_exact(&mut bytes).await.unwrap();
        answers.push(Message::from_vec(&bytes).unwrap());
    }
    answers
}

pub(super) async fn ask(dns: SocketAddr, name: &str, of: RecordType) -> Message {
    udp(dns, &with_edns(query(name, of))).await.0
}

/// `TYPE DATA` of each answer, sorted.
pub(super) fn answers(message: &Message) -> Vec<String> {
    let mut all: Vec<_> = message.answers.iter().map(|one| format!("{} {}", one.record_type(), one.data)).collect();
    all.sort();
    all
}

pub(super) fn additionals(message: &Message) -> BTreeSet<String> {
    message.additionals.iter().map(|one| format!("{} {}", one.name, one.data)).collect()
}

/// Asserts an answer without records, with the zone's SOA.
#[track_caller]
fn is_empty(message: &Message, code: ResponseCode) {
    assert_eq!(message.metadata.response_code, code, "{message}");
    assert!(message.answers.is_empty() && message.metadata.authoritative, "{message}");
    let soa = message.authorities.iter().map(|one| (one.name.to_ascii(), one.record_type())).collect::<Vec<_>>();
    assert_eq!(soa, [("cluster.local.".to_owned(), RecordType::SOA)], "{message}");
}

#[tokio::test]
async fn healthy_endpoints_are_addresses() {
    let (server, dns) = start().await;
    write_web(&server).await;
    let name = "web.default.svc.cluster.local.";
    let found = ask(dns, name, RecordType::A).await;
    assert_eq!(answers(&found), ["A 10.0.0.1", "A 10.0.0.2"]);
    assert!(found.metadata.authoritative && !found.metadata.recursion_available && !found.metadata.truncation);
    assert!(found.answers.iter().all(|one| one.ttl == 1 && one.name.to_ascii() == name), "{found}");
    assert_eq!(answers(&ask(dns, name, RecordType::AAAA).await), ["AAAA 2001:db8::2"]);
    for other in [RecordType::TXT, RecordType::MX, RecordType::CNAME, RecordType::SOA, RecordType::NS] {
        is_empty(&ask(dns, name, other).await, ResponseCode::NoError);
    }
    // The order varies: each address comes first at times.
    let mut first = BTreeSet::new();
    for _ in 0..100 {
        first.insert(ask(dns, name, RecordType::A).await.answers[0].data.to_string());
    }
    assert_eq!(first.len(), 2);
    // A change shows in the very next answer.
    server.write(endpoints("web", vec![endpoint("web-9", "10.0.0.9", 1, &[])])).await.unwrap();
    assert_eq!(answers(&ask(dns, name, RecordType::A).await), ["A 10.0.0.9"]);
    let metrics = server.metrics().await;
    assert!(metrics.contains("mortise_dns_queries_total{transport=\"udp\",outcome=\"noerror\"} 108"), "{metrics}");
}

#[tokio::test]
async fn ports_are_srv_records_with_their_targets() {
    let (server, dns) = start().await;
    write_web(&server).await;
    let at = |label: &str| format!("{label}.web.default.svc.cluster.local.");
    let srv = |weight: u16, port: u16, workload: &str| format!("SRV 0 {weight} {port} {}", at(workload));
    let found = ask(dns, "web.default.svc.cluster.local.", RecordType::SRV).await;
    assert_eq!(answers(&found), [srv(5, 8080, "web-1"), srv(5, 8081, "web-1"), srv(7, 9090, "web-2")]);
    let targets = [("web-1", "10.0.0.1"), ("web-2", "10.0.0.2"), ("web-2", "2001:db8::2")];
    assert_eq!(additionals(&found), targets.map(|(one, ip)| format!("{} {ip}", at(one))).into());
    let found = ask(dns, &at("_admin._tcp"), RecordType::SRV).await;
    assert_eq!(answers(&found), [srv(5, 8081, "web-1")]);
    assert_eq!(additionals(&found), [format!("{} 10.0.0.1", at("web-1"))].into());
    // Addresses of the targets.
    assert_eq!(answers(&ask(dns, &at("web-2"), RecordType::A).await), ["A 10.0.0.2"]);
    assert_eq!(answers(&ask(dns, &at("web-2"), RecordType::AAAA).await), ["AAAA 2001:db8::2"]);
    is_empty(&ask(dns, &at("web-3"), RecordType::A).await, ResponseCode::NoError);
    is_empty(&ask(dns, &at("web-4"), RecordType::A).await, ResponseCode::NXDomain);
    is_empty(&ask(dns, &at("_nothing._tcp"), RecordType::SRV).await, ResponseCode::NXDomain);
    is_empty(&ask(dns, &at("_http._tcp"), RecordType::A).await, ResponseCode::NoError);
    is_empty(&ask(dns, &at("_tcp"), RecordType::SRV).await, ResponseCode::NoError);
    is_empty(&ask(dns, &at("_udp"), RecordType::SRV).await, ResponseCode::NXDomain);
}

#[tokio::test]
async fn endpoints_without_a_workload_or_with_a_host_name_have_names_too() {
    let (server, dns) = start().await;
    let http = [("http", 80)];
    let plain = vec![endpoint("", "10.0.0.1", 1, &http), endpoint("", "2001:db8::1", 1, &http)];
    server.write(endpoints("plain", plain)).await.unwrap();
    let at = |label: &str| format!("{label}.plain.default.svc.cluster.local.");
    let found = ask(dns, "plain.default.svc.cluster.local.", RecordType::SRV).await;
    let (four, six) = (at("10-0-0-1"), at("2001-db8-0-0-0-0-0-1"));
    assert_eq!(answers(&found), [format!("SRV 0 1 80 {four}"), format!("SRV 0 1 80 {six}")]);
    assert_eq!(answers(&ask(dns, &four, RecordType::A).await), ["A 10.0.0.1"]);
    assert_eq!(answers(&ask(dns, &six, RecordType::AAAA).await), ["AAAA 2001:db8::1"]);

    let host = endpoint("out", "db.example.org", 3, &[("http", 5432)]);
    server.write(endpoints("out", vec![host.clone()])).await.unwrap();
    let out = "out.default.svc.cluster.local.";
    for of in [RecordType::A, RecordType::AAAA, RecordType::CNAME] {
        assert_eq!(answers(&ask(dns, out, of).await), ["CNAME db.example.org."], "{of}");
    }
    let found = ask(dns, out, RecordType::SRV).await;
    assert_eq!(answers(&found), ["SRV 0 3 5432 db.example.org."]);
    assert!(found.additionals.is_empty(), "its address is its own zone's: {found}");
    // Beside addresses, a host name is in SRV records alone.
    server.write(endpoints("out", vec![host, endpoint("in", "10.0.0.1", 1, &[])])).await.unwrap();
    assert_eq!(answers(&ask(dns, out, RecordType::A).await), ["A 10.0.0.1"]);
}

#[tokio::test]
async fn missing_names_and_empty_services_have_different_answers() {
    let (server, dns) = start().await;
    let ill = Endpoint { health: Health::Critical.into(), ..endpoint("a", "10.0.0.1", 1, &[]) };
    server.write(endpoints("ill", vec![ill])).await.unwrap();
    let bare = any("catalog.v1.Service", &Service::default());
    server.write(resource(id("catalog.v1.Service", "bare"), Some(bare))).await.unwrap();
    for empty in [
        "ill.default.svc.cluster.local.",
        "bare.default.svc.cluster.local.",
        "default.svc.cluster.local.",
        "svc.cluster.local.",
        "cluster.local.",
        "dns.cluster.local.",
    ] {
        is_empty(&ask(dns, empty, RecordType::A).await, ResponseCode::NoError);
    }
    for nothing in [
        "none.default.svc.cluster.local.",
        "ill.nowhere.svc.cluster.local.",
        "a.bare.default.svc.cluster.local.",
        "my_app.default.svc.cluster.local.",
        "pod.cluster.local.",
        "a.b.c.d.e.f.cluster.local.",
    ] {
        is_empty(&ask(dns, nothing, RecordType::A).await, ResponseCode::NXDomain);
    }
    for elsewhere in ["example.org.", "local.", ".", "web.default.svc.cluster.example."] {
        let refused = ask(dns, elsewhere, RecordType::A).await;
        assert_eq!(refused.metadata.response_code, ResponseCode::Refused, "{elsewhere}");
        assert!(!refused.metadata.authoritative && refused.answers.is_empty() && refused.authorities.is_empty());
    }
}

#[tokio::test]
async fn the_zone_has_soa_and_ns_and_answers_keep_the_case() {
    let (server, dns) = start().await;
    write_web(&server).await;
    let soa = ask(dns, "cluster.local.", RecordType::SOA).await;
    assert_eq!(answers(&soa), ["SOA ns.dns.cluster.local. hostmaster.cluster.local. 1 7200 1800 86400 1"]);
    let ns = ask(dns, "cluster.local.", RecordType::NS).await;
    assert_eq!(answers(&ns), ["NS ns.dns.cluster.local."]);
    assert_eq!(answers(&ask(dns, "ns.dns.cluster.local.", RecordType::A).await), ["A 127.0.0.1"]);

    let name = "wEB.dEfault.SVC.cluStEr.LoCAL.";
    let found = ask(dns, name, RecordType::A).await;
    assert_eq!(found.answers.len(), 2);
    assert_eq!(found.queries[0].name().to_ascii(), name);
    assert!(found.answers.iter().all(|one| one.name.to_ascii() == name), "{found}");
    // RFC 8482.
    assert_eq!(answers(&ask(dns, name, RecordType::ANY).await), ["HINFO RFC8482 "]);
    is_empty(&ask(dns, "none.default.svc.cluster.local.", RecordType::ANY).await, ResponseCode::NXDomain);
}

/// Answers that do not fit into a datagram are truncated, and come whole over TCP.
#[tokio::test]
async fn large_answers_come_over_tcp() {
    let (server, dns) = start().await;
    let many = |count: u32| {
        let one =
            |n: u32| endpoint(&format!("w-{n}"), &Ipv4Addr::from(0x0a00_0000 + n).to_string(), 1, &[("http", 80)]);
        endpoints("many", (0..count).map(one).collect())
    };
    server.write(many(200)).await.unwrap();
    let name = "many.default.svc.cluster.local.";
    for (message, most) in [(query(name, RecordType::A), 512), (with_edns(query(name, RecordType::A)), 1_232)] {
        let (answer, length) = udp(dns, &message).await;
        assert!(answer.metadata.truncation && !answer.answers.is_empty() && length <= most, "{length}: {answer}");
    }
    let found = tcp(dns, &[query(name, RecordType::A), query(name, RecordType::SRV)]).await;
    assert_eq!((found[0].answers.len(), found[1].answers.len()), (200, 200));
    assert!(!found[0].metadata.truncation && found[1].additionals.len() == 200);
    // Additional addresses are left out before the answer is truncated.
    server.write(many(15)).await.unwrap();
    let (answer, length) = udp(dns, &with_edns(query(name, RecordType::SRV))).await;
    assert!(!answer.metadata.truncation && answer.answers.len() == 15 && length <= 1_232, "{length}: {answer}");
}

#[tokio::test]
async fn unusual_queries_are_refused_and_the_server_continues() {
    let (server, dns) = start().await;
    write_web(&server).await;
    let name = "web.default.svc.cluster.local.";
    let code = async |message: Message| udp(dns, &message).await.0.metadata.response_code;
    let mut update = query(name, RecordType::A);
    update.metadata.op_code = OpCode::Notify;
    assert_eq!(code(update).await, ResponseCode::NotImp);
    let mut two = query(name, RecordType::A);
    two.add_query(Query::query(Name::from_ascii(name).unwrap(), RecordType::AAAA));
    assert_eq!(code(two).await, ResponseCode::FormErr);
    let mut none = query(name, RecordType::A);
    none.queries.clear();
    assert_eq!(code(none).await, ResponseCode::FormErr);
    let mut chaos = query(name, RecordType::A);
    chaos.queries[0].set_query_class(DNSClass::CH);
    assert_eq!(code(chaos).await, ResponseCode::Refused);
    assert_eq!(code(query(name, RecordType::AXFR)).await, ResponseCode::Refused);
    let mut newer = with_edns(query(name, RecordType::A));
    newer.edns.as_mut().unwrap().set_version(1);
    let (answer, _) = udp(dns, &newer).await;
    // BADVERS, which shares its number with a code of TSIG.
    assert_eq!(u16::from(answer.metadata.response_code), 16, "{answer}");

    // A header alone, and a name with a pointer to itself.
    let head = [0x12, 0x34, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0];
    for bytes in [head.to_vec(), [head.as_slice(), &[0xc0, 12, 0, 1, 0, 1]].concat()] {
        let answer = send(dns, &bytes).await;
        assert_eq!((&answer[..2], answer[3] & 15), (&[0x12, 0x34][..], 1), "{answer:?}");
    }
    // The server ignores answers and malformed messages.
    let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
    let mut answer = query(name, RecordType::A);
    answer.metadata.message_type = MessageType::Response;
    for bytes in [answer.to_vec().unwrap(), vec![], vec![0; 11], vec![0xff; 3_000]] {
        socket.send_to(&bytes, dns).await.unwrap();
    }
    let mut last = query(name, RecordType::A);
    last.metadata.id = 4712;
    socket.send_to(&last.to_vec().unwrap(), dns).await.unwrap();
    let mut first = vec![0; 512];
    let length = timeout(PATIENCE, socket.recv(&mut first)).await.expect("an answer").unwrap();
    assert_eq!(Message::from_vec(&first[..length]).unwrap().metadata.id, last.metadata.id, "the first answer");
    // The server ends a connection with a length beyond any query, and a silent one; others continue.
    let mut stream = TcpStream::connect(dns).await.unwrap();
    stream.write_all(&[0xff, 0xff, 0]).await.unwrap();
    assert_eq!(timeout(PATIENCE, stream.read(&mut [0; 1])).await.unwrap().unwrap_or(0), 0);
    assert_eq!(ask(dns, name, RecordType::A).await.answers.len(), 2);
}

#[tokio::test]
async fn connections_are_bounded_in_number_and_in_silence() {
    let server = Setup::new().limit("dns_connections", 2).limit("dns_idle_ms", 500).start().await;
    let dns = server.dns.unwrap();
    let open = async || TcpStream::connect(dns).await.unwrap();
    let (mut one, _two) = (open().await, open().await);
    let mut three = open().await;
    assert_eq!(timeout(PATIENCE, three.read(&mut [0; 1])).await.unwrap().unwrap_or(0), 0, "there is no place");
    assert_eq!(timeout(PATIENCE, one.read(&mut [0; 1])).await.unwrap().unwrap(), 0, "it was silent for too long");
    eventually("there is a place again", || async {
        let answer = timeout(PATIENCE, tcp_code(dns)).await.unwrap();
        answer == Some(ResponseCode::NoError)
    })
    .await;
    let refused = server.metric("mortise_dns_connections_refused_total").await;
    assert!(refused.is_some_and(|refused| refused > 0.0), "{refused:?}");
}

async fn tcp_code(dns: SocketAddr) -> Option<ResponseCode> {
    let mut stream = TcpStream::connect(dns).await.ok()?;
    let bytes = query("cluster.local.", RecordType::SOA).to_vec().unwrap();
    stream.write_u16(u16::try_from(bytes.len()).unwrap()).await.ok()?;
    stream.write_all(&bytes).await.ok()?;
    let mut answer = vec![0; stream.read_u16().await.ok()?.into()];
    stream.read_exact(&mut answer).await.ok()?;
    Some(Message::from_vec(&answer).unwrap().metadata.response_code)
}

#[tokio::test]
async fn a_server_without_the_catalog_fails_and_serve_has_no_dns() {
    let server = Setup::new().serve().env("MORTISE_DNS_ENABLED", true).start().await;
    let dns = server.dns.expect("it was switched on");
    let found = ask(dns, "web.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(found.metadata.response_code, ResponseCode::ServFail, "{found}");
    assert_eq!(Setup::new().serve().start().await.dns, None);
    let off = Setup::new().env("MORTISE_DNS_ENABLED", false).start().await;
    assert_eq!(off.dns, None);
}

#[tokio::test]
async fn zone_and_time_are_settings() {
    let server = Setup::new().env("MORTISE_DESTINATION_ZONE", "home.arpa").env("MORTISE_DNS_TTL_S", 0).start().await;
    let dns = server.dns.unwrap();
    write_web(&server).await;
    let found = ask(dns, "web.default.svc.home.arpa.", RecordType::A).await;
    assert!(found.answers.len() == 2 && found.answers.iter().all(|one| one.ttl == 0), "{found}");
    let refused = ask(dns, "web.default.svc.cluster.local.", RecordType::A).await;
    assert_eq!(refused.metadata.response_code, ResponseCode::Refused);
}

/// During a flood of queries the API answers, and DNS does so afterwards.
#[tokio::test]
async fn a_flood_of_queries_leaves_others_their_turn() {
    let (server, dns) = start().await;
    write_web(&server).await;
    let bytes = with_edns(query("web.default.svc.cluster.local.", RecordType::SRV)).to_vec().unwrap();
    let (sent, mut sending) = tokio::sync::watch::channel(0_u64);
    let flood = tokio::spawn(async move {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        loop {
            let _ = socket.send_to(&bytes, dns).await;
            sent.send_modify(|count| *count += 1);
            tokio::task::yield_now().await;
        }
    });
    let reads = async {
        sending.wait_for(|sent| *sent > 10_000).await.unwrap();
        for _ in 0..50 {
            server.read(&id("catalog.v1.ServiceEndpoints", "web")).await.unwrap();
        }
    };
    timeout(PATIENCE, reads).await.expect("the reads are answered beside the flood");
    flood.abort();
    assert_eq!(tcp(dns, &[query("web.default.svc.cluster.local.", RecordType::A)]).await[0].answers.len(), 2);
}

/// Connections that ask for large answers and read none of them: UDP is answered meanwhile, and another connection
/// takes the place of one of them.
#[tokio::test]
async fn large_answers_that_are_not_read_leave_others_their_turn() {
    let setup = Setup::new().env("MORTISE_DNS_CONCURRENT_QUERIES", 2);
    let server = setup.limit("dns_connections", 8).limit("dns_idle_ms", 600_000).start().await;
    let dns = server.dns.unwrap();
    let one = |n: u32| endpoint(&format!("w-{n}"), &Ipv4Addr::from(0x0a00_0000 + n).to_string(), 1, &[("http", 80)]);
    server.write(endpoints("many", (0..1_500).map(one).collect())).await.unwrap();
    let bytes = query("many.default.svc.cluster.local.", RecordType::SRV).to_vec().unwrap();
    let asked = [u16::try_from(bytes.len()).unwrap().to_be_bytes().as_slice(), &bytes].concat().repeat(500);
    let mut crowd = Vec::new();
    for _ in 0..8 {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4_096).unwrap();
        socket.bind("127.0.0.66:0".parse().unwrap()).unwrap();
        let mut stream = socket.connect(dns).await.unwrap();
        stream.write_all(&asked).await.unwrap();
        crowd.push(stream);
    }
    // Their answers are being made, one after the other, and take no turn of UDP.
    for _ in 0..20 {
        assert_eq!(ask(dns, "cluster.local.", RecordType::SOA).await.answers.len(), 1);
    }
    // Six connections of an address at most; each has as many answers as its buffers hold, and no turn.
    let answered = async || {
        let metrics = server.get("/metrics").await.1;
        let line = "mortise_dns_queries_total{transport=\"tcp\",outcome=\"noerror\"} ";
        metrics.lines().find_map(|found| found.strip_prefix(line)?.parse::<u64>().ok()).unwrap_or(0)
    };
    let mut before = 0;
    eventually("no further answer is taken", async || {
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        let now = answered().await;
        now > 0 && now == std::mem::replace(&mut before, now)
    })
    .await;
    for _ in 0..4 {
        assert_eq!(timeout(PATIENCE, tcp_code(dns)).await.unwrap(), Some(ResponseCode::NoError));
    }
    drop(crowd);
}

/// `dig`, the common client, gets an answer.
#[tokio::test]
async fn dig_is_answered() {
    let (server, dns) = start().await;
    write_web(&server).await;
    let dig = async |args: &[&str]| {
        let port = dns.port().to_string();
        let output = Command::new("dig").args(["@127.0.0.1", "-p", &port, "+time=5"]).args(args).output().await;
        output.ok().map(|output| String::from_utf8(output.stdout).unwrap())
    };
    let Some(found) = dig(&["+short", "web.default.svc.cluster.local", "A"]).await else {
        skipped("dig is not installed (bind9-dnsutils)");
        return;
    };
    let lines: BTreeSet<_> = found.lines().collect();
    assert_eq!(lines, ["10.0.0.1", "10.0.0.2"].into(), "{found}");
    let found = dig(&["+short", "+tcp", "_http._tcp.web.default.svc.cluster.local", "SRV"]).await.unwrap();
    let lines: BTreeSet<_> = found.lines().collect();
    let srv = ["0 5 8080 web-1.web.default.svc.cluster.local.", "0 7 9090 web-2.web.default.svc.cluster.local."];
    assert_eq!(lines, srv.into(), "{found}");
    for (args, says) in [
        (["none.default.svc.cluster.local", "A"], "status: NXDOMAIN"),
        (["web.default.svc.cluster.local", "TXT"], "status: NOERROR"),
        (["example.org", "A"], "status: REFUSED"),
    ] {
        let found = dig(&args).await.unwrap();
        assert!(found.contains(says), "{found}");
        assert!(!found.contains("malformed") && !found.contains("extra bytes"), "{found}");
    }
}
