//! The contract with plugins is stable: released interfaces never change, components built for them always load, and a
//! component built for an unknown contract gets a clear error.

use std::{collections::BTreeMap, fs, path::Path};

use crate::support::{
    Server, Setup, any, decoded, demo, eventually, gvk, id, id_in, label, refusal, resource, tenancy, thing, until_gone,
};
use mortise_test_guests::{Thing, good_manifest, importing, manifest_only_for};
use prost::Message as _;
use sha2::{Digest as _, Sha256};
use tonic::Code;

/// World definitions may gain worlds, which components do not see. All other files are frozen.
const GROWING: &str = "world.wit";

fn top() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn released_interfaces_are_frozen() {
    let folder = top().join("wit/v0.1.0");
    let digests = fs::read_to_string(folder.join("DIGESTS")).unwrap();
    let frozen = digests
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split_once("  ").map(|(digest, name)| (name.to_owned(), digest.to_owned())).unwrap())
        .collect::<BTreeMap<_, _>>();
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        if name.ends_with(".wit") && name != GROWING {
            found.insert(name, hex(&fs::read(path).unwrap()));
        }
    }
    for (name, digest) in &frozen {
        assert_eq!(
            found.get(name),
            Some(digest),
            "wit/v0.1.0/{name} was edited or removed. Components are compared with it by structure, so every plugin in \
             the field would stop loading. Put it back, and put what is new into a file with an interface of its own, \
             imported or exported by a world of its own in world.wit."
        );
    }
    for name in found.keys() {
        assert!(
            frozen.contains_key(name),
            "wit/v0.1.0/{name} is new: freeze it, once it is what it shall be, by a line in wit/v0.1.0/DIGESTS \
             (`sha256sum {name}` in that folder)"
        );
    }
}

#[tokio::test]
async fn a_newer_contract_is_named_beside_this_one() {
    let mut setup = Setup::new();
    let versions = ["0.2.0", "0.1.1", "1.0.0"];
    for version in versions {
        setup = setup.component(version, manifest_only_for(version, &good_manifest().encode_to_vec()));
    }
    let server = setup.start().await;
    for version in versions {
        let line = server.refused_file(&format!("/{version}.wasm"));
        for says in [
            "does not fit the plugin contract 0.1.0",
            &format!("the plugin was built for contract {version}, this host knows 0.1.0"),
            &format!(
                "use a host that knows {version}, or rebuild the plugin with a mortise-plugin crate of contract 0.1.0"
            ),
        ] {
            assert!(line.contains(says), "{says}: {line}");
        }
    }
    assert!(server.is_unknown("good.v1.Thing").await);
}

/// Empty interfaces are linked for WASI 0.2 without its larger parts; everything else is refused.
#[tokio::test]
async fn other_wasi_is_refused_with_a_remedy() {
    let others =
        [("wasi:http", "0.2.6"), ("wasi:cli", "0.3.0"), ("wasi:keyvalue", "0.2.0"), ("wasi:io", "0.2.0-rc-2023-11-10")];
    let mut setup = Setup::new();
    for (n, (package, version)) in others.iter().enumerate() {
        setup = setup.component(&format!("other-{n}"), importing(package, version));
    }
    let server = setup.start().await;
    for (n, (package, version)) in others.iter().enumerate() {
        let line = server.refused_file(&format!("/other-{n}.wasm"));
        for says in [
            &*format!("imports {package}/calls@{version}, which this host does not offer"),
            "of WASI 0.2 this host offers wasi:cli, wasi:clocks, wasi:filesystem, wasi:io, wasi:random, wasi:sockets",
            "build for wasm32-wasip2",
        ] {
            assert!(line.contains(says), "{says}: {line}");
        }
    }
}

fn stored_bytes(name: &str) -> Vec<u8> {
    fs::read(top().join("tests/formats").join(format!("{name}.wasm"))).unwrap()
}

/// A server with one stored component.
async fn stored(name: &str) -> Server {
    let bytes = stored_bytes(name);
    Setup::new().component(name, bytes).tolerant().start().await
}

