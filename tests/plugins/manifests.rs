//! Files in the plugin folder that are not plugins, or are wrong: each is logged with a remedy, and skipped.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use crate::support::{Setup, artist, id, refusal, resource, tenancy};
use mortise_resource::manifest::Scope;
use mortise_test_guests::{bad_manifests, good_manifest, manifest_only};
use prost::Message as _;
use tonic::Code;

/// Log texts for each bad manifest: the fault, and the correct form.
const SAYS: [(&str, &[&str]); 31] = [
    ("not-protobuf", &["describe did not return a mortise.plugin.v1.Manifest"]),
    ("no-manifest", &["name: a plugin's name must consist of lower case alphanumeric characters"]),
    ("empty-name", &["name: a plugin's name must consist of", "got: \"\""]),
    ("bad-name", &["name: a plugin's name must consist of", "got: \"Good Plugin\""]),
    ("long-name", &["name: a plugin's name must", "less than 64 characters"]),
    ("bad-version", &["version: must be a semantic version such as \"1.2.3\", got: \"one\""]),
    ("empty-version", &["version: must be a semantic version such as \"1.2.3\", got: \"\""]),
    ("bad-group", &["type Good.v1.Thing: group must match", "got: \"Good\""]),
    ("bad-group-version", &["group_version must match", "got: \"1\""]),
    ("bad-kind", &["kind must match", "got: \"thing\""]),
    ("missing-scope", &["type good.v1.Thing: scope is required: cluster, partition or namespace"]),
    ("unknown-scope", &["type good.v1.Thing: scope is required: cluster, partition or namespace"]),
    ("missing-message", &["message \"\" is not in the manifest's descriptors", "add the file"]),
    ("unknown-message", &["message \"mortise.test.v1.Nothing\" is not in", "add the file"]),
    ("no-descriptors", &["message \"mortise.test.v1.Thing\" is not in", "add the file"]),
    ("broken-descriptors", &["descriptors: ", "mortise.test.v1.Lost", "give whole files with their imports"]),
    (
        "map-without-a-key",
        &["descriptors: message mortise.test.v1.Thing.XEntry: as the entry of a map it lacks the field key = 1"],
    ),
    (
        "map-without-a-value",
        &["mortise.test.v1.Thing.XEntry", "lacks the field value = 2", "declare a map<KEY, VALUE>"],
    ),
    ("map-by-bytes", &["mortise.test.v1.Thing.XEntry", "an integer, bool or string, and its field key is bytes"]),
    ("duplicate-type", &["type good.v1.Thing: declared twice; declare it once"]),
    ("no-types", &["types: must be 1 to 256, got: 0"]),
    ("hook-without-export", &["hooks name validating", "export it, or take the hook out"]),
    (
        "unknown-capability",
        &[
            "does not know \"teleport\"; it knows authorizer, cache, cache-pages, clock, config, files, http, kv, log, lookup, private-bytes, probes, queries, resources, run, secrets",
        ],
    ),
    ("unknown-immutable-field", &["immutable_fields: \"colour\"", "has no field \"colour\""]),
    (
        "immutable-field-in-a-list",
        &["immutable_fields: \"items.text\" goes through a field that is not a single message"],
    ),
    ("unknown-path-of-a-view", &["query.basic_view: path \"data.colour\"", "has no field \"colour\""]),
    (
        "index-outside-data",
        &[
            "type good.v1.Thing: query.indexed_fields: path \"id.name\"",
            "an index needs a field in data; write data.field",
        ],
    ),
    ("index-named-twice", &["query.indexed_fields: data.text is named twice; name each field once"]),
    ("too-many-indexes", &["query.indexed_fields: at most 8 fields, got: 9"]),
    (
        "unknown-part-in-permission",
        &["type good.v1.Thing: permissions.read: on: \"thing/{colour}\" has a brace", "{group_version}"],
    ),
    ("reserved-type", &["type internal.v1.Tombstone: group \"internal\" belongs to the host; choose another"]),
];

#[tokio::test]
async fn every_bad_manifest_is_refused_with_what_to_do() {
    let mut setup = Setup::new();
    for (name, bytes) in bad_manifests() {
        assert!(SAYS.iter().any(|(known, _)| *known == name), "say here what the log says about {name}");
        setup = setup.component(name, bytes);
    }
    let server = setup.start().await;
    for (name, says) in SAYS {
        let line = server.refused_file(&format!("/{name}.wasm"));
        for says in says {
            assert!(line.contains(says), "{name}: {line}");
        }
    }
    assert!(server.is_unknown("good.v1.Thing").await);
    server.write(artist("korn")).await.unwrap();
}

