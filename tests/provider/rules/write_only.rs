//! Values that are only written.

use mortise_provider::value::Value;
use mortise_test_guests::Everything;

use super::{EVERYTHING, REQUIRED, attached, id_of, path_of, summaries, text};
use crate::{
    provider::{
        real_core::{self, RealCore},
        terraform_core::{Core, Instance, state_json},
    },
    support::{Server, Setup, any, decoded},
};

fn config(core: &Core, value: &str, version: &str, others: &[(&str, Value)]) -> Value {
    let mut data = vec![("secret_wo", text(value)), ("secret_wo_version", text(version))];
    data.extend_from_slice(others);
    core.config(EVERYTHING, "x", &data)
}

async fn stored(server: &Server) -> Everything {
    decoded(&server.read(&id_of("x")).await.unwrap())
}

/// Asserts that core keeps no secret of the instance.
fn is_nowhere(made: &Instance) {
    let kept = [state_json(&made.state), made.private.clone()].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    assert!(!kept.contains("unter"), "{kept}");
    assert_eq!(made.state.get("data").get("secret"), &Value::Null);
    // The private bytes name the fields whose values they have in another form.
    let private = String::from_utf8_lossy(&made.private);
    assert!(!private.contains("secret"), "{private}");
}

#[tokio::test]
async fn a_value_that_is_only_written_is_in_no_state_and_changes_with_its_version() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    // The plugin changes the value, and the difference is not kept either.
    let first = config(&core, " hunter2", "1", &[]);
    let made = core.make(EVERYTHING, None, &first).await.unwrap();
    is_nowhere(&made);
    assert_eq!(
        (stored(&server).await.secret.as_str(), made.state.get("data").get("secret_wo_version")),
        ("hunter2", &text("1"))
    );
    // Another value of the same version is not a change.
    let later = config(&core, "hunter3", "1", &[]);
    assert!(core.plan(EVERYTHING, Some(&made), &later).await.unwrap().is_no_op(&made.state));
    let next = config(&core, "hunter3", "2", &[]);
    let made = core.make(EVERYTHING, Some(&made), &next).await.unwrap();
    is_nowhere(&made);
    assert_eq!(stored(&server).await.secret, "hunter3");
    // A change beside it keeps it; another client's change is not seen, and written over by the next one.
    let beside = config(&core, "hunter3", "2", &[("text", text("a"))]);
    let made = core.make(EVERYTHING, Some(&made), &beside).await.unwrap();
    assert_eq!(stored(&server).await.secret, "hunter3");
    let mut theirs = server.read(&id_of("x")).await.unwrap();
    theirs.data = Some(any("mortise.test.v1.Everything", &Everything { secret: "theirs".into(), ..decoded(&theirs) }));
    server.write(theirs).await.unwrap();
    let made = core.refresh(&made).await.unwrap().unwrap();
    is_nowhere(&made);
    assert!(core.plan(EVERYTHING, Some(&made), &beside).await.unwrap().is_no_op(&made.state));
    // The value is known with the apply.
    let unknown = |core: &Core, value: Value| {
        core.config(EVERYTHING, "x", &[("secret_wo", value), ("secret_wo_version", text("3")), ("text", text("a"))])
    };
    let planned = core.plan(EVERYTHING, Some(&made), &unknown(&core, Value::unknown())).await.unwrap();
    assert_eq!((planned.replace.len(), planned.state.get("data").get("text")), (0, &text("a")));
    let known = unknown(&core, text("hunter4"));
    let made = core.apply(EVERYTHING, Some(&made), &known, &planned).await.unwrap();
    is_nowhere(&made);
    assert_eq!(stored(&server).await.secret, "hunter4");
    // Without it the server has none.
    let without = core.config(EVERYTHING, "x", &[]);
    let made = core.make(EVERYTHING, Some(&made), &without).await.unwrap();
    assert_eq!(
        (stored(&server).await.secret.as_str(), made.state.get("data").get("secret_wo_version")),
        ("", &Value::Null)
    );
}

/// A state of an import, and of a configuration with the plain attribute, has the value until the next apply.
#[tokio::test]
async fn a_value_leaves_the_state_when_it_is_only_written() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let plain = core.config(EVERYTHING, "x", &[("secret", text("hunter2"))]);
    core.make(EVERYTHING, None, &plain).await.unwrap();
    let imported = core.import(EVERYTHING, "x").await.unwrap();
    assert_eq!(imported.state.get("data").get("secret"), &text("hunter2"));
    let made = core.make(EVERYTHING, Some(&imported), &config(&core, "hunter2", "1", &[])).await.unwrap();
    is_nowhere(&made);
    assert_eq!(stored(&server).await.secret, "hunter2");
    let made = core.make(EVERYTHING, Some(&made), &plain).await.unwrap();
    assert_eq!(made.state.get("data").get("secret"), &text("hunter2"));
}

#[tokio::test]
async fn companions_are_checked() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let of = |core: &Core, data: &[(&str, Value)]| core.config(EVERYTHING, "x", data);
    let (value, version) = (("secret_wo", text("v")), ("secret_wo_version", text("1")));
    for (data, at, says) in [
        (vec![value.clone()], "data.secret_wo", "set secret_wo_version, too"),
        (vec![version.clone()], "data.secret_wo_version", "secret_wo, which is not set"),
        (
            vec![value.clone(), version.clone(), ("secret", text("s"))],
            "data.secret_wo",
            "only one of secret and secret_wo",
        ),
    ] {
        let faults = core.validate(EVERYTHING, &of(&core, &data)).await.unwrap_err();
        assert!(path_of(&faults[0]) == at && faults[0].summary.contains(says), "{faults:?}");
    }
    let both = of(&core, &[value, version]);
    core.validate(EVERYTHING, &both).await.unwrap();
    let faults = core.validate_as(EVERYTHING, &both, false).await.unwrap_err();
    assert!(summaries(&faults).contains("data.secret_wo|this core would keep secret_wo in its state"), "{faults:?}");
    let plain = of(&core, &[("secret", text("s"))]);
    core.validate_as(EVERYTHING, &plain, false).await.unwrap();
}

real_core::on_each_core!(a_real_core_writes_a_value_and_keeps_it_nowhere);

async fn a_real_core_writes_a_value_and_keeps_it_nowhere(core: RealCore) {
    let server = Setup::new().guest("every-field").start().await;
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("none.tfrc"), "").unwrap();
    let run = |value: &str, version: &str, arguments: &[&str]| {
        let text = format!(
            "{REQUIRED}resource \"{EVERYTHING}\" \"x\" {{\n  name = \"x\"\n  data {{\n    secret_wo = \"{value}\"\n    \
             secret_wo_version = {version}\n  }}\n}}\n"
        );
        std::fs::write(dir.path().join("main.tf"), text).unwrap();
        core.run(dir.path(), &server, arguments)
    };
    for (value, version) in [("hunter2", "1"), ("hunter3", "2")] {
        let (applied, said) = run(value, version, &["apply", "-auto-approve"]);
        assert!(applied, "{said}");
        assert_eq!(stored(&server).await.secret, value);
        let state = std::fs::read_to_string(dir.path().join("terraform.tfstate")).unwrap();
        assert!(!state.contains("hunter") && state.contains("secret_wo_version"), "{state}");
        let (clean, said) = run("another", version, &["plan", "-detailed-exitcode"]);
        assert!(clean, "{said}");
    }
}
