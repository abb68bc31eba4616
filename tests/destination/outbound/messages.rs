//! Every field that a proxy reads.

use linkerd2_proxy_api::{
    destination::{
        DestinationProfile, ProtocolHint, RetryBudget, WeightedAddr, WeightedDst,
        protocol_hint::{H2, Opaque, OpaqueTransport, Protocol as Hint},
        tls_identity::{DnsLikeIdentity, Strategy, UriLikeIdentity},
    },
    outbound::{
        Backend, HttpRoute, OutboundPolicy, Queue,
        backend::{
            BalanceP2c, EndpointDiscovery, Kind as BackendKind,
            balance_p2c::{Load, PeakEwma},
            endpoint_discovery::{DestinationGet, Kind as Discovery},
        },
        grpc_route, http_route, opaque_route,
        proxy_protocol::Kind,
        traffic_spec::Target,
    },
};
use mortise_plugin_catalog::proto::catalog::v1::{Protocol, Service, ServicePort, Workload, WorkloadPort};
use prost_types::Duration as ProtoDuration;
use tonic::Code;

use super::{
    Proxy, VIP, at, default_metadata, detect, metadata_of, next, path, service, service_data, until, workload,
    workload_data,
};
use crate::{
    destination::proxy::{Api, addrs},
    support::{Server, eventually, refusal},
};

fn budget() -> DestinationProfile {
    let ttl = ProtoDuration { seconds: 10, nanos: 0 };
    let budget = RetryBudget { retry_ratio: 0.2, min_retries_per_second: 10, ttl: Some(ttl) };
    DestinationProfile { retry_budget: Some(budget), ..DestinationProfile::default() }
}

/// The backend of the service `web` for a path.
fn balanced(path: &str) -> Backend {
    let ewma = PeakEwma {
        default_rtt: Some(ProtoDuration { seconds: 0, nanos: 30_000_000 }),
        decay: Some(ProtoDuration { seconds: 10, nanos: 0 }),
    };
    Backend {
        metadata: metadata_of("core", "Service", "web", 80),
        kind: Some(BackendKind::Balancer(BalanceP2c {
            discovery: Some(EndpointDiscovery { kind: Some(Discovery::Dst(DestinationGet { path: path.into() })) }),
            load: Some(Load::PeakEwma(ewma)),
        })),
        queue: Some(Queue { capacity: 100, failfast_timeout: Some(ProtoDuration { seconds: 3, nanos: 0 }) }),
    }
}

fn http_routes(backend: &Backend) -> Vec<HttpRoute> {
    let first = http_route::distribution::FirstAvailable {
        backends: vec![http_route::RouteBackend { backend: Some(backend.clone()), ..Default::default() }],
    };
    let distribution = http_route::Distribution { kind: Some(http_route::distribution::Kind::FirstAvailable(first)) };
    let rule = http_route::Rule { backends: Some(distribution), ..Default::default() };
    vec![HttpRoute { metadata: default_metadata("http"), rules: vec![rule], ..HttpRoute::default() }]
}

/// The only backend of an opaque route.
fn opaque_backend(routes: &[linkerd2_proxy_api::outbound::OpaqueRoute]) -> Backend {
    let [route] = routes else { panic!("{routes:?}") };
    assert_eq!(route.metadata, default_metadata("opaque"));
    let [opaque_route::Rule { backends: Some(distribution), .. }] = route.rules.as_slice() else { panic!("{route:?}") };
    let Some(opaque_route::distribution::Kind::FirstAvailable(first)) = &distribution.kind else { panic!() };
    first.backends[0].backend.clone().unwrap()
}

