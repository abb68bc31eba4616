//! Settings of single plugins: passed on, checked, limited. And the ranges of all settings.

use crate::support::{Server, Setup, artist, decoded, eventually, is_left_out_over_etcd, mortise, thing};
use mortise_test_guests::Thing;

/// A server with the guest, and settings of it.
async fn configured(settings: &str) -> Server {
    Setup::new().guest("settings").config(format!("[plugin.settings.settings]\n{settings}\n")).start().await
}

async fn told(server: &Server) -> String {
    let written = server.write(thing("settings", "one", &Thing::default())).await.unwrap();
    decoded::<Thing>(&written).text
}

#[tokio::test]
async fn a_plugin_is_told_its_own_settings_as_json() {
    let text = "[plugin.settings.settings]\ncolour = \"red\"\ndays = [1979-05-27]\ninner.deep = 1.5\n\
                [plugin.other.settings]\nsecret = \"of another\"\n";
    let server = Setup::new().guest("settings").config(text).start().await;
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
    let server = configured("colour = \"bad\"").await;
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
    let server = configured("colour = \"odd\"").await;
    assert_eq!(told(&server).await, r#"{"colour":"odd"}"#);
    assert!(server.log().contains("settings plugin.settings.settings.colour: is odd"), "{}", server.log());
}

#[tokio::test]
async fn a_check_that_never_ends_is_ended() {
    let server = configured("a = \"spin\"").await;
    let line = server.refused_file("settings.wasm");
    assert!(line.contains("plugin settings 0.1.0: hook check "), "{line}");
    assert!(line.contains("sandbox.fuel") || line.contains("sandbox.describe_deadline_ms"), "{line}");
}

#[tokio::test]
async fn settings_are_bounded() {
    let setup = Setup::new().guest("settings").limit("plugin_settings_bytes", 20);
    let server = setup.config("[plugin.settings.settings]\na = \"more than twenty bytes\"\n").start().await;
    let line = server.refused_file("settings.wasm");
    assert!(line.contains("settings plugin.settings.settings: they take 30 bytes as JSON"), "{line}");
    assert!(line.contains("more than the limit of 20 (a fixed limit)"), "{line}");
}

/// The demo plugin has no check, so it accepts any settings.
#[tokio::test]
async fn a_plugin_without_a_check_takes_any_settings() {
    let server = Setup::new().config("[plugin.demo.settings]\nbad = true\n").start().await;
    server.write(artist("korn")).await.unwrap();
}

#[tokio::test]
async fn what_json_cannot_say_is_an_error_at_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.toml");
    std::fs::write(&path, "[plugin.demo.settings]\nlimit = inf\n").unwrap();
    let (code, _, err) = mortise(&["dev", "--config", path.to_str().unwrap()], &[]).await;
    assert_eq!(code, Some(2), "{err}");
    assert!(err.contains("plugin.demo.settings.limit: must be finite"), "{err}");
}

