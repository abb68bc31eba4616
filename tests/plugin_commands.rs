//! `mortise plugin …` against a running server.

use std::{fs, path::PathBuf};

use mortise_test_guests::{Thing, component};

use crate::common::{Server, Setup, mortise, thing};

const NAME: &str = "version-stamp";

async fn plugin(server: &Server, args: &[&str]) -> (Option<i32>, String, String) {
    let addr = server.grpc.to_string();
    let mut all = vec!["plugin"];
    all.extend(args);
    all.extend(["--grpc-addr", &addr]);
    mortise(&all, &[]).await
}

#[track_caller]
fn done((code, out, err): (Option<i32>, String, String)) -> String {
    assert_eq!((code, err.as_str()), (Some(0), ""), "{out}");
    out
}

fn guest(name: &str) -> PathBuf {
    component(name)
}

#[tokio::test]
async fn a_plugin_s_life() {
    let server = Setup::new().start().await;
    let (one, two) = (guest("version-stamp-1"), guest("version-stamp-2"));
    let (one, two) = (one.to_str().unwrap(), two.to_str().unwrap());
    let out = done(plugin(&server, &["install", one, "--name", NAME]).await);
    assert!(out.starts_with("plugin version-stamp: version 1.0.0 (sha256 ") && out.contains(") serves"), "{out}");
    assert!(done(plugin(&server, &["install", one, "--name", NAME]).await).contains("serves already, nothing changed"));
    let out = done(plugin(&server, &["install", two, "--name", NAME]).await);
    assert!(out.contains("version 2.0.0") && out.contains("kept for a rollback: version 1.0.0"), "{out}");
    let out = done(plugin(&server, &["list"]).await);
    assert!(out.starts_with("NAME") && out.contains("version-stamp   2.0.0") && out.contains("Serving"), "{out}");

    assert!(done(plugin(&server, &["rollback", NAME]).await).contains("rolled back, version 1.0.0"));
    let out = done(plugin(&server, &["inspect", NAME]).await);
    for expected in ["version       1.0.0", "rolled back   yes", "source        version-stamp.wasm", "TYPE"] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    assert!(done(plugin(&server, &["disable", NAME]).await).contains("switched off"));
    assert!(done(plugin(&server, &["list"]).await).contains("Disabled"));
    assert!(done(plugin(&server, &["enable", NAME]).await).contains("switched on, version"));
    server.write(thing("version_stamp", "thing", &Thing::default())).await.unwrap();
    assert!(done(plugin(&server, &["reset", NAME]).await).contains("out of quarantine"));
    assert!(done(plugin(&server, &["remove", NAME]).await).contains("can be read and deleted, not written"));
    assert!(!server.plugin_dir.join("version-stamp.wasm").exists());
}

#[tokio::test]
async fn what_is_wrong_is_said() {
    let server = Setup::new().start().await;
    let one = guest("version-stamp-1");
    let (code, _, err) = plugin(&server, &["install", one.to_str().unwrap(), "--name", "other"]).await;
    assert!(code == Some(1) && err.contains("calls itself \"version-stamp\"") && err.contains("hint: --name"), "{err}");
    let junk = server.data_dir.join("junk.wasm");
    fs::write(&junk, "junk").unwrap();
    let (code, _, err) = plugin(&server, &["install", junk.to_str().unwrap()]).await;
    assert!(code == Some(1) && err.contains("mortise: plugin junk: ") && err.contains("NotAComponent"), "{err}");
    let (code, _, err) = plugin(&server, &["install", "/nonexistent.wasm"]).await;
    assert!(code == Some(2) && err.contains("cannot read /nonexistent.wasm"), "{err}");
    for order in ["remove", "rollback", "reset", "enable", "disable", "inspect", "logs"] {
        let (code, _, err) = plugin(&server, &[order, "nobody"]).await;
        assert!(code == Some(1) && err.contains("nobody"), "{order}: {err}");
    }
}

#[tokio::test]
async fn logs_are_shown() {
    let server = Setup::new().guest("log-flood").start().await;
    // Whatever it says, it says it as lines with a level.
    let _ = server.write(thing("log_flood", "thing", &Thing::default())).await;
    let out = done(plugin(&server, &["logs", "log-flood", "--last", "3"]).await);
    assert!(out.lines().count() <= 3, "{out}");
    for line in out.lines() {
        assert!(["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].iter().any(|level| line.contains(level)), "{line}");
    }
}
