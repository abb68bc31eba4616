//! Both controllers, in a world in memory.

use std::{collections::BTreeMap, time::Duration};

use mortise_plugin::{
    Condition, Failure, Status, Typed, pb,
    probes::{GrpcProbe, TcpProbe, probe},
    prost, prost_types,
    testing::World,
};

use crate::{
    ENDPOINTS, PLUGIN, SERVICE, SLICE, WORKLOAD,
    controllers::layout::{MAX_BYTES, MAX_ENDPOINTS},
    health::{PASSING, status_key},
    proto::catalog::v1::{
        Endpoint, EndpointSlice, GrpcCheck, Health, HealthCheck, HttpCheck, Selector, Service, ServiceEndpoints,
        ServicePort, SliceRange, TcpCheck, Workload, WorkloadAddress, WorkloadPort, health_check::Check,
    },
    selection,
};

fn service(name: &str, selector: Option<Selector>) -> Typed<Service> {
    let ports = vec![ServicePort { name: "http".into(), port: 80, ..ServicePort::default() }];
    Typed::new(SERVICE.id(name, &World::tenancy()), Service { selector, ports, ..Service::default() })
}

fn prefix(prefix: &str) -> Option<Selector> {
    Some(Selector { prefixes: vec![prefix.into()], ..Selector::default() })
}

fn workload(name: &str, host: &str) -> Typed<Workload> {
    let data = Workload {
        addresses: vec![WorkloadAddress { host: host.into(), ports: Vec::new() }],
        ports: vec![WorkloadPort { name: "http".into(), port: 8080, protocol: 0, opaque: false }],
        ..Workload::default()
    };
    Typed::new(WORKLOAD.id(name, &World::tenancy()), data)
}

fn stored(world: &World, name: &str) -> Option<Typed<ServiceEndpoints>> {
    world.get(&ENDPOINTS.id(name, &World::tenancy()))
}

fn addresses(world: &World, name: &str) -> Vec<String> {
    let found = stored(world, name).map(|one| one.data.endpoints).unwrap_or_default();
    found.into_iter().map(|one| one.address).collect()
}

fn health(world: &World, name: &str) -> Health {
    stored(world, name).unwrap().data.endpoints[0].health()
}

#[test]
fn names_prefixes_and_labels_select() {
    let world = World::new(&PLUGIN);
    for (name, host) in [("web-1", "192.0.2.1"), ("web-2", "192.0.2.2"), ("api", "192.0.2.3"), ("webx", "192.0.2.4")] {
        let mut one = workload(name, host);
        one.metadata.insert("app".into(), if name == "api" { "api" } else { "web" }.into());
        world.put(&one).unwrap();
    }
    let labels = |value: &str| [("app".to_owned(), value.to_owned())].into();
    let selectors = [
        ("prefix", Selector { prefixes: vec!["web-".into()], ..Selector::default() }, &["192.0.2.1", "192.0.2.2"][..]),
        (
            "all",
            Selector { prefixes: vec!["*".into()], ..Selector::default() },
            &["192.0.2.3", "192.0.2.1", "192.0.2.2", "192.0.2.4"],
        ),
        ("names", Selector { names: vec!["api".into(), "gone".into()], ..Selector::default() }, &["192.0.2.3"]),
        ("labels", Selector { labels: labels("api"), ..Selector::default() }, &["192.0.2.3"]),
        (
            "both",
            Selector { names: vec!["api".into()], prefixes: vec!["web-1".into()], labels: labels("web") },
            &["192.0.2.1"],
        ),
    ];
    for (name, selector, _) in &selectors {
        world.put(&service(name, Some(selector.clone()))).unwrap();
    }
    world.settle().unwrap();
    for (name, _, expected) in &selectors {
        assert_eq!(addresses(&world, name), *expected, "{name}");
    }

    // The former labels of a workload count as well.
    let mut moved = world.get::<Workload>(&WORKLOAD.id("api", &World::tenancy())).unwrap();
    moved.metadata.insert("app".into(), "web".into());
    world.put(&moved).unwrap();
    world.settle().unwrap();
    assert_eq!(addresses(&world, "labels"), [""; 0]);
    assert_eq!(addresses(&world, "both"), ["192.0.2.3", "192.0.2.1"]);
}

