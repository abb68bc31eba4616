//! A hook that keeps failing is quarantined for a while, visibly, and recovers by itself; nothing else is affected.

use std::time::Duration;

use crate::support::{
    Server, Setup, artist, deny_thing, eventually, gvk, id, plugins::Plugins as _, refusal, tenancy, thing, until,
};
use mortise_api::ResourceServiceClient;
use mortise_resource::{
    data,
    pb::{self, condition::State},
};
use mortise_test_guests::Thing;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

const FOR_EVER: u64 = 3_600_000;

/// A server with the guest that panics on request. Five faults cause a quarantine.
fn panicking(backoff_ms: u64) -> Setup {
    Setup::new()
        .guest("panic")
        .env("MORTISE_QUARANTINE_FAULTS", 5)
        .limit("quarantine_backoff_ms", backoff_ms)
        .limit("quarantine_max_backoff_ms", backoff_ms)
}

fn named(name: &str) -> pb::Resource {
    thing("panicking", name, &Thing { number: 7, ..Thing::default() })
}

/// Whether this error comes from a quarantined hook.
fn is_quarantined(status: &Status, hook: &str) -> bool {
    let details = status.get_error_details();
    let Some(info) = details.error_info() else { return false };
    let quarantined = info.metadata.get("kind").is_some_and(|kind| kind == "quarantined");
    if quarantined {
        assert_eq!(status.code(), Code::Unavailable, "{status:?}");
        assert_eq!((info.reason.as_str(), info.metadata["plugin"].as_str()), ("PLUGIN_FAULT", "panic"));
        assert_eq!(info.metadata["hook"], hook);
        assert!(details.retry_info().is_some_and(|retry| retry.retry_delay.is_some()), "{status:?}");
        let says = format!("plugin panic 0.1.0: hook {hook} is quarantined after repeated faults");
        assert!(status.message().contains(&says), "{}", status.message());
        assert!(status.message().contains("the last: trapped"), "{}", status.message());
    }
    quarantined
}

/// Causes five traps in a hook; each is reported as a trap.
async fn trap_five_times(server: &Server, name: &str) {
    for n in 0..5 {
        let (code, message) = refusal(server.write(named(name)).await);
        assert_eq!(code, Code::Internal, "{n}: {message}");
    }
}

/// A hook's state in the metrics: 0 healthy, 1 probation, 2 quarantined.
async fn state(server: &Server, plugin: &str, hook: &str) -> Option<f64> {
    let metrics = server.metrics().await;
    let line = metrics.lines().find(|line| {
        line.starts_with("mortise_plugin_quarantine_state{")
            && line.contains(&format!("plugin=\"{plugin}\""))
            && line.contains(&format!("hook=\"{hook}\""))
    })?;
    line.rsplit(' ').next().unwrap().parse().ok()
}

#[tokio::test]
async fn a_quarantined_validator_refuses_its_writes_and_nothing_else() {
    let server = panicking(FOR_EVER).guest("deny").start().await;
    server.write(named("before")).await.unwrap();
    assert_eq!(state(&server, "panic", "validate").await, Some(0.0));
    trap_five_times(&server, "boom-validate").await;
    assert_eq!(state(&server, "panic", "validate").await, Some(2.0));
    for name in ["boom-validate", "ordinary", "before"] {
        assert!(is_quarantined(&server.write(named(name)).await.unwrap_err(), "validate"), "{name}");
        let checked = server.mutate_and_validate(named(name)).await.unwrap_err();
        assert!(is_quarantined(&checked, "validate"), "{name}");
    }
    // Reads, lists and deletions do not need the hook.
    let before = id("panicking.v1.Thing", "before");
    server.read(&before).await.unwrap();
    assert_eq!(server.list(gvk("panicking.v1.Thing"), tenancy("default", "default"), "").await.unwrap().len(), 1);
    server.delete(&before, "").await.unwrap();
    // Other hooks and other plugins are not affected.
    let (code, message) = refusal(server.write(named("boom-mutate")).await);
    assert_eq!(code, Code::Internal, "mutate comes first, and is only failing: {message}");
    assert_eq!(state(&server, "panic", "mutate").await, Some(0.0));
    server.write(artist("korn")).await.unwrap();
    server.write(deny_thing("ById", "fine", "")).await.unwrap();
    let log = server.log();
    assert!(log.contains("hook validate is quarantined: 5 faults so far"), "{log}");
}

