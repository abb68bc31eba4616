//! A real core, where it is installed: the behaviour of the tests' own core matches it.

use std::{path::Path, process::Command};

use mortise_provider::value::Value;
use mortise_test_guests::Everything;

use crate::{
    provider::{
        rules::{EVERYTHING, REQUIRED, everything, id_of, terraform},
        terraform_core::state_json,
    },
    support::{Setup, any, decoded, eventually, gvk, skipped, tenancy},
};

/// Whether a core is installed; prints SKIPPED if not.
pub fn is_there() -> bool {
    let is_there = Command::new("terraform").arg("version").output().is_ok();
    if !is_there {
        skipped("no terraform on PATH: the provider is driven by the tests' own core only");
    }
    is_there
}

/// A configuration of one resource with every kind of field, in spellings that differ from the server's.
fn whole() -> String {
    let data = String::from_utf8(state_json(&Value::object(everything()))).unwrap();
    format!(
        r#"{{"terraform":{{"required_providers":{{"mortise":{{"source":"mortise.local/mortise/mortise"}}}}}},
            "resource":{{"{EVERYTHING}":{{"whole":{{"name":"whole","data":{data}}}}}}},
            "output":{{"joined":{{"value":"${{provider::mortise::changes_concat(\"a\", \"b\")}}"}}}}}}"#
    )
}

/// Core starts the provider itself, without `init`: `dev_overrides`, and TLS with its own certificates.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_core_starts_the_provider_and_every_kind_of_field_settles() {
    if !is_there() {
        return;
    }
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
        let output = Command::new("terraform")
            .args(arguments)
            .arg("-no-color")
            .current_dir(dir.path())
            .env_remove("TF_REATTACH_PROVIDERS")
            .env("MORTISE_GRPC_ADDR", &address)
            .env("TF_CLI_CONFIG_FILE", dir.path().join("core.tfrc"))
            .env("CHECKPOINT_DISABLE", "1")
            .output()
            .unwrap();
        let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
        (output.status.success(), said)
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

#[tokio::test(flavor = "multi_thread")]
async fn a_real_core_gets_an_error_after_a_change_since_its_plan() {
    if !is_there() {
        return;
    }
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |text: &str, fixed: &str| {
        let resource = format!(
            "resource \"{EVERYTHING}\" \"x\" {{\n  name = \"x\"\n  data {{\n    text = \"{text}\"\n    fixed_name = \"{fixed}\"\n  }}\n}}\n"
        );
        std::fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{resource}")).unwrap();
    };
    let run = |arguments: &[&str]| terraform(dir.path(), &server, arguments);
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

/// The type's schema version rises while core is away.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_core_finds_a_type_upgraded_between_its_runs() {
    if !is_there() {
        return;
    }
    let component = |name| std::fs::read(mortise_test_guests::component(name)).unwrap();
    let server = Setup::new().component("schema", component("schema-1")).start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let write = |data: &str| {
        let resource =
            format!("resource \"mortise_schema_thing\" \"x\" {{\n  name = \"x\"\n  data {{\n{data}  }}\n}}\n");
        std::fs::write(dir.path().join("main.tf"), format!("{REQUIRED}{resource}")).unwrap();
    };
    let run = |arguments: &[&str]| terraform(dir.path(), &server, arguments);
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

/// An update with a value that is not known yet, `ignore_changes`, and a fault at a key of a map with numbers as keys.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_core_replaces_nothing_for_an_unknown_value_and_applies_ignored_changes() {
    if !is_there() {
        return;
    }
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
    let run = |arguments: &[&str]| terraform(dir.path(), &server, arguments);
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
