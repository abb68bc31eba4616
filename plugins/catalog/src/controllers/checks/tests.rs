//! The checks that reach the host, in a world in memory.

use std::collections::BTreeMap;

use mortise_plugin::{
    Plugin, ResourceType, Scope, Typed,
    probes::{ProbeTls, Probes, StatusRange, probe},
    testing::World,
};

use super::Checks;
use crate::{
    PLUGIN, WORKLOAD, health, proto,
    proto::catalog::v1::{
        CheckTls, GrpcCheck, HealthCheck, HttpCheck, HttpStatusRange, TcpCheck, Workload, WorkloadAddress,
        WorkloadPort, health_check::Check,
    },
};

const CA: &str = "-----BEGIN CERTIFICATE-----\nAA==\n-----END CERTIFICATE-----\n";

fn check(name: &str, check: Check) -> HealthCheck {
    HealthCheck { name: name.into(), check: Some(check), ..HealthCheck::default() }
}

fn workload(name: &str, checks: Vec<HealthCheck>) -> Typed<Workload> {
    let data = Workload {
        addresses: vec![WorkloadAddress { host: "192.0.2.1".into(), ports: Vec::new() }],
        ports: vec![WorkloadPort { name: "http".into(), port: 8080, protocol: 0, opaque: false }],
        checks,
        ..Workload::default()
    };
    Typed::new(WORKLOAD.id(name, &World::tenancy()), data)
}

/// The probes of a workload.
fn probes(world: &World, workload: &Typed<Workload>) -> Probes {
    world.put(workload).unwrap();
    world.settle().unwrap();
    world.probes(workload.name())
}

#[test]
fn each_part_of_a_request_reaches_the_host() {
    let tls = || Some(CheckTls { ca: CA.into(), server_name: "web.example".into() });
    let http = HttpCheck {
        scheme: "https".into(),
        path: "/up?x=1".into(),
        method: "HEAD".into(),
        headers: [("x-key".to_owned(), "a".to_owned())].into(),
        statuses: vec![HttpStatusRange { from: 200, to: 204 }, HttpStatusRange { from: 301, to: 0 }],
        body: "ready".into(),
        redirects: 3,
        tls: tls(),
        ..HttpCheck::default()
    };
    let grpc = GrpcCheck { tls: tls(), ..GrpcCheck::default() };
    let checks = vec![check("http", Check::Http(http)), check("grpc", Check::Grpc(grpc))];
    let probes = probes(&World::new(&PLUGIN), &workload("web-1", checks)).probes;
    let [http, grpc] = probes.as_slice() else { panic!("{probes:?}") };
    let (Some(probe::Check::Http(http)), Some(probe::Check::Grpc(grpc))) = (&http.check, &grpc.check) else {
        panic!("{probes:?}")
    };
    assert_eq!((http.url.as_str(), http.method.as_str()), ("https://192.0.2.1:8080/up?x=1", "HEAD"));
    assert_eq!(http.headers, BTreeMap::from([("x-key".to_owned(), "a".to_owned())]));
    assert_eq!(http.statuses, [StatusRange { from: 200, to: 204 }, StatusRange { from: 301, to: 301 }]);
    assert_eq!((http.body.as_str(), http.redirects), ("ready", 3));
    let tls = ProbeTls { ca: CA.into(), server_name: "web.example".into() };
    assert_eq!((http.tls.as_ref(), grpc.tls.as_ref()), (Some(&tls), Some(&tls)));
}

/// Checks of other services do not wait for those of one that hangs.
#[test]
fn the_workloads_of_a_service_are_a_group() {
    let world = World::new(&PLUGIN);
    let group = |name: &str| {
        let checks = vec![check("up", Check::Tcp(TcpCheck::default()))];
        probes(&world, &workload(name, checks)).group
    };
    for (name, expected) in [
        ("web-7f-1", "default/web-7f"),
        ("web-7f-2", "default/web-7f"),
        ("web-8a-1", "default/web-8a"),
        ("db", "default/db"),
    ] {
        assert_eq!(group(name), expected, "{name}");
    }
}

/// A workload that waits for a finalizer is on its way out.
#[test]
fn checks_end_with_the_mark_of_their_workload() {
    let world = World::new(&PLUGIN);
    let mut held = workload("web-1", vec![check("up", Check::Tcp(TcpCheck::default()))]);
    held.metadata.insert("finalizers".into(), "tests".into());
    assert_eq!(probes(&world, &held).probes.len(), 1);
    let id = WORKLOAD.id("web-1", &World::tenancy());
    world.delete(&id).unwrap();
    world.settle().unwrap();
    assert!(world.get::<Workload>(&id).unwrap().is_marked());
    assert_eq!(world.probes("web-1").probes, []);
}

/// The plugin as it was before it had rules: a later version finds what was written then.
static WITHOUT_RULES: Plugin =
    Plugin::new("catalog", "0.1.0", proto::DESCRIPTORS, &[&ResourceType::of(WORKLOAD, Scope::Namespace)]);

#[test]
fn a_check_without_its_port_says_so_and_others_go_on() {
    let world = World::new(&WITHOUT_RULES);
    let tcp = |name: &str, port: &str| check(name, Check::Tcp(TcpCheck { port: port.into() }));
    let one = world.put(&workload("web-1", vec![tcp("gone", "admin"), tcp("up", "http")])).unwrap();
    world.reconcile(&Checks, one.id()).unwrap();
    let keys: Vec<_> = world.probes("web-1").probes.into_iter().map(|probe| probe.key).collect();
    assert_eq!(keys, [health::status_key("up")]);
    let stored = world.get::<Workload>(one.id()).unwrap();
    let told = stored.status_under(&health::status_key("gone")).unwrap().conditions;
    assert_eq!(told.into_iter().map(|condition| condition.reason).collect::<Vec<_>>(), ["NoPort"]);
}
