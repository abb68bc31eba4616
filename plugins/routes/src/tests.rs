//! The type: its defaults, and the paths of its faults.

use mortise_plugin::{Failure, Typed, manifest::Manifest, pb, prost::Message as _, prost_types::Any, testing::World};

use super::{PLUGIN, ROUTE, Route};
use crate::proto::edge::v1::{RouteService, Upstream};

fn encoded(route: &Route) -> Vec<u8> {
    let data = Any { type_url: "type.googleapis.com/edge.v1.Route".into(), value: route.encode_to_vec() };
    let id = ROUTE.id("web", &World::tenancy());
    pb::Resource { id: Some(id), data: Some(data), ..pb::Resource::default() }.encode_to_vec()
}

fn said(route: &Route) -> Vec<String> {
    let said = PLUGIN.validate(&encoded(route), None);
    said.iter().map(|one| format!("{:?} {}", one.severity, one.path)).collect()
}

fn route(hostname: &str, prefix: &str, upstreams: &[(&str, u32)]) -> Route {
    let upstreams = upstreams.iter().map(|(address, weight)| Upstream { address: (*address).into(), weight: *weight });
    Route { hostname: hostname.into(), path_prefix: prefix.into(), upstreams: upstreams.collect(), service: None }
}

#[test]
fn a_prefix_and_weights_are_filled_in() {
    let world = World::new(&PLUGIN);
    let data = route("a.example", "", &[("10.0.0.1:80", 0), ("10.0.0.2:80", 3)]);
    let stored = world.put(&Typed::new(ROUTE.id("web", &World::tenancy()), data)).unwrap();
    assert_eq!(stored.data, route("a.example", "/", &[("10.0.0.1:80", 1), ("10.0.0.2:80", 3)]));
    assert_eq!(PLUGIN.mutate(&encoded(&stored.data)), Ok(None));
}

#[test]
fn faults_say_where_they_are() {
    assert_eq!(said(&route("a.example", "/", &[("10.0.0.1:80", 1)])), [""; 0]);
    assert_eq!(
        said(&route("A", "x", &[("10.0.0.1", 1), ("10.0.0.1:80", 1001), ("[::1]:80", 1), ("[0::1]:80", 0)])),
        [
            "Error data.hostname",
            "Error data.path_prefix",
            "Error data.upstreams[0].address",
            "Error data.upstreams[1].weight",
            "Error data.upstreams[3].address",
            "Error data.upstreams[3].weight",
        ]
    );
    assert_eq!(said(&route("a.example", "/", &[])), ["Error data.upstreams"]);
    let many = (0..65).map(|number| format!("10.0.0.{number}:80")).collect::<Vec<_>>();
    let many = many.iter().map(|address| (address.as_str(), 1)).collect::<Vec<_>>();
    assert_eq!(said(&route("a.example", "/", &many)), ["Error data.upstreams"]);
    assert_eq!(said(&route("a.example", "/", &many[1..])), [""; 0]);
}

#[test]
fn a_service_takes_the_place_of_upstreams() {
    let named = |name: &str, port: &str| Route {
        service: Some(RouteService { name: name.into(), port: port.into() }),
        ..route("a.example", "/", &[])
    };
    assert_eq!(said(&named("web", "")), [""; 0]);
    assert_eq!(said(&named("Web", "a_b")), ["Error data.service.name", "Error data.service.port"]);
    let both = Route { upstreams: route("a.example", "/", &[("10.0.0.1:80", 1)]).upstreams, ..named("web", "http") };
    assert_eq!(said(&both), ["Error data.upstreams"]);
}

#[test]
fn names_that_nginx_looks_up_are_warned_of() {
    let names = route("a.example", "/", &[("localhost:80", 1), ("app.internal:80", 1), ("10.0.0.1:80", 1)]);
    assert_eq!(said(&names), ["Warning data.upstreams[1].address"]);
}

#[test]
fn a_route_that_goes_elsewhere_is_replaced() {
    let world = World::new(&PLUGIN);
    let new = Typed::new(ROUTE.id("web", &World::tenancy()), route("a.example", "", &[("10.0.0.1:80", 1)]));
    let replace = |route: &Typed<Route>| world.plan(route).unwrap().replace;
    assert_eq!(replace(&new), [""; 0]);
    let stored = world.put(&new).unwrap();
    assert_eq!(replace(&new), [""; 0], "a path that is filled in is the same");
    let with = |change: fn(&mut Route)| {
        let mut route = stored.clone();
        change(&mut route.data);
        replace(&route)
    };
    assert_eq!(with(|route| route.upstreams[0].weight = 7), [""; 0]);
    assert_eq!(with(|route| route.hostname = "b.example".into()), ["data.hostname"]);
    assert_eq!(with(|route| route.path_prefix = "/api".into()), ["data.path_prefix"]);
    let both = with(|route| (route.hostname, route.path_prefix) = ("b.example".into(), "/api".into()));
    assert_eq!(both, ["data.hostname", "data.path_prefix"]);
}

#[test]
fn an_injection_is_refused() {
    let world = World::new(&PLUGIN);
    let data = route("a.example;} server { listen 81", "/", &[("10.0.0.1:80", 1)]);
    let refused = world.put(&Typed::new(ROUTE.id("web", &World::tenancy()), data)).unwrap_err();
    assert_eq!(refused.code, Failure::INVALID);
}

#[test]
fn the_manifest_says_all_of_it() {
    let manifest = Manifest::decode(PLUGIN.describe().as_slice()).unwrap();
    let [of, _] = manifest.types.as_slice() else { panic!("{:?}", manifest.types) };
    assert_eq!((of.message.as_str(), of.kind.as_str()), ("edge.v1.Route", "Route"));
    let hooks = of.hooks.unwrap();
    assert!(hooks.mutate && hooks.validate && hooks.plan && hooks.import && !hooks.authorize_read);
    assert!(of.permissions.as_ref().is_some_and(|rules| rules.read.is_some() && rules.write.is_some()));
    let functions = manifest.functions.iter().map(|one| one.name.as_str()).collect::<Vec<_>>();
    assert_eq!(functions, ["file_name", "normalize_path"]);
    let [controller, _] = manifest.controllers.as_slice() else { panic!("{:?}", manifest.controllers) };
    assert_eq!((controller.name.as_str(), controller.indexes.len()), ("routes", 1));
}
