//! Calls of plugins through Terraform: replacements, predictions, moved types, imports, functions.

use mortise_provider::{
    proto::tfplugin6::{self as pb, DynamicValue, RawState},
    value::{Type, Value, msgpack},
};
use mortise_test_guests::Thing;

use crate::{
    provider::{
        real_core::{self, RealCore},
        rules::socket,
        terraform_core::{Core, Faults, Instance, path_of, state_json},
    },
    support::{Server, Setup, decoded, eventually, id, thing},
};

pub const THING: &str = "mortise_changes_thing";
pub const OLD: &str = "mortise_changes_old_thing";

pub fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn number(text: &str) -> Value {
    Value::Number(text.parse().unwrap())
}

async fn attached() -> (Server, Core) {
    let server = Setup::new().guest("changes").start().await;
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    (server, core)
}

fn said(faults: &[pb::Diagnostic]) -> String {
    faults.iter().map(|one| format!("{}|{}|{}\n", path_of(one), one.summary, one.detail)).collect()
}

async fn stored(server: &Server, name: &str) -> Thing {
    decoded(&server.read(&id("changes.v1.Thing", name)).await.unwrap())
}

#[tokio::test]
async fn predicted_values_are_known_after_apply() {
    let (server, mut core) = attached().await;
    let config = core.config(THING, "a", &[("text", text("one"))]);
    let planned = core.plan(THING, None, &config).await.unwrap();
    assert_eq!(planned.state.get("data").get("inner"), &Value::unknown());
    assert_eq!(planned.state.get("data").get("text"), &text("one"));
    // Settled at once, and after the controller's write.
    let made = core.make(THING, None, &config).await.unwrap();
    eventually("the controller has written it", || async { stored(&server, "a").await.inner.is_some() }).await;
    let made = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(made.state.get("data").get("inner").get("text"), &text("seen one"));
    assert!(core.plan(THING, Some(&made), &config).await.unwrap().is_no_op(&made.state), "not a change");
    let next = core.config(THING, "a", &[("text", text("two"))]);
    let planned = core.plan(THING, Some(&made), &next).await.unwrap();
    assert_eq!(planned.state.get("data").get("inner"), &Value::unknown());
    core.make(THING, Some(&made), &next).await.unwrap();
    // A configured value is kept, even if the plugin predicts another.
    let own = Value::object([("text", text("mine"))]);
    let config = core.config(THING, "b", &[("text", text("one")), ("inner", own.clone())]);
    let made = core.make(THING, None, &config).await.unwrap();
    eventually("the controller has written", || async {
        stored(&server, "b").await.inner.is_some_and(|inner| inner.text == "seen one")
    })
    .await;
    let made = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(made.state.get("data").get("inner"), &own, "the user's spelling");
    assert!(core.plan(THING, Some(&made), &config).await.unwrap().is_no_op(&made.state));
}

#[tokio::test]
async fn a_plugin_says_what_has_to_be_replaced() {
    let (_server, mut core) = attached().await;
    let config = |core: &Core, n: &str| core.config(THING, "a", &[("text", text("x")), ("number", number(n))]);
    let first = config(&core, "1");
    let made = core.make(THING, None, &first).await.unwrap();
    let second = config(&core, "2");
    assert_eq!(core.plan(THING, Some(&made), &second).await.unwrap().replace, ["data.number"]);
    let again = core.plan(THING, None, &second).await.unwrap();
    assert!(again.replace.is_empty(), "as core plans what comes in its place");
    core.destroy(&made).await.unwrap();
    core.make(THING, None, &second).await.unwrap();
    let config = core.config(THING, "boom-plan", &[("text", text("x"))]);
    let faults = core.plan(THING, None, &config).await.unwrap_err();
    assert!(said(&faults).contains("plugin changes"), "{faults:?}");
}

fn move_request(from: &str, to: &str, state: &[u8]) -> pb::move_resource_state::Request {
    pb::move_resource_state::Request {
        source_provider_address: "mortise.local/mortise/mortise".into(),
        source_type_name: from.into(),
        source_schema_version: 1,
        source_state: Some(RawState { json: state.to_vec(), ..RawState::default() }),
        target_type_name: to.into(),
        source_private: Vec::new(),
    }
}

pub async fn move_state(core: &mut Core, from: &str, to: &str, state: &[u8]) -> Result<Instance, Faults> {
    let answer = core.client.move_resource_state(move_request(from, to, state)).await.unwrap().into_inner();
    match answer.diagnostics.is_empty() {
        true => Ok(Instance {
            kind: to.into(),
            state: core.decode(to, answer.target_state.as_ref()),
            private: answer.target_private,
        }),
        false => Err(answer.diagnostics),
    }
}

