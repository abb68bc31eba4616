//! Gives every target its corpus: seeds made from real inputs, and findings of the fuzzer. `MORTISE_UPDATE_SEEDS=1`
//! writes the seeds that this file makes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing, reason = "tests")]

use std::{fs, path::Path};

use mortise_resource::{data, manifest, pb};
use mortise_service::registry::Registry;
use prost::Message as _;

type Target = fn(&[u8]);

const TARGETS: [(&str, Target); 8] = [
    ("requests", mortise_fuzz::requests),
    ("manifests", mortise_fuzz::manifests),
    ("components", mortise_fuzz::components),
    ("names", mortise_fuzz::names),
    ("records", mortise_fuzz::records),
    ("policies", mortise_fuzz::policies),
    ("text", mortise_fuzz::text),
    ("signed", mortise_fuzz::signed),
];

/// Bytes of the whole corpus.
const MOST: u64 = 200 << 10;

const RULES: &str = "key_prefix \"resource/demo.v2.Artist/\" { policy = \"write\" }\nkey \"resource/x\" { policy = \"list\" }\n\
                     operator = \"read\"\n";

fn corpus() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus")
}

fn gvk(kind: &str) -> pb::Type {
    pb::Type { group: "mortise".into(), group_version: "v1".into(), kind: kind.into() }
}

fn policy() -> data::Policy {
    let allow = data::TypeRule { types: vec!["demo/*".into()], verbs: vec!["read".into()], ..Default::default() };
    data::Policy { rules: RULES.into(), type_rules: vec![allow], ..Default::default() }
}

fn policy_resource() -> pb::Resource {
    let id = pb::Id { name: "blue".into(), r#type: Some(gvk("Policy")), ..Default::default() };
    let value = policy().encode_to_vec();
    let data = prost_types_any("mortise.v1.Policy", value);
    pb::Resource { id: Some(id), data: Some(data), metadata: [("a".into(), "b".into())].into(), ..Default::default() }
}

fn prost_types_any(message: &str, value: Vec<u8>) -> prost_types::Any {
    prost_types::Any { type_url: format!("type.googleapis.com/{message}"), value }
}

/// Makes a manifest with a type whose message is that of policies.
fn manifest() -> Vec<u8> {
    let registry = Registry::builtin().unwrap();
    let policy = registry.pools().find_map(|pool| pool.get_message_by_name("mortise.v1.Policy")).unwrap();
    let (mut files, mut waiting) = (Vec::new(), vec![policy.parent_file()]);
    while let Some(file) = waiting.pop() {
        waiting.extend(file.dependencies());
        if !files.contains(file.file_descriptor_proto()) {
            files.insert(0, file.file_descriptor_proto().clone());
        }
    }
    let kind = manifest::ResourceType {
        group: "demo".into(),
        group_version: "v1".into(),
        kind: "Thing".into(),
        scope: manifest::Scope::Namespace.into(),
        message: "mortise.v1.Policy".into(),
        schema_version: 1,
        immutable_fields: vec!["rules".into()],
        short_names: vec!["th".into()],
        ..Default::default()
    };
    let descriptors = Some(prost_types::FileDescriptorSet { file: files }.into());
    let (name, version, types) = ("demo".into(), "1.0.0".into(), vec![kind]);
    manifest::Manifest { name, version, types, descriptors, ..Default::default() }.encode_to_vec()
}

/// Makes the seeds: target, name and bytes.
fn seeds() -> Vec<(&'static str, &'static str, Vec<u8>)> {
    let write = pb::WriteRequest { resource: Some(policy_resource()) }.encode_to_vec();
    let id = policy_resource().id;
    let read = pb::ReadRequest { id: id.clone() }.encode_to_vec();
    let list = pb::ListRequest { r#type: Some(gvk("Policy")), name_prefix: "b".into(), ..Default::default() };
    let owned = pb::ListByOwnerRequest { owner: id }.encode_to_vec();
    let with = |first: u8, rest: Vec<u8>| [vec![first], rest].concat();
    let component = b"\0asm\x0d\0\x01\0\0\x03\x01\x02\x03\nmortise:plugin/log@0.1.0\nwasi:http/types@0.2.0".to_vec();
    let yaml =
        "type: mortise.v1.Policy\nname: blue\nmetadata: {a: b}\ndata:\n  rules: |\n    operator = \"read\"\n---\n";
    let json = "{\"id\": {\"type\": {\"group\": \"mortise\", \"group_version\": \"v1\", \"kind\": \"Policy\"}, \"name\": \"x\"}}";
    let hcl = "ID { Type = gvk(\"mortise.v1.Policy\") Name = \"blue\" }\nData { rules = \"\" }\n";
    let resource = policy_resource().encode_to_vec();
    vec![
        ("requests", "write", with(0, write)),
        ("requests", "read", with(1, read)),
        ("requests", "list", with(2, list.encode_to_vec())),
        ("requests", "owned", with(3, owned)),
        ("manifests", "small", manifest()),
        ("components", "sections", component),
        ("names", "path", b"/api/mortise/v1/policy/blue?partition=a&ns=b&version=1&watch".to_vec()),
        ("names", "authority", b"web.default.svc.cluster.local:8080".to_vec()),
        ("names", "dns", b"_http._tcp.web.default.svc.cluster.local".to_vec()),
        ("names", "type", b"default\nblue\nmortise\nv1\nPolicy".to_vec()),
        ("records", "resource", resource),
        ("policies", "hcl", RULES.into()),
        ("policies", "yaml", b"key_prefix:\n  a/: {policy: read}\noperator: write\n".to_vec()),
        ("policies", "json", b"{\"key\": {\"a\": {\"policy\": \"deny\"}}, \"operator\": \"read\"}".to_vec()),
        ("policies", "message", policy().encode_to_vec()),
        ("text", "yaml", yaml.into()),
        ("text", "json", json.into()),
        ("text", "hcl", hcl.into()),
    ]
}

#[test]
fn every_target_takes_its_corpus() {
    if std::env::var_os("MORTISE_UPDATE_SEEDS").is_some_and(|wanted| wanted == "1") {
        for (target, name, bytes) in seeds() {
            fs::create_dir_all(corpus().join(target)).unwrap();
            fs::write(corpus().join(target).join(name), bytes).unwrap();
        }
    }
    for (target, name, bytes) in seeds() {
        let path = corpus().join(target).join(name);
        assert!(fs::read(&path).is_ok_and(|found| found == bytes), "{target}/{name}: MORTISE_UPDATE_SEEDS=1 writes it");
    }
    let mut total = 0;
    for (name, target) in TARGETS {
        let files: Vec<_> = fs::read_dir(corpus().join(name)).unwrap().map(|entry| entry.unwrap().path()).collect();
        assert!(!files.is_empty(), "{name} has no corpus");
        for file in files {
            let bytes = fs::read(&file).unwrap();
            total += bytes.len() as u64;
            target(&bytes);
            // Also its beginnings, and the bytes with one byte changed.
            for at in (0..bytes.len()).step_by(bytes.len() / 64 + 1) {
                target(&bytes[..at]);
                let mut changed = bytes.clone();
                changed[at] ^= 0x20;
                target(&changed);
            }
        }
    }
    assert!(total <= MOST, "the corpus has {total} bytes, more than {MOST}");
}

/// Each target is a program, and each program a target.
#[test]
fn every_target_is_a_program() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let mut programs: Vec<_> = fs::read_dir(dir)
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let mut targets: Vec<_> = TARGETS.map(|(name, _)| name.to_owned()).into();
    programs.sort();
    targets.sort();
    assert_eq!(programs, targets);
}
