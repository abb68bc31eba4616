//! Components are compiled in a process of their own, which ends with its work. If that process is killed, the load is
//! tried again: of a file, of a bundled plugin, and for changed settings.

use std::{
    fs,
    io::Write as _,
    os::unix::process::CommandExt as _,
    path::Path,
    process::{Command, Stdio},
    time::Duration,
};

use mortise_resource::pb::condition::State;
use mortise_test_guests::component;

use crate::support::{
    Server, Setup, eventually,
    plugins::{Plugins as _, Seen, sha256},
};

/// Kills a process that compiles for the server with this data directory. Returns whether there was one.
fn kill_compiler(data_dir: &Path) -> bool {
    let place = data_dir.to_str().unwrap();
    let line = |id: &str| fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
    let parent = |id: &str| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1).map(str::to_owned)
    };
    let ids = fs::read_dir("/proc").unwrap().filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let compiles = |id: &String| {
        line(id).starts_with(b"mortise-compiler\0")
            && parent(id).is_some_and(|server| String::from_utf8_lossy(&line(&server)).contains(place))
    };
    let found = ids.filter(compiles).collect::<Vec<_>>();
    found.iter().any(|id| Command::new("kill").args(["-KILL", id]).status().unwrap().success())
}

/// Kills a process that compiles for the server, as soon as there is one.
async fn compiler_is_killed(data_dir: &Path) {
    let until = tokio::time::Instant::now() + Duration::from_secs(120);
    while !kill_compiler(data_dir) {
        assert!(tokio::time::Instant::now() < until, "no process compiles");
        tokio::task::yield_now().await;
    }
}

/// A server without cached code and, for a quick start, without bundled plugins.
fn uncached(data: &Path) -> Setup {
    Setup::new().serve().data_dir(data).env("MORTISE_SANDBOX_CODE_CACHE_BYTES", 0)
}

async fn serves(server: &Server, name: &str) -> Seen {
    server.plugin_until(name, |seen| seen.loaded == State::True).await
}

#[tokio::test]
async fn a_file_whose_compiler_was_killed_is_loaded_again() {
    let data = tempfile::tempdir().unwrap();
    let server = uncached(data.path()).start().await;
    assert!(!kill_compiler(data.path()), "the processes of the start have ended");
    fs::copy(component("version-stamp-1"), server.plugin_dir.join("version-stamp.wasm")).unwrap();
    compiler_is_killed(data.path()).await;
    let failed = server.plugin_until("version-stamp", |seen| seen.reason == "HostFault").await;
    assert!(failed.message.contains("signal 9 ended it"), "{}", failed.message);
    let digest = sha256(&fs::read(component("version-stamp-1")).unwrap());
    assert_eq!(serves(&server, "version-stamp").await.data.digest, digest);
    let maps = fs::read_to_string(format!("/proc/{}/maps", server.pid())).unwrap();
    let is_code = |line: &str| line.contains(" r-xp ") && line.contains("/memfd:mortise-code");
    assert!(maps.lines().any(is_code), "the code is mapped: {maps}");
}

#[tokio::test]
async fn a_bundled_plugin_whose_compiler_was_killed_at_the_start_is_loaded_again() {
    let data = tempfile::tempdir().unwrap();
    let starting = tokio::spawn(uncached(data.path()).env("MORTISE_PLUGINS_BUNDLED", "demo").start());
    compiler_is_killed(data.path()).await;
    let server = starting.await.unwrap();
    assert!(server.log().contains("signal 9 ended it"), "{}", server.log());
    serves(&server, "demo").await;
}

#[tokio::test]
async fn settings_whose_compiler_was_killed_are_tried_again() {
    let data = tempfile::tempdir().unwrap();
    let config = |colour: &str| format!("[plugin.settings.settings]\ncolour = \"{colour}\"\n");
    let server = uncached(data.path()).guest("settings").config(config("red")).start().await;
    let before = serves(&server, "settings").await;
    server.configure(config("blue"));
    compiler_is_killed(data.path()).await;
    let failed = server.plugin_until("settings", |seen| seen.reason == "HostFault").await;
    assert!(failed.message.contains("signal 9 ended it"), "{}", failed.message);
    let after = server.plugin_until("settings", |seen| seen.reason == "Serving").await;
    assert_eq!(after.data.digest, before.data.digest);
    let written = server.write(crate::support::thing("settings", "one", &mortise_test_guests::Thing::default())).await;
    let thing: mortise_test_guests::Thing = crate::support::decoded(&written.unwrap());
    assert_eq!(thing.text, r#"{"colour":"blue"}"#);
}

/// The process as the server starts it: its limits before it reads, and its answers.
#[tokio::test]
async fn the_compiler_limits_itself_by_the_size_of_the_component() {
    let empty = b"\0asm\x0d\0\x01\0";
    for (sent, announced, code, says) in [
        (&empty[..], 8_u64, 0, ""),
        (&empty[..4], 8, 3, "the server ended while it sent the component"),
        (b"\0asm....", 8, 1, "unknown binary version"),
        (empty, 3 << 20, 3, "the server ended while it sent the component"),
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_mortise"))
            .arg0("mortise-compiler")
            .args(["67108864", "1", &announced.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let of = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", child.id())).unwrap_or_default();
        eventually("the limits are set", async || of("oom_score_adj").trim() == "1000").await;
        let limits = of("limits");
        let limit = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_whitespace().next().unwrap().parse::<u64>().unwrap()
        };
        let expected = ((2 << 30) + 64 * announced, 60 + 30 * announced.div_ceil(1 << 20), 0);
        let found = (limit("Max address space"), limit("Max cpu time"), limit("Max core file size"));
        assert_eq!(found, expected, "{limits}");
        child.stdin.take().unwrap().write_all(sent).unwrap();
        let ended = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&ended.stderr);
        assert_eq!((ended.status.code(), ended.stdout.is_empty()), (Some(code), code != 0), "{text}");
        assert!(text.contains(says), "{text}");
    }
}
