//! The bundled plugin `catalog`: endpoints follow services and workloads, checks are performed, and a change reconciles
//! only the services that it affects.

use std::time::{Duration, Instant};

use mortise_plugin_catalog::proto::catalog::v1::{
    GrpcCheck, Health, HealthCheck, HttpCheck, Selector, Service, ServiceEndpoints, ServicePort, TcpCheck, Workload,
    WorkloadAddress, WorkloadPort, health_check::Check,
};
use mortise_resource::pb;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use tonic::Code;
use tonic_types::StatusExt as _;

use crate::support::{
    Server, Setup, Watch, any,
    controllers::idle,
    decoded, eventually, gvk, id, id_of,
    nginx::{Edge, Nginx, named, upstream},
    pause, resource, until_gone,
};

/// A service that selects workloads by a prefix of their names.
pub fn service(name: &str, prefix: &str) -> pb::Resource {
    let data = Service {
        selector: Some(Selector { prefixes: vec![prefix.into()], ..Selector::default() }),
        ports: vec![ServicePort { name: "http".into(), port: 80, ..ServicePort::default() }],
        ..Service::default()
    };
    resource(id("catalog.v1.Service", name), Some(any("catalog.v1.Service", &data)))
}

/// A workload with one port.
pub fn workload(name: &str, host: &str, port: u16) -> pb::Resource {
    checked(name, host, port, Vec::new())
}

pub fn checked(name: &str, host: &str, port: u16, checks: Vec<HealthCheck>) -> pb::Resource {
    let data = Workload {
        addresses: vec![WorkloadAddress { host: host.into(), ports: Vec::new() }],
        ports: vec![WorkloadPort { name: "http".into(), port: port.into(), protocol: 0, opaque: false }],
        checks,
        ..Workload::default()
    };
    resource(id("catalog.v1.Workload", name), Some(any("catalog.v1.Workload", &data)))
}

pub fn check(name: &str, check: Check, interval: i64) -> HealthCheck {
    let interval = (!matches!(check, Check::Ttl(_))).then_some(prost_types::Duration { seconds: interval, nanos: 0 });
    HealthCheck { name: name.into(), check: Some(check), interval, ..HealthCheck::default() }
}

/// Addresses of a service's endpoints, each with its health.
async fn seen(server: &Server, name: &str) -> Vec<(String, bool)> {
    let Ok(found) = server.read(&id("catalog.v1.ServiceEndpoints", name)).await else { return Vec::new() };
    let found: ServiceEndpoints = decoded(&found);
    found.endpoints.into_iter().map(|one| (one.address.clone(), one.health() == Health::Passing)).collect()
}

async fn follows(server: &Server, name: &str, expected: &[(&str, bool)]) {
    let expected = expected.iter().map(|(address, passes)| ((*address).to_owned(), *passes)).collect::<Vec<_>>();
    let mut last = Vec::new();
    let same = async || {
        last = seen(server, name).await;
        last == expected
    };
    eventually(&format!("{name} has {expected:?}"), same).await;
}

