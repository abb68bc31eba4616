//! The command line: faults are reported by name before anything starts; dev mode leaves no files behind.

use std::{path::Path, process::Stdio};

use crate::support::{PATIENCE, Server, mortise};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::Command,
    time::timeout,
};

/// Arguments, environment, and parts of stderr.
type Case<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], &'a [&'a str]);

#[tokio::test]
async fn a_wrong_configuration_is_code_2_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = dir.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let unknown = file("unknown.toml", "[store]\ncash_bytes = 1\n");
    let malformed = file("malformed.toml", "data_dir = \n");
    let wrong = file("wrong.toml", "[sandbox]\nfuel = \"much\"\n");
    let loud = file("loud.toml", "[plugin.demo]\nlog_level = \"loud\"\n");
    let hurried = file("hurried.toml", "[http]\nrequest_timeout_ms = 0\n");
    let bundled = file("bundled.toml", "[plugins]\nbundled = [\"teleport\"]\n");
    let missing = dir.path().join("missing.toml").to_str().unwrap().to_owned();
    let data = dir.path().join("data");
    let at = data.to_str().unwrap();
    let cases: [Case<'_>; 19] = [
        (&["serve", "--config", &unknown], &[], &["unknown.toml", "cash_bytes", "line 2"]),
        (&["serve", "--config", &malformed], &[], &["malformed.toml", "line 1"]),
        (&["dev", "--config", &wrong], &[], &["wrong.toml", "line 2", "\"much\""]),
        (&["serve", "--config", &missing], &[], &["cannot read the configuration", "missing.toml"]),
        (&["serve"], &[("MORTISE_CONFIG", &missing)], &["cannot read the configuration", "missing.toml"]),
        (&["serve"], &[("MORTISE_SANDBOX_FUEL", "much")], &["MORTISE_SANDBOX_FUEL", "\"much\" is not a whole number"]),
        (&["serve"], &[("MORTISE_GRPC_ADDR", "here")], &["grpc_addr", "MORTISE_GRPC_ADDR", "got \"here\""]),
        (&["serve"], &[("MORTISE_LOG_LEVEL", "info,=,=")], &["log.level", "use error, warn, info, debug or trace"]),
        // Words that a filter would read as targets, and so log nothing.
        (&["serve"], &[("MORTISE_LOG_LEVEL", "inf")], &["log.level \"inf\"", "use error, warn, info, debug or trace"]),
        (&["serve"], &[("MORTISE_LOG_LEVEL", "info,plugin")], &["MORTISE_LOG_LEVEL", "\"plugin\" is not a level"]),
        (
            &["serve", "--data-dir", at],
            &[("MORTISE_PLUGINS_BUNDLED", "demo,teleport")],
            &["MORTISE_PLUGINS_BUNDLED", "plugins.bundled names \"teleport\"", "it has catalog, demo"],
        ),
        (&["serve", "--data-dir", at, "--config", &bundled], &[], &["bundled.toml", "names \"teleport\""]),
        (
            &["serve", "--data-dir", at, "--config", &loud],
            &[],
            &["loud.toml", "plugin.demo.log_level \"loud\" is not a level; use off, error, warn, info, debug or trace"],
        ),
        (
            &["serve", "--data-dir", at, "--config", &hurried],
            &[],
            &["http.request_timeout_ms must be 10ms to ", "got 0"],
        ),
        (
            &["serve", "--data-dir", at],
            &[("MORTISE_CONTROLLERS_FUEL", "0")],
            &["MORTISE_CONTROLLERS_FUEL", "controllers.fuel must be 1 to "],
        ),
        (&["dev"], &[("MORTISE_CONTROLLERS_HOST_CALLS", "-1")], &["MORTISE_CONTROLLERS_HOST_CALLS", "got -1"]),
        (&["serve", "--grpc-addr", "here"], &[], &["--grpc-addr"]),
        (&["serve", "--teleport"], &[], &["--teleport"]),
        (&["teleport"], &[], &["teleport"]),
    ];
    for (args, env, says) in cases {
        let (code, out, err) = mortise(args, env).await;
        assert_eq!(code, Some(2), "{args:?} {env:?}: {err}");
        assert_eq!(out, "", "{args:?}");
        for says in says {
            assert!(err.contains(says), "{args:?} {env:?}: {err}");
        }
        assert!(!err.contains("panicked"), "{err}");
    }
    assert!(!data.exists(), "nothing is opened before");
}

