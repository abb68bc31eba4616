//! Cases of plans, moves, imports, functions and private bytes (`mortise plugin test`), of the guest `changes`.

use std::fs;

use crate::authoring::workflow::{Done, plugin};
use mortise_test_guests::component;

async fn test(cases: &str) -> Done {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("tests/cases")).unwrap();
    fs::write(dir.path().join("tests/cases/c.yaml"), cases).unwrap();
    plugin(dir.path(), &["test", component("changes").to_str().unwrap()]).await
}

/// The failure of a single case, without the lines around it.
async fn problem(case: &str) -> String {
    let done = test(&format!("case: c\n{case}")).await;
    assert_eq!(done.code, Some(1), "{case}\n{}{}", done.out, done.err);
    let (_, problem) = done.out.split_once("---- c.yaml:1: c\n").expect(&done.out);
    problem.split("\n\ntest result").next().unwrap().to_owned()
}

const CASES: &str = r#"
case: a plan predicts the work of the controller
plan: {type: changes.v1.Thing, name: a, data: {}}
expect:
  data: {text: untitled, inner: {text: seen untitled}}
---
case: a plan asks for a replacement
stored: {type: changes.v1.Thing, name: a, data: {text: x, number: 1}}
plan: {type: changes.v1.Thing, name: a, data: {text: x, number: 2}}
expect:
  data: {text: x, number: 2, inner: {text: seen x}}
  replace: [data.number]
---
case: a plan keeps finalizers, and shows no change where none is
stored:
  type: changes.v1.Thing
  name: a
  metadata: {finalizers: f}
  data: {text: x, inner: {text: seen x}}
  status: {changes/a: {conditions: [{type: Ready, state: STATE_TRUE}]}}
plan: {type: changes.v1.Thing, name: a, metadata: {finalizers: f}, data: {text: x, inner: {text: seen x}}}
expect: {unchanged: true}
---
case: a plan without finalizers keeps those of the stored resource
stored: {type: changes.v1.Thing, name: a, metadata: {finalizers: f}, data: {text: x}}
plan: {type: changes.v1.Thing, name: a, data: {text: x}}
expect:
  metadata: {finalizers: f}
  data: {text: x, inner: {text: seen x}}
---
case: a plan knows the private bytes
stored: {type: changes.v1.Thing, name: a, data: {text: odd}}
plan: {type: changes.v1.Thing, name: a, data: {text: odd}}
private_bytes: {a: "7"}
expect:
  data: {text: odd, inner: {text: seen odd}}
  diagnostics:
    - {warning: it is odd, path: data.text}
    - {warning: kept 7}
---
case: a plan of what is refused is refused
plan: {type: changes.v1.Thing, name: a, data: {text: forbidden}}
expect:
  diagnostics: [{error: it is forbidden, path: data.text}]
---
case: a plan that breaks
plan: {type: changes.v1.Thing, name: boom-plan, data: {text: x}}
expect: {fault: hook plan trapped}
---
case: an old thing becomes a thing
move: {to: changes.v1.Thing, type: changes.v1.OldThing, name: a, metadata: {k: v}, data: {items: [one]}}
expect:
  data: {text: untitled, items: [one, moved]}
  private_bytes: {a: moved}
---
case: private bytes move along
move: {to: changes.v1.Thing, type: changes.v1.OldThing, name: a, data: {text: x}}
private_bytes: {changes.v1.OldThing/a: "9"}
expect:
  data: {text: x, items: [moved]}
  private_bytes: {changes.v1.Thing/a: "9"}
---
case: a move is refused
move: {to: changes.v1.Thing, type: changes.v1.OldThing, name: a, data: {text: stuck}}
expect:
  diagnostics: [{error: it is stuck}]
---
case: a thing is imported
import: {type: changes.v1.Thing, id: "thing:found"}
expect:
  name: found
  data: {text: imported}
  private_bytes: {found: imported}
