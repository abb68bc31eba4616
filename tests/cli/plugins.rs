//! `mortise plugin …` against a running server.

use std::{fs, path::PathBuf, process::Stdio};

use mortise_test_guests::{Thing, component};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    time::timeout,
};

use crate::support::{PATIENCE, Server, Setup, id_of, is_gone, mortise, noted, thing};

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
    // Not a plugin's name, so the one in the manifest counts.
    let dated = server.data_dir.join("tool-1.2.wasm");
    fs::copy(one, &dated).unwrap();
    let out = done(plugin(&server, &["install", dated.to_str().unwrap()]).await);
    assert!(out.starts_with("plugin version-stamp: ") && out.contains("serves already"), "{out}");
    let out = done(plugin(&server, &["install", two, "--name", NAME]).await);
    assert!(out.contains("version 2.0.0") && out.contains("version 1.0.0 is kept for a rollback"), "{out}");
    let out = done(plugin(&server, &["list"]).await);
    assert!(out.starts_with("NAME") && out.contains("version-stamp   2.0.0") && out.contains("Serving"), "{out}");

    assert!(done(plugin(&server, &["rollback", NAME]).await).contains("rolled back, version 1.0.0"));
    let out = done(plugin(&server, &["inspect", NAME]).await);
    for expected in ["version       1.0.0", "rolled back   yes", "source        version-stamp.wasm", "TYPE"] {
        assert!(out.contains(expected), "{expected}: {out}");
    }
    assert!(done(plugin(&server, &["disable", NAME]).await).contains("disabled"));
    assert!(done(plugin(&server, &["list"]).await).contains("Disabled"));
    assert!(done(plugin(&server, &["enable", NAME]).await).contains("enabled, version"));
    server.write(thing("version_stamp", "thing", &Thing::default())).await.unwrap();
    assert!(done(plugin(&server, &["reset", NAME]).await).contains("out of quarantine"));
    assert!(done(plugin(&server, &["remove", NAME]).await).contains("can be read and deleted, not written"));
    assert!(!server.plugin_dir.join("version-stamp.wasm").exists());
}

#[tokio::test]
async fn an_install_goes_on_after_the_command_gave_up() {
    let server = Setup::new()
        .env("MORTISE_SANDBOX_FUEL", 1_i64 << 60)
        .env("MORTISE_SANDBOX_DESCRIBE_DEADLINE_MS", 300_000)
        .env("MORTISE_SHUTDOWN_GRACE_MS", 500)
        .start()
        .await;
    // Its `describe` never returns.
    let endless = guest("describe-loop");
    let args = ["install", endless.to_str().unwrap(), "--name", "endless", "--timeout", "4s"];
    let (code, out, err) = plugin(&server, &args).await;
    assert_eq!(code, Some(5), "{out}{err}");
    for part in [
        "plugin endless: no answer from http://",
        "within 4s; the component was sent, and the server goes on with it",
        "`mortise plugin list` shows the stage of plugin endless and the end; --timeout DURATION waits for longer",
    ] {
        assert!(err.contains(part), "{part:?} in {err}");
    }
    let out = done(plugin(&server, &["list"]).await);
    assert!(out.contains("Compiling") && out.contains("of endless.wasm"), "{out}");
    // A refused first install leaves nothing.
    let junk = server.data_dir.join("junk.wasm");
    fs::write(&junk, "junk").unwrap();
    let (code, _, err) = plugin(&server, &["install", junk.to_str().unwrap()]).await;
    assert_eq!(code, Some(1), "{err}");
    assert!(!done(plugin(&server, &["list"]).await).contains("junk"));
}

