//! Every guest compiles, matches README.md, and declares only its exports.

#![allow(clippy::unwrap_used, reason = "clippy does not count helpers as tests")]

use std::{collections::BTreeMap, fs, path::Path};

use mortise_test_guests::{bad_manifests, build_all, component, manifest_only};
use wasmparser::{Parser, Payload};

/// Names that a component exports (`true`) or imports (`false`), without package and version.
fn surface(component: &[u8]) -> Vec<(bool, String)> {
    let short =
        |name: &str| name.rsplit('/').next().unwrap_or_default().split('@').next().unwrap_or_default().to_owned();
    let (mut names, mut depth) = (Vec::new(), 0);
    for payload in Parser::new(0).parse_all(component) {
        match payload.unwrap() {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth -= 1,
            Payload::ComponentExportSection(section) if depth == 0 => {
                names.extend(section.into_iter().map(|export| (true, short(export.unwrap().name.name))));
            }
            Payload::ComponentImportSection(section) if depth == 0 => {
                names.extend(section.into_iter().map(|import| (false, short(import.unwrap().name.name))));
            }
            _ => {}
        }
    }
    names
}

fn exports(path: &Path) -> Vec<String> {
    let mut names =
        surface(&fs::read(path).unwrap()).into_iter().filter_map(|(out, name)| out.then_some(name)).collect::<Vec<_>>();
    names.sort();
    names
}

#[test]
fn every_guest_is_built_and_exports_what_it_should() {
    let all = ["authorizing", "mutating", "plugin", "validating"].as_slice();
    let expected = BTreeMap::from([
        ("big-host-call", all),
        ("capability", ["plugin"].as_slice()),
        (
            "changes",
            &["controlling", "functions", "importing", "moving", "mutating", "planning", "plugin", "validating"],
        ),
        ("deep-recursion", all),
        ("deny", &["authorizing", "plugin"]),
        ("describe-loop", &["plugin"]),
        ("describe-panic", &["plugin"]),
        ("every-field", &["mutating", "plugin", "validating"]),
        ("every-hook", all),
        ("garbage-reply", &["mutating", "plugin"]),
        ("handle-leak", all),
        ("hook-search", all),
        ("host-call-flood", all),
        ("immutable-field", &["plugin"]),
        ("infinite-loop", all),
        ("keeps-secret", all),
        ("log-flood", all),
        ("memory-bomb", all),
        ("memory-fill", all),
        ("missing-hook", &["plugin"]),
        ("mutate-deletion", &["mutating", "plugin"]),
        ("mutate-id", &["mutating", "plugin"]),
        ("mutate-owner", &["mutating", "plugin"]),
        ("mutate-status", &["mutating", "plugin"]),
        ("mutate-twice", &["mutating", "plugin"]),
        ("no-hook", &["plugin"]),
        ("references", &["importing", "moving", "plugin"]),
        ("oversized-reply", all),
        ("own-limits", all),
        ("panic", all),
        ("prior", &["plugin", "validating"]),
        ("raw-hooks", all),
        ("reconcile-asking", &["controlling", "plugin"]),
        ("reconcile-copy", &["controlling", "plugin"]),
        ("reconcile-fail", &["controlling", "plugin"]),
        ("reconcile-files", &["controlling", "plugin"]),
        ("reconcile-find", &["controlling", "mapping", "plugin"]),
        ("reconcile-flood", &["controlling", "plugin"]),
        ("reconcile-foreign", &["controlling", "plugin"]),
        ("reconcile-http", &["controlling", "mutating", "plugin"]),
        ("reconcile-loop", &["controlling", "plugin"]),
        ("reconcile-map", &["controlling", "initializing", "mapping", "plugin"]),
        ("reconcile-noop", &["controlling", "plugin"]),
        ("reconcile-query", &["controlling", "mapping", "plugin"]),
        ("reconcile-self", &["controlling", "plugin"]),
        ("reconcile-sixteen", &["controlling", "plugin"]),
        ("reconcile-slow", &["controlling", "plugin"]),
        ("reconcile-status", &["controlling", "plugin"]),
        ("reconcile-tcp", &["controlling", "mutating", "plugin"]),
        ("reconcile-trap", &["controlling", "plugin"]),
        ("redacted", &["authorizing", "controlling", "mutating", "plugin", "validating"]),
        ("schema-1", &["plugin", "validating"]),
        ("schema-2", &["authorizing", "plugin", "upgrading", "validating"]),
        ("schema-3", &["plugin"]),
        ("settings", &["configuring", "mutating", "plugin"]),
        ("stack-overflow", all),
        ("unknown-import", &["mutating", "plugin"]),
        ("version-stamp-1", &["mutating", "plugin", "validating"]),
        ("version-stamp-2", &["mutating", "plugin", "validating"]),
        ("wasi", &["mutating", "plugin", "validating"]),
    ]);
    let found = fs::read_dir(build_all())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), exports(&path)))
        .collect::<BTreeMap<_, _>>();
    let expected = expected
        .into_iter()
        .map(|(name, exports)| (name.to_owned(), exports.iter().map(|&one| one.to_owned()).collect()))
        .collect::<BTreeMap<_, Vec<_>>>();
    assert_eq!(found, expected);

    let readme = include_str!("../README.md");
    for name in expected.keys() {
        assert!(readme.contains(&format!("| `{name}` ")), "README.md does not mention {name}");
    }
}

