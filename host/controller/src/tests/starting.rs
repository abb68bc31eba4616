//! The start of a run, and what makes it start again.

use std::{sync::Arc, time::Duration};

use parking_lot::Mutex;

use super::{
    kit::{album, artist},
    rig::{Probe, Rig},
};
use crate::{Definition, Mapper, Outcome, Placement, ReconcileError, State};

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_every_type_is_primed_and_then_everything_once() {
    let mapped = Arc::new(Mutex::new(0));
    let count = mapped.clone();
    let mapper = Mapper::References(Arc::new(move |_| {
        *count.lock() += 1;
        Ok(Vec::new())
    }));
    let rig = Rig::new(Probe::done());
    rig.store.hold(&album());
    for name in ["a", "b", "c"] {
        rig.store.put(&artist(), name);
        rig.store.put(&album(), name);
    }
    rig.register(|d| d.watch(album(), mapper, Vec::new()));
    rig.pass(60_000).await;
    assert_eq!(rig.state(), State::Priming);
    assert_eq!(rig.probe.names(), ["[initialize]", "[start]"]);
    // What changes meanwhile is part of the snapshot.
    rig.store.put(&artist(), "d");
    rig.store.put(&artist(), "a");
    rig.store.delete(&artist(), "b");
    rig.settle().await;
    assert_eq!(*mapped.lock(), 0);
    rig.store.release(&album());
    rig.settle().await;
    assert_eq!(rig.state(), State::Running);
    assert_eq!(rig.probe.names(), ["a", "c", "d"]);
    assert_eq!((*mapped.lock(), rig.store.opened()), (3, 2), "one watch for each type");
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_starts_the_run_again_with_waits_that_double() {
    let rig = Rig::new(Probe::done());
    rig.store.refuse(Some("not registered"));
    rig.register(|d| d);
    rig.pass(200_000).await;
    let times = rig.probe.times();
    let starts: Vec<u64> = times.iter().filter(|(_, what)| what == "[initialize]").map(|(at, _)| *at).collect();
    let waits: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (wait, least) in waits.iter().zip([500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]) {
        assert!((least..=least * 5 / 4 + 1).contains(wait), "{waits:?}");
    }
    assert!(waits.len() >= 7, "{waits:?}");
    let State::BackingOff { error, .. } = rig.state() else { panic!("{:?}", rig.state()) };
    assert_eq!(error, "watch of demo.v2.Artist broke: not registered");
    assert_eq!(rig.status().last_error, Some(error));
    rig.store.refuse(None);
    rig.pass(80_000).await;
    assert_eq!(rig.state(), State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lasted_starts_again_at_once_and_reconciles_everything_once() {
    let rig = Rig::new(Probe::done());
    rig.store.put(&artist(), "a");
    rig.store.put(&artist(), "b");
    rig.register(|d| d);
    rig.pass(2001).await;
    rig.probe.names();
    rig.store.break_watches();
    rig.store.delete(&artist(), "b");
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["[stop]", "[initialize]", "[start]", "a", "b"], "b went while nobody watched");
    assert_eq!((rig.status().restarts, rig.status().scheduled), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn an_initializer_that_fails_is_tried_again() {
    let probe = Probe::done();
    let left = Mutex::new(2);
    *probe.init.lock() = Some(Box::new(move || {
        let mut left = left.lock();
        if *left == 0 {
            return Ok(());
        }
        *left -= 1;
        assert!(*left != 0, "really not");
        Err(ReconcileError::new("not yet"))
    }));
    let rig = Rig::new(probe);
    rig.store.put(&artist(), "a");
    rig.register(|d| d);
    rig.settle().await;
    assert_eq!(rig.status().last_error.unwrap(), "initializer failed: not yet");
    rig.pass(700).await;
    assert_eq!(rig.status().last_error.unwrap(), "initializer failed: panic [recovered]: really not");
    rig.pass(2000).await;
    assert_eq!(rig.probe.names(), ["[initialize]", "[initialize]", "[initialize]", "[start]", "a"]);
}

#[tokio::test(start_paused = true)]
async fn what_nothing_happens_to_is_reconciled_after_0_8_to_1_0_of_the_interval() {
    let rig = Rig::new(Probe::done());
    for n in 0..200 {
        rig.store.put(&artist(), &n.to_string());
    }
    rig.register(|d| d);
    rig.settle().await;
    rig.probe.times();
    let hour = 3_600_000;
    rig.pass(8 * hour + 10).await;
    let times = rig.probe.times();
    assert_eq!(times.len(), 200);
    let least = times.iter().map(|(at, _)| *at).min().unwrap();
    let most = times.iter().map(|(at, _)| *at).max().unwrap();
    assert!((6.4..6.6).contains(&(least as f64 / hour as f64)), "{least}");
    assert!(most <= 8 * hour + 5 && most > 7 * hour + hour / 2, "{most}");
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_nothing_is_scheduled() {
    let rig = Rig::new(Probe::done());
    rig.store.put(&artist(), "a");
    rig.register(|d| d.resync(None));
    rig.pass(100 * 3_600_000).await;
    assert_eq!((rig.status().reconciles, rig.status().scheduled), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_resource_is_reconciled_once_more_and_not_again() {
    let rig = Rig::new(Probe::done());
    rig.store.put(&artist(), "a");
    rig.register(|d| d);
    rig.settle().await;
    assert_eq!(rig.status().scheduled, 1);
    rig.store.delete(&artist(), "a");
    rig.pass(20 * 3_600_000).await;
    assert_eq!(rig.probe.names()[2..], ["a", "a"]);
    assert_eq!((rig.status().scheduled, rig.status().queue_depth), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn deleted_while_it_waits_is_one_run() {
    let probe = Probe::new(|_, request, _| async move {
        if request.key.name() == "a" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Outcome::Done)
    });
    let rig = Rig::start(probe, |d| d).await;
    rig.store.put(&artist(), "a");
    rig.store.put(&artist(), "b");
    rig.settle().await;
    rig.store.delete(&artist(), "b");
    rig.pass(20 * 3_600_000 / 4).await;
    assert_eq!(rig.probe.names()[2..], ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_ends_the_run_and_one_that_is_regained_begins_anew() {
    let rig = Rig::new(Probe::done());
    rig.lease.0.send_replace(false);
    rig.store.put(&artist(), "a");
    rig.register(|d| d);
    rig.pass(100).await;
    assert_eq!((rig.state(), rig.probe.names().len()), (State::WaitingForLease, 0));
    rig.lease.0.send_replace(true);
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["[initialize]", "[start]", "a"]);
    rig.lease.0.send_replace(false);
    rig.settle().await;
    assert_eq!((rig.state(), rig.status().scheduled), (State::WaitingForLease, 0));
    rig.store.put(&artist(), "b");
    rig.lease.0.send_replace(true);
    rig.settle().await;
    assert_eq!(rig.probe.names(), ["[stop]", "[initialize]", "[start]", "a", "b"]);
    assert_eq!(rig.status().restarts, 0, "losing a lease is no crash");
}

#[tokio::test(start_paused = true)]
async fn losing_the_lease_resets_the_restart_counter() {
    let rig = Rig::new(Probe::done());
    rig.store.refuse(Some("no"));
    rig.register(|d| d);
    rig.pass(30_000).await;
    rig.lease.0.send_replace(false);
    rig.settle().await;
    assert_eq!(rig.state(), State::WaitingForLease);
    rig.probe.times();
    rig.lease.0.send_replace(true);
    rig.pass(700).await;
    let starts = rig.probe.names().iter().filter(|what| *what == "[start]").count();
    assert_eq!(starts, 2, "at once, and after half a second");
    // The same when it is lost while a run is young.
    rig.pass(30_000).await;
    rig.store.refuse(None);
    rig.all.replace(super::rig::definition(&rig.probe)).await.unwrap();
    rig.pass(100).await;
    rig.store.break_watches();
    rig.pass(700).await;
    assert_eq!(rig.state(), State::Running);
    for held in [false, true] {
        rig.lease.0.send_replace(held);
        rig.settle().await;
    }
    rig.store.break_watches();
    rig.pass(700).await;
    assert_eq!(rig.state(), State::Running, "not a second of waiting");
}

#[tokio::test(start_paused = true)]
async fn each_server_needs_no_lease() {
    let rig = Rig::new(Probe::done());
    rig.lease.0.send_replace(false);
    rig.register(|d| d.placement(Placement::EachServer));
    rig.settle().await;
    assert_eq!(rig.state(), State::Running);
}

#[tokio::test(start_paused = true)]
async fn runs_never_overlap_however_fast_a_lease_returns() {
    let rig = Rig::start(
        Probe::new(|_, _, _| async {
            // Does not listen to being cancelled; a second run would show at the probe.
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(Outcome::Done)
        }),
        |d| d,
    )
    .await;
    rig.store.put(&artist(), "a");
    rig.settle().await;
    rig.probe.names();
    for held in [false, true] {
        rig.lease.0.send_replace(held);
        rig.settle().await;
    }
    assert_eq!(rig.state(), State::Stopping);
    assert!(rig.probe.context.lock().as_ref().unwrap().is_cancelled());
    rig.pass(6000).await;
    assert_eq!(rig.probe.names(), ["[stop]", "[initialize]", "[start]", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_idle_controllers_do_nothing() {
    let rig = Rig::new(Probe::done());
    for n in 0..100 {
        rig.store.put(&artist(), &n.to_string());
        rig.all.register(Definition::new(format!("c{n}"), artist(), rig.probe.clone())).unwrap();
    }
    rig.pass(10).await;
    rig.probe.names();
    let polls = tokio::runtime::Handle::current().metrics();
    let before = polls.num_alive_tasks();
    rig.pass(3_600_000).await;
    assert_eq!((rig.probe.names().len(), polls.num_alive_tasks()), (0, before));
}
