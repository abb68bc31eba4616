//! Ends of a run from outside: shutdown, removal, replacement, pause.

use std::{sync::Arc, time::Duration};

use tokio::time::Instant;

use super::{
    harness::{Harness, Probe, definition},
    kit::{album, artist},
};
use crate::{By, Definition, Index, Mapper, Outcome, State};

fn slow(ms: u64) -> Arc<Probe> {
    Probe::new(move |_, _, _| async move {
        tokio::time::sleep(Duration::from_millis(ms)).await;
        Ok(Outcome::Done)
    })
}

#[tokio::test(start_paused = true)]
async fn shutdown_waits_for_what_runs_and_begins_nothing_new() {
    let harness = Harness::start(slow(500), |d| d).await;
    harness.store.put(&artist(), "a");
    harness.store.put(&artist(), "b");
    harness.settle().await;
    let begun = Instant::now();
    harness.all.shutdown().await;
    assert_eq!(begun.elapsed().as_millis(), 499);
    assert_eq!(harness.probe.names(), ["[initialize]", "[start]", "a", "[stop]"]);
    assert_eq!(
        harness.all.register(definition(&harness.probe)).unwrap_err().to_string(),
        "controllers are shut down; none can be registered or changed any more"
    );
}

#[tokio::test(start_paused = true)]
async fn shutdown_drops_what_is_still_running_at_the_deadline() {
    let harness = Harness::start(slow(3_600_000), |d| d.drain(Duration::from_secs(2))).await;
    harness.store.put(&artist(), "a");
    harness.settle().await;
    let begun = Instant::now();
    harness.all.shutdown().await;
    assert_eq!(begun.elapsed().as_secs(), 2);
    assert_eq!(harness.probe.names(), ["[initialize]", "[start]", "a", "[stop]"]);
}

