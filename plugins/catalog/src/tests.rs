//! The types: their defaults, and the paths of their faults.

use mortise_plugin::{
    Data, Failure, Kind, Typed,
    manifest::Manifest,
    pb,
    prost::Message as _,
    prost_types::{Any, Duration},
    testing::World,
};

use super::{ADDRESS, HTTP_ROUTE, PLUGIN, SERVICE, WORKLOAD};
use crate::proto::catalog::v1::{
    CheckTls, GrpcCheck, HealthCheck, HttpCheck, HttpHeaderMatch, HttpRoute, HttpRouteMatch, HttpRouteRetry,
    HttpRouteRule, HttpStatusRange, InboundRule, Protocol, RouteBackend, RouteParent, Selector, Service, ServicePort,
    TcpCheck, VirtualAddress, Workload, WorkloadAddress, WorkloadPort, health_check::Check,
    http_route_match::Path as PathMatch,
};

fn said<M: Data>(of: Kind<M>, url: &str, data: &M) -> Vec<String> {
    let data = Any { type_url: format!("type.googleapis.com/catalog.v1.{url}"), value: data.encode_to_vec() };
    let id = of.id("web", &World::tenancy());
    let resource = pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() }.encode_to_vec();
    let mutated = PLUGIN.mutate(&resource).unwrap().unwrap_or_else(|| resource.clone());
    assert_eq!(PLUGIN.mutate(&mutated), Ok(None), "mutate is idempotent");
    PLUGIN.validate(&mutated, None).iter().map(|one| one.path.to_string()).collect()
}

fn service(service: &Service) -> Vec<String> {
    said(SERVICE, "Service", service)
}

fn workload(workload: &Workload) -> Vec<String> {
    said(WORKLOAD, "Workload", workload)
}

fn port(name: &str, port: u32, target: &str) -> ServicePort {
    ServicePort { name: name.into(), port, target_port: target.into(), protocol: 0, opaque: false }
}

fn selecting(selector: Selector) -> Service {
    Service { selector: Some(selector), ..Service::default() }
}

fn at(host: &str) -> WorkloadAddress {
    WorkloadAddress { host: host.into(), ports: Vec::new() }
}

fn offers(name: &str, port: u32) -> WorkloadPort {
    WorkloadPort { name: name.into(), port, protocol: 0, opaque: false }
}

fn check(name: &str, check: Check) -> HealthCheck {
    HealthCheck { name: name.into(), check: Some(check), ..HealthCheck::default() }
}

const fn seconds(seconds: i64) -> Duration {
    Duration { seconds, nanos: 0 }
}

/// A workload with one address, changed by a test.
fn with(change: impl FnOnce(&mut Workload)) -> Workload {
    let mut workload = Workload { addresses: vec![at("192.0.2.1")], ..Workload::default() };
    change(&mut workload);
    workload
}

#[test]
fn defaults_are_filled_in() {
    let world = World::new(&PLUGIN);
    let data = Service { ports: vec![port("http", 80, ""), port("admin", 0, "9000")], ..Service::default() };
    let stored = world.put(&Typed::new(SERVICE.id("web", &World::tenancy()), data)).unwrap().data;
    let ports = stored.ports.iter().map(|port| (port.port, port.target_port.as_str(), port.protocol()));
    assert_eq!(ports.collect::<Vec<_>>(), [(80, "http", Protocol::Tcp), (9000, "9000", Protocol::Tcp)]);

    let data = with(|data| {
        data.addresses = vec![at("2001:DB8:0::1")];
        data.ports = vec![offers("http", 8080)];
        data.checks = vec![
            check("http", Check::Http(HttpCheck::default())),
            check("tcp", Check::Tcp(TcpCheck::default())),
            check("ttl", Check::Ttl(seconds(5))),
        ];
    });
    let stored = world.put(&Typed::new(WORKLOAD.id("web", &World::tenancy()), data)).unwrap().data;
    assert_eq!((stored.weight, stored.addresses[0].host.as_str()), (1, "2001:db8::1"));
    assert_eq!(stored.ports[0].protocol(), Protocol::Tcp);
    let (port, path, scheme, method) = ("http".into(), "/".into(), "http".into(), "GET".into());
    let http = HttpCheck { port, path, scheme, method, ..HttpCheck::default() };
    assert_eq!(stored.checks[0].check, Some(Check::Http(http)));
    assert_eq!((stored.checks[1].passing_after, stored.checks[1].failing_after), (1, 1));
    assert_eq!((stored.checks[0].interval, stored.checks[1].timeout), (Some(seconds(10)), Some(seconds(1))));
    assert_eq!((stored.checks[2].interval, stored.checks[2].timeout), (None, None));
}

