//! Identities, and resources that core keeps in no file.

use mortise_provider::{
    proto::tfplugin6::{self as pb, RawState, ResourceIdentityData, diagnostic::Severity},
    value::{Type, Value, msgpack},
};

use super::{EVERYTHING, attached, id_of, socket, summaries, text};
use crate::{
    provider::terraform_core::{Core, encode, state_json},
    support::Setup,
};

const PARTS: [&str; 4] = ["partition", "namespace", "name", "uid"];

fn identity(parts: [Value; 4]) -> Value {
    Value::object(PARTS.into_iter().zip(parts))
}

fn decoded(data: Option<&ResourceIdentityData>) -> Value {
    let bytes = &data.expect("an identity").identity_data.as_ref().unwrap().msgpack;
    msgpack::decode(bytes, &Type::object(PARTS.map(|part| (part, Type::String)))).unwrap()
}

#[tokio::test]
async fn identities_name_a_resource_for_reads_and_imports() {
    let (server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let schemas = core.client.get_resource_identity_schemas(pb::get_resource_identity_schemas::Request {}).await;
    let schemas = schemas.unwrap().into_inner().identity_schemas;
    let parts: Vec<_> = schemas[EVERYTHING].identity_attributes.iter().map(|one| one.name.as_str()).collect();
    assert_eq!(parts, PARTS);
    assert!(schemas[EVERYTHING].identity_attributes.iter().all(|one| one.required_for_import == (one.name == "name")));
    assert_eq!(schemas["mortise_tenancy_namespace"].identity_attributes.len(), 3, "its scope has no namespace");

    let config = core.config(EVERYTHING, "x", &[("text", text("Mine"))]);
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    let uid = made.state.get("uid").clone();
    let whole = identity([text("default"), text("default"), text("x"), uid.clone()]);
    let read_request = || pb::read_resource::Request {
        type_name: EVERYTHING.into(),
        current_state: encode(&made.state),
        private: made.private.clone(),
        ..Default::default()
    };
    let read = core.client.read_resource(read_request()).await.unwrap().into_inner();
    assert_eq!(decoded(read.new_identity.as_ref()), whole);

    let null = || Value::Null;
    for wanted in [identity([null(), null(), text("x"), null()]), whole.clone()] {
        let identity = Some(ResourceIdentityData { identity_data: encode(&wanted) });
        let request =
            pb::import_resource_state::Request { type_name: EVERYTHING.into(), identity, ..Default::default() };
        let answer = core.client.import_resource_state(request).await.unwrap().into_inner();
        assert_eq!(answer.diagnostics.len(), 0, "{answer:?}");
        assert_eq!(decoded(answer.imported_resources[0].identity.as_ref()), whole);
        assert_eq!(core.decode(EVERYTHING, answer.imported_resources[0].state.as_ref()).get("uid"), &uid);
    }
    for (wanted, says) in [
        (
            identity([null(), null(), text("x"), text("01ARZ3NDEKTSV4RRFFQ69G5FAV")]),
            "with the uid 01ARZ3NDEKTSV4RRFFQ69G5FAV",
        ),
        (identity([null(), text("default"), text("y"), null()]), "there is no mortise_fields_everything \"default/y\""),
        (identity([null(), null(), text("Not a name"), null()]), "is not the name of a resource"),
    ] {
        let identity = Some(ResourceIdentityData { identity_data: encode(&wanted) });
        let request =
            pb::import_resource_state::Request { type_name: EVERYTHING.into(), identity, ..Default::default() };
        let answer = core.client.import_resource_state(request).await.unwrap().into_inner();
        assert!(summaries(&answer.diagnostics).contains(says), "{answer:?}");
    }

    let request = pb::upgrade_resource_identity::Request {
        type_name: EVERYTHING.into(),
        version: 0,
        raw_identity: Some(RawState { json: state_json(&whole), ..RawState::default() }),
    };
    let answer = core.client.upgrade_resource_identity(request).await.unwrap().into_inner();
    assert_eq!(decoded(answer.upgraded_identity.as_ref()), whole);

    // What is gone has none.
    server.delete(&id_of("x"), "").await.unwrap();
    let gone = core.client.read_resource(read_request()).await.unwrap().into_inner();
    assert_eq!(core.decode(EVERYTHING, gone.new_state.as_ref()), null());
    assert_eq!(gone.new_identity, None);
}

/// An identity names a resource, and nothing outside of the server.
#[tokio::test]
async fn a_missing_resource_is_not_imported_from_outside_by_its_identity() {
    let server = Setup::new().guest("changes").start().await;
    let mut core = Core::attach(&socket(&server)).await;
    core.configure(&[]).await.unwrap();
    let wanted = identity([Value::Null, Value::Null, text("absent"), Value::Null]);
    let identity = Some(ResourceIdentityData { identity_data: encode(&wanted) });
    let type_name = "mortise_changes_thing".to_owned();
    let request = pb::import_resource_state::Request { type_name, identity, ..Default::default() };
    let answer = core.client.import_resource_state(request).await.unwrap().into_inner();
    assert!(summaries(&answer.diagnostics).contains("there is no mortise_changes_thing \"absent\""), "{answer:?}");
}

#[tokio::test]
async fn ephemeral_resources_are_read_and_checked() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let made = core.config(EVERYTHING, "x", &[("secret", text("hunter2"))]);
    core.make(EVERYTHING, None, &made).await.unwrap();
    let schema = core.client.get_provider_schema(pb::get_provider_schema::Request {}).await.unwrap().into_inner();
    assert_eq!(schema.ephemeral_resource_schemas[EVERYTHING], schema.data_source_schemas[EVERYTHING]);
    let kind = core.data_source_type(EVERYTHING);
    let Type::Object(parts) = &kind else { panic!("{kind:?}") };
    let named = |name: &str| {
        let part = |part: &String| (part.clone(), if part == "name" { text(name) } else { Value::Null });
        encode(&Value::Map(parts.keys().map(part).collect()))
    };
    let request = pb::open_ephemeral_resource::Request { type_name: EVERYTHING.into(), config: named("x") };
    let opened = core.client.open_ephemeral_resource(request).await.unwrap().into_inner();
    let result = msgpack::decode(&opened.result.unwrap().msgpack, &kind).unwrap();
    assert_eq!(result.get("data").get("secret"), &text("hunter2"));
    let request = pb::open_ephemeral_resource::Request { type_name: EVERYTHING.into(), config: named("absent") };
    let absent = core.client.open_ephemeral_resource(request).await.unwrap().into_inner();
    assert_eq!(absent.diagnostics[0].severity(), Severity::Error);
    let request =
        pb::validate_ephemeral_resource_config::Request { type_name: EVERYTHING.into(), config: named("Bad_Name") };
    let faults = core.client.validate_ephemeral_resource_config(request).await.unwrap().into_inner().diagnostics;
    assert!(summaries(&faults).starts_with("name|"), "{faults:?}");
    let closed = core.client.close_ephemeral_resource(pb::close_ephemeral_resource::Request::default()).await.unwrap();
    assert!(closed.into_inner().diagnostics.is_empty());
}