#[tokio::test]
async fn a_state_that_changes_its_type_takes_the_resource_along_when_it_is_applied() {
    let (server, mut core) = attached().await;
    let config = core.config(OLD, "a", &[("text", text("hello"))]);
    let old = core.make(OLD, None, &config).await.unwrap();
    let json = state_json(&old.state);
    // Core asks a process that was not configured.
    let mut other = Core::attach(&socket(&server)).await;
    let moved = move_state(&mut other, OLD, THING, &json).await.unwrap();
    assert_eq!(moved.state.get("data").get("text"), &text("hello"));
    assert!(server.read(&id("changes.v1.OldThing", "a")).await.is_ok(), "a plan changes nothing");

    let moved = core.refresh(&moved).await.unwrap().expect("it is told as it would be");
    let config = core.config(THING, "a", &[("text", text("hello"))]);
    let planned = core.plan(THING, Some(&moved), &config).await.unwrap();
    assert!(planned.replace.is_empty() && !planned.is_no_op(&moved.state), "{planned:?}");
    let made = core.make(THING, Some(&moved), &config).await.unwrap();
    assert!(server.read(&id("changes.v1.OldThing", "a")).await.is_err(), "it is the other one now");
    assert_eq!(stored(&server, "a").await.text, "hello");
    core.destroy(&made).await.unwrap();

    // Another client moved it before.
    server.write(thing("changes", "b", &Thing { text: "there".into(), ..Thing::default() })).await.unwrap();
    eventually("its controller is done", || async { stored(&server, "b").await.inner.is_some() }).await;
    let gone = String::from_utf8(json.clone()).unwrap().replace("\"a\"", "\"b\"");
    let found = move_state(&mut other, OLD, THING, gone.as_bytes()).await.unwrap();
    assert_eq!(found.state.get("data").get("text"), &text("there"));
    let config = core.config(THING, "b", &[("text", text("there"))]);
    core.make(THING, Some(&found), &config).await.unwrap();

    let faults = move_state(&mut other, OLD, THING, &json).await.unwrap_err();
    assert!(said(&faults).contains("no longer exists"), "{faults:?}");
    let faults = move_state(&mut other, THING, OLD, &json).await.unwrap_err();
    assert!(said(&faults).contains("cannot become mortise_changes_old_thing"), "{faults:?}");
    let faults = move_state(&mut other, "aws_instance", THING, &json).await.unwrap_err();
    assert!(said(&faults).contains("Its plugin can make it from changes.v1.OldThing."), "{faults:?}");
    for wrong in [&b"{"[..], b"[]", b"null", b"{\"name\": 7}"] {
        assert!(move_state(&mut other, OLD, THING, wrong).await.is_err());
    }
    let same = move_state(&mut other, OLD, OLD, &json).await.unwrap();
    assert_eq!(same.state, old.state, "from another address of the provider");
}

#[tokio::test]
async fn outside_objects_are_imported_by_apply() {
    let (server, mut core) = attached().await;
    let imported = core.import(THING, "thing:x").await.unwrap();
    assert_eq!(imported.state.get("data").get("text"), &text("imported"));
    assert_eq!(imported.state.get("name"), &text("x"));
    assert!(server.read(&id("changes.v1.Thing", "x")).await.is_err(), "a plan changes nothing");
    let config = core.config(THING, "x", &[("text", text("imported"))]);
    let made = core.make(THING, Some(&imported), &config).await.unwrap();
    assert_eq!(stored(&server, "x").await.text, "imported");
    core.destroy(&made).await.unwrap();
    // A different configuration is applied.
    let imported = core.import(THING, "thing:y").await.unwrap();
    let config = core.config(THING, "y", &[("text", text("mine"))]);
    core.make(THING, Some(&imported), &config).await.unwrap();
    assert_eq!(stored(&server, "y").await.text, "mine");
    // An import by name works as before.
    let there = core.import(THING, "y").await.unwrap();
    assert!(!there.state.get("uid").is_null());
    for (id, says) in [("nonsense", "nothing that can be imported"), ("boom", "plugin changes")] {
        let faults = core.import(THING, id).await.unwrap_err();
        assert!(said(&faults).contains(says), "{faults:?}");
    }
}