/// An author who comes from Consul's guide declares the scope in the .proto file.
#[tokio::test]
async fn the_option_of_consul_declares_the_scope_of_a_type() {
    let with_scope = |scope: i32, group: &str| {
        let mut manifest = good_manifest();
        manifest.name = group.to_owned();
        for declared in &mut manifest.types {
            (declared.group, declared.scope) = (group.to_owned(), scope);
            "mortise.test.v1.Placed".clone_into(&mut declared.message);
        }
        manifest_only(&manifest.encode_to_vec())
    };
    let setup = Setup::new().component("placed", with_scope(0, "placed"));
    let server = setup.component("other", with_scope(Scope::Cluster.into(), "other")).start().await;
    let mut in_partition = resource(id("placed.v1.Thing", "one"), None);
    in_partition.id.as_mut().unwrap().tenancy = Some(tenancy("default", "default"));
    let (code, message) = refusal(server.write(in_partition.clone()).await);
    assert_eq!(code, Code::InvalidArgument);
    assert!(message.contains("partition scoped resource placed.v1.Thing cannot have a namespace"), "{message}");
    in_partition.id.as_mut().unwrap().tenancy = None;
    let stored = server.write(in_partition).await.unwrap();
    assert_eq!(stored.id.unwrap().tenancy.unwrap().partition, "default");
    let line = server.refused_file("/other.wasm");
    assert!(
        line.contains(
            "type other.v1.Thing: the option hashicorp.consul.resource.spec of message mortise.test.v1.Placed"
        ) && line.contains("says partition, and the manifest cluster; take out one of them"),
        "{line}"
    );
}

fn good() -> Vec<u8> {
    manifest_only(&good_manifest().encode_to_vec())
}

fn good_thing() -> mortise_resource::pb::Resource {
    resource(id("good.v1.Thing", "fine"), None)
}

#[tokio::test]
async fn files_that_are_no_components_are_refused_and_the_good_one_is_served() {
    let whole = fs::read(mortise_test_guests::component("prior")).unwrap();
    let mut huge = good();
    huge.resize(600 << 10, 0);
    let files = [
        ("half", whole[..whole.len() / 2].to_vec(), "not a WebAssembly component: "),
        ("no-bytes", Vec::new(), "the file is truncated, or not WebAssembly: it ends after 0 bytes"),
        ("head", whole[..6].to_vec(), "not a WebAssembly component: "),
        ("text", b"#!/bin/sh\necho hello\n".to_vec(), "it does not begin as WebAssembly does"),
        ("core", b"\0asm\x01\0\0\0".to_vec(), "it is a core module; turn it into a component"),
        ("noise", [b"\0asm\x0d\0\x01\0".as_slice(), &[0xff; 64]].concat(), "not a WebAssembly component: "),
        ("void", b"\0asm\x0d\0\x01\0".to_vec(), "it does not export mortise:plugin/plugin@0.1.0"),
        (
            "precompiled",
            fs::read(env!("CARGO_BIN_EXE_mortise")).unwrap()[..4096].to_vec(),
            "not a WebAssembly component: ",
        ),
        ("huge", huge, "the component takes 614400 bytes, more than the limit of 524288 (sandbox.component_bytes)"),
    ];
    let mut setup = Setup::new().component("good", good()).env("MORTISE_SANDBOX_COMPONENT_BYTES", 512 << 10);
    for (name, bytes, _) in &files {
        setup = setup.component(name, bytes.clone());
    }
    let server = setup.start().await;
    for (name, _, says) in files {
        let line = server.refused_file(&format!("/{name}.wasm"));
        assert!(line.contains(says), "{name}: {line}");
    }
    server.write(good_thing()).await.unwrap();
}

/// Real machine code of the right version, from the cache of the same host, is still refused in the folder.
#[tokio::test]
async fn precompiled_code_is_refused() {
    let cache = tempfile::tempdir().unwrap();
    let server = Setup::new().component("good", good()).env("MORTISE_CACHE_DIR", cache.path().display()).start().await;
    drop(server);
    let mut setup = Setup::new();
    for (n, path) in entries(cache.path()).into_iter().enumerate() {
        // Checksum, length of the manifest, manifest, machine code.
        let bytes = fs::read(path).unwrap();
        let manifest = usize::try_from(u64::from_le_bytes(bytes[32..40].try_into().unwrap())).unwrap();
        let code = bytes[40 + manifest..].to_vec();
        assert!(code.starts_with(b"\x7fELF"));
        setup = setup.component(&format!("machine-{n}"), code);
    }
    let server = setup.start().await;
    let line = server.refused_file("/machine-0.wasm");
    assert!(line.contains("precompiled machine code, which is never accepted; use the .wasm file"), "{line}");
    assert!(server.is_unknown("good.v1.Thing").await);
}

#[tokio::test]
async fn an_unreadable_file_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("folder.wasm")).unwrap();
    std::os::unix::fs::symlink("/nowhere/at/all.wasm", dir.path().join("dangling.wasm")).unwrap();
    fs::write(dir.path().join("good.wasm"), good()).unwrap();
    fs::write(dir.path().join("notes.txt"), "not looked at").unwrap();
    let server = Setup::new().plugin_dir(dir.path()).start().await;
    assert!(server.refused_file("/folder.wasm").contains("not a file"), "{}", server.log());
    assert!(server.refused_file("/dangling.wasm").contains("No such file"), "{}", server.log());
    assert!(!server.log().contains("notes.txt"));
    server.write(good_thing()).await.unwrap();
}

