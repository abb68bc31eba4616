//! `--config FILE` of the author's commands: a component under a server's limits, settings and grants.

use std::fs;

use crate::authoring::workflow::{Done, plugin};
use mortise_test_guests::component;

/// Runs a command for a guest in a folder with this configuration and these cases.
async fn run(command: &str, guest: &str, config: &str, cases: &str, args: &[&str]) -> Done {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("tests/cases")).unwrap();
    fs::create_dir(dir.path().join("out")).unwrap();
    let config = config.replace("OUT", dir.path().join("out").to_str().unwrap());
    fs::write(dir.path().join("config.toml"), config).unwrap();
    fs::write(dir.path().join("tests/cases/c.yaml"), cases).unwrap();
    let file = component(guest);
    let mut all = vec![command, file.to_str().unwrap(), "--config", "config.toml"];
    all.extend(args);
    let done = plugin(dir.path(), &all).await;
    let left: Vec<_> = fs::read_dir(dir.path().join("out")).unwrap().collect();
    assert!(left.is_empty(), "a granted directory is touched: {left:?}");
    done
}

#[tokio::test]
async fn cases_without_settings_have_those_of_the_server() {
    let cases = r#"
case: the server's
mutate: {type: settings.v1.Thing, name: a, data: {}}
expect: {data: {text: '{"colour":"blue"}'}}
---
case: its own
settings: {colour: red}
mutate: {type: settings.v1.Thing, name: a, data: {}}
expect: {data: {text: '{"colour":"red"}'}}
---
case: none
settings: {}
mutate: {type: settings.v1.Thing, name: a, data: {}}
expect: {data: {text: '{}'}}
"#;
    let config = "[plugin.settings.settings]\ncolour = \"blue\"\n";
    let done = run("test", "settings", config, cases, &["--reuse"]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    assert!(done.out.contains("6 passed; 0 failed"), "{}", done.out);
    let other = run("test", "settings", "", cases, &[]).await;
    assert!(other.out.contains("2 passed; 1 failed"), "{}", other.out);
}

#[tokio::test]
async fn the_limits_are_those_of_the_server() {
    let cases = "case: a\nmutate: {type: settings.v1.Thing, name: a, data: {}}\nexpect: {data: {text: '{}'}}\n";
    let of = |fuel: u64| format!("[sandbox]\nfuel = {fuel}\n");
    let done = run("test", "settings", &of(100_000_000), cases, &[]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    let done = run("test", "settings", &of(1_000), cases, &[]).await;
    assert_eq!(done.code, Some(1), "{}{}", done.out, done.err);
    assert!(done.out.contains("sandbox.fuel") || done.err.contains("sandbox.fuel"), "{}{}", done.out, done.err);
}

#[tokio::test]
async fn inspect_shows_what_the_server_grants_and_whether_it_loads_the_plugin() {
    let granted = "[plugin.reconcile-asking.grants]\nhttp = [\"a.example.org\"]\n[plugin.reconcile-asking.grants.directories]\nout = { path = \
                   \"OUT\", write = true }\n";
    let done = run("inspect", "reconcile-asking", granted, "", &[]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    for line in [
        "  requests    directories.out (granted): files go there\n",
        "  granted     directories.out\n",
        "  granted     http a.example.org (no effect: it does not request this)\n",
        " accepts it, and config.toml has what it needs\n",
    ] {
        assert!(done.out.contains(line), "{line}: {}", done.out);
    }
    let done = run("inspect", "reconcile-asking", "", "", &[]).await;
    assert!(done.out.contains("  requests    directories.out (not granted): files go there\n"), "{}", done.out);
    let json = run("inspect", "reconcile-asking", granted, "", &["-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!((&json["loads"], &json["requests"][0]["granted"]), (&true.into(), &true.into()), "{json}");

    let refused = "[plugin.settings.settings]\ncolour = \"bad\"\n";
    for (command, args) in [("inspect", &[][..]), ("bench", &["-n", "1"]), ("conformance", &[])] {
        let done = run(command, "settings", refused, "", args).await;
        assert_eq!(done.code, Some(1), "{command}: {}{}", done.out, done.err);
        assert!(done.err.contains("plugin.settings.settings.colour: is bad"), "{command}: {}", done.err);
    }
    let json = run("inspect", "settings", refused, "", &["-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["loads"], false, "{json}");
    assert!(json["fault"].as_str().unwrap().contains("is bad"), "{json}");
}

#[tokio::test]
async fn a_wrong_configuration_is_refused_before_anything_runs() {
    for command in ["inspect", "test", "bench", "conformance"] {
        let done = run(command, "settings", "[sandbox]\nfule = 1\n", "", &[]).await;
        assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{command}: {}", done.err);
        assert!(done.err.contains("fule") && done.err.contains("hint: `mortise validate config.toml`"), "{}", done.err);
    }
    let dir = tempfile::tempdir().unwrap();
    let done = plugin(dir.path(), &["inspect", "settings", "--config", "config.toml"]).await;
    assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{}", done.err);
    assert!(done.err.starts_with("mortise: --config is for a component's file"), "{}", done.err);
}