#[tokio::test]
async fn a_proxy_balances_a_virtual_address_by_profile_and_by_policy() {
    let server = Server::start().await;
    for (name, host) in [("web-1", "10.0.0.1"), ("web-2", "10.0.0.2")] {
        server.write(workload(name, &workload_data(host))).await.unwrap();
    }
    server.write(service("web", &service_data("web-"))).await.unwrap();
    let proxy = Proxy::of(&server).await;
    // The proxy's order: both at once.
    let (profile, policy) = tokio::join!(proxy.profile(VIP), proxy.watch(at(VIP)));
    let name = "web.default.svc.cluster.local";
    let expected = DestinationProfile {
        fully_qualified_name: name.into(),
        dst_overrides: vec![WeightedDst { authority: format!("{name}:80"), weight: 1, backend_ref: None }],
        parent_ref: metadata_of("core", "Service", "web", 80),
        ..budget()
    };
    // The controller may be behind the write of the Service.
    let of_web = |profile: &DestinationProfile| profile.endpoint.is_none();
    assert_eq!(until(&mut profile.unwrap(), of_web).await, expected);
    let policy = match policy {
        Ok(mut policy) => policy.message().await.ok().flatten(),
        Err(_) => None,
    };
    let policy = match policy {
        Some(policy) => policy,
        None => proxy.policy(Some(at(VIP))).await.unwrap(),
    };
    assert_eq!(policy.metadata, metadata_of("core", "Service", "web", 80));
    let backend = balanced(&format!("{name}:80"));
    let detect = detect(policy.clone());
    assert_eq!(detect.timeout, Some(ProtoDuration { seconds: 10, nanos: 0 }));
    assert_eq!(opaque_backend(&detect.opaque.unwrap().routes), backend);
    assert_eq!(detect.http1.unwrap().routes, http_routes(&backend));
    assert_eq!(detect.http2.unwrap().routes, http_routes(&backend));
    // The same answer for the name, in ingress mode, and by Watch.
    let by_name = || Some(Target::Authority(format!("{name}:80")));
    assert_eq!(proxy.policy(by_name()).await.unwrap(), policy);
    assert_eq!(next(&mut proxy.watch(by_name().unwrap()).await.unwrap()).await, policy);
    // Get understands the path.
    let path = path(&backend);
    eventually("Get has both", async || {
        let mut get = Api::Linkerd.get(server.channel().await, &path).await.unwrap();
        get.added().await == addrs(&["10.0.0.1:8080", "10.0.0.2:8080"])
    })
    .await;
}

#[tokio::test]
async fn weights_are_those_of_backends_that_name_instances() {
    let server = Server::start().await;
    for (name, host, weight) in [("web-1", "10.0.0.1", 9), ("web-2", "10.0.0.2", 1)] {
        server.write(workload(name, &Workload { weight, ..workload_data(host) })).await.unwrap();
    }
    server.write(service("web", &service_data("web-"))).await.unwrap();
    let proxy = Proxy::of(&server).await;
    let mut profile = proxy.profile(VIP).await.unwrap();
    let profile = until(&mut profile, |profile| profile.dst_overrides.len() == 2).await;
    let name = |instance: &str| format!("{instance}.web.default.svc.cluster.local:80");
    let overrides: Vec<_> = profile.dst_overrides.into_iter().map(|one| (one.authority, one.weight)).collect();
    assert_eq!(overrides, [(name("web-1"), 9), (name("web-2"), 1)]);
    let detect = detect(proxy.policy(Some(at(VIP))).await.unwrap());
    let rule = detect.http2.unwrap().routes.remove(0).rules.remove(0);
    let Some(http_route::distribution::Kind::RandomAvailable(random)) = rule.backends.unwrap().kind else { panic!() };
    let weighted = random.backends.into_iter().map(|one| (one.backend.unwrap().backend.unwrap(), one.weight));
    assert_eq!(weighted.collect::<Vec<_>>(), [(balanced(&name("web-1")), 9), (balanced(&name("web-2")), 1)]);
    let Some(opaque_route::distribution::Kind::RandomAvailable(random)) =
        detect.opaque.unwrap().routes.remove(0).rules.remove(0).backends.unwrap().kind
    else {
        panic!()
    };
    assert_eq!(random.backends.iter().map(|one| one.weight).collect::<Vec<_>>(), [9, 1]);
    let mut get = Api::Linkerd.get(server.channel().await, &name("web-2")).await.unwrap();
    assert_eq!(get.added().await, addrs(&["10.0.0.2:8080"]));
}

