//! Real cores, where they are installed: the behaviour of the tests' own core matches theirs.

use std::{path::Path, process::Command};

use mortise_provider::value::Value;
use mortise_test_guests::Everything;

use crate::{
    provider::{
        real_core::{self, RealCore, output},
        rules::{EVERYTHING, REQUIRED, everything, id_of},
        terraform_core::state_json,
    },
    support::{Server, Setup, any, decoded, eventually, gvk, id, tenancy},
};

/// A configuration of one resource with every kind of field, in spellings that differ from the server's.
fn whole() -> String {
    let data = String::from_utf8(state_json(&Value::object(everything()))).unwrap();
    format!(
        r#"{{"terraform":{{"required_providers":{{"mortise":{{"source":"mortise.local/mortise/mortise"}}}}}},
            "resource":{{"{EVERYTHING}":{{"whole":{{"name":"whole","data":{data}}}}}}},
            "output":{{"joined":{{"value":"${{provider::mortise::changes_concat(\"a\", \"b\")}}"}}}}}}"#
    )
}

real_core::on_each_core!(a_real_core_starts_the_provider_and_every_kind_of_field_settles);

/// Core starts the provider itself, without `init`: `dev_overrides`, and TLS with its own certificates.
async fn a_real_core_starts_the_provider_and_every_kind_of_field_settles(core: RealCore) {
    let server = Setup::new().guest("every-field").guest("changes").start().await;
    let dir = tempfile::tempdir().unwrap();
    let address = server.grpc.to_string();
    let exported = Command::new(env!("CARGO_BIN_EXE_mortise"))
        .args(["provider", "export", "--grpc-addr", &address, "--out"])
        .arg(dir.path().join("mirror"))
        .output()
        .unwrap();
    let said = String::from_utf8(exported.stdout).unwrap();
    let folder = Path::new(said.lines().next().unwrap()).parent().unwrap();
    let overrides = format!(
        "provider_installation {{\n  dev_overrides {{\n    \"mortise.local/mortise/mortise\" = {folder:?}\n  }}\n  direct {{}}\n}}\n"
    );
    std::fs::write(dir.path().join("core.tfrc"), overrides).unwrap();
    std::fs::write(dir.path().join("main.tf.json"), whole()).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = core.command();
        command
            .args(arguments)
            .arg("-no-color")
            .current_dir(dir.path())
            .env_remove("TF_REATTACH_PROVIDERS")
            .env("MORTISE_GRPC_ADDR", &address)
            .env("TF_CLI_CONFIG_FILE", dir.path().join("core.tfrc"));
        output(&mut command)
    };
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("1 added") && said.contains("development overrides"), "{said}");
    let (planned, said) = run(&["plan", "-detailed-exitcode"]);
    assert!(planned, "{said}");
    let stored = server.list(gvk("fields.v1.Everything"), tenancy("default", "default"), "").await.unwrap();
    assert_eq!(stored.len(), 1);
    // Without a server the exported schemas suffice, those of functions too, and the state stays untouched.
    let state = std::fs::read(dir.path().join("terraform.tfstate")).unwrap();
    assert!(server.stop().await.success());
    let (valid, said) = run(&["validate"]);
    assert!(valid, "{said}");
    let (planned, said) = run(&["plan"]);
    assert!(!planned && said.contains("no server can be reached"), "{said}");
    assert_eq!(std::fs::read(dir.path().join("terraform.tfstate")).unwrap(), state);
}

real_core::on_each_core!(a_real_core_gets_an_error_after_a_change_since_its_plan);

async fn a_real_core_gets_an_error_after_a_change_since_its_plan(core: RealCore) {
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |text: &str, fixed: &str| {
        let resource = format!(
            "resource \"{EVERYTHING}\" \"x\" {{\n  name = \"x\"\n  data {{\n    text = \"{text}\"\n    fixed_name = \"{fixed}\"\n  }}\n}}\n"
        );
        std::fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{resource}")).unwrap();
    };
    let run = |arguments: &[&str]| core.run(dir.path(), &server, arguments);
    write("one", "a");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied, "{said}");
    write("two", "a");
    let (planned, said) = run(&["plan", "-out=planned"]);
    assert!(planned && said.contains("1 to change"), "{said}");
    let mut edited = server.read(&id_of("x")).await.unwrap();
    edited.metadata.insert("by".into(), "somebody".into());
    server.write(edited).await.unwrap();
    let (applied, said) = run(&["apply", "planned"]);
    assert!(!applied && said.contains("the resource changed since this was planned"), "{said}");
    let (_, said) = run(&["plan"]);
    assert!(said.contains("- \"by\" = \"somebody\""), "drift: {said}");
    write("two", "b");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("1 added, 0 changed, 1 destroyed"), "an immutable field: {said}");
    // Invalid input is reported with its place, and changes nothing.
    for (line, says) in [
        ("small = 4294967296", "small"),
        ("raw = \"***\"", "raw"),
        ("took = \"soon\"", "took"),
        ("naem = 1", "Unsupported argument"),
        ("double = \"NaN\"", "double"),
    ] {
        let resource = format!("resource \"{EVERYTHING}\" \"x\" {{\n  name = \"x\"\n  data {{\n    {line}\n  }}\n}}\n");
        std::fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{resource}")).unwrap();
        let (planned, said) = run(&["plan"]);
        assert!(!planned && said.contains(says) && said.contains("main.tf line"), "{line}: {said}");
    }
}

real_core::on_each_core!(a_real_core_finds_a_type_upgraded_between_its_runs);

