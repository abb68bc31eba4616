//! Slices of a large service at their edges, in a world in memory.

use std::collections::BTreeSet;

use mortise_plugin::{Failure, Typed, pb, testing::World};

use super::{STATUS_KEY, Slices};
use crate::{
    ENDPOINTS, PLUGIN, SERVICE, SLICE, WORKLOAD,
    controllers::endpoints,
    proto::catalog::v1::{
        Endpoint, EndpointSlice, Selector, Service, ServiceEndpoints, Workload, WorkloadAddress, WorkloadPort,
    },
};

fn workload(name: &str, number: usize) -> Typed<Workload> {
    let data = Workload {
        addresses: vec![WorkloadAddress { host: format!("10.0.0.{number}"), ports: Vec::new() }],
        ports: vec![WorkloadPort { name: "http".into(), port: 8080, protocol: 0, opaque: false }],
        ..Workload::default()
    };
    Typed::new(WORKLOAD.id(name, &World::tenancy()), data)
}

fn name(number: usize) -> String {
    format!("web-{number:05}")
}

/// A world with a service of 52 workloads, in a head and slices.
fn large() -> (World, Typed<Service>) {
    let world = World::new(&PLUGIN);
    for number in 0..52 {
        world.put(&workload(&name(number), number)).unwrap();
    }
    let selector = Some(Selector { prefixes: vec!["web-".into()], ..Selector::default() });
    let data = Service { selector, ..Service::default() };
    let service = world.put(&Typed::new(SERVICE.id("web", &World::tenancy()), data)).unwrap();
    settle(&world);
    (world, service)
}

fn settle(world: &World) {
    while !world.settle().unwrap().later.is_empty() {
        world.advance(std::time::Duration::from_secs(1));
    }
}

fn head(world: &World) -> ServiceEndpoints {
    world.get::<ServiceEndpoints>(&ENDPOINTS.id("web", &World::tenancy())).unwrap().data
}

fn slice_id(name: &str) -> pb::Id {
    SLICE.id(name, &World::tenancy())
}

/// The names of the workloads in the parts that exist.
fn all(world: &World) -> BTreeSet<String> {
    let head = head(world);
    let slices = head.slices.iter().filter_map(|range| world.get::<EndpointSlice>(&slice_id(&range.slice)));
    let endpoints = slices.flat_map(|slice| slice.data.endpoints).chain(head.endpoints);
    endpoints.map(|endpoint| endpoint.workload).collect()
}

fn condition(world: &World, key: &str) -> Option<(String, String)> {
    let service = world.get::<Service>(&SERVICE.id("web", &World::tenancy())).unwrap();
    let condition = service.status_under(key)?.conditions.remove(0);
    Some((condition.reason, condition.message))
}

/// A world wakes everything when it settles, so the mappers are asked.
#[test]
fn a_workload_wakes_the_part_that_has_it() {
    let (world, _) = large();
    let slices: Vec<_> = head(&world).slices.into_iter().map(|range| range.slice).collect();
    assert!(slices.len() >= 2, "{slices:?}");
    let woken = |number: usize| {
        let changed = world.get::<Workload>(&WORKLOAD.id(name(number), &World::tenancy())).unwrap();
        let heads = endpoints::of_workload(&world.context(), &changed).unwrap();
        let slices = super::of_workload(&world.context(), &changed).unwrap();
        let names = |ids: Vec<pb::Id>| ids.into_iter().map(|id| id.name).collect::<Vec<_>>();
        (names(heads), names(slices))
    };
    assert_eq!(woken(0), (vec!["web".to_owned()], Vec::new()), "the head");
    assert_eq!(woken(51), (Vec::new(), vec![slices[slices.len() - 1].clone()]), "the last slice");
}

#[test]
fn a_part_that_cannot_be_stored_is_in_the_status_until_it_can() {
    let (world, service) = large();
    let last = slice_id(&head(&world).slices.last().unwrap().slice);
    let change = |number: usize| {
        let mut changed = world.get::<Workload>(&WORKLOAD.id(name(number), &World::tenancy())).unwrap();
        changed.data.weight += 1;
        world.put(&changed).unwrap();
    };
    change(51);
    let before = world.get::<EndpointSlice>(&last).unwrap().data;
    world.fail_next("write", Failure::new(Failure::INVALID, "too large"));
    world.reconcile(&Slices, &last).unwrap();
    let about = format!("slice {}: ", last.name);
    assert_eq!(condition(&world, STATUS_KEY), Some(("Refused".into(), format!("{about}too large"))));
    assert_eq!(world.get::<EndpointSlice>(&last).unwrap().data, before, "the last content stays");
    world.fail_next("cache-pages.list", Failure::new(Failure::EXHAUSTED, "no memory"));
    world.reconcile(&Slices, &last).unwrap_err();
    assert_eq!(condition(&world, STATUS_KEY), Some(("Failed".into(), format!("{about}no memory"))));
    world.reconcile(&Slices, &last).unwrap();
    assert_eq!(condition(&world, STATUS_KEY).unwrap().0, "Computed");

    change(0);
    world.fail_next("write", Failure::new(Failure::INVALID, "too large"));
    world.reconcile(&endpoints::Endpoints, service.id()).unwrap();
    assert_eq!(condition(&world, "catalog.v1/endpoints"), Some(("Refused".into(), "too large".into())));
    world.reconcile(&endpoints::Endpoints, service.id()).unwrap();
    assert_eq!(condition(&world, "catalog.v1/endpoints").unwrap().0, "Computed");
}