#[test]
fn a_workload_concerns_the_services_that_select_it() {
    let world = World::new(&PLUGIN);
    for number in 0..50 {
        world.put(&service(&format!("s{number}"), prefix(&format!("w{number}-")))).unwrap();
    }
    let mut elsewhere = service("s50", prefix("w7-"));
    elsewhere = Typed::new(
        SERVICE.id("s50", &pb::Tenancy { partition: "default".into(), namespace: "other".into() }),
        elsewhere.data,
    );
    world.put(&elsewhere).unwrap();
    let one = world.put(&workload("w7-b", "192.0.2.2")).unwrap();
    let found = selection::services(&world.context(), &one).unwrap();
    assert_eq!(found.iter().map(|id| id.name.as_str()).collect::<Vec<_>>(), ["s7"]);
}

#[test]
fn ports_are_found_by_name_and_by_number() {
    let world = World::new(&PLUGIN);
    let mut two = workload("web", "192.0.2.1");
    two.data.ports.push(WorkloadPort { name: "admin".into(), port: 9000, protocol: 0, opaque: false });
    two.data.addresses = vec![
        WorkloadAddress { host: "192.0.2.1".into(), ports: vec!["http".into()] },
        WorkloadAddress { host: "192.0.2.2".into(), ports: vec!["admin".into()] },
    ];
    world.put(&two).unwrap();
    let port = |name: &str, port, target: &str| ServicePort {
        name: name.into(),
        port,
        target_port: target.into(),
        protocol: 0,
        opaque: false,
    };
    let mut all = service("web", prefix("web"));
    all.data.ports = vec![port("www", 80, "http"), port("ops", 81, "admin"), port("fixed", 82, "7000")];
    world.put(&all).unwrap();
    let mut none = service("none", prefix("web"));
    none.data.ports = vec![port("grpc", 50_051, "grpc")];
    world.put(&none).unwrap();
    let mut own = service("own", prefix("web"));
    own.data.ports = Vec::new();
    world.put(&own).unwrap();
    world.settle().unwrap();
    let ports = |name: &str| {
        let of = |one: Endpoint| one.ports.into_iter().map(|port| (port.name, port.port)).collect::<Vec<_>>();
        stored(&world, name).unwrap().data.endpoints.into_iter().map(of).collect::<Vec<_>>()
    };
    let at = |name: &str, port| (name.to_owned(), port);
    assert_eq!(ports("web"), [[at("www", 8080), at("fixed", 7000)], [at("ops", 9000), at("fixed", 7000)]]);
    assert!(ports("none").is_empty(), "no address has the port");
    assert_eq!(ports("own"), [[at("http", 8080)], [at("admin", 9000)]]);
}

#[test]
fn endpoints_go_and_come_with_their_service() {
    let world = World::new(&PLUGIN);
    world.put(&workload("web", "192.0.2.1")).unwrap();
    let first = world.put(&service("web", prefix("web"))).unwrap();
    world.settle().unwrap();
    assert_eq!(stored(&world, "web").unwrap().owner().unwrap().uid, first.id().uid);
    let before = stored(&world, "web").unwrap().version().to_owned();
    world.put(&workload("other", "192.0.2.9")).unwrap();
    world.settle().unwrap();
    assert_eq!(stored(&world, "web").unwrap().version(), before, "nothing changed, so nothing is written");

    world.delete(first.id()).unwrap();
    let second = world.put(&service("web", prefix("web"))).unwrap();
    world.settle().unwrap();
    assert_eq!(stored(&world, "web").unwrap().owner().unwrap().uid, second.id().uid);
    world.delete(second.id()).unwrap();
    world.settle().unwrap();
    assert_eq!(stored(&world, "web"), None);
}