#[tokio::test]
async fn a_quarantined_authorizer_is_never_skipped() {
    let server = panicking(FOR_EVER).start().await;
    server.write(named("known")).await.unwrap();
    let known = id("panicking.v1.Thing", "known");
    server.read(&known).await.unwrap();
    for _ in 0..5 {
        let status = server.read(&id("panicking.v1.Thing", "boom-read")).await.unwrap_err();
        assert_eq!(status.code(), Code::Internal);
    }
    // A read that was allowed a moment ago is refused, too.
    assert!(is_quarantined(&server.read(&known).await.unwrap_err(), "authorize-read"));
    let all = server.list(gvk("panicking.v1.Thing"), tenancy("default", "default"), "").await;
    assert!(is_quarantined(&all.unwrap_err(), "authorize-read"));
    server.write(named("other")).await.expect("writes ask another hook");
}

#[tokio::test]
async fn a_trial_lifts_it_when_the_hook_behaves_again() {
    let server = panicking(200).start().await;
    trap_five_times(&server, "boom-validate").await;
    // Trials with the triggering input fail, one at a time, and the quarantine continues.
    let mut trials = 0;
    eventually("three trials", async || {
        let status = server.write(named("boom-validate")).await.unwrap_err();
        if !is_quarantined(&status, "validate") {
            assert_eq!(status.code(), Code::Internal);
            trials += 1;
        }
        trials == 3
    })
    .await;
    assert_eq!(state(&server, "panic", "validate").await, Some(2.0));
    eventually("a good call lifts it", || async { server.write(named("ordinary")).await.is_ok() }).await;
    assert_eq!(state(&server, "panic", "validate").await, Some(1.0));
    for n in 0..20 {
        server.write(named(&format!("ordinary-{n}"))).await.unwrap();
    }
}

/// Waits until the wait of the guest's quarantined hook is over, or until another one begins, which a trial does.
async fn until_due(server: &Server, is_over: bool) {
    let mut service = server.plugins().await;
    until("the wait of the quarantine", async || {
        let request = data::InspectRequest { name: "infinite-loop".to_owned() };
        let hooks = service.inspect(request).await.unwrap().into_inner().hooks;
        let wait = hooks.iter().find_map(|hook| hook.retry_in).expect("a hook is quarantined");
        if (wait == prost_types::Duration::default()) == is_over { Ok(()) } else { Err(wait) }
    })
    .await;
}

/// When the wait ends, only one of many callers reaches the plugin.
#[tokio::test]
async fn one_trial_at_a_time() {
    let server = Setup::new()
        .guest("infinite-loop")
        // Fuel for one second, not a time limit: slowness of a busy machine must not count as a fault of the guest.
        .env("MORTISE_SANDBOX_FUEL", 2_000_000_000_i64)
        .env("MORTISE_SANDBOX_DEADLINE_MS", 60_000)
        .env("MORTISE_QUARANTINE_FAULTS", 1)
        .limit("quarantine_probation_faults", 1)
        .limit("quarantine_backoff_ms", 300)
        .start()
        .await;
    let boom = || thing("infinite_loop", "boom", &Thing::default());
    assert_eq!(refusal(server.write(boom()).await).0, Code::ResourceExhausted);
    // An earlier trial would be refused and prove nothing.
    until_due(&server, true).await;
    let codes = futures_of(16, || server.write(boom())).await;
    let called = codes.iter().filter(|code| **code == Code::ResourceExhausted).count();
    let refused = codes.iter().filter(|code| **code == Code::Unavailable).count();
    assert_eq!((called, refused), (1, 15), "{codes:?}");
}

