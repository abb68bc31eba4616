//! A hostile plugin beside honest ones: other types stay fast, memory stays bounded, and files that cannot be loaded
//! are skipped.

use std::cell::Cell;

use crate::support::{PATIENCE, Server, Setup, artist, thing};
use mortise_resource::pb;
use mortise_test_guests::Thing;
use tokio::{task::JoinSet, time::timeout};
use tonic::Code;

/// Concurrent calls that trigger a guest; returns their codes.
async fn hostile(server: &Server, group: &'static str, calls: usize) -> Vec<Code> {
    let mut running = JoinSet::new();
    for _ in 0..calls {
        let mut client = server.client();
        running.spawn(async move {
            let resource = thing(group, "boom", &Thing::default());
            client.write(pb::WriteRequest { resource: Some(resource) }).await.unwrap_err().code()
        });
    }
    // The server's own bound, plugin_delay_ms, is shorter.
    timeout(6 * PATIENCE, running.join_all()).await.expect("every call ends")
}

#[tokio::test]
async fn other_types_are_served_while_a_plugin_spins() {
    for (guest, group) in [("infinite-loop", "infinite_loop"), ("memory-fill", "memory_fill")] {
        let server = Setup::new()
            .guest(guest)
            .tolerant()
            .env("MORTISE_SANDBOX_FUEL", 1_i64 << 60)
            .env("MORTISE_SANDBOX_DEADLINE_MS", 300)
            // The calls of the plugin delay each other.
            .limit("plugin_delay_ms", 120_000)
            .start()
            .await;
        server.write(artist("warm")).await.unwrap();
        let over = Cell::new(false);
        let spinning = async {
            let codes = hostile(&server, group, 32).await;
            over.set(true);
            codes
        };
        let honest = async {
            let mut written = 0;
            while !over.get() && written < 200 {
                server.write(artist(&format!("artist-{}", written % 20))).await.unwrap();
                written += 1;
            }
            written
        };
        let (codes, written) = tokio::join!(spinning, honest);
        assert!(written >= 20, "{guest}: {written} writes while it spun");
        let late = codes.iter().filter(|code| **code == Code::DeadlineExceeded).count();
        let busy = codes.iter().filter(|code| **code == Code::ResourceExhausted).count();
        assert_eq!(late + busy, 32, "{codes:?}");
        assert!(late >= 16, "{codes:?}");
        // The same plugin continues to serve.
        server.write(thing(group, "ordinary", &Thing::default())).await.unwrap();
    }
}

#[tokio::test]
async fn memory_stays_bounded_over_many_hostile_calls() {
    let guests = [
        ("memory-bomb", "memory_bomb", Code::ResourceExhausted),
        ("infinite-loop", "infinite_loop", Code::ResourceExhausted),
        ("panic", "panicking", Code::Internal),
        ("deep-recursion", "deep_recursion", Code::Internal),
    ];
    let mut setup = Setup::new().tolerant().env("MORTISE_SANDBOX_FUEL", 5_000_000);
    for (guest, ..) in guests {
        setup = setup.guest(guest);
    }
    let server = setup.start().await;
    let round = async |calls| {
        for (guest, group, expected) in guests {
            for code in hostile(&server, group, calls).await {
                assert_eq!(code, expected, "{guest}");
            }
        }
    };
    round(16).await;
    let before = server.resident_bytes();
    for _ in 0..5 {
        round(15).await;
    }
    let after = server.resident_bytes();
    let grown = after.saturating_sub(before) >> 20;
    assert!(grown < 64, "{grown} MiB more after 300 hostile calls ({} MiB before)", before >> 20);
    for (_, group, _) in guests {
        server.write(thing(group, "ordinary", &Thing::default())).await.unwrap();
    }
}

/// The log has file, fault and remedy; everything else is served.
#[tokio::test]
async fn files_that_cannot_be_loaded_are_skipped_and_logged() {
    let guests = [
        ("missing-hook", "missing_hook", &["hooks name validating", "export it, or take the hook out"][..]),
        (
            "unknown-import",
            "unknown_import",
            &["imports nowhere:teleport/teleport@0.1.0, which this host does not offer", "plugins may import"],
        ),
        (
            "capability",
            "capability",
            &[
                "does not know \"teleport\"",
                "it knows authorizer, cache, cache-pages, clock, config, files, http, kv, log, lookup, private-bytes, probes, queries, resources, run, secrets",
            ],
        ),
        ("describe-loop", "describe_loop", &["hook describe used up its fuel", "(limit sandbox.fuel)"]),
        ("describe-panic", "describe_panic", &["hook describe trapped"]),
    ];
    let mut setup = Setup::new().guest("prior");
    for (guest, ..) in guests {
        setup = setup.guest(guest);
    }
    let server = setup.start().await;
    for (guest, group, says) in guests {
        let line = server.refused_file(&format!("{guest}.wasm"));
        for says in says {
            assert!(line.contains(says), "{guest}: {line}");
        }
        assert!(server.is_unknown(&format!("{group}.v1.Thing")).await);
    }
    assert!(server.log().contains("the guest does not know who it is"), "the panic's text");
    server.write(artist("korn")).await.unwrap();
    server.write(thing("prior", "label", &Thing::default())).await.unwrap();
}

#[tokio::test]
async fn a_describe_that_takes_too_long_is_named_with_its_own_limit() {
    let server = Setup::new()
        .guest("describe-loop")
        .env("MORTISE_SANDBOX_FUEL", 1_i64 << 60)
        .env("MORTISE_SANDBOX_DESCRIBE_DEADLINE_MS", 300)
        .start()
        .await;
    let line = server.refused_file("describe-loop.wasm");
    assert!(
        line.contains("did not finish within 300 ms of processor time (limit sandbox.describe_deadline_ms)"),
        "{line}"
    );
    server.write(artist("korn")).await.unwrap();
}