/// mutate, validate, and all authorize hooks, as of the first release. The component limits a call to 20 ms, which a
/// busy machine may exceed now and then: so each call is repeated until its answer is the expected one.
#[tokio::test]
async fn a_component_of_contract_0_1_0_with_every_hook_loads_for_ever() {
    let server = stored("v0.1.0-sdk").await;
    let kept = thing("own_limits", "ordinary", &Thing { text: "kept".into(), ..Thing::default() });
    eventually("it is written", async || server.write(kept.clone()).await.is_ok()).await;
    let read = async || server.read(&id("own_limits.v1.Thing", "ordinary")).await;
    eventually("it is read", async || read().await.is_ok_and(|read| decoded::<Thing>(&read).text == "kept")).await;
    let list = async |namespace| server.list(gvk("own_limits.v1.Thing"), tenancy("default", namespace), "").await;
    eventually("it is listed", async || list("default").await.is_ok_and(|all| all.len() == 1)).await;
    // Each hook is called: its own limits end it.
    for (name, hook) in [("boom-mutate", "mutate"), ("boom-validate", "validate"), ("boom-write", "authorize-write")] {
        let boom = thing("own_limits", name, &Thing::default());
        eventually(hook, async || {
            let (_, message) = refusal(server.write(boom.clone()).await);
            message.contains(&format!("plugin own-limits 0.1.0: hook {hook} "))
        })
        .await;
    }
    eventually("authorize-read", async || {
        refusal(server.read(&id("own_limits.v1.Thing", "boom-read")).await).1.contains("hook authorize-read ")
    })
    .await;
    eventually("authorize-list", async || refusal(list("boom-list").await).1.contains("hook authorize-list ")).await;
}

/// A controller: reconciles, writes owners and statuses, keeps values, and cleans up by its finalizer.
#[tokio::test]
async fn a_controller_of_contract_0_1_0_works_for_ever() {
    let server = stored("v0.1.0-controllers").await;
    let thing =
        server.write(thing("reconcile_copy", "a", &Thing { text: "x".into(), ..Thing::default() })).await.unwrap();
    let copy = id("reconcile_copy.v1.Copy", "a-copy");
    eventually("there is a copy", async || server.read(&copy).await.is_ok()).await;
    let values = async || server.list(gvk("mortise.v1.Value"), tenancy("", ""), "").await.unwrap();
    eventually("it is counted", async || values().await.len() == 1).await;
    let id = thing.id.unwrap();
    eventually("the status is written", async || !server.read(&id).await.unwrap().status.is_empty()).await;
    server.delete(&id, "").await.unwrap();
    for gone in [&id, &copy] {
        until_gone(&server, gone).await;
    }
    assert!(values().await.is_empty());
}

#[tokio::test]
async fn the_settings_of_contract_0_1_0_are_passed_for_ever() {
    let server = stored("v0.1.0-settings").await;
    let written = server.write(thing("settings", "one", &Thing::default())).await.unwrap();
    assert_eq!(decoded::<Thing>(&written).text, "{}");
}

/// It replaces the bundled plugin with the same types: `serve` enables none by itself.
#[tokio::test]
async fn the_demo_of_contract_0_1_0_loads_for_ever() {
    let server = Setup::new().serve().component("v0.1.0-demo", stored_bytes("v0.1.0-demo")).start().await;
    let mut unset = demo::v2::Artist { name: "The Unset".into(), ..Default::default() };
    let artist = |data: &demo::v2::Artist| {
        resource(id("demo.v2.Artist", "one"), Some(any("hashicorp.consul.internal.demo.v2.Artist", data)))
    };
    let written = server.write(artist(&unset)).await.unwrap();
    assert_eq!(decoded::<demo::v2::Artist>(&written).genre(), demo::v2::Genre::Disco, "mutate");
    unset.name.clear();
    let (code, message) = refusal(server.write(artist(&unset)).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("artist.name required"), "validate: {message}");
    server.read(&id("demo.v2.Artist", "one")).await.unwrap();
    // This rule needs the resource.
    server.write(label("blue", "default")).await.unwrap();
    server.read(&id_in("demo.v1.RecordLabel", "blue", "default", "")).await.unwrap();
}

#[tokio::test]
async fn a_component_for_wasi_0_2_loads_for_ever() {
    let server = stored("v0.1.0-wasip2").await;
    let written = server.write(thing("wasi", "environment", &Thing::default())).await.unwrap();
    assert!(decoded::<Thing>(&written).text.starts_with("0 variables, 0 arguments"));
    let (code, message) = refusal(server.write(thing("wasi", "refused", &Thing::default())).await);
    assert_eq!(code, Code::InvalidArgument, "{message}");
}