/// The kind of protocol, and the number of its routes.
fn protocol(policy: &OutboundPolicy) -> (&'static str, usize) {
    match policy.protocol.as_ref().unwrap().kind.as_ref().unwrap() {
        Kind::Detect(_) => ("detect", 1),
        Kind::Opaque(opaque) => ("opaque", opaque.routes.len()),
        Kind::Http1(http) => ("http1", http.routes.len()),
        Kind::Http2(http) => ("http2", http.routes.len()),
        Kind::Grpc(grpc) => ("grpc", grpc.routes.len()),
        Kind::Tls(tls) => ("tls", tls.routes.len()),
    }
}

#[tokio::test]
async fn the_protocol_of_a_port_is_the_protocol_of_its_policy() {
    let server = Server::start().await;
    server.write(workload("web-1", &workload_data("10.0.0.1"))).await.unwrap();
    let port = |name: &str, port, protocol: Protocol, opaque| ServicePort {
        name: name.into(),
        port,
        target_port: "http".into(),
        protocol: protocol.into(),
        opaque,
    };
    let ports = vec![
        port("tcp", 80, Protocol::Tcp, false),
        port("http", 81, Protocol::Http, false),
        port("http2", 82, Protocol::Http2, false),
        port("grpc", 83, Protocol::Grpc, false),
        port("opaque", 84, Protocol::Tcp, true),
    ];
    server.write(service("web", &Service { ports, ..service_data("web-") })).await.unwrap();
    let proxy = Proxy::of(&server).await;
    let has_policy = async || proxy.policy(Some(at(VIP))).await.is_ok();
    eventually("the address has a service", has_policy).await;
    for (number, expected) in
        [(80, "detect"), (81, "detect"), (82, "http2"), (83, "grpc"), (84, "opaque"), (85, "detect")]
    {
        let addr = format!("10.96.0.10:{number}");
        let policy = proxy.policy(Some(at(&addr))).await.unwrap();
        assert_eq!(protocol(&policy), (expected, 1), "{number}");
        assert_eq!(policy.metadata, metadata_of("core", "Service", "web", number));
        let profile = next(&mut proxy.profile(&addr).await.unwrap()).await;
        assert_eq!(profile.opaque_protocol, number == 84, "{number}");
        if let Some(Kind::Grpc(grpc)) = policy.protocol.unwrap().kind {
            assert_eq!(grpc.routes[0].metadata, default_metadata("grpc"));
            let Some(grpc_route::distribution::Kind::FirstAvailable(first)) =
                &grpc.routes[0].rules[0].backends.as_ref().unwrap().kind
            else {
                panic!()
            };
            let found = path(first.backends[0].backend.as_ref().unwrap());
            assert_eq!(found, "web.default.svc.cluster.local:83");
        }
    }
}

