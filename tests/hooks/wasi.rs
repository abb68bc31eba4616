//! Components built for wasm32-wasip2: they load and run, and have no access to the outside.

use crate::support::{Fault, PATIENCE, Server, Setup, decoded, eventually, refusal, thing};
use mortise_test_guests::{Thing, wasi_component};
use tokio::time::timeout;
use tonic::Code;

async fn server() -> Server {
    Setup::new()
        .component("wasi", std::fs::read(wasi_component("wasi")).unwrap())
        .env("SECRET", "of the host")
        .start()
        .await
}

/// The outcome of an attempt.
async fn text(server: &Server, attempt: &str) -> String {
    let written = server.write(thing("wasi", attempt, &Thing::default())).await.unwrap();
    decoded::<Thing>(&written).text
}

#[tokio::test]
async fn a_component_of_the_whole_standard_library_is_a_plugin_like_any_other() {
    let server = server().await;
    let kept =
        server.write(thing("wasi", "ordinary", &Thing { text: "kept".into(), ..Thing::default() })).await.unwrap();
    assert_eq!(decoded::<Thing>(&kept).text, "kept");
    let (code, message) = refusal(server.write(thing("wasi", "refused", &Thing::default())).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("this one is refused"), "{message}");
}

#[tokio::test]
async fn there_are_no_files() {
    let server = server().await;
    let text = text(&server, "files").await;
    assert_eq!(text.split(' ').count(), 6, "{text}");
    assert!(!text.contains("ESCAPED"), "{text}");
    assert!(!std::path::Path::new("/tmp/mortise-was-here").exists());
}

#[tokio::test]
async fn there_is_no_network() {
    let server = server().await;
    let text = text(&server, "network").await;
    assert!(text.starts_with("PermissionDenied PermissionDenied PermissionDenied "), "{text}");
    assert!(text.split(' ').count() == 4 && !text.contains("ESCAPED"), "{text}");
}

#[tokio::test]
async fn there_is_no_environment_and_nothing_on_stdin() {
    let server = server().await;
    let text_of = text(&server, "environment").await;
    assert!(text_of.starts_with("0 variables, 0 arguments, in "), "{text_of}");
    assert_eq!(text(&server, "stdin").await, "read (0)");
}

#[tokio::test]
async fn printed_text_is_in_the_log_within_its_limits() {
    let server = server().await;
    assert_eq!(text(&server, "print").await, "printed");
    let log = server.log();
    let line =
        |text: &str| log.lines().find(|line| line.contains(text)).unwrap_or_else(|| panic!("{text}: {log}")).to_owned();
    for (text, level) in [("a line on stdout", "INFO"), ("and another", "INFO"), ("a line on stderr", "WARN")] {
        let line = line(text);
        assert!(line.contains(level) && line.contains("wasi"), "{line}");
    }

    assert_eq!(text(&server, "print-flood").await, "printed");
    eventually("dropped lines are logged", || async { server.log().contains("log lines dropped") }).await;
    let lines = server.log().lines().filter(|line| line.contains("flooding stdout")).count();
    assert!((50..1_000).contains(&lines), "{lines}");
}

/// Calls never wait, and every instance sees the same time and the same random numbers.
#[tokio::test]
async fn time_and_chance_are_the_same_every_time() {
    let server = server().await;
    let slept = timeout(PATIENCE, text(&server, "time")).await.expect("it does not sleep");
    assert_eq!(slept, "slept 1 h at 0");
    let first = text(&server, "random").await;
    for _ in 0..5 {
        assert_eq!(text(&server, "random").await, first);
    }
}

#[tokio::test]
async fn exit_is_a_fault_of_the_plugin() {
    let server = server().await;
    let fault =
        Fault { plugin: "wasi", hook: "mutate", code: Code::Internal, kind: "exit", says: "called exit with status " };
    fault.check(&server.write(thing("wasi", "exit", &Thing::default())).await.unwrap_err());
    let trap = Fault { kind: "trap", says: "trapped: ", ..fault };
    trap.check(&server.write(thing("wasi", "abort", &Thing::default())).await.unwrap_err());
    assert_eq!(text(&server, "ordinary").await, "");
}
