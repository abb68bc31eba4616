//! Messages of the author's commands on faults: each in full, with the next command to type. Nothing is built here.

use std::{fs, path::Path};

use crate::{
    authoring::workflow::{Done, plugin},
    support::hookless,
};
use mortise_test_guests::component;

/// Creates a folder with cases for a component; returns the paths of the component and of the folder.
fn folder(cases: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("tests/cases")).unwrap();
    fs::write(dir.path().join("tests/cases/c.yaml"), cases).unwrap();
    dir
}

async fn test(guest: &str, cases: &str, args: &[&str]) -> (Done, tempfile::TempDir) {
    let dir = folder(cases);
    let file = component(guest);
    let mut all = vec!["test", file.to_str().unwrap()];
    all.extend(args);
    (plugin(dir.path(), &all).await, dir)
}

#[tokio::test]
async fn commands_that_cannot_begin_exit_with_2() {
    let dir = tempfile::tempdir().unwrap();
    let noop = component("reconcile-copy");
    let noop = noop.to_str().unwrap();
    for (args, expected) in [
        (
            vec!["new", "Guest Book"],
            "mortise: \"Guest Book\" cannot be a plugin's name: 1 to 63 lower-case letters, digits and dashes, a letter first and \
             no dash last\n  hint: `mortise plugin new guest-book`\n",
        ),
        (
            vec!["new", "shop", "--type", "shop.v1"],
            "mortise: \"shop.v1\" is not a type: a type has three parts, GROUP.VERSION.Kind\n  hint: `mortise plugin new shop --type \
             GROUP.VERSION.Kind`, such as shop.v1.Order\n",
        ),
        (
            vec!["build"],
            "mortise: there is no Cargo.toml and no mortise.toml in .\n  hint: `mortise plugin new NAME` makes a plugin; `cd` into one, or give \
             its folder with --path DIR\n",
        ),
        (
            vec!["test", noop],
            "mortise: there is no folder of cases tests/cases\n  hint: write cases there, as docs/writing-plugins.md shows, or give \
             their folder with --cases DIR\n",
        ),
        (
            vec!["inspect", "."],
            "mortise: . is not a file\n  hint: give the component, one .wasm file; `mortise plugin build` prints its path\n",
        ),
    ] {
        let done = plugin(dir.path(), &args).await;
        assert_eq!((done.code, done.out.as_str(), done.err.as_str()), (Some(2), "", expected), "{args:?}");
    }
}