#[tokio::test(start_paused = true)]
async fn a_reconciler_that_listens_ends_at_once() {
    let probe = Probe::new(|context, _, _| async move {
        context.cancelled().await;
        Ok(Outcome::Done)
    });
    let harness = Harness::start(probe, |d| d).await;
    harness.store.put(&artist(), "a");
    harness.settle().await;
    let begun = Instant::now();
    harness.all.shutdown().await;
    assert_eq!(begun.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn controllers_that_nobody_holds_any_more_end() {
    let harness = Harness::start(Probe::done(), |d| d).await;
    let Harness { all, probe, .. } = harness;
    drop(all);
    tokio::time::sleep(Duration::from_millis(1)).await;
    assert_eq!(probe.names(), ["[initialize]", "[start]", "[stop]"]);
}

#[tokio::test(start_paused = true)]
async fn replace_drains_then_hands_the_queue_over_and_reconciles_everything_once() {
    let old = Probe::new(|_, request, _| async move {
        match request.key.name() {
            "deferred" => Ok(Outcome::After(Duration::from_secs(60))),
            "failing" => Err("no".into()),
            "slow" => {
                tokio::time::sleep(Duration::from_secs(3)).await;
                Ok(Outcome::Done)
            }
            _ => Ok(Outcome::Done),
        }
    });
    let harness = Harness::new(old.clone());
    for name in ["deferred", "failing", "slow", "still"] {
        harness.store.put(&artist(), name);
    }
    harness.register(|d| d);
    harness.settle().await;
    let new = Probe::new(|_, request, _| async move {
        match request.key.name() {
            "failing" => Err("no".into()),
            _ => Ok(Outcome::Done),
        }
    });
    let begun = Instant::now();
    harness.all.replace(definition(&new)).await.unwrap();
    assert_eq!(begun.elapsed().as_millis(), 2999, "the slow one may end");
    assert_eq!(old.names(), ["[initialize]", "[start]", "deferred", "failing", "slow", "[stop]"]);
    harness.settle().await;
    let mut names = new.names();
    assert_eq!(names[2], "still", "what waited keeps its place");
    names.sort();
    assert_eq!(names, ["[initialize]", "[start]", "deferred", "failing", "slow", "still"]);
    // One failure under the old definition: the second under the new one waits twice as long.
    harness.pass(7).await;
    assert!(new.names().is_empty());
    harness.pass(3).await;
    assert_eq!(new.names(), ["failing"]);
    harness.pass(58_000).await;
    assert!(new.names().contains(&"deferred".to_owned()), "a time that was asked for stands");
}

#[tokio::test(start_paused = true)]
async fn what_waited_when_the_definition_was_replaced_runs_once_and_not_twice() {
    let harness = Harness::new(slow(1));
    for n in 0..1000 {
        harness.store.put(&artist(), &n.to_string());
    }
    harness.register(|d| d);
    harness.pass(100).await;
    let new = Probe::done();
    harness.all.replace(definition(&new)).await.unwrap();
    harness.settle().await;
    let mut names = new.names().split_off(2);
    names.sort();
    names.dedup();
    assert_eq!(names.len(), 1000);
    assert_eq!(harness.probe.names().len() + 1000, 3 + usize::try_from(harness.status().reconciles).unwrap());
}

#[tokio::test(start_paused = true)]
async fn replace_under_another_managed_type_begins_with_an_empty_queue() {
    let harness = Harness::start(Probe::new(|_, _, _| async { Err("no".into()) }), |d| d).await;
    harness.store.put(&artist(), "a");
    harness.store.put(&album(), "b");
    harness.settle().await;
    let new = Probe::new(|_, request, _| async move {
        assert_eq!(request.key.name(), "b");
        Ok(Outcome::Done)
    });
    harness.all.replace(Definition::new("c", album(), Arc::new(Only(new.clone())))).await.unwrap();
    harness.pass(100).await;
    assert_eq!(new.names(), ["b"]);
}

/// Drops a probe's entries about artists.
struct Only(Arc<Probe>);

#[crate::async_trait]
impl crate::Reconciler for Only {
    async fn reconcile(&self, c: &crate::Context, r: crate::Request) -> Result<Outcome, crate::ReconcileError> {
        self.0.reconcile(c, r).await
    }
}

#[tokio::test(start_paused = true)]
async fn pause_stops_with_a_reason_and_resume_primes_anew() {
    let harness = Harness::start(Probe::done(), |d| d).await;
    harness.store.put(&artist(), "a");
    harness.store.put(&artist(), "gone");
    harness.settle().await;
    harness.all.pause("c", "the plugin is quarantined").await.unwrap();
    assert_eq!(harness.state(), State::Paused { reason: "the plugin is quarantined".into() });
    harness.probe.names();
    harness.store.put(&artist(), "b");
    harness.store.delete(&artist(), "gone");
    harness.pass(9 * 3_600_000).await;
    assert!(harness.probe.names().is_empty(), "not even what is due");
    // A new definition stays paused, too.
    harness.all.replace(definition(&harness.probe)).await.unwrap();
    harness.settle().await;
    assert!(matches!(harness.state(), State::Paused { .. }));
    harness.all.resume("c").unwrap();
    harness.settle().await;
    let mut names = harness.probe.names();
    assert_eq!(names[..2], ["[initialize]", "[start]"]);
    names.sort();
    assert_eq!(names[2..], ["a", "b", "gone"], "what was deleted meanwhile is not forgotten");
}

#[tokio::test(start_paused = true)]
async fn remove_ends_it_and_frees_the_name() {
    let harness = Harness::start(slow(100), |d| d).await;
    assert_eq!(
        harness.all.register(definition(&harness.probe)).unwrap_err().to_string(),
        "a controller named \"c\" is registered; replace it, or remove it first"
    );
    harness.store.put(&artist(), "a");
    harness.settle().await;
    harness.all.remove("c").await.unwrap();
    assert!(harness.all.status("c").is_none());
    assert_eq!(harness.probe.names().last().unwrap(), "[stop]");
    assert_eq!(harness.all.remove("c").await.unwrap_err().to_string(), "no controller named \"c\" is registered");
    harness.register(|d| d);
    harness.pass(200).await;
    assert_eq!(harness.probe.names(), ["[initialize]", "[start]", "a"]);
}

#[tokio::test(start_paused = true)]
async fn definitions_that_make_no_sense_are_refused() {
    let harness = Harness::new(Probe::done());
    let refused = |d: Definition| harness.all.register(d).unwrap_err().to_string();
    let base = || definition(&harness.probe);
    assert_eq!(
        refused(base().watch(album(), Mapper::Owner, Vec::new()).watch(album(), Mapper::SameName, Vec::new())),
        r#"resource type "demo.v2.Album" already has a configured watch"#
    );
    assert_eq!(
        refused(base().index(Index::new("x", By::Owner)).index(Index::new("x", By::Owner))),
        r#"Index with name "x" is already defined."#
    );
    assert!(refused(base().index(Index::new("id", By::Owner))).contains("already defined"));
    let index = Mapper::Index { kind: artist(), index: "y".into(), keys: Arc::new(|_| Ok(Vec::new())) };
    assert!(refused(base().watch(album(), index, Vec::new())).contains("add the index"));
}

#[tokio::test(start_paused = true)]
async fn a_definition_prints_as_in_consul() {
    let d = definition(&Probe::done())
        .watch(album(), Mapper::Owner, Vec::new())
        .backoff(crate::Backoff::new(Duration::from_secs(5), Duration::from_secs(3600)))
        .placement(crate::Placement::EachServer);
    assert_eq!(
        d.to_string(),
        "<Controller managed_type=demo.v2.Artist, watched_types=[demo.v2.Album], backoff=<base=5s, max=1h0m0s>, placement=each-server>"
    );
    assert!(definition(&Probe::done()).to_string().contains("<base=5ms, max=16m40s>"));
}
