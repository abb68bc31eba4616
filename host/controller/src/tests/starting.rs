//! The start of a run, and the causes of a restart.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::Mutex;
use tokio::sync::watch;

use super::{
    harness::{Harness, Probe, definition},
    kit::{album, artist},
};
use crate::{AlwaysLeased, Controllers, Definition, Leases, Mapper, Outcome, Placement, ReconcileError, State};

#[tokio::test(start_paused = true)]
async fn nothing_runs_before_every_type_is_primed_and_then_everything_once() {
    let mapped = Arc::new(Mutex::new(0));
    let count = mapped.clone();
    let mapper = Mapper::References(Arc::new(move |_| {
        *count.lock() += 1;
        Ok(Vec::new())
    }));
    let harness = Harness::new(Probe::done());
    harness.store.hold(&album());
    for name in ["a", "b", "c"] {
        harness.store.put(&artist(), name);
        harness.store.put(&album(), name);
    }
    harness.register(|d| d.watch(album(), mapper, Vec::new()));
    harness.pass(60_000).await;
    assert_eq!(harness.state(), State::Priming);
    assert_eq!(harness.probe.names(), ["[initialize]", "[start]"]);
    // A change meanwhile is part of the snapshot.
    harness.store.put(&artist(), "d");
    harness.store.put(&artist(), "a");
    harness.store.delete(&artist(), "b");
    harness.settle().await;
    assert_eq!(*mapped.lock(), 0);
    harness.store.release(&album());
    harness.settle().await;
    assert_eq!(harness.state(), State::Running);
    assert_eq!(harness.probe.names(), ["a", "c", "d"]);
    assert_eq!((*mapped.lock(), harness.store.opened()), (3, 2), "one watch for each type");
}

#[tokio::test(start_paused = true)]
async fn a_broken_watch_starts_the_run_again_with_waits_that_double() {
    let harness = Harness::new(Probe::done());
    harness.store.refuse(Some("not registered"));
    harness.register(|d| d);
    harness.pass(200_000).await;
    let times = harness.probe.times();
    let starts: Vec<u64> = times.iter().filter(|(_, what)| what == "[initialize]").map(|(time, _)| *time).collect();
    let waits: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    for (wait, least) in waits.iter().zip([500, 1000, 2000, 4000, 8000, 16_000, 32_000, 60_000]) {
        assert!((least..=least * 5 / 4 + 1).contains(wait), "{waits:?}");
    }
    assert!(waits.len() >= 7, "{waits:?}");
    let State::BackingOff { error, .. } = harness.state() else { panic!("{:?}", harness.state()) };
    assert_eq!(error, "watch of demo.v2.Artist broke: not registered");
    assert_eq!(harness.status().last_error, Some(error));
    harness.store.refuse(None);
    harness.pass(80_000).await;
    assert_eq!(harness.state(), State::Running);
}

#[tokio::test(start_paused = true)]
async fn a_run_that_lasted_starts_again_at_once_and_reconciles_everything_once() {
    let harness = Harness::new(Probe::done());
    harness.store.put(&artist(), "a");
    harness.store.put(&artist(), "b");
    harness.register(|d| d);
    harness.pass(2001).await;
    harness.probe.names();
    harness.store.break_watches();
    harness.store.delete(&artist(), "b");
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["[stop]", "[initialize]", "[start]", "a", "b"], "b went while nobody watched");
    assert_eq!((harness.status().restarts, harness.status().scheduled), (1, 1));
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
    let harness = Harness::new(probe);
    harness.store.put(&artist(), "a");
    harness.register(|d| d);
    harness.settle().await;
    assert_eq!(harness.status().last_error.unwrap(), "initializer failed: not yet");
    harness.pass(700).await;
    assert_eq!(harness.status().last_error.unwrap(), "initializer failed: panic [recovered]: really not");
    harness.pass(2000).await;
    assert_eq!(harness.probe.names(), ["[initialize]", "[initialize]", "[initialize]", "[start]", "a"]);
}

#[tokio::test(start_paused = true)]
async fn what_nothing_happens_to_is_reconciled_after_0_8_to_1_0_of_the_interval() {
    let harness = Harness::new(Probe::done());
    for n in 0..200 {
        harness.store.put(&artist(), &n.to_string());
    }
    harness.register(|d| d);
    harness.settle().await;
    harness.probe.times();
    let hour = 3_600_000;
    harness.pass(8 * hour + 10).await;
    let times = harness.probe.times();
    assert_eq!(times.len(), 200);
    let least = times.iter().map(|(time, _)| *time).min().unwrap();
    let most = times.iter().map(|(time, _)| *time).max().unwrap();
    assert!((6.4..6.6).contains(&(least as f64 / hour as f64)), "{least}");
    assert!(most <= 8 * hour + 5 && most > 7 * hour + hour / 2, "{most}");
}

