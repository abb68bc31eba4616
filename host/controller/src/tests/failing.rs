//! Failures of reconciles: waits, panics, and their entries in the status.

use std::time::Duration;

use super::{
    harness::{Harness, Probe},
    kit::artist,
};
use crate::{Backoff, Outcome, ReconcileError};

fn times(probe: &Probe) -> Vec<u64> {
    let times: Vec<u64> =
        probe.times().into_iter().filter(|(_, what)| !what.starts_with('[')).map(|(time, _)| time).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

#[tokio::test(start_paused = true)]
async fn waits_double_from_5_ms_and_success_resets_them() {
    let probe = Probe::new(|_, _, n| async move {
        if n == 7 {
            Ok(Outcome::Now)
        } else if n == 11 {
            Ok(Outcome::Done)
        } else {
            Err("no".into())
        }
    });
    let harness = Harness::new(probe);
    harness.store.put(&artist(), "a");
    harness.register(|d| d);
    harness.pass(1000).await;
    // Two entries of the log are notifications, so the sixth reconcile is number 7.
    assert_eq!(times(&harness.probe), [5, 10, 20, 40, 80, 0, 5, 10, 20]);
    let status = harness.status();
    assert_eq!((status.reconciles, status.errors, status.requeues), (10, 8, 1));
    let note = &status.failures[0];
    assert_eq!((note.key.name(), note.message.as_str(), note.count, note.resolved), ("a", "no", 8, true));
}

#[tokio::test(start_paused = true)]
async fn base_and_cap_are_settings() {
    let harness = Harness::new(Probe::new(|_, _, _| async { Err("no".into()) }));
    harness.store.put(&artist(), "a");
    harness.register(|d| d.backoff(Backoff::new(Duration::from_millis(1), Duration::from_millis(6))));
    harness.pass(26).await;
    assert_eq!(times(&harness.probe), [1, 2, 4, 6, 6, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_panic_is_an_error_and_others_go_on() {
    let probe = Probe::new(|_, request, _| async move {
        assert!(request.key.name() != "a", "the roof is on fire");
        Ok(Outcome::Done)
    });
    let harness = Harness::new(probe);
    harness.store.put(&artist(), "a");
    harness.store.put(&artist(), "b");
    harness.register(|d| d);
    harness.pass(8).await;
    let status = harness.status();
    assert_eq!(status.failures[0].message, "panic [recovered]: the roof is on fire");
    assert_eq!((status.reconciles, status.errors), (3, 2));
    assert_eq!(harness.probe.names()[2..], ["a", "b", "a"]);
}

#[tokio::test(start_paused = true)]
async fn what_is_shown_of_errors_is_bounded() {
    let harness = Harness::new(Probe::new(|_, _, _| async { Err("no".into()) }));
    for n in 0..300 {
        harness.store.put(&artist(), &n.to_string());
    }
    harness.register(|d| d);
    harness.settle().await;
    let status = harness.status();
    assert_eq!((status.errors, status.failures.len(), status.scheduled), (300, 256, 300));
}

#[tokio::test(start_paused = true)]
async fn a_resource_that_breaks_the_code_is_quarantined_however_often_it_changes() {
    let probe = Probe::new(|_, request, _| async move {
        if request.key.name() == "poison" { Err(ReconcileError::fault("trapped")) } else { Ok(Outcome::Done) }
    });
    let harness = Harness::start(probe, |d| d).await;
    harness.probe.names();
    for n in 0..70 {
        harness.store.put(&artist(), "poison");
        harness.store.put(&artist(), &format!("fine-{n}"));
        harness.pass(100).await;
    }
    let names = harness.probe.names();
    let poisoned = names.iter().filter(|name| *name == "poison").count();
    assert_eq!((poisoned, names.len()), (3, 73), "at 0, 1 and 3 seconds; the next is at 7");
    let status = harness.status();
    assert_eq!((status.quarantined, status.queue_depth, status.oldest), (1, 0, None));
    let (key, wait) = &status.quarantined_keys[0];
    assert!(key.name() == "poison" && wait.as_millis() <= 100, "{wait:?}");
    // The code that broke down has been replaced.
    harness.all.replace(super::harness::definition(&Probe::done())).await.unwrap();
    harness.settle().await;
    assert_eq!((harness.status().quarantined, harness.status().scheduled), (0, 71));
}

#[tokio::test(start_paused = true)]
async fn a_pause_gives_what_is_quarantined_no_turn_before_its_time() {
    let harness = Harness::start(Probe::new(|_, _, _| async { Err(ReconcileError::fault("trapped")) }), |d| d).await;
    harness.store.put(&artist(), "poison");
    harness.pass(1_500).await;
    let poisoned = || harness.probe.names().iter().filter(|name| *name == "poison").count();
    assert_eq!(poisoned(), 2, "at 0 and 1 seconds; the next are at 3 and 7");
    harness.all.pause("c", "the test says so").await.unwrap();
    harness.pass(500).await;
    harness.all.resume("c").unwrap();
    harness.store.put(&artist(), "poison");
    harness.pass(900).await;
    assert_eq!((poisoned(), harness.status().quarantined, harness.state()), (0, 1, crate::State::Running));
    harness.pass(200).await;
    assert_eq!(poisoned(), 1);
    // Time that passes in a pause counts.
    harness.all.pause("c", "the test says so").await.unwrap();
    harness.pass(5_000).await;
    assert_eq!(poisoned(), 0);
    harness.all.resume("c").unwrap();
    harness.settle().await;
    assert_eq!(poisoned(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_refused_call_is_no_reconcile_and_no_failure() {
    let refusals = std::sync::atomic::AtomicU32::new(0);
    let probe = Probe::new(move |_, _, _| {
        let n = refusals.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        async move {
            if n < 5 { Err(ReconcileError::refused("not now", Duration::from_millis(200))) } else { Ok(Outcome::Done) }
        }
    });
    let harness = Harness::start(probe, |d| d).await;
    harness.store.put(&artist(), "a");
    harness.pass(900).await;
    let status = harness.status();
    assert_eq!((status.reconciles, status.errors, status.failures.len()), (0, 0, 0));
    harness.pass(200).await;
    assert_eq!((harness.status().reconciles, harness.status().errors), (1, 0));
}