/// The resource has its new type, or exists, although it cannot be brought to its configuration: the state has what
/// exists, with the fault, and the next plan goes on from there.
#[tokio::test]
async fn a_taken_over_resource_whose_update_fails_is_in_the_state() {
    let (server, mut core) = attached().await;
    server.write(thing("changes", "parent", &Thing::default())).await.unwrap();
    // An update cannot give a resource an owner.
    let config = |core: &Core, name: &str| {
        let Value::Map(mut parts) = core.config(THING, name, &[("text", text("hello"))]) else { panic!("no object") };
        let owner = [("group", text("changes")), ("group_version", text("v1")), ("kind", text("Thing"))];
        let rest = ["partition", "namespace", "uid"].map(|part| (part, Value::Null));
        let owner = owner.into_iter().chain([("name", text("parent"))]).chain(rest);
        parts.insert("owner".into(), Value::object(owner));
        Value::Map(parts)
    };
    let old = core.config(OLD, "moved", &[("text", text("hello"))]);
    let old = core.make(OLD, None, &old).await.unwrap();
    let moved = move_state(&mut core, OLD, THING, &state_json(&old.state)).await.unwrap();
    let imported = core.import(THING, "thing:imported").await.unwrap();
    for (name, pending) in [("moved", moved), ("imported", imported)] {
        let pending = core.refresh(&pending).await.unwrap().unwrap();
        let config = config(&core, name);
        let planned = core.plan(THING, Some(&pending), &config).await.unwrap();
        let (faults, state) = core.apply(THING, Some(&pending), &config, &planned).await.unwrap_err();
        assert!(said(&faults).contains("owner"), "{name}: {faults:?}");
        let there = server.read(&id("changes.v1.Thing", name)).await.unwrap();
        assert_eq!(state.get("uid"), &text(&there.id.unwrap().uid), "{name}: the state has it");
        assert!(state.get("owner").is_null());
        let failed = Instance { kind: THING.into(), state, private: Vec::new() };
        let seen = core.refresh(&failed).await.unwrap().unwrap();
        let next = core.plan(THING, Some(&seen), &config).await.unwrap();
        assert!(next.replace.iter().all(|path| path.starts_with("owner")) && !next.replace.is_empty(), "{next:?}");
    }
    assert!(server.read(&id("changes.v1.OldThing", "moved")).await.is_err());
}

fn packed(value: &Value) -> DynamicValue {
    DynamicValue { msgpack: msgpack::encode(value), json: Vec::new() }
}