---
case: an import reads a granted directory
directories: {outside: {b: content}}
import: {type: changes.v1.Thing, id: "file:b"}
expect:
  name: b
  data: {text: content}
  requests: []
---
case: an import passes the hooks of a write
import: {type: changes.v1.Thing, id: "odd:c"}
expect:
  data: {text: odd}
  diagnostics: [{warning: it is odd, path: data.text}]
---
case: an import is refused
import: {type: changes.v1.Thing, id: nonsense}
expect:
  diagnostics: [{error: nonsense is nothing that can be imported}]
---
case: an import that breaks
import: {type: changes.v1.Thing, id: boom}
expect: {fault: hook import trapped}
---
case: a function joins texts
function: {name: concat, arguments: [a, b, c]}
expect: {result: abc}
---
case: a function adds numbers
function: {name: sum, arguments: [[1, null, 2]]}
expect: {result: 3}
---
case: a function refuses an argument
function: {name: refuses, arguments: [x]}
expect: {error: it is refused, argument: 0}
---
case: a function that breaks
function: {name: traps}
expect: {fault: "wasm trap"}
---
case: a controller keeps private bytes
store: [{type: changes.v1.Thing, name: a, data: {text: x, inner: {text: seen x}}}]
private_bytes: {a: "41"}
reconcile: {name: a}
expect:
  outcome: done
  private_bytes: {a: "42"}
"#;

#[tokio::test]
async fn every_call_of_a_plugin_has_cases() {
    let done = test(CASES).await;
    assert_eq!((done.code, done.err.as_str()), (Some(0), ""), "{}{}", done.out, done.err);
    let count = CASES.matches("\ncase: ").count();
    assert!(done.out.contains(&format!("test result: ok. {count} passed; 0 failed")), "{}", done.out);
}

/// Each expectation fails when it is wrong.
#[tokio::test]
async fn wrong_expectations_are_shown() {
    let plan = "stored: {type: changes.v1.Thing, name: a, data: {text: x, number: 1}}\nplan: {type: changes.v1.Thing, name: a, data: {text: x, \
                number: 2}}\n";
    let import = "import: {type: changes.v1.Thing, id: \"thing:found\"}\n";
    for (case, expected) in [
        (
            format!("{plan}expect: {{data: {{text: x, number: 2, inner: {{text: seen x}}}}}}"),
            "other fields to be replaced than expected:\n--- expected\n+++ found\n@@ -0,0 +1 @@\n+data.number",
        ),
        (format!("{plan}expect: {{unchanged: true, replace: [data.number]}}"), "it must stay unchanged:\n"),
        (format!("{import}expect: {{name: other, private_bytes: {{found: imported}}}}"), "another name than expected:\n"),
        (format!("{import}expect: {{name: found}}"), "other private bytes than expected:\n"),
        (
            "function: {name: concat, arguments: [a]}\nexpect: {result: b}".to_owned(),
            "another result than expected:\n--- expected\n+++ found\n@@ -1 +1 @@\n-\"b\"\n+\"a\"",
        ),
        (
            "function: {name: concat, arguments: [a]}\nexpect: {error: no}".to_owned(),
            "another end than expected:\n-error: …no…\n+result: \"a\"",
        ),
        ("function: {name: refuses, arguments: [a]}\nexpect: {result: b}".to_owned(), "the function refused: it is refused"),
        (
            "function: {name: refuses, arguments: [a]}\nexpect: {error: it is, argument: 1}".to_owned(),
            "another argument is at fault than expected:\n",
        ),
        (
            "move: {to: changes.v1.Thing, type: changes.v1.OldThing, name: a, data: {text: stuck}}\nexpect: {data: {text: stuck}}".to_owned(),
            "other diagnostics than expected:\n+error: it is stuck",
        ),
        (
            "store: [{type: changes.v1.Thing, name: a, data: {text: x, inner: {text: seen x}}}]\nreconcile: {name: a}\nexpect: {outcome: done, \
             private_bytes: {a: \"2\"}}"
                .to_owned(),
            "other private bytes than expected:\n--- expected\n+++ found\n@@ -1 +1 @@\n-changes.v1.Thing/a: \"2\"\n+changes.v1.Thing/a: \"1\"",
        ),
    ] {
        let problem = problem(&case).await;
        assert!(problem.starts_with(expected), "{case}\n{problem}");
    }
}