/// `mortise dev` in a folder with a `plugins` folder of a project, which does not belong to the server.
#[tokio::test]
async fn dev_keeps_what_is_installed_out_of_the_folder_it_was_started_in() {
    let one = guest("version-stamp-1");
    for data_dir_given in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let [project, tmp, data] = ["project", "tmp", "data"].map(|name| dir.path().join(name));
        fs::create_dir_all(project.join("plugins")).unwrap();
        fs::write(project.join("plugins/README"), "mine").unwrap();
        fs::create_dir(&tmp).unwrap();
        let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_mortise"));
        command.args(["dev", "--grpc-addr", "127.0.0.1:0", "--http-addr", "127.0.0.1:0"]).current_dir(&project);
        command.env("TMPDIR", &tmp).env("MORTISE_CACHE_DIR", dir.path().join("cache"));
        if data_dir_given {
            command.arg("--data-dir").arg(&data);
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).kill_on_drop(true).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let addr = loop {
            let line = timeout(PATIENCE, lines.next_line()).await.expect("in time").unwrap().expect("it gets ready");
            if let Some(addr) = line.split_whitespace().find_map(|word| word.strip_prefix("grpc=")) {
                break addr.to_owned();
            }
        };
        let install = ["plugin", "install", one.to_str().unwrap(), "--name", NAME, "--grpc-addr", &addr];
        assert!(done(mortise(&install, &[]).await).contains("serves"));
        let in_project: Vec<_> =
            fs::read_dir(project.join("plugins")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(in_project, ["README"]);
        assert_eq!(fs::read_dir(&project).unwrap().count(), 1, "nothing else is left there");
        let home = match data_dir_given {
            true => data.clone(),
            false => fs::read_dir(&tmp).unwrap().next().expect("a temporary place").unwrap().path(),
        };
        assert!(home.join("plugin-files/version-stamp.wasm").exists(), "{}", home.display());
        let pid = child.id().unwrap().to_string();
        std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(timeout(PATIENCE, child.wait()).await.expect("it ends").unwrap().success());
        assert_eq!(home.exists(), data_dir_given, "what is temporary is gone");
    }
}

/// The controller that would remove the finalizers is gone with its plugin.
#[tokio::test]
async fn what_a_removed_plugin_leaves_held_is_listed_and_let_go() {
    let server = Setup::new().start().await;
    done(plugin(&server, &["install", guest("version-stamp-1").to_str().unwrap(), "--name", NAME]).await);
    let held = |name: &str, finalizers: &str| {
        noted(thing("version_stamp", name, &Thing::default()), &[("finalizers", finalizers)])
    };
    let stored = server.write(held("held", "a b")).await.unwrap();
    server.write(thing("version_stamp", "free", &Thing::default())).await.unwrap();
    server.delete(&id_of(&stored), "").await.unwrap();
    let out = done(plugin(&server, &["remove", NAME]).await);
    assert!(out.contains("\n  held by finalizers: version_stamp.v1.Thing/held: a b\n"), "{out}");
    assert!(!out.contains("free") && !out.contains("perhaps more"), "{out}");

    let path = "/api/version_stamp/v1/thing/held";
    let kept = server.put(path, serde_json::json!({})).await;
    assert!(kept.body.contains("is read-only") && kept.body.contains("write the names that stay"), "{kept:?}");
    let addr = server.grpc.to_string();
    let file = server.data_dir.join("held.yaml");
    let apply = async |finalizers: &str, more: &[&'static str]| {
        let get = ["get", "version_stamp.v1.Thing", "held", "-o", "yaml", "--grpc-addr", &addr];
        let stored = done(mortise(&get, &[]).await);
        let lines = stored.lines().map(|line| match line.trim_start().starts_with("finalizers:") {
            true => format!("  finalizers: {finalizers:?}\n"),
            false => format!("{line}\n"),
        });
        fs::write(&file, lines.collect::<String>()).unwrap();
        mortise(&[&["apply", "--grpc-addr", &addr, "-f", file.to_str().unwrap()], more].concat(), &[]).await
    };
    let (code, out, err) = apply("b", &["--dry-run"]).await;
    assert!(code == Some(0) && out.contains("updated (dry run)"), "{out}{err}");
    assert_eq!(err, "version_stamp.v1.Thing/held is being deleted, and waits for the finalizers a b\n");
    let (code, out, err) = apply("b", &[]).await;
    assert!(code == Some(0) && out.contains("version_stamp.v1.Thing/held updated"), "{out}{err}");
    assert_eq!(err, "version_stamp.v1.Thing/held is being deleted, and waits for the finalizers b\n");
    assert!(done(apply("", &[]).await).contains("version_stamp.v1.Thing/held updated"));
    assert!(is_gone(&server, &id_of(&stored)).await);
}

#[tokio::test]
async fn plugin_commands_report_errors() {
    let server = Setup::new().start().await;
    let one = guest("version-stamp-1");
    let (code, _, err) = plugin(&server, &["install", one.to_str().unwrap(), "--name", "other"]).await;
    assert!(
        code == Some(1)
            && err.contains("it is named \"version-stamp\"")
            && err.contains("hint: give its own name: --name"),
        "{err}"
    );
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
    // Every message is a line with a level.
    let _ = server.write(thing("log_flood", "thing", &Thing::default())).await;
    let out = done(plugin(&server, &["logs", "log-flood", "--last", "3"]).await);
    assert!(out.lines().count() <= 3, "{out}");
    for line in out.lines() {
        assert!(["ERROR", "WARN", "INFO", "DEBUG", "TRACE"].iter().any(|level| line.contains(level)), "{line}");
    }
}