#[tokio::test]
async fn a_file_that_is_no_plugin_is_code_1_with_a_remedy() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("junk.wasm"), "not wasm at all").unwrap();
    fs::write(dir.path().join("core.wasm"), b"\0asm\x01\0\0\0").unwrap();
    let unknown = component("unknown-import");
    for (file, says, next) in [
        (
            "junk.wasm",
            "mortise: junk.wasm: not a WebAssembly component: it does not begin as WebAssembly does; the file is truncated or \
             something else\n",
            "`mortise plugin build` makes a component of a crate",
        ),
        (
            "core.wasm",
            "mortise: core.wasm: not a WebAssembly component: it is a core module; turn it into a component, as guest-build and \
             wit-component do\n",
            "`wasm-tools component new IN.wasm -o OUT.wasm`",
        ),
        (
            "gone.wasm",
            "mortise: cannot read gone.wasm: No such file",
            "see with `ls` whether gone.wasm is spelled right",
        ),
        (
            unknown.to_str().unwrap(),
            "which this host does not offer: ",
            "compares all imports and exports with this host",
        ),
    ] {
        let done = plugin(dir.path(), &["inspect", file]).await;
        assert_eq!(done.code, Some(1), "{file}: {}", done.err);
        assert!(done.err.contains(says), "{file}: {}", done.err);
        let hint = done.err.split("\n  hint: ").nth(1).unwrap_or_default();
        assert!(hint.contains(next), "{file}: {}", done.err);
    }
    let done = plugin(dir.path(), &["inspect", unknown.to_str().unwrap()]).await;
    assert!(done.out.contains("  unknown import ") && done.out.contains(" (unknown)"), "{}", done.out);
    let json = plugin(dir.path(), &["inspect", unknown.to_str().unwrap(), "-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    assert_eq!(json["loads"], false);
    assert!(json["imports"].as_array().unwrap().iter().any(|one| one["known"] == false), "{json}");
}

/// The loader accepts such types; a server's table of types refuses them.
#[tokio::test]
async fn a_type_in_a_group_of_the_host_is_not_taken() {
    let dir = tempfile::tempdir().unwrap();
    for group in ["internal", "mortise", "tenancy"] {
        let ty = format!("{group}.v1.Mine");
        fs::write(dir.path().join("mine.wasm"), hookless(&[ty.as_str()])).unwrap();
        let done = plugin(dir.path(), &["inspect", "mine.wasm"]).await;
        assert_eq!(done.code, Some(1), "{group}: {}{}", done.out, done.err);
        assert!(done.out.contains(&ty) && !done.out.contains("accepts it"), "{}", done.out);
        let says = format!("mortise: mine.wasm: type {ty}: group {group:?} belongs to the host; choose another\n");
        assert!(done.err.starts_with(&says) && done.err.contains("  hint: "), "{}", done.err);
        let done = plugin(dir.path(), &["inspect", "mine.wasm", "-o", "json"]).await;
        let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
        assert_eq!(done.code, Some(1), "{json}");
        assert_eq!(json["loads"], false, "{json}");
        assert!(json["fault"].as_str().unwrap().contains("belongs to the host"), "{json}");
    }
}

#[tokio::test]
async fn every_released_component_is_taken() {
    let formats = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/formats");
    let dir = tempfile::tempdir().unwrap();
    let mut count = 0;
    for entry in
        fs::read_dir(formats).unwrap().flatten().filter(|entry| entry.path().extension().is_some_and(|e| e == "wasm"))
    {
        let done = plugin(dir.path(), &["inspect", entry.path().to_str().unwrap()]).await;
        assert_eq!(done.code, Some(0), "{:?}: {}", entry.path(), done.err);
        count += 1;
    }
    assert!(count > 3, "{count}");
}

#[tokio::test]
async fn inspect_shows_how_a_change_finds_the_resources_to_reconcile() {
    let dir = tempfile::tempdir().unwrap();
    let file = component("reconcile-map");
    let done = plugin(dir.path(), &["inspect", file.to_str().unwrap()]).await;
    for part in [" by its own mapper", ".Label by name", ".Link by reference data.to", ".Label by index also"] {
        assert!(done.out.contains(part), "{part}: {}", done.out);
    }
    let json = plugin(dir.path(), &["inspect", file.to_str().unwrap(), "-o", "json"]).await;
    let json: serde_json::Value = serde_json::from_str(&json.out).unwrap();
    let mappers = &json["controllers"][0]["mappers"];
    assert_eq!(*mappers, serde_json::json!(["by its own mapper", "by name", "by reference data.to"]), "{json}");
}

#[tokio::test]
async fn a_broken_case_is_reported_with_its_place_and_no_case_runs() {
    let copy = "reconcile: {name: x}\nexpect: {outcome: done}\n";
    for (cases, says) in [
        ("case: a\nexpects: {}\n", "tests/cases/c.yaml:1: case \"a\": unknown field `expects`"),
        ("case: a\nexpect: {}\n", "tests/cases/c.yaml:1: case \"a\": it must call exactly one of mutate, "),
        ("case: [\n", ": not YAML: "),
        ("case: a\nreconcile: {name: x}\nexpect: {}\n", "case \"a\": expect must contain the end of reconcile"),
        ("# nothing\n", "there is no case in tests/cases"),
    ] {
        let (done, _dir) = test("reconcile-copy", cases, &[]).await;
        assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{cases}: {}", done.err);
        assert!(done.err.contains(says), "{cases}: {}", done.err);
        assert!(done.err.contains("\n  hint: "), "{cases}: {}", done.err);
    }
    let (done, _dir) = test("reconcile-copy", &format!("case: a\n{copy}---\ncase: a\n{copy}"), &[]).await;
    assert!(
        done.err.contains("tests/cases/c.yaml:5: case \"a\": the case at line 1 has the same name"),
        "{}",
        done.err
    );
}

#[tokio::test]
async fn cases_with_invalid_input_cannot_run() {
    for (body, says) in [
        (
            "reconcile: {name: x}\nstore: [{type: reconcile_copy.v1.Thing, name: x, data: {txt: a}}]",
            "store[0].data.txt: ",
        ),
        ("reconcile: {name: x}\nstore: [{type: no.v1.Such, name: x}]", "store[0]"),
        (
            "reconcile: {name: x}\nstore: [{type: reconcile_copy.v1.Thing, name: x, metadata: {deletionTimestamp: now}}]",
            "store[0]: a deleted resource without finalizers is gone; ",
        ),
        ("reconcile: {name: x, controller: nobody}", "there is no controller \"nobody\", only copies"),
        ("reconcile: {name: x}\nnow: yesterday", "now: "),
        ("mutate: {type: reconcile_copy.v1.Thing, name: x}", "reconcile_copy.v1.Thing has no mutate hook"),
    ] {
        let expect = if body.starts_with("mutate") { "unchanged: true" } else { "outcome: done" };
        let (done, _dir) = test("reconcile-copy", &format!("case: a\n{body}\nexpect: {{{expect}}}\n"), &[]).await;
        assert_eq!(done.code, Some(1), "{body}: {}{}", done.out, done.err);
        assert!(done.out.contains("the case cannot be run: ") && done.out.contains(says), "{body}: {}", done.out);
    }
}

/// The clean-up of a finalizer is tested offline: the case has a resource that is being deleted.
#[tokio::test]
async fn a_case_may_have_a_resource_that_is_being_deleted() {
    let cases = r#"
case: a deleted thing takes its copy along
store:
  - {type: reconcile_copy.v1.Copy, name: one-copy, data: {text: hello}, metadata: {finalizers: other}}
  - type: reconcile_copy.v1.Thing
    name: one
    data: {text: hello}
    metadata: {finalizers: reconcile-copy/release, deletionTimestamp: any}
  - {type: reconcile_copy.v1.Copy, name: two-copy, owner: reconcile_copy.v1.Thing/one, data: {text: hello}}
reconcile: {name: one}
values: {copies/default/one: "4"}
expect:
  outcome: done
  deletes: [reconcile_copy.v1.Copy/two-copy]
  writes:
    - {type: reconcile_copy.v1.Thing, name: one, data: {text: hello}}
  values: {}
"#;
    let (done, _dir) = test("reconcile-copy", cases, &[]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);
    let living = cases.replace(", deletionTimestamp: any", "");
    let (done, _dir) = test("reconcile-copy", &living, &[]).await;
    assert_eq!(done.code, Some(1), "{}", done.out);
}

/// A case compares all work of a reconciler, and reports the first call that differs from a recording.
#[tokio::test]
async fn reconcilers_are_compared_call_by_call() {
    let cases = r#"
case: a thing gets a copy
store:
  - {type: reconcile_copy.v1.Thing, name: one, data: {text: hello, number: 7}, metadata: {finalizers: reconcile-copy/release}}
  - {type: reconcile_copy.v1.Copy, name: stray, owner: reconcile_copy.v1.Thing/one, data: {text: old}}
reconcile: {name: one}
values: {copies/default/one: "4"}
expect:
  outcome: done
  writes:
    - {type: reconcile_copy.v1.Copy, name: one-copy, owner: reconcile_copy.v1.Thing/one, data: {text: hello, number: 7}}
  deletes: [reconcile_copy.v1.Copy/stray]
  statuses:
    - {name: one, key: reconcile-copy/things, conditions: [{type: Copied, state: true, reason: Written}]}
  values: {copies/default/one: "5"}
"#;
    let (done, _dir) = test("reconcile-copy", cases, &[]).await;
    assert_eq!(done.code, Some(0), "{}{}", done.out, done.err);

    let other = cases
        .replace("number: 7}}\n  deletes", "number: 8}}\n  deletes")
        .replace("[reconcile_copy.v1.Copy/stray]", "[]");
    let (done, _dir) = test("reconcile-copy", &other, &["--format", "json"]).await;
    assert_eq!(done.code, Some(1));
    let json: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    assert_eq!((json["passed"].as_u64(), json["failed"].as_u64()), (Some(0), Some(1)), "{json}");
    let problem = json["cases"][0]["problem"].as_str().unwrap();
    for part in [
        "other writes than expected:",
        "-  number: 8",
        "+  number: 7",
        "other deletions",
        "+reconcile_copy.v1.Copy/stray",
    ] {
        assert!(problem.contains(part), "{part:?} is not in {problem}");
    }

    let (done, dir) = test("reconcile-copy", cases, &["--record"]).await;
    assert_eq!(done.code, Some(0), "{}", done.out);
    assert!(done.out.contains("recorded tests/cases/c.recorded.json\n"), "{}", done.out);
    let (file, guest) = (dir.path().join("tests/cases/c.recorded.json"), component("reconcile-copy"));
    let again = ["test", guest.to_str().unwrap()];
    assert_eq!(plugin(dir.path(), &again).await.code, Some(0), "as it was recorded");
    let recorded = fs::read_to_string(&file).unwrap();

    fs::write(&file, recorded.replace("\"reason\": \"Written\"", "\"reason\": \"Wrote\"")).unwrap();
    let done = plugin(dir.path(), &again).await;
    assert!(done.out.contains("differs from the recorded one:\n--- recorded\n+++ asked\n"), "{}", done.out);

    fs::write(&file, &recorded).unwrap();
    let path = dir.path().join("tests/cases/c.yaml");
    fs::write(&path, cases.replace("hello", "goodbye")).unwrap();
    let done = plugin(dir.path(), &again).await;
    assert!(
        done.out.contains("the case was changed since it was recorded; `mortise plugin test --record`"),
        "{}",
        done.out
    );
}

/// A case fails on an answer of `mutate` that a server refuses, even without an expectation about it.
#[tokio::test]
async fn answers_of_mutate_that_a_server_refuses_fail_the_case() {
    for (guest, name, says) in [
        ("mutate-deletion", "boom", "mutate changed metadata.deletionTimestamp; it may change data and metadata only"),
        ("garbage-reply", "boom-data", "mutate answered data that is not a mortise.test.v1.Thing: data: "),
        ("garbage-reply", "boom-url", "mutate made data a \"type.googleapis.com/mortise.test.v1.Inner\""),
    ] {
        let case = |name: &str| {
            let ty = format!("{}.v1.Thing", guest.replace('-', "_"));
            format!("case: a\nwrite: {{type: {ty}, name: {name}, data: {{text: x}}}}\nexpect: {{allow: true}}\n")
        };
        let (done, _dir) = test(guest, &case(name), &[]).await;
        assert_eq!(done.code, Some(1), "{name}: {}{}", done.out, done.err);
        assert!(done.out.contains(says), "{name}: {}", done.out);
        let (done, _dir) = test(guest, &case("fine"), &[]).await;
        assert_eq!(done.code, Some(0), "{guest}: {}{}", done.out, done.err);
    }
}

/// The fault comes after the hooks, if they allow the write, as on a server.
#[tokio::test]
async fn a_write_may_not_change_an_immutable_field() {
    let refusal = "data.number cannot be changed once the resource exists";
    let refused = format!("diagnostics: [{{error: {refusal}, path: data.number}}]");
    let (allowed, refused) = ("allow: true", refused.as_str());
    for (number, expect, code) in [(1, allowed, 0), (2, allowed, 1), (2, refused, 0), (1, refused, 1)] {
        let thing = |number| format!("{{type: immutable_field.v1.Thing, name: x, data: {{number: {number}}}}}");
        let case = format!("case: a\nwrite: {}\nstored: {}\nexpect: {{{expect}}}\n", thing(number), thing(1));
        let (done, _dir) = test("immutable-field", &case, &[]).await;
        assert_eq!(done.code, Some(code), "{case}: {}{}", done.out, done.err);
        assert_eq!(done.out.contains(refusal), code == 1, "{case}: {}", done.out);
    }
}

/// Cases have a server's limits, and distinguish a plugin that breaks from a wrong answer.
#[tokio::test]
async fn faults_are_named_and_can_be_expected() {
    let case = |group: &str, expect: &str| {
        format!(
            "case: a\nvalidate: {{type: {group}.v1.Thing, name: boom, data: {{number: 5}}}}\nexpect: {{{expect}}}\n"
        )
    };
    for (guest, group, fault) in [
        ("panic", "panicking", "trapped: "),
        ("infinite-loop", "infinite_loop", "used up its fuel of 50000000 units (limit sandbox.fuel)"),
        ("memory-bomb", "memory_bomb", "asked for more memory than its 33554432 bytes (limit sandbox.memory_bytes)"),
    ] {
        let (done, _dir) = test(guest, &case(group, ""), &[]).await;
        assert_eq!(done.code, Some(1), "{guest}: {}{}", done.out, done.err);
        assert!(done.out.contains(fault), "{guest}: {}", done.out);
        let (done, _dir) = test(guest, &case(group, &format!("fault: {:?}", fault.trim_end())), &[]).await;
        assert_eq!(done.code, Some(0), "{guest}: {}", done.out);
    }
    let (done, _dir) = test("panic", &case("panicking", ""), &[]).await;
    assert!(done.out.contains("log: panicked at ") && done.out.contains("asked to panic, number 5"), "{}", done.out);
    let good = "case: a\nvalidate: {type: panicking.v1.Thing, name: fine, data: {}}\nexpect: {max_fuel: 10}\n";
    let (done, _dir) = test("panic", good, &[]).await;
    assert!(done.out.contains("more than max_fuel: 10"), "{}", done.out);
}

/// The command fails before it builds anything.
#[tokio::test]
async fn dev_without_a_server_says_so_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let done = plugin(dir.path(), &["dev", "--once", "--grpc-addr", "127.0.0.1:1"]).await;
    assert_eq!((done.code, done.out.as_str()), (Some(3), ""), "{}", done.err);
    assert!(done.err.contains("\n  hint: is `mortise dev` or `mortise serve` running there?"), "{}", done.err);
}
