//! The controller, in a world in memory.

use mortise_plugin::{
    Typed, pb,
    testing::{World, with_settings},
};

use super::*;
use crate::{PLUGIN, proto::edge::v1::Upstream};

fn world() -> World {
    let world = World::new(&PLUGIN);
    world.grant_directory(DIRECTORY);
    world
}

fn route(name: &str, hostname: &str, prefix: &str, address: &str) -> Typed<Route> {
    let upstreams = vec![Upstream { address: address.into(), weight: 1 }];
    let data = Route { hostname: hostname.into(), path_prefix: prefix.into(), upstreams, service: None };
    Typed::new(ROUTE.id(name, &World::tenancy()), data)
}

/// Creates it, each some time after the one before.
fn put(world: &World, route: &Typed<Route>) -> pb::Id {
    world.advance(Duration::from_secs(1));
    let id = world.put(route).unwrap().id().clone();
    world.settle().unwrap();
    id
}

fn change(world: &World, id: &pb::Id, change: impl FnOnce(&mut Route)) {
    let mut route = world.get::<Route>(id).unwrap();
    change(&mut route.data);
    world.put(&route).unwrap();
    world.settle().unwrap();
}

fn file(world: &World, name: &str) -> Option<String> {
    world.file(DIRECTORY, &format!("default.default.{name}.conf")).map(|bytes| String::from_utf8(bytes).unwrap())
}

