//! Controllers in plugins, over the wire: their work, their limits, and their reports.

use crate::support::{
    Server, Setup, any, artist,
    controllers::{controllers, read_until, report, report_until},
    decoded, eventually, gvk, id, id_of, is_gone, refusal, resource, tenancy, thing, until_gone,
};
use mortise_resource::{
    data,
    pb::{self, condition::State},
};
use mortise_test_guests::Thing;
use tonic::Code;

fn copy_id(name: &str) -> pb::Id {
    id("reconcile_copy.v1.Copy", name)
}

fn text(text: &str) -> Thing {
    Thing { text: text.into(), ..Thing::default() }
}

#[tokio::test]
async fn a_reconciler_follows_creation_change_and_deletion() {
    let server = Setup::new().guest("reconcile-copy").start().await;
    let stored = server.write(thing("reconcile_copy", "a", &text("one"))).await.unwrap();
    let copy = read_until(&server, &copy_id("a-copy"), |copy| decoded::<Thing>(copy).text == "one").await;
    assert_eq!(copy.owner.as_ref(), stored.id.as_ref());
    let seen = read_until(&server, stored.id.as_ref().unwrap(), |r| !r.status.is_empty()).await;
    let status = &seen.status["reconcile-copy/things"];
    assert_eq!(status.observed_generation, seen.generation);
    assert_eq!((&*status.conditions[0].r#type, status.conditions[0].state()), ("Copied", State::True));

    let changed = pb::Resource { version: String::new(), status: Default::default(), ..seen.clone() };
    let data = any("mortise.test.v1.Thing", &text("two"));
    server.write(pb::Resource { data: Some(data), ..changed }).await.unwrap();
    read_until(&server, &copy_id("a-copy"), |copy| decoded::<Thing>(copy).text == "two").await;

    // A copy that another client deletes is created again.
    server.delete(&copy_id("a-copy"), "").await.unwrap();
    read_until(&server, &copy_id("a-copy"), |again| id_of(again).uid != id_of(&copy).uid).await;
    report_until(&server, "reconcile-copy/copies", |seen| seen.queued + seen.running == 0).await;
    let values = server.list(gvk("mortise.v1.Value"), pb::Tenancy::default(), "").await.unwrap();
    let count: data::Value = decoded(&values[0]);
    assert_eq!((&*count.plugin, &*count.key, &*count.value), ("reconcile-copy", "copies/default/a", &b"3"[..]));
    assert_eq!(refusal(server.delete(&id_of(&values[0]), "").await).0, Code::PermissionDenied);

    server.delete(stored.id.as_ref().unwrap(), "").await.unwrap();
    for gone in [stored.id.clone().unwrap(), copy_id("a-copy"), id_of(&values[0])] {
        until_gone(&server, &gone).await;
    }
    let seen = report(&server, "reconcile-copy/copies").await;
    assert_eq!((seen.errors, seen.throttled, seen.restarts), (0, 0, 0), "{seen:?}");
}

/// Writes this many things, several at once, and waits until a controller has written a status into each. Returns the
/// number of commits that this took, each of one or more writes.
async fn commits_to_write_and_see(server: &Server, kind: &str, count: usize) -> f64 {
    let of = format!("reconcile_status.v1.{kind}");
    let before = commits(server).await;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..64 {
        let (mut client, of) = (server.client(), of.clone());
        writers.spawn(async move {
            for n in (writer..count).step_by(64) {
                let data = any("mortise.test.v1.Thing", &text("x"));
                let thing = resource(id(&of, &format!("t{n:05}")), Some(data));
                client.write(pb::WriteRequest { resource: Some(thing) }).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let name = format!("reconcile-status/{}", kind.to_lowercase());
    report_until(server, &name, |seen| seen.queued + seen.running == 0 && seen.reconciles >= count as u64).await;
    let took = commits(server).await - before;
    let all = server.list(gvk(&of), tenancy("", ""), "").await.unwrap();
    assert_eq!(all.iter().filter(|one| one.status.contains_key("reconcile-status/seen")).count(), count);
    took
}

/// The number of commits of a server, or of its transactions in etcd.
async fn commits(server: &Server) -> f64 {
    match server.metric("mortise_etcd_transactions_total").await {
        Some(transactions) if transactions > 0.0 => transactions,
        _ => server.metric("mortise_store_commit_group_size_count").await.unwrap(),
    }
}

/// A reconcile that writes waits for its commit before the next one. Concurrent reconciles share commits, as clients do.
#[tokio::test]
async fn reconciles_that_run_at_once_share_commits() {
    const COUNT: usize = 100;
    /// Many times the time of a reconcile, even on a slow machine; else one commit is done before the next reconcile is.
    const SYNC_MS: u32 = 50;
    let server = Setup::new().guest("reconcile-status").limit("store_sync_ms", SYNC_MS).start().await;
    let alone = commits_to_write_and_see(&server, "One", COUNT).await;
    let together = commits_to_write_and_see(&server, "Many", COUNT).await;
    println!("{COUNT} writes and as many statuses: {alone} commits one at a time, {together} with 64 at once");
    assert!(together < 0.5 * alone, "{together} of {alone}");
}

/// Without a difference nothing is written, so nothing wakes the controller.
#[tokio::test]
async fn a_reconciler_that_compares_comes_to_rest() {
    let server = Setup::new().guest("reconcile-copy").start().await;
    for n in 0..20 {
        server.write(thing("reconcile_copy", &format!("t{n}"), &text("x"))).await.unwrap();
    }
    for n in 0..20 {
        read_until(&server, &id("reconcile_copy.v1.Thing", &format!("t{n}")), |r| !r.status.is_empty()).await;
    }
    let idle = async || report_until(&server, "reconcile-copy/copies", |seen| seen.queued + seen.running == 0).await;
    let before = idle().await.reconciles;
    // After this one, all earlier writes have been seen.
    server.write(thing("reconcile_copy", "last", &text("x"))).await.unwrap();
    read_until(&server, &id("reconcile_copy.v1.Thing", "last"), |r| !r.status.is_empty()).await;
    let after = idle().await;
    // One reconcile for the write, at most one after each of its finalizer, its copy and its status, and one more for a
    // conflict.
    assert!(before <= 20 * 5 && after.reconciles <= 21 * 5, "{before}, {after:?}");
    assert_eq!(after.throttled, 0);
}

#[tokio::test]
async fn the_demo_controller_gives_every_artist_albums_when_it_is_wanted() {
    let server = Setup::new().config("[plugin.demo.settings]\ncontroller = true\n").start().await;
    let korn = server.write(artist("korn")).await.unwrap();
    let id = korn.id.as_ref().unwrap();
    eventually("there are three albums", || async { server.list_by_owner(id).await.unwrap().len() == 3 }).await;
    let first = server.list_by_owner(id).await.unwrap();
    assert!(first.iter().all(|album| id_of(album).name.starts_with("korn-")));
    server.delete(&id_of(&first[0]), "").await.unwrap();
    eventually("the deleted album is back", || async {
        let now = server.list_by_owner(id).await.unwrap();
        now.len() == 3 && now.iter().any(|album| id_of(album).name == id_of(&first[0]).name)
    })
    .await;
    let seen = read_until(&server, id, |r| r.status.contains_key("consul.io/artist-controller")).await;
    let conditions = &seen.status["consul.io/artist-controller"].conditions;
    let kinds: Vec<_> = conditions.iter().map(|c| &*c.r#type).collect();
    assert_eq!(kinds, ["Accepted", "AlbumCreated", "AlbumCreated", "AlbumCreated"]);

    let quiet = Setup::new().start().await;
    let alone = quiet.write(artist("korn")).await.unwrap();
    assert!(controllers(&quiet, "demo").await.is_empty(), "it does not even run");
    assert!(quiet.list_by_owner(alone.id.as_ref().unwrap()).await.unwrap().is_empty());
}

/// The reports contain the host's own controllers beside those of plugins; one plugin's can be asked for alone.
#[tokio::test]
async fn controllers_are_listed() {
    let server = Setup::new().guest("reconcile-copy").start().await;
    let seen = report_until(&server, "reconcile-copy/copies", |seen| seen.state == "Running").await;
    assert_eq!(seen.manages, Some(gvk("reconcile_copy.v1.Thing")));
    assert_eq!(seen.watches, [gvk("reconcile_copy.v1.Copy")]);
    assert_eq!((&*seen.plugin, &*seen.reason), ("reconcile-copy", ""));
    assert_eq!(report_until(&server, "reaper", |seen| seen.state == "Running").await.plugin, "");
    assert_eq!(controllers(&server, "reconcile-copy").await, ["reconcile-copy/copies"]);
    let metrics = server.metrics().await;
    assert!(metrics.contains("mortise_controller_running{controller=\"reconcile-copy/copies\"} 1"), "{metrics}");
}

/// A disabled plugin's controllers end; once enabled again, they reconcile everything once more.
#[tokio::test]
async fn controllers_come_and_go_with_their_plugin() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("reconcile-copy.wasm");
    std::fs::copy(mortise_test_guests::component("reconcile-copy"), &file).unwrap();
    let server = Setup::new().plugin_dir(dir.path()).start().await;
    let stored = server.write(thing("reconcile_copy", "a", &text("one"))).await.unwrap();
    read_until(&server, &copy_id("a-copy"), |_| true).await;
    std::fs::remove_file(&file).unwrap();
    eventually("the controller ends", async || controllers(&server, "reconcile-copy").await.is_empty()).await;
    server.delete(&copy_id("a-copy"), "").await.unwrap();
    assert!(is_gone(&server, &copy_id("a-copy")).await, "nobody is there to make it anew");

    std::fs::copy(mortise_test_guests::component("reconcile-copy"), &file).unwrap();
    let copy = read_until(&server, &copy_id("a-copy"), |_| true).await;
    assert_eq!(copy.owner, stored.id);
    assert_eq!(controllers(&server, "reconcile-copy").await.len(), 1);
}
