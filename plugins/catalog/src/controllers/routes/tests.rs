//! The routes of services, in a world in memory.

use mortise_plugin::{Typed, pb, prost::Message as _, testing::World};

use super::{MAX_BACKENDS, MAX_BYTES, MAX_ROUTES, STATUS_KEY};
use crate::{
    HTTP_ROUTE, PLUGIN, ROUTES, SERVICE,
    proto::catalog::v1::{
        HttpHeaderMatch, HttpRoute, HttpRouteMatch, HttpRouteRule, RouteBackend, RouteParent, Service, ServiceRoutes,
    },
};

fn put_service(world: &World, name: &str) -> Typed<Service> {
    world.put(&Typed::new(SERVICE.id(name, &World::tenancy()), Service::default())).unwrap()
}

fn put_route(world: &World, name: &str, parent: &str, backends: &[(&str, u32)]) {
    put_rules(world, name, parent, backends, 1);
}

fn put_rules(world: &World, name: &str, parent: &str, backends: &[(&str, u32)], rules: usize) {
    let backend =
        |&(service, weight): &(&str, u32)| RouteBackend { service: service.into(), port: 0, weight: Some(weight) };
    let rule = HttpRouteRule { backends: backends.iter().map(backend).collect(), ..HttpRouteRule::default() };
    let parent = Some(RouteParent { service: parent.into(), port: 80 });
    let services = parent.iter().map(|parent| parent.service.clone());
    let mut services: Vec<_> = services.chain(backends.iter().map(|(service, _)| (*service).to_owned())).collect();
    services.sort();
    services.dedup();
    let data = HttpRoute { parent, rules: vec![rule; rules], services };
    world.put(&Typed::new(HTTP_ROUTE.id(name, &World::tenancy()), data)).unwrap();
}

fn names(world: &World, service: &str) -> Option<Vec<String>> {
    let stored = world.get::<ServiceRoutes>(&ROUTES.id(service, &World::tenancy()))?;
    Some(stored.data.routes.into_iter().map(|route| route.route).collect())
}

/// The reasons of a route's conditions.
fn reasons(world: &World, name: &str) -> Vec<String> {
    let route = world.get::<HttpRoute>(&HTTP_ROUTE.id(name, &World::tenancy())).unwrap();
    route.status_under(STATUS_KEY).unwrap().conditions.into_iter().map(|condition| condition.reason).collect()
}

#[test]
fn routes_follow_their_service_and_their_backends() {
    let world = World::new(&PLUGIN);
    put_route(&world, "canary", "web", &[("web", 9), ("web-next", 1)]);
    world.settle().unwrap();
    assert_eq!((names(&world, "web"), reasons(&world, "canary")), (None, vec!["NoService".into(); 2]));
    let web = put_service(&world, "web");
    world.settle().unwrap();
    assert_eq!(names(&world, "web"), Some(vec!["canary".into()]));
    assert_eq!(reasons(&world, "canary"), ["Routed", "NoService"]);
    put_service(&world, "web-next");
    world.settle().unwrap();
    assert_eq!(reasons(&world, "canary"), ["Routed", "Found"]);
    let stored = world.get::<ServiceRoutes>(&ROUTES.id("web", &World::tenancy())).unwrap();
    assert_eq!((stored.data.routes[0].port, stored.data.routes[0].rules[0].backends[1].weight), (80, Some(1)));

    // A route that changes its parent leaves the former one.
    put_service(&world, "other");
    put_route(&world, "canary", "other", &[]);
    world.settle().unwrap();
    assert_eq!((names(&world, "web"), names(&world, "other")), (None, Some(vec!["canary".into()])));
    put_route(&world, "canary", "web", &[]);
    world.settle().unwrap();
    world.delete(web.id()).unwrap();
    put_service(&world, "web");
    world.settle().unwrap();
    assert_eq!(names(&world, "web"), Some(vec!["canary".into()]), "routes of the new service");
    world.delete(&HTTP_ROUTE.id("canary", &World::tenancy())).unwrap();
    world.settle().unwrap();
    assert_eq!(names(&world, "web"), None);
}

#[test]
fn routes_beyond_the_bound_wait_for_a_place() {
    let world = World::new(&PLUGIN);
    put_service(&world, "web");
    for number in 0..=MAX_ROUTES {
        put_route(&world, &format!("route-{number}"), "web", &[]);
    }
    world.settle().unwrap();
    assert_eq!(names(&world, "web").unwrap().len(), MAX_ROUTES);
    let last = format!("route-{MAX_ROUTES}");
    assert_eq!(reasons(&world, &last), ["Waiting", "Found"]);
    world.delete(&HTTP_ROUTE.id("route-0", &World::tenancy())).unwrap();
    world.advance(std::time::Duration::from_secs(10));
    world.settle().unwrap();
    assert_eq!(reasons(&world, &last), ["Routed", "Found"]);
}

/// The message to a proxy has a bound that the bytes of the routes do not move.
#[test]
fn backends_beyond_the_bound_wait_for_a_place() {
    let world = World::new(&PLUGIN);
    put_service(&world, "web");
    let names: Vec<_> = (0..16).map(|number| format!("s{number}")).collect();
    let all: Vec<_> = names.iter().map(|name| (name.as_str(), 1)).collect();
    for number in 0..=MAX_BACKENDS / 256 {
        put_rules(&world, &format!("route-{number}"), "web", &all, 16);
    }
    world.settle().unwrap();
    assert_eq!(self::names(&world, "web").unwrap().len(), MAX_BACKENDS / 256);
    assert_eq!(reasons(&world, "route-8"), ["Waiting", "NoService"]);
}

/// A service's routes are one resource. The route after a too large one has its place all the same.
#[test]
fn routes_beyond_the_bytes_wait_for_a_place() {
    let world = World::new(&PLUGIN);
    put_service(&world, "web");
    let header = |number| HttpHeaderMatch { name: format!("x-{number}"), exact: "a".repeat(1_024) };
    let large = HttpRouteMatch { headers: (0..16).map(header).collect(), ..HttpRouteMatch::default() };
    let rule = HttpRouteRule { matches: vec![large; 10], ..HttpRouteRule::default() };
    for name in ["first", "second"] {
        let parent = Some(RouteParent { service: "web".into(), port: 0 });
        let data = HttpRoute { parent, rules: vec![rule.clone()], ..HttpRoute::default() };
        assert!((MAX_BYTES / 2..MAX_BYTES).contains(&data.encoded_len()));
        world.put(&Typed::new(HTTP_ROUTE.id(name, &World::tenancy()), data)).unwrap();
    }
    put_route(&world, "third", "web", &[]);
    world.settle().unwrap();
    assert_eq!(names(&world, "web"), Some(vec!["first".into(), "third".into()]));
    assert_eq!(reasons(&world, "second")[0], "Waiting");
}

#[test]
fn routes_of_an_earlier_service_are_replaced() {
    let world = World::new(&PLUGIN);
    let web = put_service(&world, "web");
    put_route(&world, "canary", "web", &[]);
    let id = ROUTES.id("web", &World::tenancy());
    let earlier = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..web.id().clone() };
    world.put(&Typed::new(id.clone(), ServiceRoutes::default()).owned_by(&earlier)).unwrap();
    world.settle().unwrap();
    assert_eq!(world.get::<ServiceRoutes>(&id).unwrap().owner().unwrap().uid, web.id().uid);
    assert_eq!(names(&world, "web"), Some(vec!["canary".into()]));
}