/// State, reason and message of the condition.
fn applied(world: &World, id: &pb::Id) -> (bool, String, String) {
    let route = world.get::<Route>(id).unwrap();
    let status = route.status_under(KEY).unwrap();
    assert_eq!(status.observed_generation, route.generation());
    let [one] = status.conditions.as_slice() else { panic!("{status:?}") };
    assert_eq!(one.r#type, "Applied");
    (one.state() == pb::condition::State::True, one.reason.clone(), one.message.clone())
}

fn reason(world: &World, id: &pb::Id) -> String {
    applied(world, id).1
}

#[test]
fn a_route_comes_changes_and_goes() {
    let world = world();
    let id = put(&world, &route("web", "a.example", "/", "10.0.0.1:80"));
    assert!(file(&world, "web").unwrap().contains("server 10.0.0.1:80 weight=1;"));
    let said = applied(&world, &id);
    assert!(said.0 && said.1 == "Written" && said.2.starts_with("default.default.web.conf is in place"), "{said:?}");

    change(&world, &id, |route| route.upstreams[0].address = "10.0.0.2:80".into());
    assert!(file(&world, "web").unwrap().contains("server 10.0.0.2:80 weight=1;"));
    assert_eq!(reason(&world, &id), "Written");

    world.delete(&id).unwrap();
    assert!(world.get::<Route>(&id).is_some_and(|route| route.is_marked()), "the finalizer holds it");
    world.settle().unwrap();
    assert!(world.get::<Route>(&id).is_none() && file(&world, "web").is_none());
}

#[test]
fn nothing_is_written_needlessly() {
    let world = world();
    put(&world, &route("a", "a.example", "/a", "10.0.0.1:80"));
    put(&world, &route("b", "a.example", "/b", "10.0.0.1:80"));
    let before = world.list(ROUTE);
    world.fail_next("files.write", Failure::new(Failure::INTERNAL, "no"));
    world.fail_next("files.remove", Failure::new(Failure::INTERNAL, "no"));
    assert_eq!(world.settle().unwrap().reconciles, 2);
    assert_eq!(world.list(ROUTE), before);
}

#[test]
fn a_file_that_somebody_took_comes_back() {
    let world = world();
    put(&world, &route("a", "a.example", "/a", "10.0.0.1:80"));
    let before = file(&world, "a");
    for content in ["", "garbage", "# edge.v1.Route x\n# hostname b.example\n"] {
        world.context().files(DIRECTORY).write("default.default.a.conf", content.as_bytes()).unwrap();
        world.settle().unwrap();
        assert_eq!(file(&world, "a"), before);
    }
    world.context().files(DIRECTORY).remove("default.default.a.conf").unwrap();
    world.settle().unwrap();
    assert_eq!(file(&world, "a"), before);
}

#[test]
fn the_server_block_goes_to_the_next_when_the_oldest_goes() {
    let world = world();
    let oldest = put(&world, &route("z", "a.example", "/", "10.0.0.1:80"));
    put(&world, &route("b", "a.example", "/b", "10.0.0.2:80"));
    put(&world, &route("c", "a.example", "/c", "10.0.0.3:80"));
    put(&world, &route("other", "a.example.org", "/", "10.0.0.4:80"));
    assert!(
        file(&world, "z").unwrap().contains("location = /c {") && file(&world, "other").unwrap().contains("server {")
    );
    assert!(!file(&world, "z").unwrap().contains("other"), "a hostname that begins alike is another");
    assert!(!file(&world, "b").unwrap().contains("server {"));
    world.delete(&oldest).unwrap();
    world.settle().unwrap();
    assert_eq!(file(&world, "z"), None);
    let text = file(&world, "b").unwrap();
    assert!(text.contains("server {") && text.contains("location = /c {") && !text.contains("_z"), "{text}");
}

#[test]
fn a_hostname_that_changed_leaves_nothing_behind() {
    let world = world();
    let a = put(&world, &route("a", "a.example", "/a", "10.0.0.1:80"));
    put(&world, &route("b", "a.example", "/b", "10.0.0.2:80"));
    let c = put(&world, &route("c", "a.example", "/a", "10.0.0.3:80"));
    let d = put(&world, &route("d", "d.example", "/d", "10.0.0.4:80"));
    assert_eq!(reason(&world, &c), "Conflict");
    change(&world, &a, |route| route.hostname = "d.example".into());
    let (a_text, b_text) = (file(&world, "a").unwrap(), file(&world, "b").unwrap());
    assert!(a_text.contains("server_name d.example;") && a_text.contains("location = /d {"), "the oldest: {a_text}");
    assert!(!file(&world, "d").unwrap().contains("server {"));
    assert!(b_text.contains("server_name a.example;") && !b_text.contains("default_a;"), "{b_text}");
    assert!(b_text.contains("mortise_default_default_c;"), "the path is free: {b_text}");
    assert_eq!((reason(&world, &c), reason(&world, &d)), ("Written".into(), "Written".into()));
}

#[test]
fn of_two_that_want_one_path_the_older_has_it() {
    let world = world();
    let old = put(&world, &route("old", "a.example", "/", "10.0.0.1:80"));
    let young = put(&world, &route("young", "a.example", "/", "10.0.0.2:80"));
    let youngest = put(&world, &route("youngest", "a.example", "/", "10.0.0.3:80"));
    let said = applied(&world, &young);
    assert!(
        !said.0 && said.1 == "Conflict" && said.2.starts_with("the route default/default/old is older"),
        "{said:?}"
    );
    let status = world.get::<Route>(&young).unwrap().status_under(KEY).unwrap();
    assert_eq!(status.conditions[0].resource, Some(reference_to(&old)));
    assert_eq!((file(&world, "young"), file(&world, "youngest")), (None, None));

    world.delete(&old).unwrap();
    world.settle().unwrap();
    assert_eq!(reason(&world, &young), "Written");
    let said = applied(&world, &youngest);
    assert!(said.1 == "Conflict" && said.2.contains("default/default/young"), "{said:?}");
    change(&world, &young, |route| route.path_prefix = "/young".into());
    assert_eq!(reason(&world, &youngest), "Written");
}

#[test]
fn without_a_grant_it_says_what_to_add() {
    let world = World::new(&PLUGIN);
    let id = world.put(&route("web", "a.example", "/", "10.0.0.1:80")).unwrap().id().clone();
    let later = world.settle().unwrap().later;
    assert_eq!((later.len(), later[0].wait), (1, UNGRANTED_RETRY_DELAY));
    let (holds, reason, message) = applied(&world, &id);
    assert!(!holds && reason == "NotGranted", "{reason}");
    assert!(message.contains("write = true") && message.contains("[plugin.routes.grants.directories]"), "{message}");
    assert!(!FINALIZER.is_on(&world.get::<Route>(&id).unwrap()), "nothing keeps it from going");

    world.grant_directory(DIRECTORY);
    world.settle().unwrap();
    assert_eq!(applied(&world, &id).1, "Written");
    let other = world.put(&route("gone", "b.example", "/", "10.0.0.1:80")).unwrap();
    world.delete(other.id()).unwrap();
    world.settle().unwrap();
}

#[test]
fn a_directory_that_fails_is_told_of_and_tried_again() {
    let world = world();
    let id = world.put(&route("web", "a.example", "/", "10.0.0.1:80")).unwrap().id().clone();
    world.fail_next("files.write", Failure::new(Failure::EXHAUSTED, "the disk is full"));
    let reconcile = || world.reconcile(&Routes, &id);
    assert_eq!(reconcile().unwrap(), Outcome::Done, "the finalizer");
    assert_eq!(reconcile().unwrap_err().to_string(), "the disk is full");
    assert_eq!(applied(&world, &id), (false, "NotWritten".into(), "the disk is full".into()));
    world.settle().unwrap();
    assert_eq!(reason(&world, &id), "Written");

    world.delete(&id).unwrap();
    world.fail_next("files.remove", Failure::new(Failure::INTERNAL, "no"));
    assert!(reconcile().is_err());
    assert!(world.get::<Route>(&id).is_some_and(|route| FINALIZER.is_on(&route)), "it waits for its file");
    world.settle().unwrap();
    assert!(world.get::<Route>(&id).is_none() && file(&world, "web").is_none());
}

#[test]
fn a_route_whose_finalizer_was_torn_off_leaves_nothing() {
    let world = world();
    let id = put(&world, &route("web", "a.example", "/", "10.0.0.1:80"));
    put(&world, &route("api", "a.example", "/api", "10.0.0.2:80"));
    world.delete(&id).unwrap();
    let mut marked = world.get::<Route>(&id).unwrap();
    FINALIZER.remove(&world.context(), &mut marked).unwrap();
    world.context().files(DIRECTORY).write("default.default.mine.conf", b"# mine\n").unwrap();
    world.reconcile(&Routes, &id).unwrap();
    world.reconcile(&Routes, &ROUTE.id("mine", &World::tenancy())).unwrap();
    assert_eq!(file(&world, "web"), None);
    assert!(file(&world, "api").is_some_and(|text| text.contains("server {") && !text.contains("_web")));
    assert!(file(&world, "mine").is_some(), "somebody else's stays");
}

#[test]
fn it_listens_where_the_settings_say() {
    let world = world();
    world.put(&route("web", "a.example", "/", "10.0.0.1:80")).unwrap();
    with_settings(r#"{"listen":"[::]:80"}"#, || world.settle().unwrap());
    assert!(file(&world, "web").unwrap().contains("    listen [::]:80;\n"));
    world.settle().unwrap();
    assert!(file(&world, "web").unwrap().contains("    listen 127.0.0.1:8080;\n"));
}

/// Refuses the next files, as the operator's check does.
fn refuse(world: &World, count: usize) {
    for _ in 0..count {
        world.fail_next("files.write", Failure::new(Failure::INVALID, "nginx says no"));
    }
}

#[test]
fn a_file_that_the_check_refuses_stays_as_it_was() {
    let world = world();
    let id = put(&world, &route("web", "a.example", "/", "10.0.0.1:80"));
    let former = file(&world, "web");
    let mut changed = world.get::<Route>(&id).unwrap();
    changed.data.upstreams[0].address = "10.0.0.2:80".into();
    world.put(&changed).unwrap();
    refuse(&world, 1);
    assert_eq!(world.reconcile(&Routes, &id).unwrap_err().to_string(), "nginx says no");
    let says = "the former file stays in place: nginx says no";
    assert_eq!(applied(&world, &id), (false, "Refused".into(), says.into()));
    assert_eq!(file(&world, "web"), former);
    // It is tried again.
    world.settle().unwrap();
    assert_eq!(reason(&world, &id), "Written");
    assert!(file(&world, "web").unwrap().contains("10.0.0.2:80"));
}

#[test]
fn the_other_routes_of_a_hostname_go_on_without_a_refused_one() {
    let world = world();
    let first = put(&world, &route("a", "a.example", "/a", "10.0.0.1:80"));
    let new = world.put(&route("b", "a.example", "/b", "10.0.0.2:80")).unwrap().id().clone();
    assert_eq!(world.reconcile(&Routes, &new).unwrap(), Outcome::Done, "the finalizer");
    refuse(&world, 1);
    assert!(world.reconcile(&Routes, &new).is_err());
    assert_eq!((reason(&world, &first), reason(&world, &new)), ("Written".into(), "Refused".into()));
    assert!(file(&world, "b").is_none() && !file(&world, "a").unwrap().contains("location = /b"));
    world.settle().unwrap();
    assert_eq!(reason(&world, &new), "Written");
    assert!(file(&world, "a").unwrap().contains("location = /b"));

    // The new part of the oldest is refused, and the others are in its server block all the same.
    change(&world, &new, |route| route.path_prefix = "/c".into());
    let mut changed = world.get::<Route>(&first).unwrap();
    changed.data.upstreams[0].address = "10.0.0.3:80".into();
    world.put(&changed).unwrap();
    refuse(&world, 1);
    assert!(world.reconcile(&Routes, &first).is_err());
    assert_eq!((reason(&world, &first), reason(&world, &new)), ("Refused".into(), "Written".into()));
    let text = file(&world, "a").unwrap();
    assert!(text.contains("10.0.0.1:80") && text.contains("location = /c"), "{text}");
}

#[test]
fn a_check_that_cannot_be_made_is_told_of_and_tried_again() {
    let world = world();
    let id = put(&world, &route("web", "a.example", "/", "10.0.0.1:80"));
    let mut changed = world.get::<Route>(&id).unwrap();
    changed.data.path_prefix = "/api".into();
    world.put(&changed).unwrap();
    world.fail_next("files.write", Failure::new(Failure::LATE, "nginx did not end in time"));
    assert!(world.reconcile(&Routes, &id).is_err());
    assert_eq!(applied(&world, &id), (false, "NotWritten".into(), "nginx did not end in time".into()));
    world.settle().unwrap();
    assert_eq!(reason(&world, &id), "Written");
}

/// The file of a Route that goes may be the one at fault: it is made harmless first.
#[test]
fn a_route_whose_file_is_refused_by_now_can_go() {
    let world = world();
    put(&world, &route("a", "a.example", "/a", "10.0.0.1:80"));
    let bad = put(&world, &route("b", "a.example", "/b", "gone.example:80"));
    world.delete(&bad).unwrap();
    // The file of `a` is refused for as long as that of `b` has its upstreams: with its new part, and with its former.
    refuse(&world, 2);
    assert_eq!(world.reconcile(&Routes, &bad).unwrap(), Outcome::Done);
    assert_eq!(file(&world, "b"), None);
    assert!(!file(&world, "a").unwrap().contains("_b"));
    let text = "upstream x {\n    server gone.example:80 weight=1;\n    server 10.0.0.1:80 weight=1;\n}\nserver {\n    server_name a;\n}\n";
    let idle = "upstream x {\n    server 127.0.0.1:1 down;\n}\nserver {\n    server_name a;\n}\n";
    assert_eq!(crate::file::without_upstreams(text), idle);
}

/// A status that changes with each check would wake the controller for ever.
#[test]
fn a_refusal_with_another_time_is_the_same() {
    let world = world();
    let id = put(&world, &route("web", "a.example", "/", "10.0.0.1:80"));
    let mut changed = world.get::<Route>(&id).unwrap();
    changed.data.upstreams[0].address = "10.0.0.2:80".into();
    world.put(&changed).unwrap();
    let tried = |text: &str| {
        world.fail_next("files.write", Failure::new(Failure::INVALID, text));
        world.reconcile(&Routes, &id).unwrap_err();
        applied(&world, &id).2
    };
    let says = "the former file stays in place: 06:51 [emerg] 12#12: no host";
    assert_eq!(tried("06:51 [emerg] 12#12: no host"), says);
    assert_eq!(tried("06:52 [emerg] 9#9: no host"), says);
    assert_eq!(tried("06:53 [emerg] 9#9: no port"), "the former file stays in place: 06:53 [emerg] 9#9: no port");
}