#[test]
fn faults_of_services_say_where_they_are() {
    let good = Service {
        selector: Some(Selector {
            names: vec!["a".into()],
            prefixes: vec!["*".into(), "web-".into(), "0".into()],
            labels: [("app".to_owned(), "web".to_owned())].into(),
        }),
        ports: vec![port("http", 80, "8080"), port("grpc", 81, "grpc")],
        labels: [("team".to_owned(), "é".to_owned())].into(),
        dns_ttl: Some(seconds(3_600)),
        virtual_addresses: vec!["10.96.0.10".into(), "FD00:96:0::1".into()],
    };
    assert_eq!(service(&good), [""; 0]);
    let bad = [
        "0.0.0.0 224.0.0.1 255.255.255.255 :: ff02::1 ::ffff:10.0.0.1 web 10.0.0.0/8",
        "127.0.0.1 127.9.9.9 ::1 169.254.169.254 10.0.0.01",
    ];
    for bad in bad {
        let virtual_addresses: Vec<_> = bad.split(' ').map(str::to_owned).collect();
        let indexes = 0..virtual_addresses.len();
        let places: Vec<_> = indexes.map(|index| format!("data.virtual_addresses[{index}]")).collect();
        assert_eq!(service(&Service { virtual_addresses, ..good.clone() }), places);
    }
    let empty = vec![String::new()];
    assert_eq!(service(&Service { virtual_addresses: empty, ..good.clone() }), ["data.virtual_addresses[0]"]);
    let twice = ["fd00:96::1", "FD00:96:0::1", "10.0.0.01"].map(str::to_owned).to_vec();
    let found = service(&Service { virtual_addresses: twice, ..good.clone() });
    assert_eq!(found, ["data.virtual_addresses[1]", "data.virtual_addresses[2]"]);
    let many = (0..9).map(|number| format!("10.0.0.{number}")).collect();
    assert_eq!(service(&Service { virtual_addresses: many, ..good.clone() }), ["data.virtual_addresses"]);
    let opaque = ServicePort { opaque: true, protocol: Protocol::Grpc.into(), ..port("http", 80, "") };
    assert_eq!(service(&Service { ports: vec![opaque], ..good.clone() }), ["data.ports[0].opaque"]);
    for dns_ttl in [seconds(-1), seconds(3_601), Duration { seconds: 1, nanos: 1 }].map(Some) {
        assert_eq!(service(&Service { dns_ttl, ..good.clone() }), ["data.dns_ttl"]);
    }
    assert_eq!(service(&Service::default()), [""; 0], "endpoints that others write");
    assert_eq!(service(&selecting(Selector::default())), ["data.selector"]);
    let names = Selector { names: vec!["a".into(), "A".into(), "a".into()], ..Selector::default() };
    assert_eq!(service(&selecting(names)), ["data.selector.names[1]", "data.selector.names[2]"]);
    let prefixes = ["-a", "a_", "A", "a", "a", ""].map(str::to_owned).to_vec();
    let places = [0, 1, 2, 4, 5].map(|index| format!("data.selector.prefixes[{index}]"));
    assert_eq!(service(&selecting(Selector { prefixes, ..Selector::default() })), places);
    let many = Selector { names: (0..257).map(|number| format!("n{number}")).collect(), ..Selector::default() };
    assert_eq!(service(&selecting(many)), ["data.selector.names"]);
    let ports = vec![
        port("http", 80, "0"),
        port("http", 80, "65536"),
        port("Http", 65_536, "a_b"),
        port("", 0, ""),
        ServicePort { protocol: 9, ..port("x", 1, "") },
    ];
    assert_eq!(
        service(&Service { ports, ..Service::default() }),
        [
            "data.ports[0].target_port",
            "data.ports[1].name",
            "data.ports[1].port",
            "data.ports[1].target_port",
            "data.ports[2].name",
            "data.ports[2].port",
            "data.ports[2].target_port",
            "data.ports[3].name",
            "data.ports[3].port",
            "data.ports[3].target_port",
            "data.ports[4].protocol",
        ]
    );
    let labels = ["service", "namespace", "0", "ok"].map(|key| (key.to_owned(), String::new())).into();
    let places = ["0", "namespace", "service"].map(|key| format!("data.labels[\"{key}\"]"));
    assert_eq!(service(&Service { labels, ..Service::default() }), places);
}