#[test]
fn endpoints_of_clients_are_left_alone() {
    let world = World::new(&PLUGIN);
    let endpoint = Endpoint { address: "198.51.100.1".into(), weight: 1, ..Endpoint::default() };
    let data = ServiceEndpoints { endpoints: vec![endpoint], ..ServiceEndpoints::default() };
    world.put(&Typed::new(ENDPOINTS.id("web", &World::tenancy()), data)).unwrap();
    world.put(&service("web", None)).unwrap();
    world.settle().unwrap();
    assert_eq!(addresses(&world, "web"), ["198.51.100.1"]);
    world.put(&workload("web", "192.0.2.1")).unwrap();
    let selecting = world.put(&service("web", prefix("web"))).unwrap();
    world.settle().unwrap();
    assert_eq!(addresses(&world, "web"), ["198.51.100.1"]);
    let status = world.get::<Service>(selecting.id()).unwrap().status_under("catalog.v1/endpoints").unwrap();
    assert_eq!(status.conditions[0].reason, "Taken");
}

/// The name of a workload by its number, in the order of the numbers.
fn numbered(number: usize) -> String {
    format!("web-{number:05}")
}

/// The names of the workloads in each part of a service: the head, and its slices in order.
fn parts(world: &World, name: &str) -> Vec<Vec<String>> {
    let head = stored(world, name).unwrap().data;
    let names = |endpoints: &[Endpoint]| endpoints.iter().map(|one| one.workload.clone()).collect::<Vec<_>>();
    let slice = |range: &SliceRange| {
        let slice = world.get::<EndpointSlice>(&SLICE.id(&range.slice, &World::tenancy())).unwrap();
        assert_eq!(slice.data.service, name);
        names(&slice.data.endpoints)
    };
    std::iter::once(names(&head.endpoints)).chain(head.slices.iter().map(slice)).collect()
}

/// Settles until nothing waits: endpoints leave a part only once they are in the next.
fn settle_all(world: &World) {
    while !world.settle().unwrap().later.is_empty() {
        world.advance(Duration::from_secs(1));
    }
}

#[test]
fn a_large_service_has_slices_and_a_change_writes_the_one_that_it_touches() {
    let world = World::new(&PLUGIN);
    let all: Vec<_> = (0..52).map(numbered).collect();
    for (number, name) in all.iter().enumerate() {
        world.put(&workload(name, &format!("10.0.{}.{}", number / 250, number % 250))).unwrap();
    }
    world.put(&service("web", prefix("web-"))).unwrap();
    let mut labelled = service("labelled", None);
    labelled.data.selector =
        Some(Selector { labels: [("app".to_owned(), "web".to_owned())].into(), ..Selector::default() });
    world.put(&labelled).unwrap();
    settle_all(&world);
    let found = parts(&world, "web");
    assert!(found.len() >= 3 && found.iter().all(|part| (1..=MAX_ENDPOINTS).contains(&part.len())), "{}", found.len());
    assert_eq!(found.concat(), all, "all of them, each once, in order");
    assert_eq!(parts(&world, "labelled"), [[""; 0]]);

    let versions = || {
        let slices = world.list(SLICE).into_iter().map(|one| (one.name().to_owned(), one.version().to_owned()));
        let head = stored(&world, "web").unwrap();
        slices.chain([("head".to_owned(), head.version().to_owned())]).collect::<BTreeMap<_, _>>()
    };
    let before = versions();
    let mut changed = world.get::<Workload>(&WORKLOAD.id(numbered(40), &World::tenancy())).unwrap();
    changed.data.weight = 7;
    world.put(&changed).unwrap();
    settle_all(&world);
    let written = versions().into_iter().filter(|(name, version)| before.get(name) != Some(version));
    assert_eq!(written.map(|(name, _)| name != "head").collect::<Vec<_>>(), [true], "one slice");

    // New names split a part, deletions leave parts out.
    for number in 0..24 {
        world
            .put(&workload(&format!("web-00003-{number:04}"), &format!("10.1.{}.{}", number / 250, number % 250)))
            .unwrap();
    }
    settle_all(&world);
    let found = parts(&world, "web");
    assert!(found.iter().all(|part| (1..=MAX_ENDPOINTS).contains(&part.len())));
    assert_eq!(found.concat().len(), 76);
    for one in world.list(WORKLOAD) {
        if one.name() >= "web-00002" {
            world.delete(one.id()).unwrap();
        }
    }
    settle_all(&world);
    assert_eq!(parts(&world, "web"), [&all[..2]]);
    assert_eq!(world.list(SLICE), [], "empty slices go");
}