async fn futures_of<F: Future<Output = Result<pb::Resource, Status>>>(n: usize, call: impl Fn() -> F) -> Vec<Code> {
    let calls = tokio_stream::iter((0..n).map(|_| call()));
    let mut all: Vec<_> = tokio_stream::StreamExt::collect::<Vec<_>>(calls).await.into_iter().map(Box::pin).collect();
    let mut codes = Vec::new();
    std::future::poll_fn(|context| {
        all.retain_mut(|call| match call.as_mut().poll(context) {
            std::task::Poll::Ready(answer) => {
                codes.push(answer.unwrap_err().code());
                false
            }
            std::task::Poll::Pending => true,
        });
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    codes
}

#[tokio::test]
async fn a_caller_who_goes_away_leaves_the_trial_to_the_next() {
    let server = Setup::new()
        .guest("infinite-loop")
        .env("MORTISE_SANDBOX_FUEL", 1_i64 << 60)
        .env("MORTISE_SANDBOX_DEADLINE_MS", 5_000)
        .env("MORTISE_QUARANTINE_FAULTS", 1)
        .limit("quarantine_probation_faults", 1)
        .limit("quarantine_backoff_ms", 100)
        .limit("quarantine_max_backoff_ms", 100)
        .start()
        .await;
    let boom = || thing("infinite_loop", "boom", &Thing::default());
    assert_eq!(refusal(server.write(boom()).await).0, Code::DeadlineExceeded);
    until_due(&server, true).await;
    // Another input, since that of the fault has to wait for longer.
    let other = thing("infinite_loop", "boom", &Thing { number: 1, ..Thing::default() });
    let (mut client, request) = (server.client(), pb::WriteRequest { resource: Some(other) });
    let trial = tokio::spawn(async move { client.write(request).await });
    until_due(&server, false).await;
    trial.abort();
    eventually("the next caller's call is the trial", || async {
        server.write(thing("infinite_loop", "ordinary", &Thing::default())).await.is_ok()
    })
    .await;
    let faults = r#"mortise_plugin_faults_total{plugin="infinite-loop",hook="mutate",kind="deadline"}"#;
    assert_eq!(
        server.metric(faults).await,
        Some(1.0),
        "the next caller did not wait until the first one's call was late"
    );
}

/// An operator can choose to skip defaults, but never validation.
#[tokio::test]
async fn a_broken_mutate_is_skipped_where_the_policy_says_so() {
    let server = panicking(FOR_EVER)
        .guest("garbage-reply")
        .env("MORTISE_QUARANTINE_BYPASS_MUTATE_TYPES", "panicking.v1.Thing, garbage_reply.v1.Thing")
        .start()
        .await;
    for n in 0..12 {
        let response = server.write_full(named("boom-mutate")).await.unwrap();
        assert_eq!(response.warnings.len(), 1, "{response:?}");
        let says = if n < 5 { "hook mutate trapped" } else { "hook mutate is quarantined" };
        let summary = &response.warnings[0].summary;
        assert!(
            summary.starts_with("written without mutate: plugin panic 0.1.0: ") && summary.contains(says),
            "{n}: {summary}"
        );
    }
    let garbage = server.write_full(thing("garbage_reply", "boom-data", &Thing::default())).await.unwrap();
    assert!(garbage.warnings[0].summary.contains("gave an unusable answer"), "{garbage:?}");
    assert_eq!(refusal(server.write(named("boom-validate")).await).0, Code::Internal, "validation is not skipped");
    assert_eq!(refusal(server.write(named("boom-write")).await).0, Code::Internal, "nor is authorisation");
}

#[tokio::test]
async fn unusable_answers_count_too() {
    let server = Setup::new()
        .guest("mutate-id")
        .env("MORTISE_QUARANTINE_FAULTS", 3)
        .limit("quarantine_backoff_ms", FOR_EVER)
        .limit("quarantine_max_backoff_ms", FOR_EVER)
        .start()
        .await;
    let codes = async || refusal(server.write(thing("mutate_id", "boom", &Thing::default())).await).0;
    for _ in 0..3 {
        assert_eq!(codes().await, Code::Internal);
    }
    assert_eq!(codes().await, Code::Unavailable);
}

/// A trap leaves nothing behind, with and without quarantine.
#[tokio::test]
async fn ten_thousand_traps_leak_nothing() {
    for faults in [10, 10_000] {
        // Only two instances, so that one that is not returned would be missed.
        let server = Setup::new()
            .guest("panic")
            .env("MORTISE_SANDBOX_INSTANCES", 2)
            .env("MORTISE_QUARANTINE_FAULTS", faults)
            .limit("quarantine_backoff_ms", 1)
            .limit("quarantine_max_backoff_ms", 1)
            .start()
            .await;
        let round = async |calls: usize| {
            for _ in 0..calls / 10 {
                for code in futures_of(10, || server.write(named("boom-validate"))).await {
                    assert!(matches!(code, Code::Internal | Code::Unavailable), "{code:?}");
                }
            }
        };
        round(1_000).await;
        let before = server.resident_bytes();
        round(9_000).await;
        let grown = server.resident_bytes().saturating_sub(before) >> 10;
        assert!(grown < 8 << 10, "faults={faults}: {grown} KiB more after 9,000 traps ({} KiB before)", before >> 10);
        eventually("it serves on", || async { server.write(named("ordinary")).await.is_ok() }).await;
        // The last instances are removed in the background, after the answers.
        eventually("no instance is left", async || {
            server.metrics().await.contains("mortise_plugin_instances{plugin=\"panic\"} 0\n")
        })
        .await;
    }
}

/// The plugin's resource shows all states: healthy, on probation, quarantined; reset by an operator, or recovered by
/// itself.
#[tokio::test]
async fn the_plugins_resource_tells_of_it_and_reset_lifts_it() {
    let server = panicking(FOR_EVER).limit("quarantine_probation_faults", 2).start().await;
    assert_eq!(server.plugin("panic").await.unwrap().healthy, State::True);
    trap_five_times(&server, "boom-validate").await;
    let sick = server.plugin_until("panic", |p| p.healthy == State::False).await;
    let status = &sick.resource.status["mortise"];
    let healthy = status.conditions.iter().find(|c| c.r#type == "Healthy").unwrap();
    assert_eq!(healthy.reason, "Quarantined");
    assert!(healthy.message.contains("hook validate") && healthy.message.contains("trapped"), "{}", healthy.message);
    assert_eq!((sick.loaded, sick.reason.as_str()), (State::True, "Serving"), "it is loaded all the same");

    let name = || "panic".to_owned();
    let mut service = server.plugins().await;
    let inspected = service.inspect(data::InspectRequest { name: name() }).await.unwrap().into_inner();
    let hook = inspected.hooks.iter().find(|hook| hook.name == "validate").unwrap();
    assert_eq!((hook.state.as_str(), hook.faults), ("Quarantined", 5));
    assert!(hook.retry_in.is_some() && hook.last_fault.contains("trapped"), "{hook:?}");
    // Operators see the text of the panic. Callers do not: it may have data of another one.
    let text = "the guest was asked to panic";
    assert!(hook.last_fault.contains("; it logged: panicked at ") && hook.last_fault.contains(text), "{hook:?}");
    assert!(healthy.message.contains(text), "{}", healthy.message);
    let refused = server.write(named("boom-validate")).await.unwrap_err();
    assert!(refused.message().contains("trapped") && !refused.message().contains(text), "{refused}");

    let reset = service.reset(data::ResetRequest { name: name() }).await.unwrap().into_inner();
    assert_eq!(crate::support::plugins::Seen::from(reset.plugin.unwrap()).healthy, State::True);
    server.write(named("ordinary")).await.unwrap();
    server.stop().await;

    // Without a reset, a successful trial puts the hook on probation, which is shown too.
    let server = panicking(50).env("MORTISE_QUARANTINE_WINDOW_MS", FOR_EVER).start().await;
    trap_five_times(&server, "boom-validate").await;
    server.plugin_until("panic", |p| p.healthy == State::False).await;
    eventually("the trial", || async { server.write(named("ordinary")).await.is_ok() }).await;
    let better = server.plugin_until("panic", |p| p.healthy != State::False).await;
    assert_eq!(better.healthy, State::Unknown, "on probation");
    server.stop().await;
}

/// Five traps a second of one caller affect only that caller: another one is served all the time.
#[tokio::test]
async fn one_callers_traps_do_not_close_the_type_for_another() {
    let server = Setup::new().guest("panic").start().await;
    let hostile = async |varied: bool| {
        for n in 0..40 {
            let text = if varied { n.to_string() } else { String::new() };
            let boom = thing("panicking", "boom-validate", &Thing { number: 7, text, ..Thing::default() });
            assert!(server.write(boom).await.is_err());
            // A client's pace: ten a second.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    let honest = async || {
        let mut served = 0;
        for n in 0..20 {
            served += u32::from(server.write(named(&format!("ordinary-{}", n % 3))).await.is_ok());
            // A client's pace, over the whole time of the traps.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        served
    };
    for varied in [false, true] {
        let (served, ()) = tokio::join!(honest(), hostile(varied));
        assert_eq!(served, 20, "varied: {varied}");
        assert_eq!(state(&server, "panic", "validate").await, Some(1.0), "on probation, and called");
    }
    // With almost only failures, the hook is quarantined: 40 calls ended well, and each of these is a different input.
    for n in 0..900 {
        let text = format!("more {n}");
        let _ = server.write(thing("panicking", "boom-validate", &Thing { text, ..Thing::default() })).await;
    }
    assert_eq!(state(&server, "panic", "validate").await, Some(2.0), "quarantined");
}

/// Another caller is served, after a moment, however many failing inputs one caller sends, and however fast.
#[tokio::test]
async fn one_callers_many_poisons_do_not_close_the_type_for_another() {
    const PAUSE: Duration = Duration::from_millis(100);
    const ROUNDS: usize = 120;
    let server = Setup::new().guest("panic").start().await;
    // A connection of its own: a caller without a token is identified by its connection.
    let mut client = ResourceServiceClient::new(server.channel().await);
    let hostile = tokio::spawn(async move {
        for n in 0_u64.. {
            let data = Thing { number: 7, text: n.to_string(), ..Thing::default() };
            let boom = thing("panicking", "boom-validate", &data);
            assert!(client.write(pb::WriteRequest { resource: Some(boom) }).await.is_err());
        }
    });
    let mut served = Vec::new();
    for n in 0..ROUNDS {
        served.push(server.write(named(&format!("ordinary-{}", n % 3))).await.is_ok());
        // A client's pace: the waits of the quarantine are times, and this goes on for longer than they last.
        tokio::time::sleep(PAUSE).await;
    }
    assert!(!hostile.is_finished(), "it goes on to the end");
    hostile.abort();
    let page = server.metrics().await;
    let series = "mortise_plugin_faults_total{plugin=\"panic\",hook=\"validate\"";
    let faults = page.lines().find(|line| line.starts_with(series)).and_then(|line| line.rsplit(' ').next()).unwrap();
    let late = served.iter().skip(ROUNDS / 2).filter(|ok| **ok).count();
    let early = served.iter().take(ROUNDS / 2).filter(|ok| **ok).count();
    println!("{early} of the first {} and {late} of the last {} were served; {faults} faults", ROUNDS / 2, ROUNDS / 2);
    assert_eq!(late, ROUNDS / 2, "all the while");
    assert!(early > ROUNDS / 4, "{early} of the first {}", ROUNDS / 2);
    assert!(faults.parse::<f64>().unwrap() > 100.0, "{faults} faults");
}
