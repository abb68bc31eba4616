//! The addresses of services, in a world in memory.

use std::time::Duration;

use mortise_plugin::{
    Typed,
    testing::{World, with_settings},
};

use super::{MAX_RELEASED, STATUS_KEY};
use crate::{ADDRESS, PLUGIN, SERVICE, proto::catalog::v1::Service};

fn declare(world: &World, name: &str, addresses: &[&str]) -> Typed<Service> {
    let virtual_addresses = addresses.iter().map(|&address| address.to_owned()).collect();
    let data = Service { virtual_addresses, ..Service::default() };
    world.put(&Typed::new(SERVICE.id(name, &World::tenancy()), data)).unwrap()
}

/// The addresses in use, with their services.
fn used(world: &World) -> Vec<(String, String)> {
    let used = world.list(ADDRESS).into_iter().filter(|address| !address.data.released);
    used.map(|address| (address.data.address, address.data.service)).collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|&(address, service)| (address.to_owned(), service.to_owned())).collect()
}

/// Reason and message of a Service's condition.
fn condition(world: &World, name: &str) -> (String, String) {
    let service = world.get::<Service>(&SERVICE.id(name, &World::tenancy())).unwrap();
    let condition = service.status_under(STATUS_KEY).unwrap().conditions.remove(0);
    (condition.reason, condition.message)
}

#[test]
fn a_declared_address_belongs_to_one_service_and_moves_on_with_its_end() {
    let world = World::new(&PLUGIN);
    let web = declare(&world, "web", &["10.96.0.10", "2001:DB8:0::1"]);
    declare(&world, "api", &["10.96.0.10", "10.96.0.11"]);
    world.settle().unwrap();
    let (v4, v6) = (("10.96.0.10", "web"), ("2001:db8::1", "web"));
    assert_eq!(used(&world), owned(&[v4, ("10.96.0.11", "api"), v6]));
    assert_eq!(condition(&world, "web"), ("Addressed".into(), "10.96.0.10, 2001:db8::1".into()));
    let (reason, message) = condition(&world, "api");
    assert_eq!(reason, "Taken");
    assert!(message.contains("10.96.0.10 belongs to the service default/web") && message.contains("has 10.96.0.11"));
    // An older service that declares the address later waits, too.
    world.delete(web.id()).unwrap();
    world.settle().unwrap();
    assert_eq!(used(&world), owned(&[("10.96.0.10", "api"), ("10.96.0.11", "api")]));
    assert_eq!(condition(&world, "api").0, "Addressed");
}

#[test]
fn the_oldest_of_several_gets_an_address_and_one_that_has_it_keeps_it() {
    let world = World::new(&PLUGIN);
    for name in ["c", "a", "b"] {
        declare(&world, name, &["10.96.0.10"]);
    }
    world.settle().unwrap();
    assert_eq!(used(&world), owned(&[("10.96.0.10", "c")]));
    let first = declare(&world, "c", &["10.96.0.20"]);
    world.settle().unwrap();
    assert_eq!(used(&world), owned(&[("10.96.0.10", "a"), ("10.96.0.20", "c")]));
    assert_eq!(first.id().name, "c");
    declare(&world, "c", &["10.96.0.10"]);
    world.settle().unwrap();
    assert_eq!(used(&world), owned(&[("10.96.0.10", "a")]), "the one that has it keeps it");
    assert_eq!(condition(&world, "c").0, "Taken");
}

#[test]
fn a_range_gives_each_service_an_address_that_stays() {
    let world = World::new(&PLUGIN);
    let range = r#"{"virtual_addresses":["10.96.0.0/29","fd00:96::/120"]}"#;
    declare(&world, "declares", &["10.96.0.3"]);
    for number in 0..5 {
        declare(&world, &format!("web-{number}"), &[]);
    }
    world.settle().unwrap();
    assert_eq!(used(&world), owned(&[("10.96.0.3", "declares")]), "off by default");
    with_settings(range, || world.settle().unwrap());
    let all = used(&world);
    assert_eq!(all.len(), 11, "{all:?}");
    assert_eq!(all.iter().filter(|(address, _)| address.starts_with("10.96.0.")).count(), 6);
    // Other settings, and none, leave the addresses as they are.
    with_settings(r#"{"virtual_addresses":["10.97.0.0/16"]}"#, || world.settle().unwrap());
    world.settle().unwrap();
    assert_eq!(used(&world), all);

    // The range has 6 addresses.
    with_settings(range, || {
        declare(&world, "late", &[]);
        let waiting = world.settle().unwrap().later;
        assert!(waiting.iter().any(|one| one.controller == "addresses" && one.wait == Duration::from_secs(10)));
        let (reason, message) = condition(&world, "late");
        assert_eq!(reason, "Exhausted");
        assert!(message.starts_with("no address of 10.96.0.0/29 is free; ") && message.contains("has fd00:96::"));
        // An address that is not used any more stays with the service that had it.
        declare(&world, "web-0", &["192.0.2.1"]);
        world.advance(Duration::from_secs(10));
        world.settle().unwrap();
        assert_eq!(condition(&world, "late").0, "Exhausted");
        world.delete(&SERVICE.id("web-0", &World::tenancy())).unwrap();
        world.advance(Duration::from_secs(10));
        world.settle().unwrap();
        assert_eq!(condition(&world, "late").0, "Addressed");
    });
}

/// Services without an address come first here, and each place of the range is looked at.
#[test]
fn an_address_that_another_service_declares_is_not_assigned() {
    let world = World::new(&PLUGIN);
    for name in ["a-0", "a-1"] {
        declare(&world, name, &[]);
    }
    declare(&world, "declares", &["10.96.0.1"]);
    with_settings(r#"{"virtual_addresses":["10.96.0.0/30"]}"#, || world.settle().unwrap());
    assert_eq!(condition(&world, "declares").0, "Addressed");
    assert_eq!(["a-0", "a-1"].map(|name| condition(&world, name).0), ["Addressed", "Exhausted"]);
}

#[test]
fn an_assigned_address_comes_back_after_a_declared_one() {
    let world = World::new(&PLUGIN);
    with_settings(r#"{"virtual_addresses":["10.96.0.0/16"]}"#, || {
        declare(&world, "web", &[]);
        world.settle().unwrap();
        let assigned = used(&world);
        declare(&world, "web", &["192.0.2.1"]);
        world.settle().unwrap();
        assert_eq!(used(&world), owned(&[("192.0.2.1", "web")]));
        declare(&world, "web", &[]);
        world.settle().unwrap();
        assert_eq!(used(&world), assigned);
        // Another service may declare what was released.
        declare(&world, "other", &["192.0.2.1"]);
        world.settle().unwrap();
        assert!(used(&world).contains(&("192.0.2.1".into(), "other".into())));
    });
}

#[test]
fn released_addresses_are_bounded() {
    let world = World::new(&PLUGIN);
    for number in 0..=MAX_RELEASED + 2 {
        declare(&world, "web", &[&format!("10.96.0.{}", number + 1)]);
        world.settle().unwrap();
    }
    assert_eq!(world.list(ADDRESS).len(), MAX_RELEASED + 1);
}