/// The head has the same workloads before and after, so it is not written.
#[test]
fn another_selector_reaches_slices_whose_head_stays() {
    let world = World::new(&PLUGIN);
    let all: Vec<_> = (0..52).map(numbered).collect();
    for (number, name) in all.iter().enumerate() {
        world.put(&workload(name, &format!("10.0.0.{number}"))).unwrap();
    }
    let named = |count: usize| {
        let names = all.iter().take(count).cloned().collect();
        service("web", Some(Selector { names, ..Selector::default() }))
    };
    world.put(&named(52)).unwrap();
    settle_all(&world);
    assert_eq!(parts(&world, "web").concat(), all);
    let head = stored(&world, "web").unwrap();
    world.put(&named(48)).unwrap();
    settle_all(&world);
    assert_eq!(parts(&world, "web").concat(), all[..48]);
    assert_eq!(stored(&world, "web").unwrap().version(), head.version());
    // A world wakes everything when it settles, so the mapper is asked: the change of the Service alone wakes the
    // slices.
    let changed = world.get::<Service>(&SERVICE.id("web", &World::tenancy())).unwrap();
    let woken = super::slices::of_service(&world.context(), &changed).unwrap();
    let woken: Vec<_> = woken.into_iter().map(|slice| slice.name).collect();
    assert!(woken.len() >= 2 && woken.iter().eq(head.data.slices.iter().map(|range| &range.slice)), "{woken:?}");

    // Without a selector the last computed endpoints stay, in each part.
    world.put(&service("web", None)).unwrap();
    settle_all(&world);
    assert_eq!(parts(&world, "web").concat(), all[..48]);
}

#[test]
fn bytes_bound_a_part_as_well() {
    let world = World::new(&PLUGIN);
    for number in 0..12 {
        let mut one = workload(&numbered(number), &format!("10.0.{}.{}", number / 250, number % 250));
        one.data.labels = (0..30).map(|label| (format!("label-{label}"), "v".repeat(250))).collect();
        world.put(&one).unwrap();
    }
    world.put(&service("web", prefix("web-"))).unwrap();
    settle_all(&world);
    let found = parts(&world, "web");
    assert_eq!(found.concat(), (0..12).map(numbered).collect::<Vec<_>>());
    let sizes = world.list(SLICE).into_iter().map(|one| prost::Message::encoded_len(&one.data));
    assert!(found.len() >= 6 && sizes.max().unwrap() <= MAX_BYTES);
}

/// Versions before slices stored all endpoints in one resource.
#[test]
fn endpoints_in_one_resource_move_to_slices_without_a_gap() {
    let world = World::new(&PLUGIN);
    let mut endpoints = Vec::new();
    for number in 0..40 {
        world.put(&workload(&numbered(number), &format!("10.0.{}.{}", number / 250, number % 250))).unwrap();
        endpoints.push(Endpoint { workload: numbered(number), address: "192.0.2.1".into(), ..Endpoint::default() });
    }
    let owner = world.put(&service("web", prefix("web-"))).unwrap();
    let data = ServiceEndpoints { endpoints, ..ServiceEndpoints::default() };
    world.put(&Typed::new(ENDPOINTS.id("web", &World::tenancy()), data).owned_by(owner.id())).unwrap();
    let reconcile = || world.reconcile(&super::endpoints::Endpoints, owner.id()).unwrap();
    reconcile();
    let head = stored(&world, "web").unwrap().data;
    assert_eq!((head.endpoints.len(), head.slices.len()), (40, 2), "the slices are not there yet");
    settle_all(&world);
    assert_eq!(parts(&world, "web").concat(), (0..40).map(numbered).collect::<Vec<_>>());
}

