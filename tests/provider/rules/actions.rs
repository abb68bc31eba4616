//! Actions: changes of plugins, and backups.

use std::fs;

use mortise_provider::value::Value;

use super::{EVERYTHING, REQUIRED, attached, socket, summaries, text};
use crate::{
    provider::{
        real_core::RealCore,
        terraform_core::{Core, path_of},
    },
    support::{
        Setup, id, mortise,
        plugins::{Plugins as _, Seen},
        tokens::Guarded,
    },
};

const BACKUP: &str = "mortise_backup";

#[tokio::test]
async fn actions_change_plugins() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let guest = |name| fs::read(mortise_test_guests::component(name)).unwrap();
    let version = || async { server.plugin("version-stamp").await.unwrap().data.version };
    server.install("version-stamp", &guest("version-stamp-1")).await.unwrap();
    let stamp = [("plugin", text("version-stamp"))];
    let faults = core.invoke("mortise_plugin_rollback", &stamp).await.unwrap_err();
    assert!(summaries(&faults).contains("no version before 1.0.0"), "{faults:?}");
    server.install("version-stamp", &guest("version-stamp-2")).await.unwrap();
    core.plan_action("mortise_plugin_rollback", &stamp).await.unwrap();
    assert_eq!(version().await, "2.0.0", "a plan changes nothing");
    let steps = core.invoke("mortise_plugin_rollback", &stamp).await.unwrap();
    assert_eq!(steps, ["plugin version-stamp: rolling back", "plugin version-stamp: rolled back; version 1.0.0"]);
    assert_eq!(version().await, "1.0.0");

    let reason = || async { server.plugin("version-stamp").await.unwrap().reason };
    for (action, end, expected) in [
        ("mortise_plugin_disable", "disabled; version 1.0.0", "Disabled"),
        ("mortise_plugin_enable", "enabled; version 1.0.0", "Serving"),
        ("mortise_plugin_reset", "its hooks are called again; version 1.0.0", "Serving"),
    ] {
        core.plan_action(action, &stamp).await.unwrap();
        let steps = core.invoke(action, &stamp).await.unwrap();
        assert_eq!(steps.last().unwrap(), &format!("plugin version-stamp: {end}"));
        assert_eq!(reason().await, expected);
    }
    for given in [("plugin", text("absent")), ("plugin", text(""))] {
        let given = [given];
        let (planned, invoked) =
            (core.plan_action("mortise_plugin_reset", &given).await, core.invoke("mortise_plugin_reset", &given).await);
        for faults in [planned.unwrap_err(), invoked.unwrap_err()] {
            assert!(path_of(&faults[0]) == "plugin" && faults.len() == 1, "{faults:?}");
        }
    }
    core.plan_action("mortise_plugin_reset", &[("plugin", Value::unknown())]).await.unwrap();
    let _: Seen = server.plugin("version-stamp").await.unwrap();
}

#[tokio::test]
async fn an_action_writes_a_backup_that_restores() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "kept", &[("text", text("one"))]);
    core.make(EVERYTHING, None, &config).await.unwrap();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.tar.gz");
    let given = [("file", text(file.to_str().unwrap()))];
    core.plan_action(BACKUP, &given).await.unwrap();
    assert!(!file.exists(), "a plan writes nothing");
    let steps = core.invoke(BACKUP, &given).await.unwrap();
    let bytes = fs::metadata(&file).unwrap().len();
    assert!(steps[0].starts_with("backup of commit ") && steps[0].ends_with(" records"), "{steps:?}");
    let last = steps.last().unwrap();
    assert!(last.contains(&file.display().to_string()) && last.ends_with(&format!(" {bytes} bytes")), "{steps:?}");
    // An existing file stays, unless it is to be replaced.
    let faults = core.invoke(BACKUP, &given).await.unwrap_err();
    assert!(path_of(&faults[0]) == "file" && faults[0].summary.contains("exists already"), "{faults:?}");
    fs::write(&file, "theirs").unwrap();
    core.invoke(BACKUP, &given).await.unwrap_err();
    assert_eq!(fs::read(&file).unwrap(), b"theirs");
    core.invoke(BACKUP, &[given[0].clone(), ("replace", Value::Bool(true))]).await.unwrap();
    for (path, says) in [
        ("b.tar.gz", "is not the absolute path of a file"),
        ("/tmp/", "is not the absolute path of a file"),
        ("/absent/b.tar.gz", "cannot write /absent/b.tar.gz"),
    ] {
        let faults = core.invoke(BACKUP, &[("file", text(path))]).await.unwrap_err();
        assert!(path_of(&faults[0]) == "file" && faults[0].summary.contains(says), "{faults:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing unfinished is left");
    let (data, plugins) = (dir.path().join("data"), dir.path().join("plugins"));
    let [file, data_text, plugins_text] = [&file, &data, &plugins].map(|path| path.to_str().unwrap().to_owned());
    let restored = ["restore", &file, "--data-dir", &data_text, "--plugin-dir", &plugins_text];
    let (code, _, said) = mortise(&restored, &[]).await;
    assert_eq!(code, Some(0), "{said}");
    assert!(server.stop().await.success());
    let server = Setup::new().of_sled().data_dir(&data).plugin_dir(&plugins).start().await;
    assert!(server.read(&id("fields.v1.Everything", "kept")).await.is_ok());
}

