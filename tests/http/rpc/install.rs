//! Installs over HTTP, and their dry runs.

use std::fs;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use mortise_keys::signature::{KeyPair, SecretKey, SigningError, sign};
use mortise_test_guests::{Thing, component};
use serde_json::json;
use tokio::{io::AsyncWriteExt as _, net::TcpStream};

use super::call;
use crate::support::{
    Server, Setup,
    http::Answer,
    id, mortise,
    plugins::{Plugins as _, sha256},
    thing, until_closed,
};

/// Uploads a component.
async fn upload(server: &Server, query: &str, bytes: Vec<u8>) -> Answer {
    let path = format!("/rpc/mortise.v1.PluginService/Install?{query}");
    server.ask("POST", &path).header("content-type", "application/wasm").body(bytes).await_answer().await
}

#[tokio::test]
async fn a_component_is_installed_from_the_body() {
    let server = Setup::new().env("MORTISE_SANDBOX_COMPONENT_BYTES", 4 << 20).start().await;
    let one = fs::read(component("version-stamp-1")).unwrap();
    let digest = sha256(&one);
    for (query, says) in [
        ("name=version-stamp".to_owned(), "sha256 is required"),
        (format!("sha256={digest}"), "name is required"),
        (format!("name=version-stamp&sha256={digest}&dryrun=true"), "\"dryrun\" is unknown"),
        (format!("name=version-stamp&name=b&sha256={digest}"), "there twice"),
        (format!("named_by_manifest=maybe&sha256={digest}"), "true or false"),
        (format!("name=version-stamp&named_by_manifest&sha256={digest}"), "exclude each other"),
        (format!("name=version-stamp&sha256={}", sha256(b"other")), "the content's SHA-256 is"),
        (format!("name=other&sha256={digest}"), "it is named \"version-stamp\""),
    ] {
        let answer = upload(&server, &query, one.clone()).await;
        assert_eq!(answer.code(), 400, "{query}: {answer:?}");
        assert!(answer.json()["detail"].as_str().unwrap().contains(says), "{query}: {answer:?}");
    }
    let large = vec![0; 5 << 20];
    let answer = upload(&server, &format!("name=large&sha256={}", sha256(&large)), large).await;
    let problem = answer.problem(429, "resource-exhausted");
    assert!(problem["detail"].as_str().unwrap().contains("sandbox.component_bytes"), "{problem}");
    let path = format!("/rpc/mortise.v1.PluginService/Install?name=version-stamp&sha256={digest}");
    let json = server.ask("POST", &path).json(&json!({})).await_answer().await;
    json.problem(415, "unsupported-media-type");
    assert_eq!(json.header("accept"), "application/wasm");
    for signature in ["no base64", "", "YQ==, YQ=="] {
        let asking = server.ask("POST", &path).header("content-type", "application/wasm").body(one.clone());
        let answer = asking.header("x-mortise-signature", signature).await_answer().await;
        answer.problem(400, "invalid-argument");
    }
    assert_eq!(server.plugin_names().await, ["catalog", "demo"]);

    let installed = upload(&server, &format!("name=version-stamp&sha256={digest}"), one.clone()).await.ok();
    assert_eq!(installed["plugin"]["data"]["digest"], digest);
    assert_eq!(fs::read(server.plugin_dir.join("version-stamp.wasm")).unwrap(), one);
    let again = upload(&server, &format!("named_by_manifest=true&sha256={digest}"), one).await.ok();
    assert_eq!(again["unchanged"], true, "{again}");
    let removed = call(&server, "mortise.v1.PluginService/Remove", json!({ "name": "version-stamp" })).await;
    assert_eq!(removed.code(), 200, "{removed:?}");
}

#[tokio::test]
async fn an_upload_that_stalls_ends_at_its_limit() {
    let server = Setup::new().env("MORTISE_GRPC_UPLOAD_TIMEOUT_MS", 1_000).start().await;
    let mut stream = TcpStream::connect(server.http).await.unwrap();
    let head = format!(
        "POST /rpc/mortise.v1.PluginService/Install?name=idle&sha256={} HTTP/1.1\r\nhost: localhost\r\n\
         content-type: application/wasm\r\ncontent-length: 100\r\nconnection: close\r\n\r\nx",
        sha256(b"x")
    );
    stream.write_all(head.as_bytes()).await.unwrap();
    let (answer, _) = until_closed(&mut stream).await;
    assert!(answer.starts_with("HTTP/1.1 504 ") && answer.contains("grpc.upload_timeout_ms"), "{answer}");
}

