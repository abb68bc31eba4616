//! Commands of operators: the state of a server and of its plugins, backups, and work on a stopped server's data.

use mortise_test_guests::component;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::support::{Server, Setup, artist, controllers::report_until, is_left_out_over_etcd, transcript::Transcript};

#[tokio::test]
async fn the_state_of_a_server() {
    let server = Setup::new().guest("reconcile-copy").start().await;
    server.write(artist("korn")).await.unwrap();
    report_until(&server, "reconcile-copy/copies", |seen| seen.state == "Running").await;
    report_until(&server, "reaper", |seen| seen.state == "Running").await;
    let mut t = Transcript::new("state", &server);
    t.call(server.data_dir.to_str().unwrap(), "<data>");
    t.works(&["status"]).await;
    t.works(&["controllers"]).await;
    t.works(&["controllers", "reconcile-copy/copies"]).await;
    t.works(&["controllers", "--plugin", "reconcile-copy"]).await;
    t.works(&["controllers", "--plugin", "nobody"]).await;
    t.fails(1, &["controllers", "nobody"]).await;
    t.fails(2, &["controllers", "nobody", "--plugin", "demo"]).await;
    t.works(&["regions"]).await;
    t.fails(1, &["regions", "nobody"]).await;
    t.fails(2, &["status", "artist"]).await;
    t.fails(1, &["status", "artist", "nobody"]).await;
    t.works(&["top", "--once", "--interval", "100ms"]).await;
    t.fails(2, &["top", "--once", "--interval", "soon"]).await;
    t.finish_without_numbers();
}

/// JSON for programs: complete, with the names of protobuf's JSON.
#[tokio::test]
async fn the_state_of_a_server_as_json() {
    let server = Setup::new().guest("reconcile-copy").start().await;
    server.write(artist("korn")).await.unwrap();
    report_until(&server, "reconcile-copy/copies", |seen| seen.state == "Running").await;
    let mut t = Transcript::new("state_json", &server);
    let mut json = async |args: &[&str]| -> Value { serde_json::from_str(&t.works(args).await).unwrap() };
    let status = json(&["status", "-o", "json"]).await;
    assert_eq!((&status["version"], &status["mode"]), (&env!("CARGO_PKG_VERSION").into(), &"dev".into()));
    let artists = status["store"]["resources"].as_array().unwrap().iter().find(|count| count["kind"] == "Artist");
    assert_eq!(artists.unwrap()["count"], "1");
    let all = json(&["controllers", "-o", "json"]).await;
    let one = json(&["controllers", "reconcile-copy/copies", "-o", "json"]).await;
    assert_eq!((&one["name"], &one["state"]), (&"reconcile-copy/copies".into(), &"Running".into()));
    assert!(all["controllers"].as_array().unwrap().iter().any(|other| other["name"] == one["name"]));
    let types = json(&["types", "-o", "json"]).await;
    assert!(types["types"].as_array().unwrap().iter().any(|t| t["type"]["kind"] == "Artist" && t["plugin"] == "demo"));
    let plugin = json(&["plugin", "inspect", "demo", "-o", "json"]).await;
    assert_eq!((&plugin["stage"], &plugin["plugin"]["id"]["name"]), (&"Serving".into(), &"demo".into()));
    let none = json(&["status", "artist", "korn", "-o", "json"]).await;
    assert_eq!(none, serde_json::json!({}));
    let demo = json(&["status", "mortise.v1.Plugin", "demo", "-o", "json"]).await;
    assert_eq!(demo["mortise"]["conditions"][0]["type"], "Loaded");
}

#[tokio::test]
async fn the_life_of_a_plugin() {
    let server = Server::start().await;
    let mut t = Transcript::new("plugins", &server);
    t.file("one.wasm", std::fs::read(component("version-stamp-1")).unwrap());
    t.file("two.wasm", std::fs::read(component("version-stamp-2")).unwrap());
    t.file("junk.wasm", "junk");
    t.file("text", "no component");
    let name = "version-stamp";
    t.works(&["plugin", "install", "one.wasm", "--name", name]).await;
    t.works(&["plugin", "install", "one.wasm", "--name", name]).await;
    t.works(&["plugin", "install", "two.wasm", "--name", name]).await;
    t.works(&["plugin", "list"]).await;
    t.works(&["plugin", "inspect", name]).await;
    t.works(&["plugin", "rollback", name]).await;
    t.fails(1, &["plugin", "rollback", "demo"]).await;
    t.works(&["plugin", "disable", name]).await;
    t.works(&["plugin", "disable", name]).await;
    t.works(&["plugin", "list"]).await;
    t.works(&["plugin", "enable", name]).await;
    t.works(&["plugin", "reset", name]).await;
    t.works(&["plugin", "logs", name]).await;
    t.works(&["plugin", "remove", name]).await;
    t.fails(1, &["plugin", "remove", name]).await;
    t.fails(1, &["plugin", "install", "junk.wasm"]).await;
    t.fails(1, &["plugin", "install", "one.wasm", "--name", "other"]).await;
    t.fails(2, &["plugin", "install", "nowhere.wasm"]).await;
    t.fails(1, &["plugin", "install", "one.wasm", "--name", "No Name"]).await;
    for order in ["remove", "rollback", "reset", "enable", "disable", "inspect", "logs"] {
        t.fails(1, &["plugin", order, "nobody"]).await;
    }
    t.fails(2, &["plugin", "promote", name]).await;
    t.finish_without_numbers();
}