#[test]
fn faults_of_workloads_say_where_they_are() {
    for good in ["192.0.2.1", "2001:db8::1", "app.internal", "localhost", "xn--bcher-kva.example"] {
        assert_eq!(workload(&with(|data| data.addresses = vec![at(good)])), [""; 0], "{good}");
    }
    for bad in
        ["", "192.0.2.256", "192.0.2", "01.2.3.4", "A.example", "a_b", "a:80", "[::1]", "::1%eth0", "1.2.3.4:80", "a."]
    {
        assert_eq!(workload(&with(|data| data.addresses = vec![at(bad)])), ["data.addresses[0].host"], "{bad}");
    }
    assert_eq!(workload(&Workload::default()), ["data.addresses"]);
    let twice = with(|data| data.addresses = vec![at("::1"), at("0:0::1")]);
    assert_eq!(workload(&twice), ["data.addresses[1].host"]);
    let dangling = with(|data| {
        data.ports = vec![offers("http", 80), offers("http", 80), offers("x", 0)];
        data.addresses[0].ports = vec!["http".into(), "grpc".into(), "http".into()];
    });
    assert_eq!(
        workload(&dangling),
        [
            "data.ports[1].name",
            "data.ports[1].port",
            "data.ports[2].port",
            "data.addresses[0].ports[1]",
            "data.addresses[0].ports[2]",
        ]
    );
    assert_eq!(workload(&with(|data| data.weight = 65_536)), ["data.weight"]);
    assert_eq!(workload(&with(|data| data.weight = 65_535)), [""; 0]);
    assert_eq!(workload(&with(|data| data.zone = "z".repeat(64))), ["data.zone"]);
    let named = |identity: &str, server_name: &str| {
        workload(&with(|data| (data.identity, data.server_name) = (identity.into(), server_name.into())))
    };
    for (identity, server_name) in [
        ("web.example.org", ""),
        ("web.example.org", "other.example.org"),
        ("spiffe://example.org/web", "web.example.org"),
        ("spiffe://example.org", "web"),
    ] {
        assert_eq!(named(identity, server_name), [""; 0], "{identity} {server_name}");
    }
    for bad in ["Web", "://a", "10.0.0.1", "::1", "a.1", "web:443"] {
        assert_eq!(named(bad, ""), ["data.identity"], "{bad}");
    }
    for bad in [
        "https://example.org/web",
        "urn:web",
        "spiffe://",
        "spiffe://a b",
        "spiffe://A/b",
        "spiffe://a/",
        "spiffe://a/b?c",
    ] {
        assert_eq!(named(bad, "web.example.org"), ["data.identity"], "{bad}");
    }
    assert_eq!(named("spiffe://example.org/web", ""), ["data.server_name"], "clients would speak without TLS");
    for bad in ["10.0.0.1", "Web", "a:1", "spiffe://a"] {
        assert_eq!(named("web.example.org", bad), ["data.server_name"], "{bad}");
    }
    assert_eq!(named("", "web.example.org"), ["data.server_name"], "a name of nothing");
}