/// Reports a check's result, as a client does.
pub async fn report(server: &Server, workload: &pb::Id, check: &str, passing: bool) {
    let stored = server.read(workload).await.unwrap();
    let state = if passing { pb::condition::State::True } else { pb::condition::State::False };
    let condition = pb::Condition { r#type: "Passing".into(), state: state.into(), ..pb::Condition::default() };
    let status = pb::Status {
        observed_generation: stored.generation.clone(),
        conditions: vec![condition],
        ..pb::Status::default()
    };
    let request = pb::WriteStatusRequest {
        id: stored.id,
        version: String::new(),
        key: format!("catalog.v1/check-{check}"),
        status: Some(status),
    };
    server.write_status(request).await.unwrap();
}

#[tokio::test]
async fn endpoints_follow_services_and_workloads() {
    let server = Server::start().await;
    let a = id_of(&server.write(workload("web-a", "192.0.2.1", 8080)).await.unwrap());
    let web = id_of(&server.write(service("web", "web-")).await.unwrap());
    follows(&server, "web", &[("192.0.2.1", true)]).await;
    let stored = server.read(&id("catalog.v1.ServiceEndpoints", "web")).await.unwrap();
    assert_eq!(stored.owner.unwrap().uid, web.uid);
    server.write(workload("web-b", "2001:DB8::2", 8080)).await.unwrap();
    server.write(workload("other", "192.0.2.9", 8080)).await.unwrap();
    follows(&server, "web", &[("192.0.2.1", true), ("2001:db8::2", true)]).await;
    server.delete(&a, "").await.unwrap();
    follows(&server, "web", &[("2001:db8::2", true)]).await;

    server.delete(&web, "").await.unwrap();
    let gone = id("catalog.v1.ServiceEndpoints", "web");
    until_gone(&server, &gone).await;
    let second = id_of(&server.write(service("web", "web-")).await.unwrap());
    follows(&server, "web", &[("2001:db8::2", true)]).await;
    assert_eq!(server.read(&gone).await.unwrap().owner.unwrap().uid, second.uid);
}

#[tokio::test]
async fn faults_have_the_path_of_their_field() {
    let server = Server::start().await;
    for (bad, field) in [
        (workload("web", "192.0.2.256", 80), "data.addresses[0].host"),
        (workload("web", "::1", 0), "data.ports[0].port"),
    ] {
        let status = server.write(bad).await.unwrap_err();
        assert_eq!(status.code(), Code::InvalidArgument);
        let details = status.get_details_bad_request().unwrap();
        assert_eq!(details.field_violations.iter().map(|one| one.field.as_str()).collect::<Vec<_>>(), [field]);
    }
}

#[tokio::test]
async fn a_client_keeps_a_workload_healthy_for_a_while() {
    let server = Server::start().await;
    let ttl = Check::Ttl(prost_types::Duration { seconds: 6, nanos: 0 });
    let one = checked("web-a", "192.0.2.1", 80, vec![check("alive", ttl, 0)]);
    let one = id_of(&server.write(one).await.unwrap());
    server.write(service("web", "web-")).await.unwrap();
    follows(&server, "web", &[("192.0.2.1", false)]).await;
    report(&server, &one, "alive", true).await;
    let said = Instant::now();
    follows(&server, "web", &[("192.0.2.1", true)]).await;
    follows(&server, "web", &[("192.0.2.1", false)]).await;
    assert!(said.elapsed() >= Duration::from_secs(6), "{:?}", said.elapsed());
    report(&server, &one, "alive", true).await;
    follows(&server, "web", &[("192.0.2.1", true)]).await;
    report(&server, &one, "alive", false).await;
    follows(&server, "web", &[("192.0.2.1", false)]).await;
}

/// Waits until the endpoints of a service have that health.
async fn turns(watch: &mut Watch, passing: bool) {
    loop {
        let found: ServiceEndpoints = decoded(&watch.upsert().await);
        if found.endpoints.iter().any(|one| (one.health() == Health::Passing) == passing) {
            return;
        }
    }
}

/// A client cannot report to a stopped server. So a stop that is longer than the `ttl` fails no check: each gets its
/// time once more, and fails then.
#[tokio::test]
async fn a_process_that_was_stopped_gives_clients_the_time_to_report() {
    const TTL: Duration = Duration::from_secs(3);
    let server = Server::start().await;
    let ttl = Check::Ttl(prost_types::Duration { seconds: TTL.as_secs() as i64, nanos: 0 });
    let one = checked("web-a", "192.0.2.1", 80, vec![check("alive", ttl, 0)]);
    let one = id_of(&server.write(one).await.unwrap());
    server.write(service("web", "web-")).await.unwrap();
    let mut watch = server.watch(gvk("catalog.v1.ServiceEndpoints"), None, "").await.unwrap();
    watch.snapshot().await;
    loop {
        let reported = Instant::now();
        report(&server, &one, "alive", true).await;
        turns(&mut watch, true).await;
        pause(&server).await;
        // On a very slow machine the check has failed before the stop.
        if reported.elapsed() < TTL {
            break;
        }
        server.signal("CONT");
    }
    // The stop is an interval of the real clock.
    tokio::time::sleep(TTL + Duration::from_secs(1)).await;
    let continued = Instant::now();
    server.signal("CONT");
    turns(&mut watch, false).await;
    assert!(continued.elapsed() > TTL / 2, "it failed {:?} after the stop", continued.elapsed());
}

/// Starts a server that answers every request with the current status of the channel; returns its port.
async fn site(statuses: tokio::sync::watch::Receiver<u16>) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let status = *statuses.borrow();
            tokio::spawn(async move {
                let mut request = [0; 4096];
                if stream.read(&mut request).await.unwrap_or(0) > 0 {
                    let answer = format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
                    let _ = stream.write_all(answer.as_bytes()).await;
                }
            });
        }
    });
    port
}