#[test]
fn what_cannot_be_computed_is_in_the_status() {
    let world = World::new(&PLUGIN);
    world.put(&workload("web", "192.0.2.1")).unwrap();
    let one = world.put(&service("web", prefix("web"))).unwrap();
    let reason = || {
        let status = world.get::<Service>(one.id()).unwrap().status_under("catalog.v1/endpoints").unwrap();
        status.conditions[0].reason.clone()
    };
    world.fail_next("cache-pages.list", Failure::new(Failure::EXHAUSTED, "too large"));
    world.reconcile(&super::endpoints::Endpoints, one.id()).unwrap_err();
    assert_eq!(reason(), "Failed");
    world.settle().unwrap();
    assert_eq!(reason(), "Computed");
}

#[test]
fn the_host_performs_the_checks_and_health_follows_their_results() {
    let world = World::new(&PLUGIN);
    world.put(&service("web", prefix("web"))).unwrap();
    let ttl = prost_types::Duration { seconds: 10, nanos: 0 };
    let check = |name: &str, check| HealthCheck { name: name.into(), check: Some(check), ..HealthCheck::default() };
    let mut one = workload("web", "2001:db8::1");
    one.data.checks = vec![
        check("ttl", Check::Ttl(ttl)),
        HealthCheck {
            passing_after: 2,
            failing_after: 3,
            deregister_after: Some(prost_types::Duration { seconds: 600, nanos: 0 }),
            ..check(
                "http",
                Check::Http(HttpCheck { host: "web.example".into(), path: "/up".into(), ..HttpCheck::default() }),
            )
        },
        check("tcp", Check::Tcp(TcpCheck::default())),
        check("grpc", Check::Grpc(GrpcCheck { service: "shop.Cart".into(), ..GrpcCheck::default() })),
    ];
    let one = world.put(&one).unwrap();
    world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Critical, "nothing was said yet");
    let probes = world.probes("web");
    assert_eq!(probes.group, "default/web");
    let keys: Vec<_> = probes.probes.iter().map(|one| one.key.as_str()).collect();
    assert_eq!(keys, ["ttl", "http", "tcp", "grpc"].map(|name| format!("catalog.v1/check-{name}")));
    let [report, http, tcp, grpc] = probes.probes.as_slice() else { panic!() };
    assert_eq!(report.check, Some(probe::Check::Report(ttl)));
    let Some(probe::Check::Http(request)) = &http.check else { panic!() };
    assert_eq!((request.url.as_str(), request.method.as_str()), ("http://[2001:db8::1]:8080/up", "GET"));
    assert_eq!(request.headers, BTreeMap::from([("host".to_owned(), "web.example".to_owned())]));
    assert_eq!((http.passing_after, http.failing_after, http.delete_after.unwrap().seconds), (2, 3, 600));
    assert_eq!((http.interval.unwrap().seconds, http.timeout.unwrap().seconds), (10, 1));
    let at = ("2001:db8::1".to_owned(), 8080);
    assert_eq!(tcp.check, Some(probe::Check::Tcp(TcpProbe { host: at.0.clone(), port: at.1 })));
    let expected = GrpcProbe { host: at.0, port: at.1, service: "shop.Cart".into(), tls: None };
    assert_eq!(grpc.check, Some(probe::Check::Grpc(expected)));

    for (name, passes) in [("ttl", true), ("http", true), ("tcp", true), ("grpc", true), ("ttl", false)] {
        let before = world.get::<Workload>(one.id()).unwrap();
        let found = if passes { Condition::holds(PASSING) } else { Condition::fails(PASSING) };
        Status::new(status_key(name), &before).with(found).write_unchanged(&world.context(), &before).unwrap();
        world.settle().unwrap();
        let all = name == "grpc";
        assert_eq!(health(&world, "web") == Health::Passing, all, "{name} {passes}");
        let told = world.probes("web").probes.into_iter().find(|one| one.key == status_key(name)).unwrap().stored;
        assert_eq!(told, world.get::<Workload>(one.id()).unwrap().status_under(&status_key(name)));
    }
    world.delete(one.id()).unwrap();
    world.reconcile(&super::checks::Checks, one.id()).unwrap();
    assert_eq!(world.probes("web").probes, []);
}