#[test]
fn faults_of_checks_say_where_they_are() {
    let places = |checks: Vec<HealthCheck>| {
        workload(&with(|data| {
            data.ports = vec![offers("http", 80), offers("grpc", 81)];
            data.checks = checks;
        }))
    };
    let http = |port: &str, path: &str, scheme: &str| {
        Check::Http(HttpCheck { port: port.into(), path: path.into(), scheme: scheme.into(), ..HttpCheck::default() })
    };
    let tcp = |port: &str| Check::Tcp(TcpCheck { port: port.into() });
    assert_eq!(places(vec![check("a", http("grpc", "/health?x=1", "https")), check("b", tcp("65535"))]), [""; 0]);
    assert_eq!(
        places(vec![check("a", http("", "health", "ftp")), check("a", tcp("0")), check("C", tcp("metrics"))]),
        [
            "data.checks[0].http.port",
            "data.checks[0].http.path",
            "data.checks[0].http.scheme",
            "data.checks[1].name",
            "data.checks[1].tcp.port",
            "data.checks[2].name",
            "data.checks[2].tcp.port",
        ]
    );
    let none = HealthCheck { name: "a".into(), ..HealthCheck::default() };
    assert_eq!(places(vec![none]), ["data.checks[0]"]);
    let long = check(&"a".repeat(41), tcp("http"));
    assert_eq!(places(vec![long]), ["data.checks[0].name"]);
    let times =
        |interval, timeout| HealthCheck { interval: Some(interval), timeout: Some(timeout), ..check("a", tcp("http")) };
    assert_eq!(places(vec![times(seconds(86_400), seconds(30))]), [""; 0]);
    assert_eq!(places(vec![times(seconds(0), seconds(31))]), ["data.checks[0].interval", "data.checks[0].timeout"]);
    assert_eq!(places(vec![times(seconds(-5), seconds(1))]), ["data.checks[0].interval"]);
    assert_eq!(places(vec![check("a", Check::Ttl(Duration { seconds: 0, nanos: 999 }))]), ["data.checks[0].ttl"]);
    let ttl = HealthCheck { interval: Some(seconds(1)), ..check("a", Check::Ttl(seconds(1))) };
    assert_eq!(places(vec![ttl]), ["data.checks[0].interval"]);
    let thresholds = |passing_after, failing_after, after| HealthCheck {
        passing_after,
        failing_after,
        deregister_after: Some(seconds(after)),
        ..check("a", tcp("http"))
    };
    assert_eq!(places(vec![thresholds(100, 100, 60)]), [""; 0]);
    let wrong = ["passing_after", "failing_after", "deregister_after"].map(|name| format!("data.checks[0].{name}"));
    assert_eq!(places(vec![thresholds(101, 101, 59)]), wrong);
    let asked = |change: &dyn Fn(&mut HttpCheck)| {
        let mut http = HttpCheck { port: "http".into(), scheme: "https".into(), ..HttpCheck::default() };
        change(&mut http);
        places(vec![check("a", Check::Http(http))])
    };
    let range = |from, to| HttpStatusRange { from, to };
    let ca = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";
    let tls = |ca: &str, name: &str| Some(CheckTls { ca: ca.into(), server_name: name.into() });
    assert_eq!(
        asked(&|http| {
            (http.method, http.host, http.body) = ("HEAD".into(), "web.example:8080".into(), "ready".into());
            http.headers = [("x-key".to_owned(), "a b".to_owned())].into();
            (http.statuses, http.redirects) = (vec![range(204, 0), range(200, 599)], 10);
            http.tls = tls(ca, "web.example");
        }),
        [""; 0]
    );
    let faults = asked(&|http| {
        (http.method, http.host, http.body) = ("get".into(), "a\r\nb".into(), "x".repeat(1_025));
        http.headers = [("x_key".to_owned(), String::new()), ("ok".to_owned(), "\n".to_owned())].into();
        (http.statuses, http.redirects) = (vec![range(99, 0), range(300, 299)], 11);
        http.tls = tls("no PEM", "10.0.0.1");
    });
    let expected = [
        "method",
        "host",
        "headers[\"ok\"]",
        "headers[\"x_key\"]",
        "statuses[0]",
        "statuses[1]",
        "body",
        "redirects",
        "tls.ca",
        "tls.server_name",
    ];
    assert_eq!(faults, expected.map(|place| format!("data.checks[0].http.{place}")));
    let plain = asked(&|http| (http.scheme, http.tls) = ("http".into(), tls("", "")));
    assert_eq!(plain, ["data.checks[0].http.tls"]);
    let grpc = GrpcCheck { port: "http".into(), service: "shop.Cart".into(), tls: tls("", "Web") };
    assert_eq!(places(vec![check("a", Check::Grpc(grpc))]), ["data.checks[0].grpc.tls.server_name"]);
    let many = (0..17).map(|number| check(&format!("c{number}"), tcp("http"))).collect();
    assert_eq!(places(many), ["data.checks"]);
}

