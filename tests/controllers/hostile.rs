//! Controllers that misbehave: each is bounded and visible, and does not slow the others down.

use std::time::{Duration, Instant};

use crate::support::{
    PATIENCE, Server, Setup,
    controllers::{condition_until, read_until, report, report_until},
    decoded, id, thing,
};
use mortise_resource::pb::{self, condition::State};
use mortise_test_guests::Thing;

fn number(number: i64) -> Thing {
    Thing { number, ..Thing::default() }
}

/// Median time of an honest controller from a write to its reaction.
async fn honest(server: &Server, round: &str) -> Duration {
    let mut took = Vec::new();
    for n in 0..10 {
        let name = format!("{round}-{n}");
        let begun = Instant::now();
        server.write(thing("reconcile_copy", &name, &number(n))).await.unwrap();
        let copy = id("reconcile_copy.v1.Copy", &format!("{name}-copy"));
        while server.read(&copy).await.is_err() {
            assert!(begun.elapsed() < PATIENCE, "{name}: no copy yet");
            // Shorter than the pause of `until`, since the time is measured.
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        took.push(begun.elapsed());
    }
    took.sort();
    took[took.len() / 2]
}

/// Asserts that an honest controller is about as fast beside a hostile one as before.
#[track_caller]
fn assert_as_fast(before: Duration, during: Duration) {
    eprintln!("an honest controller took {before:?} before and {during:?} beside it");
    assert!(during < 4 * before + Duration::from_millis(50), "{before:?} before and {during:?} beside it");
}

#[tokio::test]
async fn one_that_always_fails_waits_longer_and_longer_and_says_why() {
    let server = Setup::new().guest("reconcile-fail").guest("reconcile-copy").start().await;
    let begun = Instant::now();
    server.write(thing("reconcile_fail", "poor", &number(1))).await.unwrap();
    let seen = report_until(&server, "reconcile-fail/fails", |seen| seen.errors >= 6).await;
    let failure = &seen.last_errors[0];
    assert_eq!(failure.message, "poor cannot be helped");
    assert_eq!(failure.id.as_ref().unwrap().name, "poor");
    assert!(failure.count >= 6, "{failure:?}");
    // 5, 10, 20, 40 ms and so on: before the tenth attempt, 5 * (2^9 - 1) in total.
    let seen = report_until(&server, "reconcile-fail/fails", |seen| seen.errors >= 10).await;
    assert!(begun.elapsed() >= Duration::from_millis(2_555), "{:?}: {seen:?}", begun.elapsed());
    assert_eq!((seen.state.as_str(), seen.restarts), ("Running", 0));
    honest(&server, "beside").await;
    let metrics = server.metrics().await;
    assert!(metrics.contains("mortise_controller_errors_total{controller=\"reconcile-fail/fails\"}"), "{metrics}");
}

/// The controller runs out of fuel and is quarantined, visibly; an honest controller beside it keeps its speed.
#[tokio::test]
async fn one_that_never_returns_is_ended_and_paused() {
    let server = Setup::new()
        .guest("reconcile-loop")
        .guest("reconcile-copy")
        .env("MORTISE_CONTROLLERS_FUEL", 20_000_000)
        .env("MORTISE_QUARANTINE_FAULTS", 3)
        .limit("quarantine_probation_faults", 1)
        .limit("quarantine_backoff_ms", 60_000)
        .start()
        .await;
    honest(&server, "warm").await;
    let before = honest(&server, "before").await;
    for n in 0..4 {
        server.write(thing("reconcile_loop", &format!("lost-{n}"), &number(1))).await.unwrap();
    }
    assert_as_fast(before, honest(&server, "beside").await);
    let seen = report_until(&server, "reconcile-loop/loops", |seen| seen.state == "Paused").await;
    assert!(seen.reason.starts_with("quarantined for "), "{seen:?}");
    assert!(seen.reason.contains("used up its fuel") && seen.reason.contains("controllers.fuel"), "{seen:?}");
    assert!(!seen.last_errors.is_empty() && seen.errors >= 3, "{seen:?}");
    let plugin = read_until(&server, &crate::support::controllers::plugin("reconcile-loop"), |page| {
        page.status["mortise"].conditions.iter().any(|c| c.r#type == "Healthy" && c.state() == State::False)
    })
    .await;
    assert!(!plugin.status.is_empty());
    assert_eq!(report(&server, "reconcile-copy/copies").await.state, "Running");
}

/// An honest controller beside it keeps its speed, whether it burns fuel or calls its host, and at any time
/// limit.
#[tokio::test]
async fn one_that_is_at_work_all_the_time_takes_no_speed_from_others() {
    for (guest, group, controller) in [
        ("reconcile-loop", "reconcile_loop", "reconcile-loop/loops"),
        ("reconcile-flood", "reconcile_flood", "reconcile-flood/floods"),
    ] {
        let server = Setup::new()
            .guest(guest)
            .guest("reconcile-copy")
            .env("MORTISE_CONTROLLERS_FUEL", 1_i64 << 60)
            .env("MORTISE_CONTROLLERS_HOST_CALLS", u32::MAX)
            .env("MORTISE_CONTROLLERS_DEADLINE_MS", 5_000)
            .tolerant()
            .start()
            .await;
        honest(&server, "warm").await;
        let before = honest(&server, "before").await;
        for n in 0..4 {
            server.write(thing(group, &format!("busy-{n}"), &number(0))).await.unwrap();
        }
        report_until(&server, controller, |seen| seen.running > 0).await;
        assert_as_fast(before, honest(&server, "beside").await);
        report_until(&server, controller, |seen| seen.running > 0).await;
        assert_eq!(report(&server, controller).await.state, "Running", "it was at work all the time");
    }
}

#[tokio::test]
async fn one_that_blocks_for_longer_than_its_time_is_ended_by_the_clock() {
    let server = Setup::new()
        .guest("reconcile-slow")
        .env("MORTISE_CONTROLLERS_FUEL", 1_i64 << 60)
        .env("MORTISE_CONTROLLERS_HOST_CALLS", u32::MAX)
        .env("MORTISE_CONTROLLERS_DEADLINE_MS", 300)
        .tolerant()
        .start()
        .await;
    server.write(thing("reconcile_slow", "long", &number(60_000))).await.unwrap();
    server.write(thing("reconcile_slow", "short", &number(1))).await.unwrap();
    condition_until(&server, &id("reconcile_slow.v1.Thing", "short"), "reconcile-slow/things", "Finished", |c| {
        c.state() == State::True
    })
    .await;
    let seen = report_until(&server, "reconcile-slow/slow", |seen| seen.errors >= 1).await;
    let message = &seen.last_errors[0].message;
    assert!(
        message.contains("did not finish within 300 ms of processor time and waits (limit controllers.deadline_ms)"),
        "{message}"
    );
}

/// Each of its own writes causes the next: the controller is slowed down, which is shown, and continues when another
/// client writes.
#[tokio::test]
async fn one_that_wakes_itself_is_slowed_down() {
    let server = Setup::new().guest("reconcile-self").guest("reconcile-copy").start().await;
    honest(&server, "warm").await;
    let before = honest(&server, "before").await;
    server.write(thing("reconcile_self", "restless", &number(0))).await.unwrap();
    report_until(&server, "reconcile-self/restless", |seen| seen.throttled >= 3).await;
    assert_as_fast(before, honest(&server, "beside").await);
    // It was deferred before each reconcile but the first ones.
    let seen = report_until(&server, "reconcile-self/restless", |seen| seen.throttled >= 9).await;
    assert!(seen.reconciles < seen.throttled + 31, "{seen:?}");
    let stored = server.read(&id("reconcile_self.v1.Thing", "restless")).await.unwrap();
    assert!(decoded::<Thing>(&stored).number >= 10);
    // Another client wakes it: it has its full speed again, for a while.
    let before = seen.reconciles;
    server
        .write(pb::Resource { version: String::new(), ..thing("reconcile_self", "restless", &number(0)) })
        .await
        .unwrap();
    report_until(&server, "reconcile-self/restless", |seen| seen.reconciles >= before + 10).await;
    let metrics = server.metrics().await;
    assert!(
        metrics.contains("mortise_controller_reconcile_loops_throttled_total{controller=\"reconcile-self/restless\"}")
    );
}

#[tokio::test]
async fn one_that_floods_the_host_runs_out_of_calls() {
    let server = Setup::new()
        .guest("reconcile-flood")
        .guest("reconcile-copy")
        .env("MORTISE_CONTROLLERS_HOST_CALLS", 2_000)
        .start()
        .await;
    honest(&server, "warm").await;
    let before = honest(&server, "before").await;
    server.write(thing("reconcile_flood", "flood", &number(0))).await.unwrap();
    assert_as_fast(before, honest(&server, "beside").await);
    let seen = report_until(&server, "reconcile-flood/floods", |seen| seen.errors >= 1).await;
    let message = &seen.last_errors[0].message;
    assert!(message.contains("2000") && message.contains("controllers.host_calls"), "{message}");
}

/// A trap affects one resource only.
#[tokio::test]
async fn one_that_traps_on_one_resource_serves_the_others() {
    let server = Setup::new().guest("reconcile-trap").tolerant().start().await;
    server.write(thing("reconcile_trap", "thirteen", &number(13))).await.unwrap();
    for n in 0..5 {
        server.write(thing("reconcile_trap", &format!("other-{n}"), &number(n))).await.unwrap();
    }
    for n in 0..5 {
        let id = id("reconcile_trap.v1.Thing", &format!("other-{n}"));
        condition_until(&server, &id, "reconcile-trap/things", "Harmless", |c| c.state() == State::True).await;
    }
    let seen = report_until(&server, "reconcile-trap/traps", |seen| seen.errors >= 3).await;
    assert_eq!(seen.last_errors.len(), 1);
    assert!(seen.last_errors[0].message.contains("hook reconcile trapped"), "{seen:?}");
    assert!(server.log().contains("reconcile met a trap"), "the panic's text");
    // A repaired resource is removed from the quarantine.
    let mut mended = server.read(&id("reconcile_trap.v1.Thing", "thirteen")).await.unwrap();
    mended.data = thing("reconcile_trap", "thirteen", &number(1)).data;
    server.write(mended).await.unwrap();
    report_until(&server, "reconcile-trap/traps", |seen| seen.last_errors.is_empty()).await;
}

/// Frequent writes of one resource that traps do not delay other resources.
#[tokio::test]
async fn one_poison_resource_is_set_aside_and_the_others_are_served() {
    let server = Setup::new().guest("reconcile-trap").start().await;
    let poison = async |times: i64| {
        for n in 0..times {
            let resource =
                thing("reconcile_trap", "poison", &Thing { number: 13, text: n.to_string(), ..Thing::default() });
            server.write(resource).await.unwrap();
            // A client's pace, ten writes a second, beside which the others must be served.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    server.write(thing("reconcile_trap", "first", &number(1))).await.unwrap();
    poison(30).await;
    let begun = Instant::now();
    let others = async {
        for n in 0..29 {
            server.write(thing("reconcile_trap", &format!("healthy-{n}"), &number(n % 10))).await.unwrap();
        }
        for n in 0..29 {
            let id = id("reconcile_trap.v1.Thing", &format!("healthy-{n}"));
            condition_until(&server, &id, "reconcile-trap/things", "Harmless", |c| c.state() == State::True).await;
        }
        begun.elapsed()
    };
    let (waited, ()) = tokio::join!(others, poison(30));
    println!("29 healthy resources beside one poison: all served after {waited:?}");
    let seen = report(&server, "reconcile-trap/traps").await;
    assert_eq!((seen.state.as_str(), seen.restarts), ("Running", 0), "{seen:?}");
    assert!((2..=6).contains(&seen.errors), "waits of 1, 2 and 4 seconds: {seen:?}");
    let names: Vec<_> = seen.set_aside.iter().filter_map(|one| Some(one.id.as_ref()?.name.as_str())).collect();
    assert_eq!((seen.set_aside_now, names.as_slice()), (1, &["poison"][..]), "{seen:?}");
}

/// The same over a longer time. In the original fault, 24 of 29 healthy resources were waiting after 150 s, the oldest
/// for 140 s. Each resource is changed every five seconds, the poison every second.
#[tokio::test]
#[ignore = "takes the 150 s in which the fault was first seen; each run has one_poison_resource_is_set_aside_and_the_others_are_served"]
async fn one_poison_resource_holds_nothing_up_for_long() {
    const ROUNDS: i64 = 150;
    let server = Setup::new().guest("reconcile-trap").start().await;
    let write = async |name: &str, number: i64, round: i64| {
        let thing = thing("reconcile_trap", name, &Thing { number, text: round.to_string(), ..Thing::default() });
        server.write(thing).await.unwrap()
    };
    let (mut oldest, mut served) = (Duration::ZERO, 0);
    for round in 0..ROUNDS {
        let begun = Instant::now();
        write("poison", 13, round).await;
        for n in (0..29).filter(|n| n % 5 == round % 5) {
            let name = format!("healthy-{n}");
            let written = write(&name, 1, round).await;
            let sent = Instant::now();
            read_until(&server, &id("reconcile_trap.v1.Thing", &name), |now| {
                let seen = now.status.get("reconcile-trap/things");
                seen.is_some_and(|status| status.observed_generation == written.generation)
            })
            .await;
            oldest = oldest.max(sent.elapsed());
            served += 1;
        }
        // A client's pace: the fault needs a write of the poison each second.
        tokio::time::sleep(Duration::from_secs(1).saturating_sub(begun.elapsed())).await;
    }
    let seen = report(&server, "reconcile-trap/traps").await;
    println!("{served} changes of healthy resources served, the oldest after {oldest:?}; {seen:?}");
    assert_eq!((seen.state.as_str(), seen.restarts), ("Running", 0), "{seen:?}");
    assert!(served == 870 && oldest < Duration::from_secs(5), "{served}, {oldest:?}");
    assert!(seen.errors > 2, "the poison was tried");
}

/// Each failed trial starts another pause; refused calls in a pause do not count.
#[tokio::test]
async fn after_a_failed_trial_it_pauses_again() {
    let server = Setup::new()
        .guest("reconcile-loop")
        .env("MORTISE_CONTROLLERS_FUEL", 20_000_000)
        .env("MORTISE_QUARANTINE_FAULTS", 3)
        .limit("quarantine_probation_faults", 1)
        .limit("quarantine_backoff_ms", 1_500)
        .start()
        .await;
    for n in 0..12 {
        server.write(thing("reconcile_loop", &format!("lost-{n}"), &number(1))).await.unwrap();
    }
    // Three faults and two trials; the second trial comes after three seconds.
    let seen = report_until(&server, "reconcile-loop/loops", |seen| seen.state == "Paused" && seen.errors >= 5).await;
    assert!(seen.reason.starts_with("quarantined for "), "{seen:?}");
    assert_eq!((seen.reconciles, seen.errors), (5, 5), "{seen:?}");
    assert!(seen.last_errors.iter().all(|error| !error.message.contains("is quarantined")), "{seen:?}");
    assert!(server.log().contains("hook reconcile stays quarantined: its trial failed"), "{}", server.log());
}

/// Other ways of a controller to wake itself: a request to be called again at once, and a deletion by name before a
/// write.
#[tokio::test]
async fn requeues_and_deletions_by_name_are_slowed_down_too() {
    for text in ["again", "anew"] {
        let server = Setup::new().guest("reconcile-self").guest("reconcile-copy").start().await;
        honest(&server, "warm").await;
        let before = honest(&server, "before").await;
        let data = Thing { text: text.into(), ..Thing::default() };
        server.write(thing("reconcile_self", "restless", &data)).await.unwrap();
        assert_as_fast(before, honest(&server, "beside").await);
        report_until(&server, "reconcile-self/restless", |seen| seen.throttled >= 3).await;
        let held = report_until(&server, "reconcile-self/restless", |seen| seen.throttled_now == 1).await;
        assert_eq!(held.throttled_resources[0].name, "restless", "{held:?}");
        let seen = report_until(&server, "reconcile-self/restless", |seen| seen.throttled >= 9).await;
        assert!(seen.reconciles < seen.throttled + 31, "{text}: {seen:?}");
        assert!(server.log().contains("the controller keeps waking itself"), "{text}: {}", server.log());
    }
}
