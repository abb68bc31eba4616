//! The provider for Terraform, driven by a core that checks core's rules, and by a real one where it is installed.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use mortise_provider::{
    proto::{
        plugin::{Empty, grpc_controller_client::GrpcControllerClient},
        tfplugin6::{self as pb, RawState, diagnostic::Severity},
    },
    value::Value,
};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{
    provider::terraform_core::{
        CORE_CERTIFICATE, Core, OTHER_CERTIFICATE, check_applied, connect_tls, encode, path_of, state_json,
    },
    support::{PATIENCE, Server, Setup, controllers::read_until, gvk, skipped, tenancy, until},
};

pub const EVERYTHING: &str = "mortise_fields_everything";

fn text(text: &str) -> Value {
    Value::String(text.into())
}

fn number(text: &str) -> Value {
    Value::Number(text.parse().unwrap())
}

fn list(items: &[Value]) -> Value {
    Value::List(items.to_vec())
}

fn part(name: &str, weight: Value) -> Value {
    Value::object([("name", text(name)), ("weight", weight)])
}

/// A value of every kind, in spellings that differ from the server's where several exist.
pub fn everything() -> Vec<(&'static str, Value)> {
    vec![
        ("text", text("UPPER Lower")),
        ("yes", Value::Bool(false)),
        ("small", number("-2147483648")),
        ("large", number("-9223372036854775808")),
        ("positive", number("5.0")),
        ("huge", number("18446744073709551615")),
        ("zigzag", number("9223372036854775807")),
        ("fixed", number("9223372036854775808")),
        ("single", number("0.1")),
        ("double", number("1e300")),
        ("raw", text("AAECAw==")),
        ("mood", text("MOOD_GOOD")),
        ("maybe", text("")),
        ("number_or_none", number("0")),
        ("wrapped", text("")),
        ("wrapped_number", number("18446744073709551615")),
        ("part", part("P", Value::Null)),
        ("tags", list(&[text("b"), text("a"), text("b")])),
        ("moods", list(&[text("MOOD_BAD"), text("2"), text("MOOD_UNSPECIFIED")])),
        ("parts", list(&[part("one", number("7")), part("two", Value::Null)])),
        ("labels", Value::object([("b", text("")), ("a", text("x"))])),
        ("by_name", Value::object([("k", part("x", Value::Null))])),
        ("by_number", Value::object([("-1", text("minus")), ("2", text("two"))])),
        ("by_bool", Value::object([("true", number("1"))])),
        ("other", part("chosen", Value::Null)),
        ("at", text("2026-01-02T04:04:05+01:00")),
        ("took", text("1m30s")),
        ("mask", list(&[text("some_path"), text("data.other_path")])),
        ("nothing", Value::object([])),
        ("object", text(r#"{ "b": [1, null], "a": {"x": "y"} }"#)),
        ("value", text("[1.50, true]")),
        ("list", text("[ ]")),
        ("tree", Value::object([("leaf", text("l")), ("children", list(&[text(r#"{"leaf":"m","children":[{}]}"#)]))])),
        ("secret", text("hunter2")),
        ("old", text("o")),
        ("camel_case", text("c")),
    ]
}

/// A server with a type that has every kind of field, and a core attached to it.
async fn attached() -> (Server, Core) {
    let server = Setup::new().guest("every-field").start().await;
    let core = Core::attach(&socket(&server)).await;
    (server, core)
}

pub fn socket(server: &Server) -> PathBuf {
    server.data_dir.join("provider.sock")
}

fn summaries(faults: &[pb::Diagnostic]) -> String {
    faults.iter().map(|one| format!("{}|{}|{}\n", path_of(one), one.summary, one.detail)).collect()
}

#[tokio::test]
async fn every_kind_of_field_settles_whatever_its_spelling() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let all = everything();
    let whole = core.config(EVERYTHING, "whole", &all);
    let made = core.make(EVERYTHING, None, &whole).await.unwrap();
    assert_eq!(made.state.get("data").get("text"), &text("UPPER Lower"), "the user's spelling");
    assert_eq!(made.state.get("data").get("port"), &number("80"), "the server's default");
    assert_eq!(made.state.get("id"), &text("default/default/whole"));
    // Each field alone, then removed, then set again.
    let mut fields = 0;
    for (position, (field, value)) in all.iter().enumerate() {
        let name = format!("f-{position}");
        let with = core.config(EVERYTHING, &name, &[(field, value.clone())]);
        let made = core.make(EVERYTHING, None, &with).await.unwrap_or_else(|faults| panic!("{field}: {faults:?}"));
        let without = core.config(EVERYTHING, &name, &[]);
        let made = core.make(EVERYTHING, Some(&made), &without).await.unwrap();
        core.make(EVERYTHING, Some(&made), &with).await.unwrap();
        fields += 1;
    }
    assert_eq!(fields, 36);
    // An imported resource settles at the second apply at the latest.
    let imported = core.import(EVERYTHING, "whole").await.unwrap();
    core.make(EVERYTHING, Some(&imported), &whole).await.unwrap();
    assert!(server.stop().await.success());
}

#[tokio::test]
async fn unknown_values_are_planned_and_known_at_apply() {
    let (_server, mut core) = attached().await;
    core.configure(&[("namespace", "default")]).await.unwrap();
    let parts = list(&[part("one", Value::unknown()), part("two", number("3"))]);
    for (field, unknown, known) in [
        ("text", Value::unknown(), text("NOW")),
        ("parts", Value::unknown(), list(&[part("x", Value::Null)])),
        ("parts", parts, list(&[part("one", number("2")), part("two", number("3"))])),
        ("labels", Value::object([("a", Value::unknown())]), Value::object([("a", text("x"))])),
        ("by_name", Value::object([("a", Value::unknown())]), Value::object([("a", part("x", Value::Null))])),
        ("one", Value::unknown(), text("x")),
    ] {
        let config = core.config(EVERYTHING, "later", &[(field, unknown), ("yes", Value::Bool(true))]);
        let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
        let config = core.config(EVERYTHING, "later", &[(field, known), ("yes", Value::Bool(true))]);
        let last = core.plan(EVERYTHING, None, &config).await.unwrap();
        check_applied(&planned.state, &last.state);
        let made = core.apply(EVERYTHING, None, &config, &last).await.unwrap();
        check_applied(&planned.state, &made.state);
        core.destroy(&made).await.unwrap();
    }
}

#[tokio::test]
async fn changes_of_immutable_fields_make_another_resource() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("fixed_name", text("a"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let other = core.config(EVERYTHING, "x", &[("fixed_name", text("b"))]);
    assert_eq!(core.plan(EVERYTHING, Some(&made), &other).await.unwrap().replace, ["data.fixed_name"]);
    let renamed = core.config(EVERYTHING, "y", &[("fixed_name", text("a"))]);
    assert_eq!(core.plan(EVERYTHING, Some(&made), &renamed).await.unwrap().replace, ["name"]);
    let same = core.config(EVERYTHING, "x", &[("fixed_name", text("a")), ("yes", Value::Bool(true))]);
    assert_eq!(core.plan(EVERYTHING, Some(&made), &same).await.unwrap().replace, [""; 0]);
}

#[tokio::test]
async fn changes_by_others_are_drift_or_refused() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("text", text("Mine"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    // A taken name: the existing resource is not overwritten.
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    let (faults, state) = core.apply(EVERYTHING, None, &config, &planned).await.unwrap_err();
    assert!(
        state.is_null() && summaries(&faults).starts_with("name|a resource of this name already exists|"),
        "{faults:?}"
    );
    // Changed between the plan and its application.
    let wanted = core.config(EVERYTHING, "x", &[("text", text("Next"))]);
    let planned = core.plan(EVERYTHING, Some(&made), &wanted).await.unwrap();
    let mut stored = server.read(&id_of("x")).await.unwrap();
    stored.metadata.insert("by".into(), "somebody".into());
    server.write(stored).await.unwrap();
    let (faults, state) = core.apply(EVERYTHING, Some(&made), &wanted, &planned).await.unwrap_err();
    assert!(summaries(&faults).contains("the resource changed since this was planned"), "{faults:?}");
    assert_eq!(state, made.state, "core keeps what it had");
    // The change is seen, and undone.
    let seen = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(seen.state.get("metadata"), &Value::object([("by", text("somebody"))]));
    let next = core.make(EVERYTHING, Some(&seen), &wanted).await.unwrap();
    // Deleted, and created again under the same name.
    server.delete(&id_of("x"), "").await.unwrap();
    assert!(core.refresh(&next).await.unwrap().is_none());
    let planned = core.plan(EVERYTHING, Some(&next), &config).await.unwrap();
    let (faults, _) = core.apply(EVERYTHING, Some(&next), &config, &planned).await.unwrap_err();
    assert!(summaries(&faults).contains("the resource was deleted since this was planned"), "{faults:?}");
    core.make(EVERYTHING, None, &config).await.unwrap();
    core.destroy(&next).await.unwrap();
    assert!(server.read(&id_of("x")).await.is_ok(), "another uid is not deleted");
}

pub fn id_of(name: &str) -> mortise_resource::pb::Id {
    mortise_resource::pb::Id {
        name: name.into(),
        uid: String::new(),
        r#type: Some(gvk("fields.v1.Everything")),
        tenancy: Some(tenancy("default", "default")),
    }
}

#[tokio::test]
async fn a_destroyed_resource_waits_for_its_finalizers() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let mut config = core.config(EVERYTHING, "held", &[]);
    let wait = Value::object([("conditions", list(&[])), ("timeout", text("3s"))]);
    if let Value::Map(parts) = &mut config {
        parts.insert("wait".into(), wait);
    }
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let mut stored = server.read(&id_of("held")).await.unwrap();
    stored.metadata.insert("finalizers".into(), "cleaner".into());
    let stored = server.write(stored).await.unwrap();
    let made = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(made.state.get("metadata"), &Value::Null, "finalizers are the server's");
    let (warned, _) = core.plan_destroy(&made).await.unwrap();
    assert_eq!(summaries(&warned), "|the deletion waits for finalizers: cleaner|\n");
    let (faults, state) = core.destroy(&made).await.unwrap_err();
    assert!(summaries(&faults).contains("have removed these finalizers: cleaner"), "{faults:?}");
    assert_eq!(state, made.state, "it is still there");
    let freeing = async {
        // During the wait of the deletion; before, there would be nothing to wait for.
        tokio::time::sleep(Duration::from_millis(100)).await;
        let mut marked = server.read(&id_of("held")).await.unwrap();
        assert_eq!(marked.id.as_ref().unwrap().uid, stored.id.as_ref().unwrap().uid);
        marked.metadata.insert("finalizers".into(), String::new());
        server.write(marked).await.unwrap();
    };
    let (destroyed, ()) = tokio::join!(core.destroy(&made), freeing);
    destroyed.unwrap();
}

#[tokio::test]
async fn conditions_are_waited_for() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let mut config = core.config(EVERYTHING, "ready", &[]);
    let wait_for = |config: &mut Value, timeout: &str| {
        let wait = Value::object([("conditions", list(&[text("Ready")])), ("timeout", text(timeout))]);
        let Value::Map(parts) = config else { panic!("{config:?}") };
        parts.insert("wait".into(), wait);
    };
    wait_for(&mut config, "500ms");
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    let (faults, state) = core.apply(EVERYTHING, None, &config, &planned).await.unwrap_err();
    assert_eq!(path_of(&faults[0]), "wait");
    assert!(faults[0].summary.contains("the timeout passed before these conditions were true: Ready"), "{faults:?}");
    assert_eq!(state.get("id"), &text("default/default/ready"), "what was made is not lost");
    let stored = server.read(&id_of("ready")).await.unwrap();
    server.delete(&id_of("ready"), "").await.unwrap();
    assert_eq!(state.get("uid"), &text(&stored.id.unwrap().uid));
    wait_for(&mut config, "30s");
    let telling = async {
        let stored = read_until(&server, &id_of("ready"), |_| true).await;
        let condition = mortise_resource::pb::Condition {
            r#type: "Ready".into(),
            state: mortise_resource::pb::condition::State::True.into(),
            ..Default::default()
        };
        let status = mortise_resource::pb::Status {
            observed_generation: stored.generation.clone(),
            conditions: vec![condition],
            updated_at: None,
        };
        let request = mortise_resource::pb::WriteStatusRequest {
            id: stored.id,
            version: stored.version,
            key: "tests".into(),
            status: Some(status),
        };
        server.write_status(request).await.unwrap();
    };
    let (made, ()) = tokio::join!(core.make(EVERYTHING, None, &config), telling);
    let status = made.unwrap().state.get("status").get("tests").clone();
    assert!(matches!(status.get("conditions"), Value::List(found) if found.len() == 1), "{status:?}");
}

#[tokio::test]
async fn bad_configurations_are_refused_at_their_places() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let long = number(&"9".repeat(4_000));
    for (field, value, path, said) in [
        ("small", number("2147483648"), "data.small", "out of the range"),
        ("small", number("1.5"), "data.small", "not an integer"),
        ("positive", number("-1"), "data.positive", "out of the range"),
        ("huge", number("18446744073709551616"), "data.huge", "out of the range"),
        ("huge", long.clone(), "data.huge", ""),
        ("single", number("1e300"), "data.single", ""),
        ("double", long, "data.double", ""),
        ("raw", text("%%%"), "data.raw", "is not base64"),
        ("mood", text("MOOD_ODD"), "data.mood", "MOOD_ODD"),
        ("moods", list(&[text("MOOD_GOOD"), text("x")]), "data.moods[1]", "x"),
        ("at", text("yesterday"), "data.at", ""),
        ("took", text("long"), "data.took", ""),
        ("object", text("{"), "data.object", "no JSON"),
        ("object", text("[1]"), "data.object", ""),
        ("by_number", Value::object([("x", text("y"))]), "data.by_number", ""),
        ("by_bool", Value::object([("maybe", number("1"))]), "data.by_bool", ""),
        ("parts", list(&[part("a", number("1")), Value::Null]), "data.parts[1]", "null cannot be an element"),
        ("parts", list(&[part("a", number("0.5"))]), "data.parts[0]", "not an integer"),
        ("tree", Value::object([("leaf", Value::Null), ("children", list(&[text(r#"{"leef":1}"#)]))]), "data.tree", ""),
    ] {
        let config = core.config(EVERYTHING, "bad", &[(field, value.clone())]);
        let faults = core.validate(EVERYTHING, &config).await.unwrap_err();
        let found = summaries(&faults);
        assert!(path_of(&faults[0]).starts_with(path) && found.contains(said), "{field} {value:?}: {found}");
    }
    let both = core.config(EVERYTHING, "bad", &[("one", text("x")), ("other", part("y", Value::Null))]);
    assert!(
        summaries(&core.validate(EVERYTHING, &both).await.unwrap_err())
            .starts_with("data.other|only one of one and other")
    );
    let name = core.config(EVERYTHING, "Bad_Name", &[]);
    assert!(summaries(&core.validate(EVERYTHING, &name).await.unwrap_err()).starts_with("name|"));
    // The plugin's own rules, and its warnings.
    let held = core.config(EVERYTHING, "bad", &[("labels", Value::object([("hold", text(""))]))]);
    let faults = core.plan(EVERYTHING, None, &held).await.unwrap_err();
    assert_eq!((path_of(&faults[0]).as_str(), faults[0].summary.as_str()), ("data.labels[\"hold\"]", "it is on hold"));
    let many = core.config(EVERYTHING, "many", &[("positive", number("2000"))]);
    let warnings = core.plan(EVERYTHING, None, &many).await.unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].severity() == Severity::Warning, "{warnings:?}");
    // Invalid encodings.
    for bytes in [&b"\xc1"[..], b"\x80", b"\xc0\xc0", &[0x91; 3_000], b"\xdd\xff\xff\xff\xff"] {
        let config = Some(pb::DynamicValue { msgpack: bytes.to_vec(), json: Vec::new() });
        let request = pb::validate_resource_config::Request { type_name: EVERYTHING.into(), config };
        let answer = core.client.validate_resource_config(request).await.unwrap().into_inner();
        assert!(answer.diagnostics.iter().any(|one| one.severity() == Severity::Error), "{bytes:?}");
    }
    let config = encode(&Value::Null);
    let request = pb::validate_resource_config::Request { type_name: "mortise_no_such".into(), config };
    let answer = core.client.validate_resource_config(request).await.unwrap().into_inner();
    assert!(answer.diagnostics[0].summary.contains("the server has no type for mortise_no_such"));
}

#[tokio::test]
async fn imports_data_sources_states_of_old_and_the_other_calls() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "one", &[("text", text("x")), ("labels", Value::object([("a", text("b"))]))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    for id in ["one", "default/one", "default/default/one"] {
        let imported = core.import(EVERYTHING, id).await.unwrap();
        assert_eq!(imported.state.get("uid"), made.state.get("uid"));
        assert_eq!(imported.state.get("data").get("text"), &text("x"));
    }
    for id in ["", "a/b/c/d", "Bad", "default//one"] {
        assert!(summaries(&core.import(EVERYTHING, id).await.unwrap_err()).contains("Write NAME"), "{id}");
    }
    // Fields that a state of an earlier version shares with this one are kept.
    let json = br#"{"name":"one","gone":{"x":1},"data":{"text":"Y","no_more":[1],"port":"eighty"}, "uid": 5}"#;
    let state = core.upgrade(EVERYTHING, 0, RawState { json: json.to_vec(), ..RawState::default() }).await.unwrap();
    assert_eq!((state.get("name"), state.get("data").get("text")), (&text("one"), &text("Y")));
    assert_eq!((state.get("data").get("port"), state.get("uid")), (&Value::Null, &Value::Null));
    let nothing = core.upgrade(EVERYTHING, 0, RawState::default()).await.unwrap_err();
    assert!(summaries(&nothing).contains("of Terraform before 0.12"));

    let read = core.data(EVERYTHING, &[("name", text("one"))]).await.unwrap();
    assert_eq!((read.get("data").get("port"), read.get("uid")), (&number("80"), made.state.get("uid")));
    let absent = core.data(EVERYTHING, &[("name", text("none"))]).await.unwrap_err();
    assert_eq!(path_of(&absent[0]), "name");
    let all = [("type", text("fields.Everything")), ("name_prefix", text("on")), ("namespace", text("*"))];
    let Value::List(found) = core.data("mortise_resources", &all).await.unwrap().get("resources").clone() else {
        panic!()
    };
    assert_eq!((found.len(), found[0].get("id")), (1, &text("default/default/one")));
    let none = [("type", text("fields.v1.Everything")), ("metadata", Value::object([("x", text("y"))]))];
    assert_eq!(core.data("mortise_resources", &none).await.unwrap().get("resources"), &list(&[]));
    let wrong = core.data("mortise_resources", &[("type", text("no.Such"))]).await.unwrap_err();
    assert_eq!(path_of(&wrong[0]), "type");

    let metadata = core.client.get_metadata(pb::get_metadata::Request {}).await.unwrap().into_inner();
    assert!(metadata.resources.iter().any(|one| one.type_name == EVERYTHING) && metadata.diagnostics.is_empty());
    assert!(metadata.data_sources.iter().any(|one| one.type_name == "mortise_resources"));
    let functions = core.client.get_functions(pb::get_functions::Request {}).await.unwrap().into_inner();
    assert!(functions.functions.is_empty());
    let call = pb::call_function::Request { name: "nope".into(), arguments: Vec::new() };
    assert!(core.client.call_function(call).await.unwrap().into_inner().error.unwrap().text.contains("nope"));
    let moved = pb::move_resource_state::Request { source_type_name: "a".into(), ..Default::default() };
    assert_eq!(core.client.move_resource_state(moved).await.unwrap().into_inner().diagnostics.len(), 1);
    assert_eq!(core.client.stop_provider(pb::stop_provider::Request {}).await.unwrap().into_inner().error, "");
}

#[tokio::test]
async fn connections_have_their_own_configuration_and_faults_of_the_server_lose_nothing() {
    let server = Setup::new().guest("every-field").acl().start().await;
    let mut one = Core::attach(&socket(&server)).await;
    let mut other = Core::attach(&socket(&server)).await;
    one.configure(&[]).await.unwrap();
    other.configure(&[("token", "not-a-token")]).await.unwrap();
    let config = one.config(EVERYTHING, "x", &[]);
    let made = one.make(EVERYTHING, None, &config).await.unwrap();
    let faults = other.plan(EVERYTHING, None, &config).await.unwrap_err();
    assert!(summaries(&faults).contains("the server does not know the token"), "{faults:?}");
    let faults = other.refresh(&made).await.unwrap_err();
    assert!(
        summaries(&faults).contains("the server does not know the token"),
        "what may not be read is not gone: {faults:?}"
    );
    let faults = other.configure(&[("address", "127.0.0.1:1")]).await.unwrap_err();
    assert!(summaries(&faults).contains("names another one"), "{faults:?}");
    let both = [("token", "a"), ("token_file", "b")];
    assert!(summaries(&other.configure(&both).await.unwrap_err()).contains("only one of token and token_file"));
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(socket(&server)).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(server.stop().await.success(), "connections that are open hold up no end");
}

/// A process started by core.
struct Launched {
    child: Child,
    socket: PathBuf,
    certificate: Vec<u8>,
}

async fn start(env: &[(&str, &str)]) -> Result<Launched, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mortise"));
    command
        .env("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2")
        .env("PLUGIN_PROTOCOL_VERSIONS", "5,6")
        .env("MORTISE_CONTEXTS", "/nonexistent")
        .envs(env.iter().copied())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let Some(line) = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap() else {
        let output = child.wait_with_output().await.unwrap();
        return Err(String::from_utf8(output.stderr).unwrap());
    };
    let fields: Vec<_> = line.split('|').collect();
    assert_eq!((&fields[..3], fields[4]), (&["1", "6", "unix"][..], "grpc"), "{line}");
    assert!(!fields[5].contains('='), "core reads no padding");
    let certificate = base64_of(fields[5]);
    Ok(Launched { child, socket: fields[3].into(), certificate })
}

fn base64_of(text: &str) -> Vec<u8> {
    use std::io::Read as _;
    let mut decoder =
        std::process::Command::new("base64").arg("-d").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let padded = format!("{text}{}", "=".repeat((4 - text.len() % 4) % 4));
    std::io::Write::write_all(&mut decoder.stdin.take().unwrap(), padded.as_bytes()).unwrap();
    let mut bytes = Vec::new();
    decoder.stdout.take().unwrap().read_to_end(&mut bytes).unwrap();
    decoder.wait().unwrap();
    bytes
}

async fn ended(launched: &mut Launched) -> Duration {
    let begun = Instant::now();
    assert!(timeout(PATIENCE, launched.child.wait()).await.unwrap().unwrap().success());
    assert!(!launched.socket.exists(), "the socket goes with the process");
    begun.elapsed()
}

#[tokio::test]
async fn core_starts_a_provider_takes_its_certificate_and_ends_it() {
    let server = Setup::new().guest("every-field").start().await;
    let address = server.grpc.to_string();
    let env = [("MORTISE_GRPC_ADDR", address.as_str()), ("PLUGIN_CLIENT_CERT", CORE_CERTIFICATE.certificate)];
    let mut launched = start(&env).await.unwrap();
    // Refused: no certificate, another certificate, and a connection without TLS.
    for own in [None, Some(OTHER_CERTIFICATE)] {
        let refused = async {
            let mut stream = connect_tls(&launched.socket, &launched.certificate, own).await?;
            let mut byte = [0];
            match tokio::io::AsyncReadExt::read(&mut stream, &mut byte).await? {
                0 => Err(std::io::Error::other("closed")),
                _ => Ok(()),
            }
        };
        assert!(timeout(PATIENCE, refused).await.unwrap().is_err(), "{own:?}");
    }
    let (socket, certificate) = (launched.socket.clone(), launched.certificate.clone());
    let connect = tower::service_fn(move |_: tonic::transport::Uri| {
        let (socket, certificate) = (socket.clone(), certificate.clone());
        async move {
            let stream = connect_tls(&socket, &certificate, Some(CORE_CERTIFICATE)).await?;
            Ok::<_, std::io::Error>(hyper_util::rt::TokioIo::new(stream))
        }
    });
    let endpoint = tonic::transport::Endpoint::from_static("http://localhost");
    let channel = endpoint.connect_with_connector(connect).await.unwrap();
    let mut core = Core::of(channel.clone()).await.unwrap();
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "launched", &[("text", text("X"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    core.destroy(&made).await.unwrap();
    // Core handles Ctrl-C.
    let pid = launched.child.id().unwrap().to_string();
    std::process::Command::new("kill").args(["-INT", &pid]).status().unwrap();
    Core::of(channel.clone()).await.unwrap();
    assert!(launched.child.try_wait().unwrap().is_none());
    GrpcControllerClient::new(channel).shutdown(Empty {}).await.unwrap();
    assert!(ended(&mut launched).await < Duration::from_secs(2), "core kills it after two seconds");
}

#[tokio::test]
async fn a_provider_started_wrongly_or_without_a_server_reports_it() {
    let by_hand = start(&[("TF_PLUGIN_MAGIC_COOKIE", "")]).await;
    assert!(by_hand.is_err());
    // A program started by another provider has core's variable, and must still run as a program.
    let command = std::process::Command::new(env!("CARGO_BIN_EXE_mortise"))
        .arg("--version")
        .env("TF_PLUGIN_MAGIC_COOKIE", "d602bf8f470bc67ca7faa0386276bbdd4330efaf76d1a219cb4d6991ca9872b2")
        .output()
        .unwrap();
    assert!(String::from_utf8(command.stdout).unwrap().starts_with("mortise "));
    let old = start(&[("PLUGIN_PROTOCOL_VERSIONS", "5")]).await.err().unwrap();
    assert!(old.contains("speaks version 6"), "{old}");
    let bad = start(&[("PLUGIN_CLIENT_CERT", "no pem")]).await.err().unwrap();
    assert!(bad.contains("PLUGIN_CLIENT_CERT holds no certificate"), "{bad}");
    // Without TLS, as with TF_DISABLE_PLUGIN_TLS; and without a server.
    let mut launched = start(&[("MORTISE_GRPC_ADDR", "127.0.0.1:1")]).await.unwrap();
    let channel = crate::provider::terraform_core::channel(&launched.socket).await;
    let faults = Core::of(channel).await.err().unwrap();
    assert!(summaries(&faults).contains("no server can be reached"), "{faults:?}");
    // No connection is left.
    ended(&mut launched).await;
}

#[tokio::test]
async fn a_server_that_goes_away_costs_no_state() {
    let server = Setup::new().guest("every-field").start().await;
    let address = server.grpc.to_string();
    let launched = start(&[("MORTISE_GRPC_ADDR", &address), ("MORTISE_TIMEOUT", "2s")]).await.unwrap();
    let mut core = Core::of(crate::provider::terraform_core::channel(&launched.socket).await).await.unwrap();
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let wanted = core.config(EVERYTHING, "x", &[("yes", Value::Bool(true))]);
    let planned = core.plan(EVERYTHING, Some(&made), &wanted).await.unwrap();
    let other = core.config(EVERYTHING, "y", &[]);
    let creation = core.plan(EVERYTHING, None, &other).await.unwrap();
    assert!(server.stop().await.success());
    let away = |faults: &[pb::Diagnostic]| {
        assert!(summaries(faults).contains(&format!("the server at http://{address} does not answer")), "{faults:?}");
    };
    away(&core.refresh(&made).await.unwrap_err());
    away(&core.plan(EVERYTHING, Some(&made), &wanted).await.unwrap_err());
    let (faults, state) = core.apply(EVERYTHING, Some(&made), &wanted, &planned).await.unwrap_err();
    away(&faults);
    assert_eq!(state, made.state);
    let (faults, state) = core.apply(EVERYTHING, None, &other, &creation).await.unwrap_err();
    away(&faults);
    assert!(state.is_null());
    let (faults, state) = core.destroy(&made).await.unwrap_err();
    away(&faults);
    assert_eq!(state, made.state);
    away(&core.data(EVERYTHING, &[("name", text("x"))]).await.unwrap_err());
}

#[tokio::test]
async fn a_place_may_be_made_by_the_same_run() {
    const NAMESPACE: &str = "mortise_tenancy_namespace";
    let (_server, mut core) = attached().await;
    core.configure(&[("namespace", "team")]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[("text", text("X"))]);
    let planned = core.plan(EVERYTHING, None, &config).await.unwrap();
    assert!(planned.warnings.len() == 1 && planned.warnings[0].summary.contains("when this is applied"), "{planned:?}");
    assert_eq!(planned.state.get("namespace"), &text("team"));
    let (faults, state) = core.apply(EVERYTHING, None, &config, &planned).await.unwrap_err();
    assert!(state.is_null() && summaries(&faults).contains("namespace not found: team"), "{faults:?}");
    let namespace = core.config(NAMESPACE, "team", &[]);
    let namespace = core.make(NAMESPACE, None, &namespace).await.unwrap();
    assert_eq!(namespace.state.get("id"), &text("default/team"));
    let last = core.plan(EVERYTHING, None, &config).await.unwrap();
    check_applied(&planned.state, &last.state);
    core.apply(EVERYTHING, None, &config, &last).await.unwrap();
    // The server keeps a namespace until it is empty; destroy waits for that.
    core.destroy(&namespace).await.unwrap();
}

#[tokio::test]
async fn a_type_that_is_upgraded_between_runs_keeps_its_resources() {
    const KIND: &str = "mortise_schema_thing";
    let component = |name| std::fs::read(mortise_test_guests::component(name)).unwrap();
    let server = Setup::new().component("schema", component("schema-1")).start().await;
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let config = core.config(KIND, "x", &[("text", text("words"))]);
    let made = core.make(KIND, None, &config).await.unwrap();
    assert_eq!(core.schemas[KIND].version, 1);
    std::fs::write(server.plugin_dir.join("schema.wasm"), component("schema-2")).unwrap();
    // The next run uses a new connection.
    let mut core = until("the provider has the new schema", async || {
        let core = Core::attach(&socket(&server)).await;
        if core.schemas[KIND].version == 2 { Ok(core) } else { Err(core.schemas[KIND].version) }
    })
    .await;
    core.configure(&[]).await.unwrap();
    let raw = RawState { json: state_json(&made.state), ..RawState::default() };
    let state = core.upgrade(KIND, 1, raw).await.unwrap();
    assert_eq!(state, made.state, "what the versions have in common");
    let seen = core.refresh(&made).await.unwrap().unwrap();
    assert_eq!(seen.state.get("uid"), made.state.get("uid"));
    let upgraded = [("text", text("upgraded words")), ("number", number("1"))];
    for (field, value) in &upgraded {
        assert_eq!(seen.state.get("data").get(field), value);
    }
    let planned = core.plan(KIND, Some(&seen), &config).await.unwrap_err();
    assert!(summaries(&planned).contains("the new text is not of version 2"), "{planned:?}");
    let config = core.config(KIND, "x", &upgraded);
    assert!(core.plan(KIND, Some(&seen), &config).await.unwrap().is_no_op(&seen.state));
}

/// Runs a real core, in a directory with a configuration.
pub fn terraform(dir: &Path, server: &Server, arguments: &[&str]) -> (bool, String) {
    let attach = std::process::Command::new(env!("CARGO_BIN_EXE_mortise"))
        .args(["provider", "attach", "--grpc-addr", &server.grpc.to_string()])
        .output()
        .unwrap();
    let line = String::from_utf8(attach.stdout).unwrap();
    let value = line.trim().strip_prefix("export TF_REATTACH_PROVIDERS='").unwrap().strip_suffix('\'').unwrap();
    let output = std::process::Command::new("terraform")
        .args(arguments)
        .arg("-no-color")
        .current_dir(dir)
        .env("TF_REATTACH_PROVIDERS", value)
        .env("TF_CLI_CONFIG_FILE", dir.join("none.tfrc"))
        .env("CHECKPOINT_DISABLE", "1")
        .output()
        .unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    (output.status.success(), said)
}

pub const REQUIRED: &str = r#"terraform {
  required_providers {
    mortise = { source = "mortise.local/mortise/mortise" }
  }
}
"#;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_core_applies_200_resources_and_finds_nothing_to_do() {
    if std::process::Command::new("terraform").arg("version").output().is_err() {
        return skipped("no terraform on PATH: the provider is driven by the tests' own core only");
    }
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |text: &str| std::fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{text}")).unwrap();
    let resources = |text: &str| {
        format!(
            "resource \"{EVERYTHING}\" \"it\" {{\n  count = 200\n  name = \"it-${{count.index}}\"\n  data {{\n    text = \
             \"{text}\"\n    tags = [\"b\", \"a\", \"b\"]\n    parts = [{{ name = \"${{count.index}}\" }}]\n    took = \
             \"90s\"\n    double = 0.1\n    huge = 18446744073709551615\n  }}\n}}\n"
        )
    };
    write(&resources("One"));
    let run = |arguments: &[&str]| terraform(dir.path(), &server, arguments);
    let begun = Instant::now();
    let (applied, said) = run(&["apply", "-auto-approve", "-parallelism=20"]);
    assert!(applied && said.contains("200 added"), "{said}");
    eprintln!("200 resources, 20 at once: {:?}", begun.elapsed());
    let (planned, said) = run(&["plan", "-detailed-exitcode", "-parallelism=20"]);
    assert!(planned, "{said}");
    write(&resources("Two"));
    let (applied, said) = run(&["apply", "-auto-approve", "-parallelism=20"]);
    assert!(applied && said.contains("200 changed"), "{said}");
    server.delete(&id_of("it-7"), "").await.unwrap();
    let (_, said) = run(&["plan"]);
    assert!(said.contains("1 to add, 0 to change, 0 to destroy"), "{said}");
    let (destroyed, said) = run(&["destroy", "-auto-approve", "-parallelism=20"]);
    assert!(destroyed && said.contains("199 destroyed"), "{said}");
    assert_eq!(server.list(gvk("fields.v1.Everything"), tenancy("default", "default"), "").await.unwrap().len(), 0);
}