#[tokio::test]
async fn functions_are_called_before_anything_is_configured() {
    let server = Setup::new().guest("changes").start().await;
    let mut core = Core::attach(&socket(&server)).await;
    let schema = core.client.get_provider_schema(pb::get_provider_schema::Request {}).await.unwrap().into_inner();
    let functions = core.client.get_functions(pb::get_functions::Request {}).await.unwrap().into_inner().functions;
    assert_eq!(schema.functions, functions);
    let metadata = core.client.get_metadata(pb::get_metadata::Request {}).await.unwrap().into_inner().functions;
    assert_eq!(metadata.iter().map(|one| &one.name).collect::<Vec<_>>(), functions.keys().collect::<Vec<_>>());
    let mut types = 0;
    for (name, function) in &functions {
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_'), "{name}");
        let parameters = function.parameters.iter().chain(&function.variadic_parameter);
        let all = parameters.map(|one| &one.r#type).chain([&function.r#return.as_ref().unwrap().r#type]);
        for bytes in all {
            Type::from_bytes(bytes).unwrap();
            types += 1;
        }
    }
    assert!(types > functions.len(), "{types}");
    assert_eq!(functions["changes_wrong"].deprecation_message, "use one that is right");

    let mut call = async |name: &str, arguments: &[Value]| {
        let arguments = arguments.iter().map(packed).collect();
        let request = pb::call_function::Request { name: name.into(), arguments };
        let answer = core.client.call_function(request).await.unwrap().into_inner();
        match answer.error {
            None => {
                let of = &functions[name].r#return.as_ref().unwrap().r#type;
                Ok(msgpack::decode(&answer.result.unwrap().msgpack, &Type::from_bytes(of).unwrap()).unwrap())
            }
            Some(error) => Err((error.function_argument, error.text)),
        }
    };
    let list = |items: &[Value]| Value::List(items.to_vec());
    let person = Value::object([("name", text("Ada")), ("age", number("36.5"))]);
    for (name, arguments, result) in [
        ("changes_concat", vec![], text("")),
        ("changes_concat", vec![text("a"), text("b")], text("ab")),
        ("changes_sum", vec![list(&[number("1"), Value::Null, number("41")])], number("42")),
        ("changes_describe", vec![person], Value::object([("age", text("36.5")), ("name", text("Ada"))])),
        ("changes_describe", vec![Value::Null], Value::object([])),
    ] {
        assert_eq!(call(name, &arguments).await, Ok(result.clone()), "{name}");
        assert_eq!(call(name, &arguments).await, Ok(result), "{name}");
    }
    assert_eq!(call("changes_refuses", &[text("x")]).await, Err((Some(0), "it is refused".to_owned())));
    for (name, arguments, argument, says) in [
        ("changes_refuses", vec![text("x"), text("y")], Some(1), "the function has no parameter"),
        ("changes_refuses", vec![], None, "takes 1 arguments"),
        ("changes_refuses", vec![number("1")], Some(0), ""),
        ("changes_refuses", vec![Value::unknown()], Some(0), "not known yet"),
        ("changes_sum", vec![list(&[Value::unknown()])], Some(0), "not known yet"),
        ("changes_logs", vec![], None, "functions have no imports"),
        ("changes_nothing", vec![], None, "no function"),
    ] {
        let (at, said) = call(name, &arguments).await.unwrap_err();
        assert!(at == argument && said.contains(says), "{name}: {at:?} {said}");
    }
}

const CONFIGURATION: &str = r#"
resource "mortise_changes_thing" "it" {
  name = "it"
  data {
    text   = provider::mortise::changes_concat("a", "-", "b")
    number = provider::mortise::changes_sum([40, 2])
  }
}

output "described" {
  value = provider::mortise::changes_describe({ name = "Ada", age = 36 })
}
"#;

/// Warnings about what is moved or imported are shown before and after it, once each time, at their attribute.
#[tokio::test]
async fn moves_and_imports_show_warnings() {
    let (server, mut core) = attached().await;
    let odd = |core: &Core, kind: &str, name: &str| core.config(kind, name, &[("text", text("odd"))]);
    let config = odd(&core, OLD, "a");
    let old = core.make(OLD, None, &config).await.unwrap();
    let mut other = Core::attach(&socket(&server)).await;
    let moved = other.client.move_resource_state(move_request(OLD, THING, &state_json(&old.state))).await.unwrap();
    let request =
        pb::import_resource_state::Request { type_name: THING.into(), id: "odd:b".into(), ..Default::default() };
    let imported = core.client.import_resource_state(request).await.unwrap().into_inner();
    for diagnostics in [&moved.into_inner().diagnostics, &imported.diagnostics] {
        assert_eq!(said(diagnostics), "data.text|it is odd|\n");
        assert_eq!(diagnostics[0].severity(), pb::diagnostic::Severity::Warning);
    }
}

real_core::on_each_core!(a_real_core_calls_functions_replaces_moves_and_imports);

/// A real core: functions in expressions, a replacement that the plugin asks for, a moved block, an import block.
async fn a_real_core_calls_functions_replaces_moves_and_imports(core: RealCore) {
    let server = Setup::new().guest("changes").start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |text: &str| {
        let required = crate::provider::rules::REQUIRED;
        std::fs::write(dir.path().join("main.tf"), format!("{required}{text}")).unwrap();
    };
    let run = |arguments: &[&str]| core.run(dir.path(), &server, arguments);
    let settled = || {
        let (planned, said) = run(&["plan", "-detailed-exitcode"]);
        assert!(planned, "{said}");
    };
    write(CONFIGURATION);
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("1 added") && said.contains("\"age\" = \"36\""), "{said}");
    settled();
    let found = stored(&server, "it").await;
    assert_eq!((found.text.as_str(), found.number), ("a-b", 42));
    write(&CONFIGURATION.replace("[40, 2]", "[40, 3]"));
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("1 added, 0 changed, 1 destroyed"), "{said}");
    assert_eq!(stored(&server, "it").await.number, 43);
    settled();
    write(&CONFIGURATION.replace("[40, 2]", "[1.5]"));
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(!applied && said.contains("only whole numbers are added"), "{said}");

    write("resource \"mortise_changes_old_thing\" \"one\" {\n  name = \"one\"\n  data {\n    text = \"x\"\n  }\n}\n");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("1 added, 0 changed, 1 destroyed"), "{said}");
    let thing = "resource \"mortise_changes_thing\" \"one\" {\n  name = \"one\"\n  data {\n    text = \"x\"\n  }\n}\n";
    write(&format!("{thing}moved {{\n  from = mortise_changes_old_thing.one\n  to = mortise_changes_thing.one\n}}\n"));
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("0 added, 1 changed, 0 destroyed"), "{said}");
    assert!(server.read(&id("changes.v1.OldThing", "one")).await.is_err());
    settled();

    let outside = thing.replace("\"one\"", "\"two\"").replace("\"x\"", "\"imported\"");
    write(&format!("{thing}{outside}import {{\n  to = mortise_changes_thing.two\n  id = \"thing:two\"\n}}\n"));
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("1 imported, 0 added, 1 changed, 0 destroyed"), "{said}");
    assert_eq!(stored(&server, "two").await.text, "imported");
    settled();
    let (destroyed, said) = run(&["destroy", "-auto-approve"]);
    assert!(destroyed && said.contains("2 destroyed"), "{said}");
}
