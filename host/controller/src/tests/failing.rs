//! Failures of reconciles: waits, panics, what is shown of them.

use std::time::Duration;

use super::{
    harness::{Harness, Probe},
    kit::artist,
};
use crate::{Backoff, Outcome};

fn times(probe: &Probe) -> Vec<u64> {
    let times: Vec<u64> =
        probe.times().into_iter().filter(|(_, what)| !what.starts_with('[')).map(|(at, _)| at).collect();
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