#[tokio::test]
async fn checks_are_performed_where_it_is_granted() {
    let (status, statuses) = tokio::sync::watch::channel(200);
    let port = site(statuses).await;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    let granted = format!(
        "[plugin.catalog.grants]\nhttp = [\"http://127.0.0.1:{port}\"]\ntcp = [\"127.0.0.1:{port}\", \"127.0.0.1:{closed}\"]\n"
    );
    let server = Setup::new().config(granted).start().await;
    let http = || check("up", Check::Http(HttpCheck::default()), 1);
    let tcp = || check("up", Check::Tcp(TcpCheck::default()), 1);
    server.write(checked("http-a", "127.0.0.1", port, vec![http()])).await.unwrap();
    server.write(checked("tcp-a", "127.0.0.1", port, vec![tcp()])).await.unwrap();
    server.write(checked("tcp-b", "127.0.0.1", closed, vec![tcp()])).await.unwrap();
    let other = id_of(&server.write(checked("tcp-c", "127.0.0.2", port, vec![tcp()])).await.unwrap());
    for name in ["http", "tcp"] {
        server.write(service(name, &format!("{name}-"))).await.unwrap();
    }
    follows(&server, "http", &[("127.0.0.1", true)]).await;
    follows(&server, "tcp", &[("127.0.0.1", true), ("127.0.0.1", false), ("127.0.0.2", false)]).await;
    status.send_replace(503);
    follows(&server, "http", &[("127.0.0.1", false)]).await;
    status.send_replace(204);
    follows(&server, "http", &[("127.0.0.1", true)]).await;
    let said = server.read(&other).await.unwrap().status.remove("catalog.v1/check-up").unwrap();
    assert_eq!(said.conditions[0].reason, "NotGranted");
    assert!(said.conditions[0].message.contains("grants"), "{}", said.conditions[0].message);
}

/// The server itself is a gRPC server with a health service.
#[tokio::test]
async fn a_grpc_server_tells_its_health() {
    let server = Setup::new().config("[plugin.catalog.grants]\nhttp = [\"http://*\"]\n").start().await;
    let of = |service: &str| check("up", Check::Grpc(GrpcCheck { service: service.into(), ..GrpcCheck::default() }), 1);
    let port = server.grpc.port();
    server.write(checked("grpc-a", "127.0.0.1", port, vec![of("")])).await.unwrap();
    server.write(checked("grpc-b", "127.0.0.1", port, vec![of("mortise.v1.ServerService")])).await.unwrap();
    let other = id_of(&server.write(checked("grpc-c", "127.0.0.1", port, vec![of("nope.v1.Nope")])).await.unwrap());
    let wrong = HealthCheck { check: Some(Check::Http(HttpCheck::default())), ..of("") };
    let wrong = id_of(&server.write(checked("grpc-d", "127.0.0.1", port, vec![wrong])).await.unwrap());
    server.write(service("grpc", "grpc-")).await.unwrap();
    let address = "127.0.0.1";
    follows(&server, "grpc", &[(address, true), (address, true), (address, false), (address, false)]).await;
    for (workload, reason, says) in [(other, "Status", "gRPC status 5"), (wrong, "", "GET http://127.0.0.1:")] {
        let mut said = Vec::new();
        eventually("the check has a result", async || {
            let status = server.read(&workload).await.unwrap().status.remove("catalog.v1/check-up");
            said = status.map(|status| status.conditions).unwrap_or_default();
            !said.is_empty()
        })
        .await;
        assert!(said[0].reason.starts_with(reason) && said[0].message.contains(says), "{said:?}");
    }
}

