//! Settings of single plugins: told, checked, bounded.

use crate::common::{Server, Setup, artist, decoded, thing};
use mortise_test_guests::Thing;

/// A server with a configuration file; the directory must outlive it.
async fn configured(text: &str, setup: Setup) -> (Server, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, text).unwrap();
    let server = setup.arg("--config").arg(path.display().to_string()).start().await;
    (server, dir)
}

async fn told(server: &Server) -> String {
    let written = server.write(thing("settings", "one", &Thing::default())).await.unwrap();
    decoded::<Thing>(&written).text
}

#[tokio::test]
async fn a_plugin_is_told_its_own_settings_as_json() {
    let text = "[plugin.settings.settings]\ncolour = \"red\"\ndays = [1979-05-27]\ninner.deep = 1.5\n\
                [plugin.other.settings]\nsecret = \"of another\"\n";
    let (server, _dir) = configured(text, Setup::new().guest("settings")).await;
    assert_eq!(told(&server).await, r#"{"colour":"red","days":["1979-05-27"],"inner":{"deep":1.5}}"#);
    assert!(
        server.log().contains("plugin.other is configured, but no plugin of that name is loaded"),
        "{}",
        server.log()
    );
    assert!(!server.log().contains("plugin.settings is configured, but"), "{}", server.log());
}

#[tokio::test]
async fn without_settings_there_is_an_empty_object() {
    let server = Setup::new().guest("settings").start().await;
    assert_eq!(told(&server).await, "{}");
}

#[tokio::test]
async fn settings_that_the_plugin_refuses_keep_it_out_and_nothing_else() {
    let (server, _dir) =
        configured("[plugin.settings.settings]\ncolour = \"bad\"\n", Setup::new().guest("settings")).await;
    let line = server.refused_file("settings.wasm");
    for says in [
        "settings plugin.settings.settings.colour: is bad (Try another.)",
        "; plugin.settings.settings: are bad as a whole",
    ] {
        assert!(line.contains(says), "{line}");
    }
    assert!(server.is_unknown("settings.v1.Thing").await);
    server.write(artist("korn")).await.unwrap();
}

#[tokio::test]
async fn a_warning_is_said_and_the_plugin_serves() {
    let (server, _dir) =
        configured("[plugin.settings.settings]\ncolour = \"odd\"\n", Setup::new().guest("settings")).await;
    assert_eq!(told(&server).await, r#"{"colour":"odd"}"#);
    assert!(server.log().contains("settings plugin.settings.settings.colour: is odd"), "{}", server.log());
}

#[tokio::test]
async fn a_check_that_never_ends_is_ended() {
    let (server, _dir) = configured("[plugin.settings.settings]\na = \"spin\"\n", Setup::new().guest("settings")).await;
    let line = server.refused_file("settings.wasm");
    assert!(line.contains("plugin settings 0.1.0: hook check "), "{line}");
    assert!(line.contains("sandbox.fuel") || line.contains("sandbox.describe_deadline_ms"), "{line}");
}

#[tokio::test]
async fn settings_are_bounded() {
    let setup = Setup::new().guest("settings").env("MORTISE_SANDBOX_SETTINGS_BYTES", 20);
    let (server, _dir) = configured("[plugin.settings.settings]\na = \"more than twenty bytes\"\n", setup).await;
    let line = server.refused_file("settings.wasm");
    assert!(line.contains("settings plugin.settings.settings: they take 30 bytes as JSON"), "{line}");
    assert!(line.contains("more than the limit of 20 (sandbox.settings_bytes)"), "{line}");
}

/// What the demo plugin has no check for, it takes.
#[tokio::test]
async fn a_plugin_without_a_check_takes_any_settings() {
    let (server, _dir) = configured("[plugin.demo.settings]\nbad = true\n", Setup::new()).await;
    server.write(artist("korn")).await.unwrap();
}

#[tokio::test]
async fn what_json_cannot_say_is_an_error_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "[plugin.demo.settings]\nlimit = inf\n").unwrap();
    let (code, _, err) = crate::common::mortise(&["dev", "--config", path.to_str().unwrap()], &[]).await;
    assert_ne!(code, Some(0));
    assert!(err.contains("plugin.demo.settings.limit: must be finite"), "{err}");
}
