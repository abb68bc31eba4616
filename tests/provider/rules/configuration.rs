//! Refused configurations, imports, data sources, connections and their faults.

use mortise_provider::{
    proto::tfplugin6::{self as pb, RawState, diagnostic::Severity},
    value::Value,
};

use super::{EVERYTHING, attached, list, number, part, socket, summaries, text};
use crate::{
    provider::terraform_core::{Core, encode, path_of},
    support::Setup,
};

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
        ("object", text("{"), "data.object", "not JSON"),
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
    assert_eq!(summaries(&faults), "data.labels|it is on hold|at data.labels[\"hold\"]\n");
    let many = core.config(EVERYTHING, "many", &[("positive", number("2000"))]);
    let warnings = core.plan(EVERYTHING, None, &many).await.unwrap().warnings;
    assert!(warnings.len() == 1 && warnings[0].severity() == Severity::Warning, "{warnings:?}");
    // Invalid encodings.
    for bytes in [&b"\xc1"[..], b"\x80", b"\xc0\xc0", &[0x91; 3_000], b"\xdd\xff\xff\xff\xff"] {
        let config = Some(pb::DynamicValue { msgpack: bytes.to_vec(), json: Vec::new() });
        let request =
            pb::validate_resource_config::Request { type_name: EVERYTHING.into(), config, ..Default::default() };
        let answer = core.client.validate_resource_config(request).await.unwrap().into_inner();
        assert!(answer.diagnostics.iter().any(|one| one.severity() == Severity::Error), "{bytes:?}");
    }
    let config = encode(&Value::Null);
    let request =
        pb::validate_resource_config::Request { type_name: "mortise_no_such".into(), config, ..Default::default() };
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
    // Both are found without a server's answer.
    let wrong = core.validate_data("mortise_resources", &[("type", text("no.Such"))]).await.unwrap_err();
    assert_eq!(path_of(&wrong[0]), "type");
    let wrong = core.validate_data(EVERYTHING, &[("name", text("Bad_Name"))]).await.unwrap_err();
    assert_eq!(path_of(&wrong[0]), "name");

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
    for address in ["unix:relative", "unix://relative", "ftp://here:1", "here:port", "two words"] {
        let faults = other.configure(&[("address", address)]).await.unwrap_err();
        assert!(
            summaries(&faults).starts_with("address|") && summaries(&faults).contains("is not an address"),
            "{address}"
        );
    }
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(socket(&server)).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    assert!(server.stop().await.success(), "connections that are open hold up no end");
}