#[tokio::test]
async fn obstacles_to_a_start_are_named_with_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start().await;
    let (grpc, http) = (server.grpc.to_string(), server.http.to_string());
    let data = dir.path().join("data").to_str().unwrap().to_owned();
    let occupied = dir.path().join("occupied");
    std::fs::write(&occupied, "a file").unwrap();
    let occupied = occupied.to_str().unwrap().to_owned();
    let cases: [Case<'_>; 5] = [
        (&["serve", "--data-dir", &data, "--grpc-addr", &grpc], &[], &[&grpc, "(grpc_addr)", "in use"]),
        (&["serve", "--data-dir", &data, "--http-addr", &http], &[], &[&http, "(http_addr)", "in use"]),
        (&["dev", "--plugin-dir", &occupied], &[], &["plugin_dir", &occupied, "make it readable, or choose another"]),
        (&["serve", "--data-dir", &occupied], &[], &[&occupied]),
        (&["serve", "--data-dir", &data], &[("MORTISE_CACHE_DIR", &occupied)], &["cache_dir"]),
    ];
    for (args, env, says) in cases {
        let (code, out, err) = mortise(args, env).await;
        assert_eq!(code, Some(1), "{args:?} {env:?}: {err}");
        assert_eq!(out, "", "{args:?}");
        let last = err.lines().last().unwrap();
        assert!(last.starts_with("mortise: "), "{err}");
        for says in says {
            assert!(last.contains(says), "{args:?} {env:?}: {err}");
        }
        assert!(!err.contains("panicked"), "{err}");
    }
}

#[tokio::test]
async fn the_version_is_printed() {
    let (code, out, _) = mortise(&["--version"], &[]).await;
    assert_eq!((code, out.trim()), (Some(0), concat!("mortise ", env!("CARGO_PKG_VERSION"))));
}

#[tokio::test]
async fn dev_without_a_data_directory_says_so_and_removes_it() {
    let temporary = tempfile::tempdir().unwrap();
    let left = || std::fs::read_dir(temporary.path()).unwrap().map(|e| e.unwrap().path()).collect::<Vec<_>>();
    let mut child = Command::new(env!("CARGO_BIN_EXE_mortise"))
        .args(["dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"])
        .current_dir(temporary.path())
        .env("TMPDIR", temporary.path())
        .env("MORTISE_CACHE_DIR", Path::new(env!("CARGO_TARGET_TMPDIR")).join("mortise-cache"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut said = String::new();
    while !said.contains("mortise ready:") {
        let line = timeout(PATIENCE, lines.next_line()).await.expect("ready in time").unwrap();
        said.push_str(&line.expect("it does not end before it is ready"));
        said.push('\n');
    }
    assert!(
        said.starts_with("THE DATA DIRECTORY IS TEMPORARY: everything is gone at exit; --data-dir DIR keeps it.\n")
    );
    assert!(said.contains("\nLEFT OPEN: no tokens and no TLS. Everyone who reaches the ports may do everything.\n"));
    let made = left();
    assert_eq!(made.len(), 1, "{made:?}");
    assert!(made[0].file_name().unwrap().to_str().unwrap().starts_with("mortise-dev-"), "{made:?}");
    let pid = child.id().unwrap().to_string();
    assert!(std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    assert!(timeout(PATIENCE, child.wait()).await.expect("it stops in time").unwrap().success());
    assert_eq!(left(), Vec::<std::path::PathBuf>::new());
}
