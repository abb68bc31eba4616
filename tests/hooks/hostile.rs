//! Plugins that misbehave in a hook: the limit that ends them, the error of the caller, and no harm to anything else.

use std::time::{Duration, Instant};

use crate::support::{Fault, Server, Setup, artist, eventually, gvk, id, refusal, tenancy, thing};
use mortise_test_guests::Thing;
use tonic::Code;

/// Fuel that a guest cannot burn up within its time limit.
const FUEL_FOR_EVER: i64 = 1 << 60;

/// A guest that has every hook, and the expected fault of each.
struct Guest {
    plugin: &'static str,
    group: String,
    code: Code,
    kind: &'static str,
    says: &'static str,
}

impl Guest {
    /// Expects a fault of a guest with a group of the same name.
    fn new(plugin: &'static str, code: Code, kind: &'static str, says: &'static str) -> Self {
        Self { plugin, group: plugin.replace('-', "_"), code, kind, says }
    }

    fn fault(&self, hook: &'static str) -> Fault<'static> {
        Fault { plugin: self.plugin, hook, code: self.code, kind: self.kind, says: self.says }
    }

    fn named(&self, name: &str) -> mortise_resource::pb::Resource {
        thing(&self.group, name, &Thing { number: 7, ..Thing::default() })
    }

    fn type_name(&self) -> String {
        format!("{}.v1.Thing", self.group)
    }

    /// Asserts that a write, a read and a list of an ordinary name work.
    async fn serves(&self, server: &Server) {
        server.write(self.named("ordinary")).await.unwrap();
        server.read(&id(&self.type_name(), "ordinary")).await.unwrap();
        let all = server.list(gvk(&self.type_name()), tenancy("default", "default"), "ordinary").await.unwrap();
        assert_eq!(all.len(), 1);
    }

    /// Triggers the guest in each hook and by each RPC that calls it; asserts that it serves afterwards.
    async fn fails_everywhere_and_serves_on(&self, server: &Server) {
        let t = self.type_name();
        for (name, hook) in [
            ("boom", "mutate"),
            ("boom-mutate", "mutate"),
            ("boom-validate", "validate"),
            ("boom-write", "authorize-write"),
        ] {
            self.fault(hook).check(&server.write(self.named(name)).await.unwrap_err());
            self.serves(server).await;
            self.fault(hook).check(&server.mutate_and_validate(self.named(name)).await.unwrap_err());
            let all = server.list(gvk(&t), tenancy("default", "default"), "boom").await.unwrap();
            assert_eq!(all, [], "{name} fails closed");
        }

        self.fault("authorize-read").check(&server.read(&id(&t, "boom-read")).await.unwrap_err());
        self.serves(server).await;
        let nowhere = tenancy("default", "boom-list");
        self.fault("authorize-list").check(&server.list(gvk(&t), nowhere.clone(), "").await.unwrap_err());
        self.fault("authorize-list").check(&server.watch(gvk(&t), Some(nowhere), "").await.err().unwrap());
        self.serves(server).await;

        // One item of many fails: the list reports that instead of leaving the item out.
        let korn = server.write(artist("korn")).await.unwrap();
        let mut child = self.named("boom-read");
        child.owner.clone_from(&korn.id);
        let child = server.write(child).await.unwrap();
        let here = tenancy("default", "default");
        self.fault("authorize-read").check(&server.list(gvk(&t), here.clone(), "").await.unwrap_err());
        let owner = korn.id.clone().unwrap();
        self.fault("authorize-read").check(&server.list_by_owner(&owner).await.unwrap_err());
        let mut watch = server.watch(gvk(&t), Some(here.clone()), "").await.unwrap();
        self.fault("authorize-read").check(&watch.next().await.unwrap_err());
        self.serves(server).await;
        server.delete(&child.id.unwrap(), "").await.unwrap();
        assert_eq!(server.list(gvk(&t), here, "").await.unwrap().len(), 1);
        server.write(artist("korn")).await.unwrap();
    }
}

/// A server whose plugins have enough time on a busy machine.
fn patient(guest: &str) -> Setup {
    Setup::new().guest(guest).tolerant()
}

/// A server whose plugins have all the fuel, and little time of their own; the other tests may delay them.
fn hurried(guest: &str) -> Setup {
    let setup = Setup::new().guest(guest).tolerant().env("MORTISE_SANDBOX_FUEL", FUEL_FOR_EVER);
    setup.env("MORTISE_SANDBOX_DEADLINE_MS", 500).limit("plugin_delay_ms", 120_000)
}

#[tokio::test]
async fn a_loop_runs_out_of_fuel() {
    let server = patient("infinite-loop").start().await;
    let says = "used up its fuel of 50000000 units (limit sandbox.fuel)";
    let guest = Guest::new("infinite-loop", Code::ResourceExhausted, "fuel", says);
    guest.fails_everywhere_and_serves_on(&server).await;
    let metrics = server.metrics().await;
    let counted = metrics.lines().any(|line| {
        line.starts_with("mortise_plugin_faults_total{")
            && [r#"plugin="infinite-loop""#, r#"hook="validate""#, r#"kind="fuel""#].iter().all(|l| line.contains(l))
    });
    assert!(counted, "{metrics}");
    assert!(server.log().contains("wasm backtrace"), "{}", server.log());
}

#[tokio::test]
async fn fuel_is_for_the_whole_request_and_counts_the_same_every_time() {
    let server = patient("infinite-loop").env("MORTISE_SANDBOX_FUEL", 1_000_000).start().await;
    for _ in 0..20 {
        let (code, message) = refusal(server.write(thing("infinite_loop", "boom", &Thing::default())).await);
        assert_eq!(code, Code::ResourceExhausted);
        assert!(message.contains("used up its fuel of 1000000 units"), "{message}");
    }
}

#[tokio::test]
async fn a_loop_with_all_the_fuel_there_is_runs_out_of_time() {
    let server = hurried("infinite-loop").start().await;
    let says = "did not finish within 500 ms of processor time (limit sandbox.deadline_ms)";
    let guest = Guest::new("infinite-loop", Code::DeadlineExceeded, "deadline", says);
    let begun = Instant::now();
    guest.fault("mutate").check(&server.write(guest.named("boom")).await.unwrap_err());
    let took = begun.elapsed();
    assert!(took >= Duration::from_millis(450), "{took:?}");
    guest.fails_everywhere_and_serves_on(&server).await;
}

#[tokio::test]
async fn big_steps_with_little_fuel_run_out_of_time() {
    let server = hurried("memory-fill").start().await;
    let says = "did not finish within 500 ms of processor time (limit sandbox.deadline_ms)";
    let guest = Guest::new("memory-fill", Code::DeadlineExceeded, "deadline", says);
    guest.fault("mutate").check(&server.write(guest.named("boom")).await.unwrap_err());
    guest.fails_everywhere_and_serves_on(&server).await;
}

#[tokio::test]
async fn a_hoarder_runs_out_of_memory() {
    let server = patient("memory-bomb").start().await;
    let says = "asked for more memory than its 33554432 bytes (limit sandbox.memory_bytes)";
    let guest = Guest::new("memory-bomb", Code::ResourceExhausted, "memory", says);
    guest.fails_everywhere_and_serves_on(&server).await;
}

#[tokio::test]
async fn deep_recursion_runs_out_of_stack() {
    let server = patient("deep-recursion").start().await;
    let guest = Guest::new("deep-recursion", Code::Internal, "stack", "recursed deeper than its stack allows");
    guest.fails_everywhere_and_serves_on(&server).await;
}

#[tokio::test]
async fn running_off_the_shadow_stack_is_a_trap() {
    let server = patient("stack-overflow").start().await;
    let guest = Guest::new("stack-overflow", Code::Internal, "trap", "trapped: wasm trap: out of bounds memory access");
    guest.fails_everywhere_and_serves_on(&server).await;
}

#[tokio::test]
async fn a_panic_is_internal_and_its_text_is_in_the_log() {
    let server = patient("panic").start().await;
    let guest = Guest {
        plugin: "panic",
        group: "panicking".to_owned(),
        code: Code::Internal,
        kind: "trap",
        says: "trapped: wasm trap: wasm `unreachable` instruction executed",
    };
    guest.fails_everywhere_and_serves_on(&server).await;
    let log = server.log();
    assert!(log.contains("the guest was asked to panic, number 7"), "{log}");
    assert!(log.contains("wasm backtrace"), "{log}");
    assert!(log.contains("panic::give_up"), "function names are readable: {log}");
}

/// The limit applies to the replies of every hook.
#[tokio::test]
async fn a_reply_over_the_limit_is_not_taken() {
    let server = patient("oversized-reply").env("MORTISE_SANDBOX_MEMORY_BYTES", 64 << 20).start().await;
    let says = "handed over more than 4194304 bytes (limit sandbox.reply_bytes)";
    let guest = Guest::new("oversized-reply", Code::ResourceExhausted, "reply", says);
    let boom = |name, number| thing(&guest.group, name, &Thing { number, ..Thing::default() });
    for (name, hook) in [("boom-mutate", "mutate"), ("boom-validate", "validate"), ("boom-write", "authorize-write")] {
        for number in [0, 5 << 20] {
            guest.fault(hook).check(&server.write(boom(name, number)).await.unwrap_err());
            guest.serves(&server).await;
        }
    }
    let t = guest.type_name();
    guest.fault("authorize-read").check(&server.read(&id(&t, "boom-read")).await.unwrap_err());
    let nowhere = tenancy("default", "boom-list");
    guest.fault("authorize-list").check(&server.list(gvk(&t), nowhere, "").await.unwrap_err());
    guest.serves(&server).await;
}

/// A long but allowed reason is cut to the size that clients accept in trailers; everything else arrives whole.
#[tokio::test]
async fn a_long_reply_within_the_limit_arrives() {
    let server = patient("oversized-reply").start().await;
    let boom = |name, number| thing("oversized_reply", name, &Thing { number, ..Thing::default() });
    let (code, message) = refusal(server.write(boom("boom-write", 100_000)).await);
    assert_eq!(code, Code::PermissionDenied);
    assert!(message.starts_with("Permission denied: xxx") && message.len() < 3_000, "{} bytes", message.len());
    let written = server.write_full(boom("boom-validate", 100_000)).await.unwrap();
    assert_eq!((written.warnings.len(), written.warnings[0].detail.len()), (1, 100_000));
    let mutated = server.write(boom("boom-mutate", 100_000)).await.unwrap();
    assert!(mutated.data.unwrap().value.len() > 100_000);
}

#[tokio::test]
async fn a_handle_leak_runs_out_of_handles() {
    let server = patient("handle-leak").start().await;
    let says = "held more than 1000 handles to host resources (a fixed limit)";
    let guest = Guest::new("handle-leak", Code::ResourceExhausted, "handles", says);
    guest.fails_everywhere_and_serves_on(&server).await;
}

#[tokio::test]
async fn a_flood_of_host_calls_ends_at_the_limit_and_fills_no_log() {
    let server = patient("host-call-flood").env("MORTISE_LOG_LEVEL", "plugin=trace,info").start().await;
    let says = "called the host more than 10000 times (limit fixed for hooks)";
    let guest = Guest::new("host-call-flood", Code::ResourceExhausted, "host-calls", says);
    guest.fault("mutate").check(&server.write(guest.named("boom")).await.unwrap_err());
    let lines = server.log().lines().filter(|line| line.contains("TRACE")).count();
    assert!(lines <= 16 * 1024 / 32, "{lines} empty lines of one request");
    guest.fails_everywhere_and_serves_on(&server).await;
}

#[tokio::test]
async fn a_big_host_call_is_not_taken() {
    let server = patient("big-host-call").start().await;
    let says = "handed over more than 4194304 bytes (limit sandbox.reply_bytes)";
    let guest = Guest::new("big-host-call", Code::ResourceExhausted, "reply", says);
    guest.fails_everywhere_and_serves_on(&server).await;
}

#[tokio::test]
async fn a_plugins_own_lower_limits_hold() {
    let server = Setup::new().guest("own-limits").tolerant().start().await;
    let boom = |number| thing("own_limits", "boom", &Thing { number, ..Thing::default() });
    // 20 ms of processor time may pass before two million units on a slow machine: either limit may come first.
    let (code, message) = refusal(server.write(boom(0)).await);
    let fuel = code == Code::ResourceExhausted
        && message.contains("used up its fuel of 2000000 units (limit limits.fuel of the plugin's own manifest)");
    let time = code == Code::DeadlineExceeded
        && message.contains(
            "did not finish within 20 ms of processor time (limit limits.deadline_ms of the plugin's own manifest)",
        );
    assert!(fuel || time, "{code:?} {message}");
    eventually("the memory limit is met before the others", || async {
        let (code, message) = refusal(server.write(boom(4 << 20)).await);
        assert_ne!(code, Code::InvalidArgument, "{message}");
        code == Code::ResourceExhausted
            && message
                .contains("asked for more memory than its 1048576 bytes (limit limits.memory_bytes of the plugin's own")
    })
    .await;
    eventually("smaller writes are served", || async { server.write(boom(100 << 10)).await.is_ok() }).await;
}

/// The host's limit is the lower one here.
#[tokio::test]
async fn a_plugin_cannot_raise_a_limit() {
    let server = Setup::new().guest("own-limits").tolerant().env("MORTISE_SANDBOX_FUEL", 500_000).start().await;
    eventually("the host's fuel counts", || async {
        let (_, message) = refusal(server.write(thing("own_limits", "boom", &Thing::default())).await);
        message.contains(
            "used up its fuel of 500000 units (limit grants.limits.fuel of the plugin, which asks for more than \
             sandbox.fuel)",
        )
    })
    .await;
}