#[tokio::test]
async fn backups_and_closed_stores() {
    if is_left_out_over_etcd("commits count from the revision of etcd") {
        return;
    }
    let server = Server::start().await;
    server.write(artist("korn")).await.unwrap();
    let mut t = Transcript::new("backups", &server);
    t.works(&["backup", "all.tar.gz"]).await;
    t.fails(2, &["backup", "all.tar.gz"]).await;
    t.works(&["backup", "all.tar.gz", "--force"]).await;
    t.fails(2, &["backup", "nowhere/all.tar.gz"]).await;
    let into = ["--data-dir", "data", "--plugin-dir", "folder"];
    let with = |args: &[&'static str]| [args, &into[..]].concat();
    t.works(&with(&["restore", "all.tar.gz", "--dry-run"])).await;
    t.works(&with(&["restore", "all.tar.gz"])).await;
    t.fails(2, &with(&["restore", "all.tar.gz"])).await;
    t.works(&with(&["restore", "all.tar.gz", "--force"])).await;
    t.fails(2, &with(&["restore", "all.tar.gz", "--force", "--dry-run"])).await;
    t.fails(2, &with(&["restore", "nowhere.tar.gz"])).await;
    let whole = std::fs::read(t.dir().join("all.tar.gz")).unwrap();
    t.file("cut.tar.gz", &whole[..whole.len() - 9]);
    t.file("text", "hello");
    t.fails(1, &with(&["restore", "cut.tar.gz"])).await;
    t.fails(2, &with(&["restore", "text"])).await;
    t.works(&["check", "--data-dir", "data"]).await;
    t.fails(2, &["check", "--data-dir", "nowhere"]).await;
    t.file("data/store/store/closed-at", "mortise-commit 1000000\n");
    t.fails(1, &["check", "--data-dir", "data"]).await;
    t.fails(1, &["serve", "--data-dir", "data", "--plugin-dir", "folder", "--grpc-addr", "127.0.0.1:0"]).await;
    // A salvage returns the readable part of a damaged store or of a cut backup; it never replaces existing data.
    t.fails(1, &["restore", "--salvage", "data", "--data-dir", "saved"]).await;
    t.works(&["check", "--data-dir", "saved", "--work-dir", "work"]).await;
    t.fails(2, &["restore", "--salvage", "data", "--data-dir", "saved"]).await;
    t.works(&["restore", "--salvage", "cut.tar.gz", "--data-dir", "saved-of-backup"]).await;
    t.fails(2, &["restore", "--salvage", "text", "--data-dir", "nothing"]).await;
    t.fails(2, &["restore", "--salvage", "data", "--data-dir", "other", "--force"]).await;
    t.finish_without_numbers();
}

#[tokio::test]
async fn the_chain_of_the_audit_log() {
    let mut t = Transcript::at("audit", "127.0.0.1:1");
    let first = r#"{"method":"Write","seq":1}"#;
    let digest = format!("{:x}", Sha256::digest(first));
    let next = |number: u64| format!("{{\"method\":\"Write\",\"seq\":{number},\"prev\":\"{digest}\"}}\n");
    t.file("whole.jsonl", format!("{first}\n{}{{\"ti", next(2)));
    t.works(&["audit", "verify", "whole.jsonl"]).await;
    t.file("gap.jsonl", format!("{first}\n{}", next(4)));
    t.fails(1, &["audit", "verify", "gap.jsonl"]).await;
    t.file("more.jsonl", format!("{{\"method\":\"Read\"}}\n{first}\n"));
    t.fails(1, &["audit", "verify", "more.jsonl"]).await;
    t.fails(2, &["audit", "verify", "--data-dir", "nowhere"]).await;
    t.file("nothing/mine", "");
    t.fails(2, &["audit", "verify", "nothing"]).await;
    t.finish();
}
