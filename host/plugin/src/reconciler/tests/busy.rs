//! Calls on a busy machine, and beside other calls of their plugin.

use std::{
    thread,
    time::{Duration, Instant},
};

use mortise_resource::Code;

use super::{Set, set_up};
use crate::{
    Grants, Limits, Outcome, ReconcileLimits,
    error::{HookError, HookFault},
};

/// Takes the thread of the test for 40 ms of each 41, as a machine with forty times as much work as processors would.
async fn others_are_busy() {
    loop {
        #[allow(clippy::disallowed_methods, reason = "it takes the thread away on purpose")]
        thread::sleep(Duration::from_millis(40));
        tokio::task::yield_now().await;
    }
}

/// Runs a call on a busy thread, and answers its time by the clock, too.
async fn beside_others<T>(call: impl Future<Output = T>) -> (T, Duration) {
    let begun = Instant::now();
    tokio::select! {
        answer = call => (answer, begun.elapsed()),
        () = others_are_busy() => unreachable!("they are busy for ever"),
    }
}

/// The guest needs some 30 ms of processor time, and gets a millisecond of each 41.
#[tokio::test]
async fn the_time_of_a_call_is_its_own_on_a_busy_machine() {
    let fuel = 1_000_000_000_000;
    let short = ReconcileLimits { fuel, deadline_ms: 200, ..ReconcileLimits::default() };
    // At low priority it would run on another thread.
    let usual = Limits { low_priority_ms: 0, ..Limits::default() };
    let set = set_up(usual.clone(), short.clone(), Grants::default()).await;
    let (answer, took) = beside_others(set.call("work", "a")).await;
    assert_eq!(answer.unwrap(), Outcome::Done);
    assert!(took > Duration::from_millis(200), "the others were busy: {took:?}");

    // An endless guest ends there, too, and is to blame.
    let tiny = ReconcileLimits { deadline_ms: 5, ..short.clone() };
    let set = set_up(usual.clone(), tiny, Grants::default()).await;
    let (late, _) = beside_others(set.fault("spin", "a")).await;
    assert_eq!(late.fault, HookFault::Deadline { limit_ms: 5, setting: "controllers.deadline_ms" });
    assert!(late.counts);

    // The bound on the whole holds, and blames the machine.
    let impatient = Limits { max_delay_ms: 100, ..usual };
    let set = set_up(impatient, ReconcileLimits { deadline_ms: 1_000, ..short }, Grants::default()).await;
    let (starved, _) = beside_others(set.fault("spin", "a")).await;
    assert_eq!(starved.fault, HookFault::Starved { whole_ms: 1_100 });
    assert_eq!((starved.counts, starved.fault.code()), (false, Code::ResourceExhausted));
    assert_eq!(
        starved.to_string(),
        "plugin tested 1.0.0: hook reconcile was kept from the processors by other work for 1100 ms; try again"
    );
}

/// Four endless calls of one plugin, which get a thread together for their whole time.
async fn four_endless(set: &Set) -> Vec<HookError> {
    let call = || set.fault("spin", "a");
    let (a, b, c, d) = tokio::join!(call(), call(), call(), call());
    vec![a, b, c, d]
}

/// Calls of one plugin that keep each other from the processors are its fault; those that other work keeps from them
/// are not, however many they are.
#[tokio::test]
async fn calls_of_one_plugin_that_delay_each_other_are_its_fault() {
    let long = ReconcileLimits { fuel: 1_000_000_000_000, deadline_ms: 1_000, ..ReconcileLimits::default() };
    let usual = Limits { low_priority_ms: 0, max_delay_ms: 100, ..Limits::default() };
    // A machine may be too busy for the plugin's own calls to take a quarter of a processor.
    for attempt in 1.. {
        let set = set_up(usual.clone(), long.clone(), Grants::default()).await;
        let faults = four_endless(&set).await;
        let setting = "controllers.deadline_ms";
        if faults.iter().all(|error| error.fault == HookFault::Crowded { whole_ms: 1_100, setting }) {
            assert!(faults.iter().all(|error| error.counts && error.fault.code() == Code::ResourceExhausted));
            assert_eq!(
                faults[0].to_string(),
                "plugin tested 1.0.0: hook reconcile was kept from the processors by other calls of the plugin for 1100 \
                 ms; make its calls shorter, or lower controllers.deadline_ms"
            );
            break;
        }
        assert!(attempt < 10, "{faults:?}");
    }
    let set = set_up(usual, long, Grants::default()).await;
    let (faults, _) = beside_others(four_endless(&set)).await;
    for error in faults {
        assert_eq!((error.fault, error.counts), (HookFault::Starved { whole_ms: 1_100 }, false));
    }
}