#[tokio::test]
async fn a_dry_run_of_an_install_makes_every_check_and_changes_nothing() {
    let server = Server::start().await;
    let (one, two) = (fs::read(component("version-stamp-1")).unwrap(), fs::read(component("version-stamp-2")).unwrap());
    let dry = async |name: &str, bytes: &[u8]| {
        upload(&server, &format!("name={name}&dry_run=true&sha256={}", sha256(bytes)), bytes.to_vec()).await
    };
    let tried = dry("version-stamp", &one).await.ok();
    assert_eq!(tried["dryRun"], true, "{tried}");
    let data = &tried["plugin"]["data"];
    assert_eq!((&data["version"], &data["digest"]), (&json!("1.0.0"), &json!(sha256(&one))), "{tried}");
    assert_eq!(data["types"][0]["type"]["group"], "version_stamp", "{tried}");
    assert!(data.get("loadedAt").is_none(), "{tried}");
    assert_eq!(server.plugin_names().await, ["catalog", "demo"]);
    assert_eq!(fs::read_dir(&server.plugin_dir).unwrap().count(), 0);
    assert!(server.is_unknown("version_stamp.v1.Thing").await);
    dry("other", &one).await.problem(400, "invalid-argument");
    dry("version-stamp", b"junk").await.problem(400, "invalid-argument");
    dry("demo", &one).await.problem(409, "failed-precondition");

    server.install("version-stamp", &one).await.unwrap();
    let before = server.plugin("version-stamp").await.unwrap();
    let again = dry("version-stamp", &one).await.ok();
    assert_eq!((&again["unchanged"], &again["dryRun"]), (&json!(true), &json!(true)), "{again}");
    let newer = dry("version-stamp", &two).await.ok();
    let data = &newer["plugin"]["data"];
    assert_eq!((&data["version"], &data["previousVersion"]), (&json!("2.0.0"), &json!("1.0.0")), "{newer}");
    assert_eq!(newer["plugin"]["id"]["uid"], before.resource.id.as_ref().unwrap().uid, "{newer}");
    assert_eq!(server.plugin("version-stamp").await.unwrap(), before, "not even a version of its resource");

    let file = component("version-stamp-2");
    let addr = server.grpc.to_string();
    let args =
        ["plugin", "install", file.to_str().unwrap(), "--name", "version-stamp", "--dry-run", "--grpc-addr", &addr];
    let (code, out, err) = mortise(&args, &[]).await;
    assert!(
        code == Some(0) && out.contains("version 2.0.0") && out.contains("would serve; nothing changed"),
        "{out}{err}"
    );
    assert_eq!(server.plugin("version-stamp").await.unwrap(), before);
}

/// The trial upgrades and decodes every stored resource.
#[tokio::test]
async fn a_dry_run_of_an_install_finds_stored_resources_that_do_not_fit() {
    let older = fs::read(component("schema-1")).unwrap();
    let server = Setup::new().component("schema", older).start().await;
    let stuck = |text: &str| thing("schema", "thing", &Thing { text: text.to_owned(), ..Thing::default() });
    let newer = fs::read(component("schema-2")).unwrap();
    let query = format!("name=schema&dry_run&sha256={}", sha256(&newer));
    server.write(stuck("stuck")).await.unwrap();
    let problem = upload(&server, &query, newer.clone()).await.problem(409, "failed-precondition");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("UpgradeFailed: ") && detail.contains("it is stuck"), "{detail}");
    server.write(stuck("fine")).await.unwrap();
    let tried = upload(&server, &query, newer).await.ok();
    assert_eq!(tried["plugin"]["data"]["types"][0]["upgrading"], true, "{tried}");
    let read = server.read(&id("schema.v1.Thing", "thing")).await.unwrap();
    assert!(read.schema_version <= 1, "nothing was upgraded");
}

#[tokio::test]
async fn a_signature_comes_in_a_header() {
    let pair = KeyPair::generate(None).unwrap();
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("k.key"), &pair.secret).unwrap();
    let secret = SecretKey::read(&dir.path().join("k.key"), || Err(SigningError::PasswordMissing)).unwrap();
    let setup = Setup::new().env("MORTISE_PLUGINS_TRUSTED_KEYS", pair.public.lines().nth(1).unwrap());
    let server = setup.env("MORTISE_PLUGINS_REQUIRE_SIGNED", true).start().await;
    let one = fs::read(component("version-stamp-1")).unwrap();
    let query = format!("name=version-stamp&sha256={}", sha256(&one));
    let refused = upload(&server, &query, one.clone()).await.problem(409, "failed-precondition");
    assert!(refused["detail"].as_str().unwrap().starts_with("NotSigned: "), "{refused}");
    let signature = sign(&one, "version-stamp.wasm", &secret, Some("release 7")).unwrap();
    let path = format!("/rpc/mortise.v1.PluginService/Install?{query}");
    let asking = server.ask("POST", &path).header("content-type", "application/wasm").body(one);
    let asking = asking.header("x-mortise-signature", &BASE64_STANDARD.encode(&signature));
    let installed = asking.await_answer().await.ok();
    assert!(installed["plugin"]["data"]["trust"].as_str().unwrap().contains("release 7"), "{installed}");
    assert_eq!(fs::read_to_string(server.plugin_dir.join("version-stamp.wasm.minisig")).unwrap(), signature);
}