#[tokio::test]
async fn of_two_plugins_with_one_name_the_first_is_served() {
    let mut second = good_manifest();
    second.version = "0.2.0".to_owned();
    second.types[0].kind = "Other".to_owned();
    let server = Setup::new()
        .component("a-first", good())
        .component("b-second", manifest_only(&second.encode_to_vec()))
        .start()
        .await;
    let line = server.refused_file("/b-second.wasm");
    assert!(
        line.contains("a plugin named \"good\" is already loaded (version 0.1.0); the file a-first.wasm provides it; remove one of the two"),
        "{line}"
    );
    server.write(good_thing()).await.unwrap();
    assert!(server.is_unknown("good.v1.Other").await);
}

#[tokio::test]
async fn a_type_that_is_taken_is_refused() {
    let taken = |group: &str, version: &str, kind: &str| {
        let mut manifest = good_manifest();
        manifest.name = "thief".to_owned();
        manifest.types[0].group = group.to_owned();
        manifest.types[0].group_version = version.to_owned();
        manifest.types[0].kind = kind.to_owned();
        manifest_only(&manifest.encode_to_vec())
    };
    let server = Setup::new()
        .component("artist", taken("demo", "v2", "Artist"))
        .component("artist-v3", taken("demo", "v3", "Artist"))
        .component("internal", taken("internal", "v1", "Ours"))
        .component("tenancy", taken("tenancy", "v2beta1", "Namespace"))
        .start()
        .await;
    for (file, says) in [
        ("artist", "type demo.v2.Artist: plugin \"demo\" provides demo.v"),
        ("artist-v3", "type demo.v3.Artist: plugin \"demo\" provides demo.v"),
        ("internal", "type internal.v1.Ours: group \"internal\" belongs to the host; choose another"),
        ("tenancy", "type tenancy.v2beta1.Namespace: group \"tenancy\" belongs to the host; choose another"),
    ] {
        let line = server.refused_file(&format!("/{file}.wasm"));
        assert!(line.contains(says), "{file}: {line}");
    }
    assert!(server.is_unknown("demo.v3.Artist").await);
    server.write(artist("korn")).await.unwrap();
}

/// The compiled plugins in a cache directory.
fn entries(dir: &Path) -> Vec<PathBuf> {
    let mut paths: Vec<_> = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ext| ext == "bin"));
    paths.sort();
    paths
}

/// Identities of these files: an entry that is written again gets a new one.
fn identity(paths: &[PathBuf]) -> Vec<(u64, i64, i64)> {
    let identity = |path: &PathBuf| fs::metadata(path).map(|m| (m.ino(), m.mtime(), m.mtime_nsec())).unwrap();
    paths.iter().map(identity).collect()
}

#[tokio::test]
async fn the_cache_is_used_and_a_damaged_entry_is_compiled_anew() {
    let cache = tempfile::tempdir().unwrap();
    let start = async || {
        let setup = Setup::new().component("good", good()).env("MORTISE_CACHE_DIR", cache.path().display());
        let server = setup.start().await;
        server.write(good_thing()).await.unwrap();
        server.write(artist("korn")).await.unwrap();
        let log = server.log();
        assert!(server.stop().await.success());
        log
    };
    start().await;
    let paths = entries(cache.path());
    assert_eq!(paths.len(), 3, "catalog, demo and good");
    let first = identity(&paths);

    assert!(!start().await.contains("compile cache"));
    assert_eq!(identity(&paths), first, "nothing was compiled");

    for path in &paths {
        let mut bytes = fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(path, bytes).unwrap();
    }
    let log = start().await;
    assert_eq!(log.matches("compile cache entry is damaged or foreign; compiling again").count(), 3, "{log}");
    let renewed = identity(&paths);
    assert!(renewed.iter().zip(&first).all(|(new, old)| new != old));

    assert!(!start().await.contains("compile cache"));
    assert_eq!(identity(&paths), renewed);

    for path in &paths {
        fs::write(path, b"").unwrap();
    }
    assert!(start().await.contains("damaged or foreign"));
}

#[tokio::test]
async fn a_cache_that_cannot_be_used_costs_time_and_nothing_else() {
    let cache = tempfile::tempdir().unwrap();
    fs::create_dir(cache.path().join("secret")).unwrap();
    let setup = Setup::new().component("good", good()).env("MORTISE_CACHE_DIR", cache.path().display());
    let server = setup.start().await;
    server.write(good_thing()).await.unwrap();
    server.write(artist("korn")).await.unwrap();
    let log = server.log();
    let line = log.lines().find(|line| line.contains("the compile cache (cache_dir) cannot be used")).unwrap();
    let secret = cache.path().join("secret");
    assert!(line.contains(secret.to_str().unwrap()) && line.contains("another directory"), "{line}");
    assert!(entries(cache.path()).is_empty());
}
