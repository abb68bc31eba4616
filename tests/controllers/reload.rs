//! A reload during reconciles: running ones get time to end, the queue is handed over, everything is reconciled once.

use crate::support::{
    Setup, artist,
    controllers::{condition_until, controllers, report, report_until},
    eventually, id, thing,
};
use mortise_resource::{data::ControllerReport, pb::condition::State};
use mortise_test_guests::Thing;

fn number(number: i64) -> Thing {
    Thing { number, ..Thing::default() }
}

/// A change of the plugin's settings; its controllers treat it as any other new version.
#[tokio::test]
async fn running_reconciles_are_cancelled_and_the_queue_is_handed_over() {
    let server = Setup::new()
        .guest("reconcile-slow")
        .env("MORTISE_CONTROLLERS_FUEL", 1_i64 << 60)
        .env("MORTISE_CONTROLLERS_HOST_CALLS", u32::MAX)
        .tolerant()
        .config("")
        .start()
        .await;
    for n in 0..4 {
        server.write(thing("reconcile_slow", &format!("long-{n}"), &number(25_000))).await.unwrap();
    }
    report_until(&server, "reconcile-slow/slow", |seen| seen.running == 4).await;
    for n in 0..20 {
        server.write(thing("reconcile_slow", &format!("short-{n}"), &number(1))).await.unwrap();
    }
    report_until(&server, "reconcile-slow/slow", |seen| seen.queued == 20).await;
    server.configure("[plugin.reconcile-slow.settings]\nversion = 2\n");
    // Running reconciles are cancelled, record that, and end; the new version starts them again, beside the others.
    for n in 0..4 {
        let id = id("reconcile_slow.v1.Thing", &format!("long-{n}"));
        let told = condition_until(&server, &id, "reconcile-slow/things", "Finished", |_| true).await;
        assert_eq!((told.state(), told.reason.as_str()), (State::False, "Cancelled"));
    }
    report_until(&server, "reconcile-slow/slow", |seen| seen.running > 0 && seen.state == "Running").await;
    let seen = report(&server, "reconcile-slow/slow").await;
    assert_eq!((seen.errors, seen.restarts), (0, 0), "{seen:?}");
}

#[tokio::test]
async fn every_managed_resource_is_reconciled_once_more_after_a_reload() {
    let server = Setup::new().guest("reconcile-noop").config("").start().await;
    for n in 0..50 {
        server.write(thing("reconcile_noop", &format!("thing-{n}"), &number(n))).await.unwrap();
    }
    report_until(&server, "reconcile-noop/noop", |seen| seen.reconciles == 50).await;
    server.configure("[plugin.reconcile-noop.settings]\nversion = 2\n");
    // All are due again within eight hours, and none earlier.
    let idle = |seen: &ControllerReport| (seen.queued, seen.running, seen.deferred) == (0, 0, 50);
    let seen = report_until(&server, "reconcile-noop/noop", |seen| seen.reconciles >= 100 && idle(seen)).await;
    assert_eq!(seen.reconciles, 100, "once: {seen:?}");
}

/// A controller that depends on a setting starts and stops as the setting changes, while the server runs.
#[tokio::test]
async fn a_setting_switches_a_controller_on_and_off() {
    let server = Setup::new().config("").start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    let korn = korn.id.as_ref().unwrap();
    assert!(controllers(&server, "demo").await.is_empty());

    server.configure("[plugin.demo.settings]\ncontroller = true\n");
    eventually("albums come", async || server.list_by_owner(korn).await.unwrap().len() == 3).await;
    assert_eq!(controllers(&server, "demo").await, ["demo/artists"]);
    report_until(&server, "demo/artists", |seen| seen.state == "Running").await;

    server.configure("[plugin.demo.settings]\ncontroller = false\n");
    eventually("the controller ends", async || controllers(&server, "demo").await.is_empty()).await;
    let album = server.list_by_owner(korn).await.unwrap()[0].id.clone().unwrap();
    server.delete(&album, "").await.unwrap();
    assert_eq!(server.list_by_owner(korn).await.unwrap().len(), 2, "nobody is there to make it anew");
}

/// The server cancels running reconciles when it stops, and does not wait for their deadline.
#[tokio::test]
async fn a_stop_does_not_wait_for_ever() {
    let server = Setup::new()
        .guest("reconcile-slow")
        .env("MORTISE_CONTROLLERS_FUEL", 1_i64 << 60)
        .env("MORTISE_CONTROLLERS_HOST_CALLS", u32::MAX)
        .env("MORTISE_CONTROLLERS_DEADLINE_MS", 600_000)
        .long_grace()
        .start()
        .await;
    server.write(thing("reconcile_slow", "long", &number(600_000))).await.unwrap();
    report_until(&server, "reconcile-slow/slow", |seen| seen.running == 1).await;
    assert!(server.stop().await.success());
}