/// Stray fields are refused before anything runs.
#[tokio::test]
async fn stray_fields_of_these_calls_are_refused() {
    let of = |call: &str, expect: &str| format!("case: c\n{call}\nexpect: {expect}");
    let thing = "{type: changes.v1.Thing, name: a}";
    for (case, expected) in [
        (
            of(&format!("plan: {thing}"), "{}"),
            "expect must contain the answer of plan: one of data, metadata, unchanged, replace, diagnostics",
        ),
        (of(&format!("plan: {thing}"), "{allow: true}"), "expect.allow does not apply to plan"),
        (
            of(&format!("caller: {{}}\nplan: {thing}"), "{unchanged: true}"),
            "caller is for mutate, validate, write, authorize and upgrade only",
        ),
        (
            of(&format!("private_bytes: {{a: x}}\nvalidate: {thing}"), "{}"),
            "private_bytes is for reconcile, map, plan and move only",
        ),
        (
            of(&format!("plan: {thing}"), "{diagnostics: [{error: x}], data: {}}"),
            "expect.data is not compared after an error of plan; leave it out",
        ),
        (
            of("http: [{url: 'http://a.test/', request: {}}]\nimport: {type: changes.v1.Thing, id: x}", "{name: y}"),
            "http: an empty `request` checks nothing",
        ),
        (of("function: {name: sum}", "{}"), "expect must contain either the result of function"),
        (of("function: {name: sum}", "{result: 1, error: x}"), "expect must contain either the result of function"),
        (of("function: {name: sum}", "{result: 1, argument: 0}"), "expect.argument names the argument of an error"),
        (of("import: {type: changes.v1.Thing, id: x, nme: y}", "{name: y}"), "unknown field `nme`"),
    ] {
        let done = test(&case).await;
        assert_eq!((done.code, done.out.as_str()), (Some(2), ""), "{case}\n{}", done.err);
        assert!(done.err.contains(expected), "{case}\n{}", done.err);
    }
    for (case, expected) in [
        (
            of("move: {to: changes.v1.OldThing, type: changes.v1.Thing, name: a, data: {}}", "{data: {}}"),
            "changes.v1.OldThing is made from nothing, not from changes.v1.Thing",
        ),
        (
            of(&format!("private_bytes: {{b: x}}\nplan: {thing}"), "{unchanged: true}"),
            "private_bytes: only those of changes.v1.Thing/a are used here",
        ),
        (
            of(&format!("private_bytes: {{a: x}}\nplan: {thing}"), "{unchanged: true}"),
            "private_bytes: a resource that is created has none",
        ),
        (
            of(&format!("stored: {{type: changes.v1.Thing, name: b}}\nplan: {thing}"), "{unchanged: true}"),
            "stored is another resource than that of plan",
        ),
        (
            of("private_bytes: {b: x}\nreconcile: {name: a}", "{outcome: done}"),
            "private_bytes: changes.v1.Thing/b: resource not found",
        ),
        (of("function: {name: other}", "{result: 1}"), "function: plugin changes has no function \"other\""),
        (of("function: {name: sum, arguments: [1]}", "{result: 1}"), "function: "),
        (of("import: {type: changes.v1.OldThing, id: x}", "{name: y}"), "changes.v1.OldThing has no import hook"),
    ] {
        let done = test(&case).await;
        assert_eq!(done.code, Some(1), "{case}\n{}{}", done.out, done.err);
        assert!(done.out.contains(&format!("the case cannot be run: {expected}")), "{case}\n{}", done.out);
    }
}