/// The type's schema version rises while core is away.
async fn a_real_core_finds_a_type_upgraded_between_its_runs(core: RealCore) {
    let component = |name| std::fs::read(mortise_test_guests::component(name)).unwrap();
    let server = Setup::new().component("schema", component("schema-1")).start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |data: &str| {
        let resource =
            format!("resource \"mortise_schema_thing\" \"x\" {{\n  name = \"x\"\n  data {{\n{data}  }}\n}}\n");
        std::fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{resource}")).unwrap();
    };
    let run = |arguments: &[&str]| core.run(dir.path(), &server, arguments);
    write("    text = \"words\"\n");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied, "{said}");
    std::fs::write(server.plugin_dir.join("schema.wasm"), component("schema-2")).unwrap();
    eventually("the new version serves", || async {
        let (_, said) = run(&["plan"]);
        said.contains("the new text is not of version 2")
    })
    .await;
    write("    text = \"upgraded words\"\n    number = 1\n");
    let (planned, said) = run(&["plan", "-detailed-exitcode"]);
    assert!(planned, "what was upgraded is what is wanted: {said}");
}

real_core::on_each_core!(a_real_core_replaces_nothing_for_an_unknown_value_and_applies_ignored_changes);

/// An update with a value that is not known yet, `ignore_changes`, and a fault at a key of a map with numbers as keys.
async fn a_real_core_replaces_nothing_for_an_unknown_value_and_applies_ignored_changes(core: RealCore) {
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |input: &str, lines: &str| {
        let text = format!(
            "{REQUIRED}resource \"terraform_data\" \"in\" {{\n  input = \"{input}\"\n}}\nresource \"{EVERYTHING}\" \"x\" \
             {{\n  name = \"x\"\n  data {{\n    text = terraform_data.in.output\n{lines}  }}\n  lifecycle {{\n    \
             ignore_changes = [data.small, data.labels]\n  }}\n}}\n"
        );
        std::fs::write(dir.path().join("main.tf"), text).unwrap();
    };
    let run = |arguments: &[&str]| core.run(dir.path(), &server, arguments);
    write("one", "    small = 1\n    double = 5e-324\n");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied, "{said}");
    let mut stored = server.read(&id_of("x")).await.unwrap();
    let data = Everything { small: 5, labels: [("by".to_owned(), "others".to_owned())].into(), ..decoded(&stored) };
    stored.data = Some(any("mortise.test.v1.Everything", &data));
    server.write(stored).await.unwrap();
    write("two", "    small = 2\n    double = 5e-324\n");
    let (planned, said) = run(&["plan"]);
    assert!(planned && said.contains("2 to change, 0 to destroy") && !said.contains("forces replacement"), "{said}");
    let (applied, said) = run(&["apply", "-auto-approve"]);
    assert!(applied && said.contains("0 added, 2 changed, 0 destroyed"), "{said}");
    let found: Everything = decoded(&server.read(&id_of("x")).await.unwrap());
    assert_eq!((found.text.as_str(), found.small, found.labels.len()), ("two", 5, 1));
    let (planned, said) = run(&["plan", "-detailed-exitcode"]);
    assert!(planned, "settled: {said}");
    write("two", "    by_bool = { 1 = 5 }\n");
    let (planned, said) = run(&["plan"]);
    assert!(!planned && said.contains("data.by_bool[\"1\"]") && !said.contains("panic"), "{said}");
}

real_core::on_each_core!(a_saved_plan_is_applied_exactly_or_refused);

/// Between a plan and its apply come a restart of the server, a change by another client, and an upgrade of the plugin to
/// another schema.
async fn a_saved_plan_is_applied_exactly_or_refused(core: RealCore) {
    let component = |name| std::fs::read(mortise_test_guests::component(name)).unwrap();
    let (dir, data) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let start = async || Setup::new().component("schema", component("schema-1")).data_dir(data.path()).start().await;
    let write = |name: &str, text: &str| {
        let resource = format!(
            "resource \"mortise_schema_thing\" \"x\" {{\n  name = \"{name}\"\n  data {{\n    text = \"{text}\"\n  }}\n}}\n"
        );
        std::fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{resource}")).unwrap();
    };
    let plan = |server: &Server| {
        let (planned, said) = core.run(dir.path(), server, &["plan", "-out=planned"]);
        assert!(planned, "{said}");
    };
    let stored = async |server: &Server| server.read(&id("schema.v1.Thing", "x")).await.unwrap();

    let server = start().await;
    write("x", "one");
    plan(&server);
    assert!(server.stop().await.success());
    let server = start().await;
    let (applied, said) = core.run(dir.path(), &server, &["apply", "planned"]);
    assert!(applied && said.contains("1 added"), "a restart: {said}");
    let made = stored(&server).await;
    assert!(made.data.as_ref().is_some_and(|data| data.value.windows(3).any(|bytes| bytes == b"one")), "{made:?}");

    write("x", "two");
    plan(&server);
    let mut edited = made;
    edited.metadata.insert("by".into(), "somebody".into());
    server.write(edited).await.unwrap();
    let edited = stored(&server).await;
    let (applied, said) = core.run(dir.path(), &server, &["apply", "planned"]);
    assert!(!applied && said.contains("the resource changed since this was planned"), "an edit: {said}");
    assert_eq!(stored(&server).await, edited);

    plan(&server);
    std::fs::write(server.plugin_dir.join("schema.wasm"), component("schema-2")).unwrap();
    eventually("the new version serves", || async {
        let (_, said) = core.run(dir.path(), &server, &["plan"]);
        said.contains("the new text is not of version 2")
    })
    .await;
    let upgraded = stored(&server).await;
    let (applied, said) = core.run(dir.path(), &server, &["apply", "planned"]);
    assert!(!applied, "an upgrade: {said}");
    assert_eq!(stored(&server).await, upgraded, "{said}");
}