#[tokio::test]
async fn a_workload_is_the_endpoint_of_its_own_address() {
    let server = Server::start().await;
    let spiffe = Workload {
        identity: "spiffe://example.org/web".into(),
        server_name: "web.example.org".into(),
        zone: "rack-2".into(),
        weight: 3,
        labels: [("team".to_owned(), "shop".to_owned())].into(),
        ports: vec![
            WorkloadPort { name: "http".into(), port: 8080, ..WorkloadPort::default() },
            WorkloadPort { name: "db".into(), port: 5432, opaque: true, ..WorkloadPort::default() },
        ],
        ..workload_data("10.0.0.1")
    };
    server.write(workload("web-1", &spiffe)).await.unwrap();
    let bare = workload_data("2001:db8::2");
    server.write(workload("web-2", &bare)).await.unwrap();
    let proxy = Proxy::of(&server).await;
    let labels = |pairs: &[(&str, &str)]| pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
    let tls = linkerd2_proxy_api::destination::TlsIdentity {
        strategy: Some(Strategy::UriLikeIdentity(UriLikeIdentity { uri: "spiffe://example.org/web".into() })),
        server_name: Some(DnsLikeIdentity { name: "web.example.org".into() }),
    };
    let h2 = ProtocolHint { protocol: Some(Hint::H2(H2 {})), opaque_transport: None };
    let opaque = ProtocolHint {
        protocol: Some(Hint::Opaque(Opaque {})),
        opaque_transport: Some(OpaqueTransport { inbound_port: 4143 }),
    };
    let pairs = [("namespace", "default"), ("team", "shop"), ("workload", "web-1"), ("zone", "rack-2")];
    for (addr, hint, is_opaque) in
        [("10.0.0.1:8080", h2, false), ("10.0.0.1:5432", opaque, true), ("10.0.0.1:1", h2, false)]
    {
        let socket: std::net::SocketAddr = addr.parse().unwrap();
        let resource = metadata_of("catalog", "Workload", "web-1", socket.port().into());
        let endpoint = WeightedAddr {
            addr: Some(socket.into()),
            weight: 3,
            metric_labels: labels(&pairs),
            tls_identity: Some(tls.clone()),
            protocol_hint: Some(hint),
            resource_ref: resource.clone(),
            ..WeightedAddr::default()
        };
        let expected = DestinationProfile {
            endpoint: Some(endpoint.clone()),
            parent_ref: resource.clone(),
            opaque_protocol: is_opaque,
            ..budget()
        };
        let mut stream = proxy.profile(addr).await.unwrap();
        let found = until(&mut stream, |profile| profile.parent_ref.is_some()).await;
        assert_eq!(found, expected, "{addr}");
        let policy = proxy.policy(Some(at(addr))).await.unwrap();
        assert_eq!((protocol(&policy).0 == "opaque", &policy.metadata), (is_opaque, &resource), "{addr}");
        let routes = match policy.protocol.unwrap().kind.unwrap() {
            Kind::Detect(detect) => detect.opaque.unwrap().routes,
            Kind::Opaque(opaque) => opaque.routes,
            other => panic!("{other:?}"),
        };
        let backend = opaque_backend(&routes);
        assert_eq!(backend.kind, Some(BackendKind::Forward(endpoint)), "{addr}");
        assert_eq!((backend.queue.unwrap().capacity, backend.metadata), (100, resource), "{addr}");
    }
    // Without an identity there is no proxy, so no hint.
    let found = next(&mut proxy.profile("[2001:db8::2]:8080").await.unwrap()).await.endpoint.unwrap();
    assert_eq!((found.tls_identity, found.protocol_hint), (None, None));
    assert_eq!(found.metric_labels, labels(&[("namespace", "default"), ("workload", "web-2")]));
}

/// A proxy goes on by the profile after these codes; after InvalidArgument it would close the connection.
#[tokio::test]
async fn a_target_of_nobody_is_not_found() {
    let server = Server::start().await;
    let proxy = Proxy::of(&server).await;
    let name = |path: &str| Some(Target::Authority(path.into()));
    for target in [
        Some(at("192.0.2.9:80")),
        Some(at("[2001:db8::9]:80")),
        name("none.default.svc.cluster.local:80"),
        name("example.com"),
        name("example.com:443"),
        name(""),
    ] {
        let (code, text) = refusal(proxy.policy(target.clone()).await.map(drop));
        assert_eq!(code, Code::NotFound, "{target:?}: {text}");
        let watched = match proxy.watch(target.clone().unwrap()).await {
            Ok(mut stream) => super::end(&mut stream).await,
            Err(status) => status,
        };
        assert_eq!(watched.code(), Code::NotFound, "{target:?}");
    }
    let (code, text) = refusal(proxy.policy(None).await.map(drop));
    assert_eq!((code, text.as_str()), (Code::InvalidArgument, "a target is required; set addr or authority"));
    let (code, _) =
        refusal(proxy.policy(Some(Target::Addr(linkerd2_proxy_api::net::TcpAddress::default()))).await.map(drop));
    assert_eq!(code, Code::InvalidArgument);
}