#[tokio::test(start_paused = true)]
async fn without_an_interval_nothing_is_scheduled() {
    let harness = Harness::new(Probe::done());
    harness.store.put(&artist(), "a");
    harness.register(|d| d.resync(None));
    harness.pass(100 * 3_600_000).await;
    assert_eq!((harness.status().reconciles, harness.status().scheduled), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_resource_is_reconciled_once_more_and_not_again() {
    let harness = Harness::new(Probe::done());
    harness.store.put(&artist(), "a");
    harness.register(|d| d);
    harness.settle().await;
    assert_eq!(harness.status().scheduled, 1);
    harness.store.delete(&artist(), "a");
    harness.pass(20 * 3_600_000).await;
    assert_eq!(harness.probe.names()[2..], ["a", "a"]);
    assert_eq!((harness.status().scheduled, harness.status().queue_depth), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn deleted_while_it_waits_is_one_run() {
    let probe = Probe::new(|_, request, _| async move {
        if request.key.name() == "a" {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(Outcome::Done)
    });
    let harness = Harness::start(probe, |d| d).await;
    harness.store.put(&artist(), "a");
    harness.store.put(&artist(), "b");
    harness.settle().await;
    harness.store.delete(&artist(), "b");
    harness.pass(20 * 3_600_000 / 4).await;
    assert_eq!(harness.probe.names()[2..], ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_lost_ends_the_run_and_one_that_is_regained_begins_anew() {
    let harness = Harness::new(Probe::done());
    harness.lease.0.send_replace(false);
    harness.store.put(&artist(), "a");
    harness.register(|d| d);
    harness.pass(100).await;
    assert_eq!((harness.state(), harness.probe.names().len()), (State::WaitingForLease, 0));
    harness.lease.0.send_replace(true);
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["[initialize]", "[start]", "a"]);
    harness.lease.0.send_replace(false);
    harness.settle().await;
    assert_eq!((harness.state(), harness.status().scheduled), (State::WaitingForLease, 0));
    harness.store.put(&artist(), "b");
    harness.lease.0.send_replace(true);
    harness.settle().await;
    assert_eq!(harness.probe.names(), ["[stop]", "[initialize]", "[start]", "a", "b"]);
    assert_eq!(harness.status().restarts, 0, "losing a lease is no crash");
}

#[tokio::test(start_paused = true)]
async fn losing_the_lease_resets_the_restart_counter() {
    let harness = Harness::new(Probe::done());
    harness.store.refuse(Some("no"));
    harness.register(|d| d);
    harness.pass(30_000).await;
    harness.lease.0.send_replace(false);
    harness.settle().await;
    assert_eq!(harness.state(), State::WaitingForLease);
    harness.probe.times();
    harness.lease.0.send_replace(true);
    harness.pass(700).await;
    let starts = harness.probe.names().iter().filter(|what| *what == "[start]").count();
    assert_eq!(starts, 2, "at once, and after half a second");
    // The same for a lease that is lost early in a run.
    harness.pass(30_000).await;
    harness.store.refuse(None);
    harness.all.replace(super::harness::definition(&harness.probe)).await.unwrap();
    harness.pass(100).await;
    harness.store.break_watches();
    harness.pass(700).await;
    assert_eq!(harness.state(), State::Running);
    for held in [false, true] {
        harness.lease.0.send_replace(held);
        harness.settle().await;
    }
    harness.store.break_watches();
    harness.pass(700).await;
    assert_eq!(harness.state(), State::Running, "not a second of waiting");
}

#[tokio::test(start_paused = true)]
async fn each_server_needs_no_lease() {
    let harness = Harness::new(Probe::done());
    harness.lease.0.send_replace(false);
    harness.register(|d| d.placement(Placement::EachServer));
    harness.settle().await;
    assert_eq!(harness.state(), State::Running);
}

#[tokio::test(start_paused = true)]
async fn runs_never_overlap_however_fast_a_lease_returns() {
    let harness = Harness::start(
        Probe::new(|_, _, _| async {
            // Ignores the cancellation; the probe would show a second run.
            tokio::time::sleep(Duration::from_secs(5)).await;
            Ok(Outcome::Done)
        }),
        |d| d,
    )
    .await;
    harness.store.put(&artist(), "a");
    harness.settle().await;
    harness.probe.names();
    for held in [false, true] {
        harness.lease.0.send_replace(held);
        harness.settle().await;
    }
    assert_eq!(harness.state(), State::Stopping);
    assert!(harness.probe.context.lock().as_ref().unwrap().is_cancelled());
    harness.pass(6000).await;
    assert_eq!(harness.probe.names(), ["[stop]", "[initialize]", "[start]", "a"]);
}

#[tokio::test(start_paused = true)]
async fn a_hundred_idle_controllers_do_nothing() {
    let harness = Harness::new(Probe::done());
    for n in 0..100 {
        harness.store.put(&artist(), &n.to_string());
        harness.all.register(Definition::new(format!("c{n}"), artist(), harness.probe.clone())).unwrap();
    }
    harness.pass(10).await;
    harness.probe.names();
    let polls = tokio::runtime::Handle::current().metrics();
    let before = polls.num_alive_tasks();
    harness.pass(3_600_000).await;
    assert_eq!((harness.probe.names().len(), polls.num_alive_tasks()), (0, before));
}

/// Leases that panic this many times when a controller asks for one.
struct PanickingLeases(AtomicUsize);

impl Leases for PanickingLeases {
    fn lease(&self, controller: &str) -> watch::Receiver<bool> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        assert!(left.is_err(), "a test asked for this panic");
        AlwaysLeased.lease(controller)
    }
}

#[tokio::test(start_paused = true)]
async fn a_supervisor_that_panics_begins_anew() {
    let harness = Harness::new(Probe::done());
    let all = Controllers::new(Arc::new(harness.store.clone()), Arc::new(PanickingLeases(2.into())));
    harness.store.put(&artist(), "a");
    all.register(definition(&harness.probe)).unwrap();
    harness.settle().await;
    let status = all.status("c").unwrap();
    let State::BackingOff { error, .. } = &status.state else { panic!("{:?}", status.state) };
    assert_eq!(error, "the supervisor failed: panic [recovered]: a test asked for this panic");
    harness.pass(5_000).await;
    let status = all.status("c").unwrap();
    assert_eq!((status.state, status.restarts, harness.probe.names().len()), (State::Running, 2, 3));
    all.shutdown().await;
}