/// Values that used to crash the server, keep it from serving, or break every plugin.
#[tokio::test]
async fn a_setting_out_of_its_range_is_code_2_with_its_name_its_value_and_its_range() {
    let cases = [
        ("service.max_watches", "9223372036854775807", "1 to 1000000", "9223372036854775807"),
        ("service.max_watches", "0", "1 to 1000000", "0"),
        ("service.max_request_bytes", "0", "1KiB to 1GiB", "0"),
        ("grpc.max_connections", "1000001", "1 to 1000000", "1000001"),
        ("http.max_connections", "0", "1 to 1000000", "0"),
        ("http.keep_alive_ms", "9", "10ms to 24h", "9ms"),
        ("store.cache_bytes", "1", "0, or 64KiB to 1TiB", "1B"),
        ("store.cache_bytes", "\"255 B\"", "0, or 64KiB to 1TiB", "255B"),
        ("store.max_resource_bytes", "0", "4KiB to 1GiB", "0"),
        ("sandbox.concurrency", "2305843009213693952", "1 to 10000", "2305843009213693952"),
        ("sandbox.memory_bytes", "\"4097MiB\"", "64KiB to 4GiB", "4097MiB"),
        ("sandbox.memory_bytes", "0", "64KiB to 4GiB", "0"),
        ("sandbox.fuel", "0", "1 to 9223372036854775807", "0"),
        ("sandbox.fuel", "-1", "1 to 9223372036854775807", "-1"),
        ("sandbox.fuel", "99999999999999999999", "1 to 9223372036854775807", "99999999999999999999"),
        ("controllers.deadline_ms", "86400001", "1ms to 24h", "86400001ms"),
        ("quarantine.faults", "10001", "1 to 10000", "10001"),
        ("kv.keys", "10000001", "0 to 10000000", "10000001"),
        ("shutdown_grace_ms", "\"25h\"", "0 to 24h", "25h"),
    ];
    let dir = tempfile::tempdir().unwrap();
    let (data, file) = (dir.path().join("data"), dir.path().join("config.toml"));
    for (key, value, range, got) in cases {
        let (name, value) = (format!("MORTISE_{}", key.to_uppercase().replace('.', "_")), value.trim_matches('"'));
        let (code, out, err) = mortise(&["serve", "--data-dir", data.to_str().unwrap()], &[(&name, value)]).await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{key} = {value}: {err}");
        assert_eq!(err, format!("mortise: environment variable {name}: {key} must be {range}, got {got}\n"));
    }
    for (key, value, range, got) in cases.into_iter().filter(|(_, value, ..)| *value != "99999999999999999999") {
        std::fs::write(&file, format!("{key} = {value}\n")).unwrap();
        let (file, data) = (file.to_str().unwrap(), data.to_str().unwrap());
        let (code, out, err) = mortise(&["serve", "--data-dir", data, "--config", file], &[]).await;
        assert_eq!((code, out.as_str()), (Some(2), ""), "{key} = {value}: {err}");
        assert_eq!(err, format!("mortise: configuration {file}: {key} must be {range}, got {got}\n"));
    }
    assert!(!data.exists(), "nothing is opened before");
}

/// A server with every setting at an end of its range serves.
#[tokio::test]
async fn the_ends_of_the_ranges_serve() {
    if is_left_out_over_etcd("etcd takes no resources of more than 1 MiB") {
        return;
    }
    let least = [
        ("MORTISE_SERVICE_MAX_WATCHES", 1_u64),
        ("MORTISE_STORE_CACHE_BYTES", 64 << 10),
        ("MORTISE_STORE_MAX_RESOURCE_BYTES", 4 << 10),
        ("MORTISE_STORE_HISTORY_EVENTS", 0),
        ("MORTISE_SANDBOX_CONCURRENCY", 1),
        ("MORTISE_SANDBOX_REPLY_BYTES", 64 << 10),
        // Fewer than put a hook on probation.
        ("MORTISE_QUARANTINE_FAULTS", 1),
    ];
    let most = [
        ("MORTISE_SERVICE_MAX_WATCHES", 1_000_000),
        ("MORTISE_STORE_CACHE_BYTES", 1 << 40),
        ("MORTISE_STORE_MAX_RESOURCE_BYTES", 1 << 30),
        ("MORTISE_SANDBOX_CONCURRENCY", 10_000),
        ("MORTISE_SANDBOX_MEMORY_BYTES", 4 << 30),
    ];
    for ends in [&least[..], &most[..]] {
        let setup = ends.iter().fold(Setup::new(), |setup, (name, value)| setup.env(name, value));
        setup.start().await.write(artist("korn")).await.unwrap();
    }
}

/// A starting server would refuse the level, so a running one reports it.
#[tokio::test]
async fn an_invalid_log_level_is_an_error_when_the_configuration_changes() {
    let setup = Setup::new().limit("plugin_rescan_ms", 200);
    let server = setup.config("[plugin.demo]\nlog_level = \"warn\"\n").start().await;
    server.configure("[plugin.demo]\nlog_level = \"loud\"\n");
    eventually("the error is logged", async || {
        server.log().lines().any(|line| {
            line.contains("ERROR") && line.contains("is rejected") && line.contains("plugin.demo.log_level \"loud\"")
        })
    })
    .await;
    server.write(artist("korn")).await.unwrap();
}