/// Services and workloads in proportion: a change of each workload is one reconcile of its service, and no more.
#[tokio::test]
async fn a_change_costs_what_it_concerns() {
    const SERVICES: usize = 100;
    let server = Server::start().await;
    for number in 0..SERVICES {
        server.write(service(&format!("s{number:04}"), &format!("w{number:04}-"))).await.unwrap();
        server.write(workload(&format!("w{number:04}-a"), "192.0.2.1", 80)).await.unwrap();
    }
    follows(&server, &format!("s{:04}", SERVICES - 1), &[("192.0.2.1", true)]).await;
    let before = idle(&server, "catalog/endpoints").await;
    for number in 0..10 {
        server.write(workload(&format!("w{number:04}-a"), "192.0.2.2", 80)).await.unwrap();
    }
    for number in 0..10 {
        follows(&server, &format!("s{number:04}"), &[("192.0.2.2", true)]).await;
    }
    let after = idle(&server, "catalog/endpoints").await;
    // One reconcile for the workload, and one for the endpoints that it wrote; on a busy machine a write may find
    // another version, and is made again.
    println!("{} reconciles for 10 changes among {SERVICES} services", after - before);
    assert!((10..=40).contains(&(after - before)), "{}", after - before);
}

/// nginx follows the endpoints of a service, through the plugin `routes`.
#[tokio::test]
async fn routes_follow_a_service() {
    let edge = Edge::configured(|toml| {
        let toml = toml.replace("[\"routes\"]", "[\"routes\", \"catalog\"]");
        let toml = toml.replace("[plugin.routes.settings]", "[plugin.routes.settings]\nfollow_services = true");
        format!("{toml}\n[plugin.routes.grants]\nread = [\"catalog.v1.ServiceEndpoints\"]\n")
    })
    .await;
    let Some(nginx) = Nginx::start(&edge).await else { return };
    let (a, b) = (upstream("A").await, upstream("B").await);
    let mut route = crate::support::nginx::route("www.example.org", "", &[]);
    route.service =
        Some(mortise_plugin_routes::proto::edge::v1::RouteService { name: "web".into(), port: String::new() });
    edge.server.write(named("web", &route)).await.unwrap();
    let text = || std::fs::read_to_string(edge.files().join("default.default.web.conf")).unwrap_or_default();
    // Before the catalog's first answer, the file may have less.
    eventually("the file has the route", async || text().contains("www.example.org")).await;
    nginx.reload().await;
    edge.answers("www.example.org", "/", 502, "").await;

    let ttl = Check::Ttl(prost_types::Duration { seconds: 600, nanos: 0 });
    let one = checked("web-a", "127.0.0.1", a.port(), vec![check("alive", ttl, 0)]);
    let one = id_of(&edge.server.write(one).await.unwrap());
    report(&edge.server, &one, "alive", true).await;
    edge.server.write(service("web", "web-")).await.unwrap();
    eventually("the file has A", async || text().contains(&a.to_string())).await;
    nginx.reload().await;
    edge.answers("www.example.org", "/", 200, "I am A").await;

    edge.server.write(workload("web-b", "127.0.0.1", b.port())).await.unwrap();
    report(&edge.server, &one, "alive", false).await;
    eventually("the file has B alone", async || text().contains(&b.to_string()) && !text().contains(&a.to_string()))
        .await;
    nginx.reload().await;
    edge.answers("www.example.org", "/", 200, "I am B").await;
}