#[test]
fn guests_import_only_the_calls_that_they_use() {
    let imports = |name: &str| {
        let mut names = surface(&fs::read(component(name)).unwrap())
            .into_iter()
            .filter_map(|(out, name)| (!out).then_some(name))
            .collect::<Vec<_>>();
        names.sort();
        names
    };
    assert_eq!(imports("deny"), ["authorizer", "log", "types"]);
    assert_eq!(imports("panic"), ["log", "types"]);
    assert_eq!(imports("prior"), ["log", "types"]);
    assert_eq!(imports("missing-hook"), ["log"]);
    assert_eq!(imports("handle-leak"), ["instance-network", "log", "network", "types"]);
    assert_eq!(imports("settings"), ["config", "log", "types"]);
    assert_eq!(imports("unknown-import"), ["log", "teleport", "types"]);
    // Reconcilers import only the calls that they use. The log is for panics.
    assert_eq!(imports("reconcile-noop"), ["log", "types"]);
    assert_eq!(imports("hook-search"), ["failures", "log", "lookup", "types"]);
    assert_eq!(imports("reconcile-query"), ["cache", "failures", "log", "queries", "resources", "types"]);
    assert_eq!(imports("reconcile-trap"), ["failures", "log", "resources", "types"]);
    assert_eq!(imports("reconcile-copy"), ["failures", "kv", "log", "resources", "types"]);
    assert_eq!(imports("reconcile-slow"), ["clock", "failures", "log", "resources", "run", "types"]);
    assert_eq!(imports("reconcile-files"), ["clock", "failures", "files", "log", "resources", "secrets", "types"]);
    assert_eq!(
        imports("reconcile-http"),
        [
            "error",
            "failures",
            "log",
            "monotonic-clock",
            "outgoing-handler",
            "poll",
            "resources",
            "streams",
            "types",
            "types"
        ]
    );
    assert_eq!(
        imports("changes"),
        ["config", "failures", "files", "log", "private-bytes", "queries", "resources", "types"],
        "functions import nothing, but may be in a component that does"
    );
    assert_eq!(imports("reconcile-map"), ["cache", "config", "failures", "kv", "log", "resources", "types"]);
}

/// This guest needs the instruction: a loop of stores would burn fuel.
#[test]
fn memory_fill_is_one_instruction() {
    let bytes = fs::read(component("memory-fill")).unwrap();
    assert!(bytes.windows(3).any(|window| window == [0xfc, 0x0b, 0x00]));
}

#[test]
fn manifests_are_in_the_component_as_given() {
    let bytes = manifest_only(b"any bytes at all");
    assert!(bytes.windows(16).any(|window| window == b"any bytes at all"));
    assert_eq!(surface(&bytes), [(true, "plugin".to_owned())]);
}

#[test]
fn bad_manifests_have_names_of_their_own() {
    let mut names = bad_manifests().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(count >= 8);
}