#[tokio::test]
async fn actions_need_the_permission_of_an_operator() {
    let guarded = Guarded::start(Setup::new().guest("every-field")).await;
    guarded.policy("looks", "operator = \"read\"", Vec::new()).await;
    let (looks, none) =
        (guarded.token("looks-at", &["looks"], |_| ()).await, guarded.token("nothing-x", &[], |_| ()).await);
    let mut core = Core::attach(&socket(&guarded.server)).await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("b.tar.gz");
    let backup = [("file", text(file.to_str().unwrap()))];
    let plugin = [("plugin", text("every-field"))];
    core.configure(&[("token", &none)]).await.unwrap();
    let faults = core.plan_action("mortise_plugin_disable", &plugin).await.unwrap_err();
    assert!(summaries(&faults).contains("the token does not allow this"), "{faults:?}");
    core.configure(&[("token", &looks)]).await.unwrap();
    core.plan_action("mortise_plugin_disable", &plugin).await.unwrap();
    let refused = [core.invoke("mortise_plugin_disable", &plugin).await, core.invoke(BACKUP, &backup).await];
    for faults in refused.map(Result::unwrap_err) {
        assert!(summaries(&faults).contains("the token does not allow this"), "{faults:?}");
    }
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0, "no file, and nothing unfinished");
    core.configure(&[("token", &guarded.management)]).await.unwrap();
    core.invoke(BACKUP, &backup).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_core_invokes_actions() {
    let Some(core) = RealCore::newer_terraform() else { return };
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let file = dir.path().join("before.tar.gz");
    let write = |plugin: &str| {
        let configuration = format!(
            "{REQUIRED}action \"{BACKUP}\" \"before\" {{\n  config {{\n    file = {file:?}\n  }}\n}}\naction \
             \"mortise_plugin_reset\" \"x\" {{\n  config {{\n    plugin = \"{plugin}\"\n  }}\n}}\nresource \"{EVERYTHING}\" \
             \"x\" {{\n  name = \"x\"\n  data {{\n    text = \"one\"\n  }}\n  lifecycle {{\n    action_trigger {{\n      events \
             = [before_create]\n      actions = [action.{BACKUP}.before, action.mortise_plugin_reset.x]\n    }}\n  }}\n}}\n"
        );
        fs::write(dir.path().join("main.tf"), configuration).unwrap();
    };
    let run = |arguments: &[&str]| core.run(dir.path(), &server, arguments);
    write("absent");
    let (planned, said) = run(&["plan"]);
    assert!(!planned && said.contains("the plugin \"absent\" does not exist"), "{said}");
    write("every-field");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("1 added") && said.contains("2 invoked"), "{said}");
    assert!(said.contains("plugin every-field: its hooks are called again") && file.exists(), "{said}");
    fs::remove_file(&file).unwrap();
    let (applied, said) = run(&["apply", "-auto-approve", &format!("-invoke=action.{BACKUP}.before")]);
    assert!(applied && said.contains("1 invoked") && file.exists(), "{said}");
}