/// A slice keeps the endpoints that leave it until their new slice is there.
#[test]
fn a_slice_that_is_split_loses_nothing_meanwhile() {
    let (world, _) = large();
    let slice = head(&world).slices[0].clone();
    let before = all(&world);
    for number in 0..24 {
        world.put(&workload(&format!("{}-{number:04}", slice.from), number)).unwrap();
    }
    world.reconcile(&Slices, &slice_id(&slice.slice)).unwrap();
    let lists = head(&world).slices.len();
    let written = world.list(SLICE).len();
    assert!(lists > written, "the new slice is listed, and not written: {lists} {written}");
    assert!(all(&world).is_superset(&before), "{:?}", before.difference(&all(&world)));
    settle(&world);
    assert_eq!(all(&world).len(), 76);
}

/// Each change of the list wakes all slices of the service, and a list that grows slice by slice is a chain of own
/// writes, which the detection of loops holds up.
#[test]
fn the_slices_of_a_service_are_listed_at_once() {
    let world = World::new(&PLUGIN);
    for number in 0..400 {
        world.put(&workload(&name(number), number % 250)).unwrap();
    }
    let selector = Some(Selector { prefixes: vec!["web-".into()], ..Selector::default() });
    let data = Service { selector, ..Service::default() };
    let service = world.put(&Typed::new(SERVICE.id("web", &World::tenancy()), data)).unwrap();
    world.reconcile(&endpoints::Endpoints, service.id()).unwrap();
    let listed = head(&world).slices;
    assert_eq!(listed.len(), 26, "400 endpoints in parts of 15, the first one included");
    settle(&world);
    assert_eq!(head(&world).slices, listed);
    let sizes: Vec<_> = world.list(SLICE).iter().map(|slice| slice.data.endpoints.len()).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>(), sizes.iter().max()), (26, 385, Some(&15)), "{sizes:?}");

    // The workloads of a slice in the middle become too many at once.
    let split = &listed[12];
    for number in 0..100 {
        world.put(&workload(&format!("{}-{number:04}", split.from), number)).unwrap();
    }
    world.reconcile(&Slices, &slice_id(&split.slice)).unwrap();
    let more = head(&world).slices;
    assert_eq!(more.len(), 26 + 7, "115 endpoints in parts of 15");
    assert!(more.windows(2).all(|pair| pair[0].from < pair[1].from), "{more:?}");
    settle(&world);
    assert_eq!((head(&world).slices, all(&world).len()), (more, 500));
}

#[test]
fn slices_of_nothing_go_and_those_of_an_earlier_service_are_replaced() {
    let (world, service) = large();
    let endpoint = Endpoint { workload: "web-00001".into(), address: "192.0.2.9".into(), ..Endpoint::default() };
    let data = EndpointSlice { service: "web".into(), endpoints: vec![endpoint] };
    let stray = slice_id("web-00000000");
    world.put(&Typed::new(stray.clone(), data.clone())).unwrap();
    settle(&world);
    assert_eq!(world.get::<EndpointSlice>(&stray), None, "no list names it");

    let listed = slice_id(&head(&world).slices[0].slice);
    world.delete(&listed).unwrap();
    let earlier = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..service.id().clone() };
    world.put(&Typed::new(listed.clone(), data).owned_by(&earlier)).unwrap();
    world.reconcile(&Slices, &listed).unwrap();
    let found = world.get::<EndpointSlice>(&listed).unwrap();
    assert_eq!(found.owner().unwrap().uid, service.id().uid);
    assert!(found.data.endpoints.iter().all(|endpoint| endpoint.address != "192.0.2.9"));
}

#[test]
fn endpoints_of_an_earlier_service_are_replaced() {
    let (world, service) = large();
    let whole = head(&world);
    let id = ENDPOINTS.id("web", &World::tenancy());
    world.delete(&id).unwrap();
    let earlier = pb::Id { uid: "01ARZ3NDEKTSV4RRFFQ69G5FAV".into(), ..service.id().clone() };
    world.put(&Typed::new(id.clone(), ServiceEndpoints::default()).owned_by(&earlier)).unwrap();
    settle(&world);
    assert_eq!(world.get::<ServiceEndpoints>(&id).unwrap().owner().unwrap().uid, service.id().uid);
    assert_eq!(head(&world).slices.len(), whole.slices.len());
}
