//! Ways in which a change of one resource wakes another: by function, by name, by reference and by index; and the work
//! before a controller starts.

use crate::support::{
    Server, Setup, any,
    controllers::{condition_until, report, report_until},
    gvk, id, resource, tenancy, thing,
};
use mortise_resource::pb;
use mortise_test_guests::{Link, Thing};

fn text(text: &str) -> Thing {
    Thing { text: text.into(), ..Thing::default() }
}

fn of(kind: &str, name: &str, thing: &Thing) -> pb::Resource {
    resource(id(&format!("reconcile_map.v1.{kind}"), name), Some(any("mortise.test.v1.Thing", thing)))
}

fn reference(kind: &str, name: &str) -> pb::Reference {
    pb::Reference {
        r#type: Some(gvk(&format!("reconcile_map.v1.{kind}"))),
        tenancy: Some(tenancy("default", "default")),
        name: name.into(),
        section: String::new(),
    }
}

fn link(name: &str, to: &str, also: &[&str]) -> pb::Resource {
    let also = also.iter().map(|label| reference("Label", label)).collect();
    let data = Link { to: Some(reference("Thing", to)), also };
    resource(id("reconcile_map.v1.Link", name), Some(any("mortise.test.v1.Link", &data)))
}

/// Waits until the condition of a thing has these counts: parts, label, links.
async fn counted(server: &Server, name: &str, expected: &str) {
    let id = id("reconcile_map.v1.Thing", name);
    condition_until(server, &id, "reconcile-map/things", "Counted", |c| c.message == expected).await;
}

async fn put(server: &Server, resource: pb::Resource) {
    server.write(resource).await.unwrap();
}

#[tokio::test]
async fn changes_wake_the_resources_that_they_affect() {
    let server = Setup::new().guest("reconcile-map").start().await;
    for name in ["one", "two"] {
        put(&server, thing("reconcile_map", name, &text(""))).await;
        counted(&server, name, "0 false 0").await;
    }
    put(&server, of("Part", "p1", &text("one"))).await;
    counted(&server, "one", "1 false 0").await;
    put(&server, of("Label", "two", &text("first"))).await;
    counted(&server, "two", "0 true 0").await;
    put(&server, link("l1", "one", &[])).await;
    counted(&server, "one", "1 false 1").await;
    counted(&server, "two", "0 true 0").await;

    // A link that moves from one thing to two affects all of them.
    put(&server, link("l1", "two", &[])).await;
    counted(&server, "one", "1 false 0").await;
    counted(&server, "two", "0 true 1").await;
    put(&server, of("Part", "p1", &text("two"))).await;
    counted(&server, "one", "0 false 0").await;
    counted(&server, "two", "1 true 1").await;

    // A deletion affects them, too.
    for (kind, name) in [("Part", "p1"), ("Label", "two"), ("Link", "l1")] {
        server.delete(&id(&format!("reconcile_map.v1.{kind}"), name), "").await.unwrap();
    }
    counted(&server, "two", "0 false 0").await;
}

#[tokio::test]
async fn an_index_finds_referrers_by_their_target() {
    let server = Setup::new().guest("reconcile-map").start().await;
    put(&server, thing("reconcile_map", "one", &text(""))).await;
    put(&server, link("l1", "one", &["red"])).await;
    let seen = async |expected: &str| {
        let id = id("reconcile_map.v1.Link", "l1");
        condition_until(&server, &id, "reconcile-map/links", "Seen", |c| c.message == expected || c.reason == expected)
            .await;
    };
    seen("Missing").await;
    put(&server, of("Label", "red", &text("crimson"))).await;
    seen("crimson").await;
    put(&server, of("Label", "red", &text("scarlet"))).await;
    seen("scarlet").await;
    server.delete(&id("reconcile_map.v1.Label", "red"), "").await.unwrap();
    seen("Missing").await;
}

