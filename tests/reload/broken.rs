//! Broken replacements, each with one fault: the former version serves throughout, calls continue, and the plugin's
//! resource reports the fault.

use std::{
    fs,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use crate::support::{Client, Server, Setup, any, eventually, id, plugins::Plugins as _, refusal, resource};
use mortise_resource::{data, manifest, pb};
use mortise_test_guests::{Thing, bad_manifests, change_files, component, good_manifest, manifest_only};
use prost::Message as _;
use tonic::Code;

const GOOD: &str = "good.v1.Thing";

/// The good plugin with a change.
fn good(change: impl FnOnce(&mut manifest::Manifest)) -> Vec<u8> {
    let mut changed = manifest::Manifest::decode(good_manifest().encode_to_vec().as_slice()).unwrap();
    changed.types[0].schema_version = 2;
    let mut second = changed.types[0].clone();
    second.kind = "Other".into();
    changed.types.push(second);
    change(&mut changed);
    manifest_only(&changed.encode_to_vec())
}

fn guest(name: &str) -> Vec<u8> {
    fs::read(component(name)).unwrap()
}

fn stored() -> pb::Resource {
    resource(id(GOOD, "fine"), Some(any("mortise.test.v1.Thing", &Thing { text: "x".into(), ..Default::default() })))
}

/// A server that serves the good plugin, with a stored resource.
async fn serving() -> Server {
    let server = Setup::new()
        .component("good", good(|_| {}))
        .guest("prior")
        .limit("plugin_unfinished_ms", 100)
        .limit("plugin_rescan_ms", 200)
        .env("MORTISE_SANDBOX_COMPONENT_BYTES", 4 << 20)
        .start()
        .await;
    server.write(stored()).await.unwrap();
    server
}

/// A message of the same name whose first field is a number.
fn incompatible(manifest: &mut manifest::Manifest) {
    change_files(manifest, |file| {
        for thing in file.message_type.iter_mut().filter(|m| m.name() == "Thing") {
            for field in &mut thing.field {
                (field.r#type, field.type_name) = (Some(6), None);
            }
        }
    });
}

fn bad_manifest(name: &str) -> Vec<u8> {
    bad_manifests().into_iter().find(|(known, _)| *known == name).unwrap().1
}

/// The fault, the replacement of the good plugin, the expected reason, and a part of the message.
fn broken() -> Vec<(&'static str, Vec<u8>, &'static str, &'static str)> {
    let whole = good(|_| {});
    vec![
        ("truncated", whole[..whole.len() - 3].to_vec(), "Truncated", "copy the whole file again"),
        ("empty", Vec::new(), "Truncated", "0 bytes"),
        ("not wasm", b"#!/bin/sh\n".to_vec(), "NotAComponent", "does not begin as WebAssembly"),
        ("core module", b"\0asm\x01\0\0\0".to_vec(), "NotAComponent", "core module"),
        ("noise", [b"\0asm\x0d\0\x01\0".as_slice(), &[0xff; 64]].concat(), "NotAComponent", "not a WebAssembly"),
        ("wrong world", b"\0asm\x0d\0\x01\0".to_vec(), "WrongContract", "not a Mortise plugin"),
        ("unknown import", guest("unknown-import"), "UnknownImport", "teleport"),
        ("missing hook", guest("missing-hook"), "BadManifest", "validating"),
        ("trap in describe", guest("describe-panic"), "DescribeFailed", "trapped"),
        ("endless describe", guest("describe-loop"), "DescribeFailed", "describe"),
        ("oversized", vec![0; 5 << 20], "TooLarge", "sandbox.component_bytes"),
        ("bad descriptor", bad_manifest("broken-descriptors"), "BadManifest", "mortise.test.v1.Lost"),
        ("no manifest", bad_manifest("not-protobuf"), "BadManifest", "Manifest"),
        ("reserved group", good(|m| m.types[0].group = "tenancy".into()), "ReservedGroup", "belongs to the host"),
        ("taken type", good(|m| m.types[1].group = "prior".into()), "", ""),
        ("renamed", good(|m| m.name = "better".into()), "Renamed", "\"better\""),
        ("lost type", good(|m| drop(m.types.remove(0))), "TypeLost", "\"fine\""),
        ("changed scope", good(|m| m.types[0].scope = 1), "ScopeChanged", "good.v1.Thing"),
        ("changed scope, nothing stored", good(|m| m.types[1].scope = 2), "ScopeChanged", "good.v1.Other"),
        (
            "lower schema version",
            good(|m| m.types[0].schema_version = 1),
            "SchemaVersionLower",
            "would fall from 2 to 1",
        ),
        ("undecodable data", good(incompatible), "DataDoesNotDecode", "\"fine\""),
        ("two scopes", good(|m| m.types[1].kind = "Thing".into()), "", ""),
    ]
}

/// Writes and reads repeatedly; no call may fail.
async fn write_and_read(mut client: Client, calls: Arc<AtomicU64>, stop: Arc<AtomicBool>) {
    while !stop.load(Ordering::Relaxed) {
        let mut resource = stored();
        resource.id.as_mut().unwrap().name = "traffic".into();
        let written = client.write(pb::WriteRequest { resource: Some(resource) }).await.unwrap().into_inner().resource;
        client.read(pb::ReadRequest { id: written.unwrap().id }).await.unwrap();
        calls.fetch_add(1, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn the_version_before_serves_and_the_resource_says_why() {
    let server = serving().await;
    let before = server.plugin("good").await.unwrap().data;
    let path = server.plugin_dir.join("good.wasm");
    let mut cases = broken();
    for case in &mut cases {
        match case.0 {
            "taken type" => {
                case.1 = good(|m| (m.types[1].group, m.types[1].kind) = ("prior".into(), "Thing".into()));
                (case.2, case.3) = ("TypeTaken", "\"prior\"");
            }
            "two scopes" => {
                case.1 = good(|m| {
                    let mut v2 = m.types[0].clone();
                    (v2.group_version, v2.scope) = ("v2".into(), 1);
                    m.types.push(v2);
                });
                (case.2, case.3) = ("ScopesDiffer", "another scope");
            }
            _ => {}
        }
    }
    let (traffic, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
    let client = tokio::spawn(write_and_read(server.client(), traffic.clone(), stop.clone()));
    for (what, bytes, reason, says) in cases {
        let served = traffic.load(Ordering::Relaxed);
        fs::write(&path, &bytes).unwrap();
        let seen = server.plugin_until("good", |p| p.reason == reason && p.message.contains(says)).await;
        assert_eq!(seen.loaded, pb::condition::State::False, "{what}");
        assert!(
            seen.message.contains("version 0.1.0") && seen.message.contains("continues to serve"),
            "{}",
            seen.message
        );
        assert_eq!(seen.data, before, "{what}");
        server.write(stored()).await.unwrap_or_else(|e| panic!("{what}: {e}"));
        // A call that began after the replacement has ended by now.
        eventually("calls go on", async || traffic.load(Ordering::Relaxed) > served + 2).await;
        assert!(!client.is_finished(), "{what}: a call failed");
        assert_eq!(server.plugin_names().await, ["catalog", "demo", "good", "prior"], "{what}");
        // Back to the serving version: no transition, and the fault is cleared.
        fs::write(&path, good(|_| {})).unwrap();
        server.plugin_until("good", |p| p.reason == "Serving" && p.data == before).await;
    }
    stop.store(true, Ordering::Relaxed);
    client.await.unwrap();
}

#[tokio::test]
async fn a_directory_in_the_place_of_the_file_is_no_plugin() {
    let server = serving().await;
    let path = server.plugin_dir.join("good.wasm");
    fs::remove_file(&path).and_then(|()| fs::create_dir(&path)).unwrap();
    let seen = server.plugin_until("good", |p| p.reason == "Unreadable").await;
    assert!(seen.message.contains("not a file"), "{}", seen.message);
    server.write(stored()).await.unwrap();
}

#[tokio::test]
async fn the_second_file_of_a_plugin_waits_until_the_first_goes() {
    let server = serving().await;
    fs::write(server.plugin_dir.join("copy.wasm"), good(|m| m.version = "0.2.0".into())).unwrap();
    let seen = server.plugin_until("copy", |p| p.reason == "NameTaken").await;
    assert!(seen.message.contains("the file good.wasm provides it; remove one of the two"), "{}", seen.message);
    assert_eq!(server.plugin("good").await.unwrap().data.version, "0.1.0");
    fs::remove_file(server.plugin_dir.join("good.wasm")).unwrap();
    server.plugin_until("good", |p| p.reason == "Serving" && p.data.version == "0.2.0").await;
    eventually("the page of the copy goes", async || server.plugin("copy").await.is_none()).await;
    server.write(stored()).await.unwrap();
}

#[tokio::test]
async fn a_file_that_never_was_a_plugin_has_a_page_while_it_is_there() {
    let server = serving().await;
    let path = server.plugin_dir.join("My Junk.wasm");
    fs::write(&path, "junk").unwrap();
    let seen = server.plugin_until("my-junk", |p| p.reason == "NotAComponent").await;
    assert_eq!((seen.data.source.as_str(), seen.data.version.as_str()), ("My Junk.wasm", ""));
    let version = seen.resource.version.clone();
    // Another file, for which the folder is scanned again.
    fs::write(server.plugin_dir.join("Later Junk.wasm"), "junk").unwrap();
    server.plugin_until("later-junk", |p| p.reason == "NotAComponent").await;
    assert_eq!(server.plugin("my-junk").await.unwrap().resource.version, version, "said once");
    fs::remove_file(&path).unwrap();
    eventually("the page goes with the file", async || server.plugin("my-junk").await.is_none()).await;
}

/// A restart with a broken file serves the former version.
#[tokio::test]
async fn a_restart_does_not_make_a_broken_file_worse() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("good.wasm");
    fs::write(&path, good(|_| {})).unwrap();
    let setup = || Setup::new().data_dir(data.path()).plugin_dir(folder.path());
    let server = setup().start().await;
    server.write(stored()).await.unwrap();
    assert!(server.stop().await.success());
    fs::write(&path, good(|m| drop(m.types.remove(0)))).unwrap();
    let server = setup().start().await;
    let seen = server.plugin("good").await.unwrap();
    assert_eq!(seen.reason, "TypeLost", "{}", seen.message);
    assert!(seen.message.contains("version 0.1.0"), "{}", seen.message);
    server.write(stored()).await.unwrap();
    fs::write(&path, good(|m| m.version = "0.2.0".into())).unwrap();
    server.plugin_until("good", |p| p.reason == "Serving" && p.data.version == "0.2.0").await;
}

/// A removed plugin with two types and stored resources, and another plugin that has taken over one of the types.
async fn heir(setup: Setup, heir: &str) -> Server {
    let server = setup.limit("plugin_rescan_ms", 200).start().await;
    let path = server.plugin_dir.join("a.wasm");
    fs::write(&path, good(|m| m.name = "aplug".into())).unwrap();
    server.plugin_until("aplug", |p| p.reason == "Serving").await;
    server.write(stored()).await.unwrap();
    server.write(resource(id("good.v1.Other", "fine"), stored().data)).await.unwrap();
    fs::remove_file(&path).unwrap();
    server.plugin_until("aplug", |p| p.reason == "Removed").await;
    let bytes = good(|m| {
        m.name = "bplug".into();
        m.types.truncate(1);
    });
    fs::write(server.plugin_dir.join(heir), bytes).unwrap();
    server.plugin_until("bplug", |p| p.reason == "Serving").await;
    server.write(stored()).await.unwrap();
    server
}

/// Its resource has the reason, a restart changes nothing, and no report claims that it serves.
#[tokio::test]
async fn a_removed_plugin_that_is_put_back_and_refused_stays_removed() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let setup = || Setup::new().data_dir(data.path()).plugin_dir(folder.path());
    let mut server = heir(setup(), "b.wasm").await;
    fs::write(folder.path().join("a.wasm"), good(|m| m.name = "aplug".into())).unwrap();
    for _ in 0..3 {
        let seen = server.plugin_until("aplug", |p| p.reason == "Removed" && p.message.contains("TypeTaken")).await;
        assert!(
            seen.message.contains("\"bplug\"") && seen.message.contains("no version of it serves"),
            "{}",
            seen.message
        );
        assert_eq!(server.plugin("bplug").await.unwrap().reason, "Serving");
        assert_eq!(server.plugin_names().await, ["aplug", "bplug", "catalog", "demo"], "no page but its own");
        server.write(stored()).await.unwrap();
        let other = server.write(resource(id("good.v1.Other", "fine"), stored().data)).await;
        assert_eq!(refusal(other).0, Code::FailedPrecondition);
        let enabled = server.plugins().await.enable(data::EnableRequest { name: "aplug".into() }).await;
        assert_eq!(refusal(enabled).0, Code::FailedPrecondition);
        assert!(server.stop().await.success());
        server = setup().start().await;
    }
    // It is back as soon as the conflict is gone.
    fs::remove_file(folder.path().join("b.wasm")).unwrap();
    server.plugin_until("aplug", |p| p.reason == "Serving").await;
    server.write(stored()).await.unwrap();
}

/// Neither a restart nor a command for the former plugin touches it.
#[tokio::test]
async fn a_file_that_has_become_another_plugin_belongs_to_that_one() {
    let (data, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let setup = || Setup::new().data_dir(data.path()).plugin_dir(folder.path());
    let server = heir(setup(), "a.wasm").await;
    assert!(server.stop().await.success());
    let server = setup().start().await;
    assert_eq!(server.plugin("aplug").await.unwrap().reason, "Removed");
    assert_eq!(server.plugin("bplug").await.unwrap().reason, "Serving");
    server.plugins().await.remove(data::RemoveRequest { name: "aplug".into() }).await.unwrap();
    assert!(folder.path().join("a.wasm").exists());
    assert_eq!(server.plugin("bplug").await.unwrap().reason, "Serving");
    server.write(stored()).await.unwrap();
}

/// A component that makes the host panic is refused alone; a command of a caller is answered with the panic instead of
/// silence.
#[tokio::test]
async fn a_load_or_a_command_that_panics_is_reported_and_the_server_continues() {
    const STAMP: &str = "version-stamp.wasm";
    for (stage, shown) in [("Compiling", "late"), ("Checking", "version-stamp")] {
        let server = Setup::new().env("FAILPOINT_PANIC_AT", format!("{stage} late.wasm")).start().await;
        fs::write(server.plugin_dir.join("late.wasm"), guest("version-stamp-1")).unwrap();
        let seen = server.plugin_until(shown, |p| p.reason == "HostFault").await;
        assert_eq!(seen.loaded, pb::condition::State::False, "{stage}");
        assert!(seen.message.contains("panicked (a test asked for this panic)"), "{stage}: {}", seen.message);
        assert!(server.log().contains("panicked at "), "{}", server.log());
        let (_, metrics) = server.get("/metrics").await;
        let count = metrics.lines().find_map(|line| line.strip_prefix("mortise_panics_total "));
        assert!(count.is_some_and(|count| count != "0"), "{count:?}");
        server.install("prior", &guest("prior")).await.unwrap();
    }

    let server = Setup::new().env("FAILPOINT_PANIC_AT", format!("Checking {STAMP}")).start().await;
    let (code, message) = refusal(server.install("version-stamp", &guest("version-stamp-1")).await);
    assert_eq!(code, Code::Internal);
    assert!(message.contains("HostFault: the load panicked (a test asked for this panic)"), "{message}");
    assert!(!server.plugin_dir.join(STAMP).exists(), "nothing was changed");
    server.install("prior", &guest("prior")).await.unwrap();

    let server = Setup::new().env("FAILPOINT_PANIC_AT", "a command").start().await;
    let (code, message) = refusal(server.install("prior", &guest("prior")).await);
    assert_eq!(code, Code::Internal);
    assert!(message.contains("a test asked for this panic") && message.contains("a fault of Mortise"), "{message}");
    fs::write(server.plugin_dir.join("prior.wasm"), guest("prior")).unwrap();
    server.plugin_until("prior", |p| p.loaded == pb::condition::State::True).await;
}

/// A step that changes several things under one lock may stop halfway: the process ends, and restarts from the stored
/// state.
#[tokio::test]
async fn a_panic_in_the_middle_of_a_transition_ends_the_process() {
    let mut server = Setup::new().env("FAILPOINT_PANIC_AT", "Swapping late.wasm").start().await;
    fs::write(server.plugin_dir.join("late.wasm"), guest("version-stamp-1")).unwrap();
    let exit = server.ended().await;
    assert_eq!(exit.code(), Some(1), "{}", server.log());
    assert!(server.log().contains("the watch of the plugins' files panicked ("), "{}", server.log());
}

/// Controllers that did not start, or stay paused, would be missing from a server that looks alive.
#[tokio::test]
async fn a_panic_beside_a_plugins_controllers_ends_the_process() {
    for place in ["starting controllers", "following quarantine"] {
        let mut server = Setup::new().serve().env("FAILPOINT_PANIC_AT", place).start().await;
        fs::write(server.plugin_dir.join("noop.wasm"), guest("reconcile-noop")).unwrap();
        let exit = server.ended().await;
        assert_eq!(exit.code(), Some(1), "{place}: {}", server.log());
        assert!(server.log().contains("the start and stop of controllers panicked ("), "{place}: {}", server.log());
    }
}