#[test]
fn a_fault_refuses_the_write() {
    let world = World::new(&PLUGIN);
    let refused = world.put(&Typed::new(WORKLOAD.id("web", &World::tenancy()), Workload::default())).unwrap_err();
    assert_eq!(refused.code, Failure::INVALID);
}

#[test]
fn the_manifest_says_all_of_it() {
    let manifest = Manifest::decode(PLUGIN.describe().as_slice()).unwrap();
    let kinds = manifest.types.iter().map(|of| of.kind.as_str()).collect::<Vec<_>>();
    let computed = ["ServiceEndpoints", "EndpointSlice", "VirtualAddress", "HttpRoute", "ServiceRoutes"];
    assert_eq!(kinds, [&["Service", "Workload"][..], &computed].concat());
    let validated = manifest.types.iter().map(|of| of.hooks.is_some_and(|hooks| hooks.validate)).collect::<Vec<_>>();
    let expected = [true, true, false, false, true, true, false];
    assert_eq!(validated, expected, "thousands of endpoints are more than a hook has fuel for");
    assert!(manifest.types.iter().all(|of| of.permissions.is_some()));
}

#[test]
fn faults_of_inbound_permissions_say_where_they_are() {
    let rule = |port: &str, networks: &[&str], identities: &[&str]| InboundRule {
        port: port.to_owned(),
        networks: networks.iter().map(|one| (*one).to_owned()).collect(),
        mesh_only: false,
        identities: identities.iter().map(|one| (*one).to_owned()).collect(),
    };
    let inbound = |rules: Vec<InboundRule>| {
        workload(&with(|data| {
            data.ports = vec![offers("http", 8080), offers("admin", 4191)];
            data.inbound = rules;
        }))
    };
    let good = vec![
        rule("", &["10.0.0.0/8", "192.0.2.1", "::/0", "2001:db8::/32", "0.0.0.0/0", "2001:db8::1/128"], &[]),
        rule("http", &[], &["web.mesh.example", "*.mesh.example", "spiffe://mesh.example/web"]),
        InboundRule { mesh_only: true, ..rule("8080", &[], &[]) },
    ];
    assert_eq!(inbound(good), [""; 0]);
    let networks = ["10.0.0.1/8", "10.0.0.0/33", "::1/127", "a", "10.0.0.0/+8", "10.0.0.0/08", "", "::/0", "::/0"];
    let places = [0, 1, 2, 3, 4, 5, 6, 8].map(|index| format!("data.inbound[0].networks[{index}]"));
    assert_eq!(inbound(vec![rule("", &networks, &[])]), places);
    let identities = ["", "*", "*.", "*.*.a", "Web.example", "192.0.2.1", "a.b", "a.b", "spiffe://a"];
    let places = [0, 1, 2, 3, 4, 5, 7].map(|index| format!("data.inbound[0].identities[{index}]"));
    assert_eq!(inbound(vec![rule("", &[], &identities)]), places);
    let ports =
        ["https", "8081", "0", "4191", "admin", "08080", "+8080", "http"].map(|port| rule(port, &[], &[])).to_vec();
    assert_eq!(inbound(ports), [0, 1, 2, 3, 4, 5, 6].map(|index| format!("data.inbound[{index}].port")));
    let both = InboundRule { mesh_only: true, ..rule("", &[], &["web.example"]) };
    assert_eq!(inbound(vec![both]), ["data.inbound[0].mesh_only"]);
    let many: Vec<String> = (0..65).map(|number| format!("a{number}.b")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(inbound(vec![rule("", &[], &many)]), ["data.inbound[0].identities"]);
    assert_eq!(inbound(vec![rule("", &[], &[]); 65]), ["data.inbound"]);
}

#[test]
fn faults_of_routes_say_where_they_are() {
    let route = |parent, rules: Vec<HttpRouteRule>| {
        said(HTTP_ROUTE, "HttpRoute", &HttpRoute { parent, rules, services: Vec::new() })
    };
    let web = || Some(RouteParent { service: "web".into(), port: 80 });
    let backend = |service: &str, port, weight| RouteBackend { service: service.into(), port, weight };
    let header = |name: &str, exact: &str| HttpHeaderMatch { name: name.into(), exact: exact.into() };
    let good = HttpRouteRule {
        matches: vec![HttpRouteMatch {
            path: Some(PathMatch::PathPrefix("/api".into())),
            headers: vec![header("x-canary", "yes")],
            method: "GET".into(),
        }],
        backends: vec![backend("web", 0, None), backend("next", 81, Some(0))],
        request_timeout: Some(seconds(3_600)),
        backend_request_timeout: Some(Duration { seconds: 0, nanos: 1_000_000 }),
        retry: Some(HttpRouteRetry { max: 10, statuses: vec![HttpStatusRange { from: 503, to: 0 }] }),
    };
    assert_eq!(route(web(), vec![good.clone()]), [""; 0]);
    assert_eq!(route(None, Vec::new()), ["data.parent", "data.rules"]);
    let odd = Some(RouteParent { service: "Web".into(), port: 65_536 });
    assert_eq!(route(odd, vec![good.clone(); 17]), ["data.parent.service", "data.parent.port", "data.rules"]);
    let bad = HttpRouteRule {
        matches: vec![
            HttpRouteMatch { path: Some(PathMatch::ExactPath("api".into())), ..HttpRouteMatch::default() },
            HttpRouteMatch { path: Some(PathMatch::PathPrefix("/a?b".into())), ..HttpRouteMatch::default() },
            HttpRouteMatch {
                headers: vec![header("X", "a"), header("x", "\n")],
                method: "get".into(),
                ..HttpRouteMatch::default()
            },
        ],
        backends: vec![backend("a_b", 0, Some(0)), backend("web", 70_000, Some(0))],
        request_timeout: Some(seconds(0)),
        backend_request_timeout: Some(seconds(3_601)),
        retry: Some(HttpRouteRetry { max: 11, statuses: vec![HttpStatusRange { from: 99, to: 100 }] }),
    };
    let places = [
        "matches[0].exact_path",
        "matches[1].path_prefix",
        "matches[2].headers[0].name",
        "matches[2].headers[1].exact",
        "matches[2].method",
        "backends[0].service",
        "backends[1].port",
        "backends",
        "request_timeout",
        "backend_request_timeout",
        "retry.max",
        "retry.statuses[0]",
    ];
    assert_eq!(route(web(), vec![bad]), places.map(|place| format!("data.rules[0].{place}")));
    let many = HttpRouteRule { matches: vec![HttpRouteMatch::default(); 17], ..HttpRouteRule::default() };
    assert_eq!(route(web(), vec![many]), ["data.rules[0].matches"]);
}

/// A resource of this type under another name would be a second one for the address.
#[test]
fn an_address_has_one_name() {
    for (address, faults) in [("10.0.0.1", 1), ("web", 1)] {
        let data = VirtualAddress { address: address.into(), ..VirtualAddress::default() };
        assert_eq!(said(ADDRESS, "VirtualAddress", &data).len(), faults, "{address}");
    }
}