/// Names, metadata and fields are found by prefix and by exact value, in all tenancies and in one.
#[tokio::test]
async fn indexes_by_values_find_what_they_are_by() {
    let server = Setup::new().guest("reconcile-find").start().await;
    let part = |name: &str, said: &str, app: &str| {
        let mut part = resource(id("reconcile_find.v1.Part", name), Some(any("mortise.test.v1.Thing", &text(said))));
        part.metadata.insert("app".into(), app.into());
        part
    };
    for (name, said, app) in [("web", "red", "shop"), ("web-2", "redder", "shop"), ("db", "blue", "shop-db")] {
        put(&server, part(name, said, app)).await;
    }
    put(&server, part("cut", "green", "shop\0db")).await;
    for (n, (index, how, what, expected)) in [
        ("name", "prefix", "", "cut,db,web,web-2"),
        ("name", "prefix", "web", "web,web-2"),
        ("name", "exact", "web", "web"),
        ("name", "first", "web-2", "web-2"),
        ("name", "first", "we", ""),
        ("name-here", "prefix", "default/default/web", "web,web-2"),
        ("name-here", "exact", "default/default/web", "web"),
        ("name-here", "prefix", "default/other/", ""),
        ("metadata", "prefix", "app=shop", "web,web-2,db"),
        ("metadata", "exact", "app=shop", "web,web-2"),
        ("metadata", "exact", "app", ""),
        ("metadata-here", "exact", "default/default/app=shop-db", "db"),
        ("text", "prefix", "red", "web,web-2"),
        ("text", "exact", "red", "web"),
        ("text-here", "exact", "default/default/blue", "db"),
    ]
    .into_iter()
    .enumerate()
    {
        let data = Thing { items: vec![how.into(), what.into()], ..text(index) };
        let name = format!("look-up-{n}");
        put(&server, thing("reconcile_find", &name, &data)).await;
        let id = id("reconcile_find.v1.Thing", &name);
        // The first lookup waits until the cache has all of them.
        let found = |c: &pb::Condition| {
            assert!(n == 0 || c.message == expected, "{index} {how} {what:?}: {:?}", c.message);
            c.message == expected
        };
        condition_until(&server, &id, "reconcile-find/things", "Found", found).await;
    }
    // A removed pair is no longer found.
    put(&server, part("web", "red", "else")).await;
    let id = id("reconcile_find.v1.Thing", "look-up-9");
    condition_until(&server, &id, "reconcile-find/things", "Found", |c| c.message == "web-2").await;
}

/// A failing mapper delays its own resource only, and is called again.
#[tokio::test]
async fn a_failing_mapper_delays_no_other_resource() {
    let server = Setup::new().guest("reconcile-map").tolerant().start().await;
    put(&server, thing("reconcile_map", "one", &text(""))).await;
    put(&server, of("Part", "bad", &text("confused"))).await;
    put(&server, of("Part", "worse", &text("trap"))).await;
    put(&server, of("Part", "good", &text("one"))).await;
    counted(&server, "one", "1 false 0").await;
    let seen = report_until(&server, "reconcile-map/things", |seen| seen.last_errors.len() >= 2).await;
    let said: Vec<_> = seen.last_errors.iter().map(|error| error.message.clone()).collect();
    assert!(said.iter().any(|said| said.contains("a confused part belongs nowhere")), "{said:?}");
    assert!(said.iter().any(|said| said.contains("hook map trapped")), "{said:?}");
    assert_eq!(seen.restarts, 0, "{seen:?}");
    // After the repair, the part counts.
    put(&server, of("Part", "bad", &text("one"))).await;
    counted(&server, "one", "2 false 0").await;
}

#[tokio::test]
async fn nothing_is_reconciled_before_the_initializer_ended_well() {
    let settings = |state: &str| format!("[plugin.reconcile-map.settings]\nstate = {state:?}\n");
    let server = Setup::new().guest("reconcile-map").config(settings("unready")).start().await;
    put(&server, thing("reconcile_map", "one", &text(""))).await;
    let seen = report_until(&server, "reconcile-map/things", |seen| seen.restarts >= 2).await;
    assert_eq!(seen.reconciles, 0, "{seen:?}");
    let failing = report_until(&server, "reconcile-map/things", |seen| seen.state == "BackingOff").await;
    assert!(failing.reason.contains("not ready"), "{failing:?}");
    server.configure(settings("fine"));
    counted(&server, "one", "0 false 0").await;
    assert_eq!(report(&server, "reconcile-map/things").await.state, "Running");
}

/// A reference without a tenancy, or with a part of it, means the tenancy of its holder, as in `plugin test`.
#[tokio::test]
async fn references_without_tenancy_lead_where_they_mean() {
    let server = Setup::new().guest("reconcile-map").start().await;
    put(&server, thing("reconcile_map", "one", &text(""))).await;
    counted(&server, "one", "0 false 0").await;
    for (n, tenancy) in [None, Some(tenancy("default", "")), Some(tenancy("", ""))].into_iter().enumerate() {
        let data = Link { to: Some(pb::Reference { tenancy, ..reference("Thing", "one") }), also: Vec::new() };
        put(&server, resource(id("reconcile_map.v1.Link", &format!("l{n}")), Some(any("mortise.test.v1.Link", &data))))
            .await;
        counted(&server, "one", &format!("0 false {}", n + 1)).await;
    }
}
