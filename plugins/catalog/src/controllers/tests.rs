//! Both controllers, in a world in memory.

use std::time::Duration;

use mortise_plugin::{Condition, Failure, HttpResponse, Status, Typed, pb, prost_types, testing::World};

use crate::{
    ENDPOINTS, PLUGIN, SERVICE, WORKLOAD,
    health::{PASSING, status_key},
    proto::catalog::v1::{
        Endpoint, Health, HealthCheck, HttpCheck, Selector, Service, ServiceEndpoints, ServicePort, TcpCheck, Workload,
        WorkloadAddress, WorkloadPort, health_check::Check,
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
        ports: vec![WorkloadPort { name: "http".into(), port: 8080, protocol: 0 }],
        ..Workload::default()
    };
    Typed::new(WORKLOAD.id(name, &World::tenancy()), data)
}

fn checked(name: &str, check: Check) -> Typed<Workload> {
    let mut workload = workload(name, "192.0.2.1");
    workload.data.checks = vec![HealthCheck { name: "up".into(), check: Some(check), interval: None, timeout: None }];
    workload
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

/// Condition of the check `up`: whether it passes, and its reason.
fn result(world: &World, name: &str) -> (bool, String) {
    let workload = world.get::<Workload>(&WORKLOAD.id(name, &World::tenancy())).unwrap();
    let status = workload.status_under(&status_key("up")).unwrap_or_default();
    let [one] = status.conditions.as_slice() else { panic!("{status:?}") };
    (one.state() == pb::condition::State::True, one.reason.clone())
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
    two.data.ports.push(WorkloadPort { name: "admin".into(), port: 9000, protocol: 0 });
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

#[test]
fn a_client_says_for_how_long() {
    let world = World::new(&PLUGIN);
    world.put(&service("web", prefix("web"))).unwrap();
    let ttl = Check::Ttl(prost_types::Duration { seconds: 10, nanos: 0 });
    let one = world.put(&checked("web", ttl)).unwrap();
    world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Critical, "nothing was said yet");
    let refresh = || {
        let stored = world.get::<Workload>(one.id()).unwrap();
        let said = Status::new(status_key("up"), &stored).with(Condition::holds(PASSING));
        said.write_unchanged(&world.context(), &stored).unwrap();
    };
    refresh();
    let settled = world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Passing);
    assert_eq!(settled.later.last().unwrap().wait, Duration::from_secs(10));
    world.advance(Duration::from_secs(9));
    refresh();
    world.advance(Duration::from_secs(9));
    world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Passing, "it was said again");
    world.advance(Duration::from_secs(1));
    world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Critical);
    assert_eq!(result(&world, "web"), (false, "Expired".to_owned()));
    refresh();
    world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Passing);
}

/// Clients cannot report while the server does not run: each check gets its time once more, and then fails.
#[test]
fn a_sleep_of_the_machine_fails_no_check_and_saves_none() {
    let world = World::new(&PLUGIN);
    world.put(&service("web", prefix("web"))).unwrap();
    let ttl = Check::Ttl(prost_types::Duration { seconds: 10, nanos: 0 });
    let one = world.put(&checked("web", ttl)).unwrap();
    let report = || {
        let stored = world.get::<Workload>(one.id()).unwrap();
        let said = Status::new(status_key("up"), &stored).with(Condition::holds(PASSING));
        said.write_unchanged(&world.context(), &stored).unwrap();
    };
    report();
    world.settle().unwrap();
    world.advance(Duration::from_secs(5));
    world.sleep(Duration::from_secs(3_600));
    let settled = world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Passing, "its client had no chance to report");
    assert_eq!(settled.later.last().unwrap().wait, Duration::from_secs(10), "it has one now");
    world.advance(Duration::from_secs(9));
    report();
    world.advance(Duration::from_secs(9));
    world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Passing);
    world.advance(Duration::from_secs(1));
    world.settle().unwrap();
    assert_eq!(health(&world, "web"), Health::Critical, "a client that is gone fails after its time");
}

#[test]
fn http_is_asked_and_health_follows() {
    let world = World::new(&PLUGIN);
    world.put(&service("web", prefix("web"))).unwrap();
    world.put(&checked("web-http", Check::Http(HttpCheck { path: "/up".into(), ..HttpCheck::default() }))).unwrap();
    world.settle().unwrap();
    assert_eq!(result(&world, "web-http"), (false, "NotGranted".to_owned()));
    for (status, passes) in [(204, true), (301, false), (500, false), (200, true)] {
        world.answer_http(move |request| {
            assert_eq!(request.url, "http://192.0.2.1:8080/up");
            Ok(HttpResponse::new(status))
        });
        world.advance(Duration::from_secs(10));
        world.settle().unwrap();
        assert_eq!(result(&world, "web-http").0, passes, "{status}");
        assert_eq!(health(&world, "web") == Health::Passing, passes, "{status}");
    }
    world.answer_http(|_| Err(Failure::new(Failure::LATE, "late")));
    world.advance(Duration::from_secs(10));
    world.settle().unwrap();
    assert_eq!(result(&world, "web-http"), (false, "Timeout".to_owned()));
}

#[test]
fn connections_are_tried() {
    let world = World::new(&PLUGIN);
    world.put(&checked("web-tcp", Check::Tcp(TcpCheck::default()))).unwrap();
    world.settle().unwrap();
    assert_eq!(result(&world, "web-tcp"), (false, "NotGranted".to_owned()));
    world.answer_tcp(|host, port| {
        assert_eq!((host, port), ("192.0.2.1", 8080));
        Ok(Duration::from_millis(1))
    });
    world.advance(Duration::from_secs(10));
    let settled = world.settle().unwrap();
    assert_eq!(result(&world, "web-tcp"), (true, "Connected".to_owned()));
    assert_eq!(settled.later.last().unwrap().wait, Duration::from_secs(10));
}
