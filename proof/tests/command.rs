//! The command: a clean history, and a record that is judged again.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, clippy::indexing_slicing, reason = "a test")]

use std::{
    io::Write as _,
    net::SocketAddr,
    path::Path,
    process::{Command, Output},
};

use mortise_proof::record::{Answer, Call, Entry, History, Key, Operation};
use mortise_test_process::Process;
use tokio::net::{TcpListener, TcpStream};

fn proof(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_mortise-proof")).args(args).output().unwrap()
}

fn printed(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn a_record_is_judged_again() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("history.json");
    let key = Key { kind: "Artist".into(), namespace: "default".into(), name: "a".into() };
    let read = |begun, version: u64| {
        let state = serde_json::json!({
            "key": key, "uid": "u", "version": version, "generation": "", "edition": 1, "content": version.to_string(),
            "owner": null, "is_marked": false, "has_finalizers": false, "statuses": {}, "digest": version,
        });
        let answer = Answer::Stored(serde_json::from_value(state).unwrap());
        let call = Call::Read { key: key.clone(), uid: String::new(), is_consistent: true };
        Entry::Operation(Operation { client: 0, begun, ended: begun + 1, call, answer })
    };
    let judge = |entries: Vec<Entry>| {
        let history = History { entries, ..History::default() };
        std::fs::write(&file, serde_json::to_vec(&history).unwrap()).unwrap();
        proof(&["check", file.to_str().unwrap()])
    };
    let clean = judge(vec![read(10, 1), read(20, 2)]);
    assert!(clean.status.success(), "{}", printed(&clean));
    let broken = judge(vec![read(10, 2), read(20, 1)]);
    assert_eq!(broken.status.code(), Some(1));
    assert!(printed(&broken).contains("a call shows the newest state"), "{}", printed(&broken));
}

/// Whether the server is beside the command; `cargo test --workspace` builds it.
fn has_server() -> bool {
    let is_built = Path::new(env!("CARGO_BIN_EXE_mortise-proof")).with_file_name("mortise").exists();
    if !is_built {
        let _ = writeln!(std::io::stderr(), "left out: the server is not built; run cargo build -p mortise");
    }
    is_built
}

/// Compiles the library that makes calls fail; says SKIPPED without a compiler.
#[test]
fn promises_hold_while_the_machine_fails() {
    if !has_server() {
        return;
    }
    let ran = proof(&["faults", "--quick"]);
    let printed = printed(&ran);
    assert!(ran.status.success(), "{printed}");
    if printed.contains("SKIPPED") {
        let _ = writeln!(std::io::stderr(), "\n{printed}");
        return;
    }
    assert!(printed.contains("| log-sync-eio-once | 1 |") && printed.contains(" 0 broken promises"), "{printed}");
}

#[test]
fn a_short_history_with_a_kill_is_clean() {
    if !has_server() {
        return;
    }
    let ran = proof(&["histories", "--histories", "1", "--operations", "600", "--kills"]);
    assert!(ran.status.success(), "{}", printed(&ran));
    assert!(printed(&ran).contains(": clean"), "{}", printed(&ran));
}

/// Starts a server of a store of its own; it ends when it is dropped.
async fn server(dir: &Path) -> Process {
    let mut command =
        tokio::process::Command::new(Path::new(env!("CARGO_BIN_EXE_mortise-proof")).with_file_name("mortise"));
    command
        .args(["serve", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0", "--data-dir"])
        .arg(dir.join("data"))
        .env("MORTISE_CACHE_DIR", dir.join("cache"))
        .env("MORTISE_DNS_ADDR", "127.0.0.1:0")
        .env("MORTISE_PLUGINS_BUNDLED", "demo")
        .env("MORTISE_ACL_ENABLED", "true")
        .env("MORTISE_ACL_ANONYMOUS_POLICIES", "global-management")
        .env("MORTISE_SERVICE_CASCADE_SECOND_PASS_MS", "1000")
        .env("MORTISE_LOG_LEVEL", "error");
    Process::start(command).await.unwrap()
}

/// Returns a second address of a server.
async fn second_address(of: SocketAddr) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut server = TcpStream::connect(of).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    addr
}

/// Runs short histories over two servers.
async fn over(servers: [SocketAddr; 2], more: &'static [&'static str], keep: &Path) -> Output {
    let (servers, keep) = (servers.map(|addr| addr.to_string()).join(","), keep.to_str().unwrap().to_owned());
    let run = move || {
        let options = ["histories", "--servers", &servers, "--operations", "600", "--keep", &keep];
        proof(&[options.as_slice(), more].concat())
    };
    tokio::task::spawn_blocking(run).await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_addresses_of_a_store_are_clean_and_two_stores_are_not() {
    if !has_server() {
        return;
    }
    let dirs = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    let (first, other) = (server(dirs[0].path()).await, server(dirs[1].path()).await);
    let second = second_address(first.addr).await;
    let clean = over([first.addr, second], &["--histories", "2"], dirs[0].path()).await;
    assert!(clean.status.success(), "{}", printed(&clean));
    assert!(printed(&clean).contains("2 histories"), "{}", printed(&clean));
    // Watches of the other store wait for a mark that never comes.
    let red = over([first.addr, other.addr], &["--histories", "3", "--patience", "1"], dirs[1].path()).await;
    assert_eq!(red.status.code(), Some(1), "{}", printed(&red));
    assert!(printed(&red).contains("a call shows the newest state"), "{}", printed(&red));
}
