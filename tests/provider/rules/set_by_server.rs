//! Attributes that the server sets alone, and owners.

use mortise_provider::{
    proto::tfplugin6::{self as pb, ResourceIdentityData},
    value::Value,
};

use super::{EVERYTHING, attached, id_of, socket, summaries, text, with};
use crate::{
    provider::terraform_core::{Core, encode},
    support::{Setup, id, id_in, make_place, resource, tenancy, tokens::Guarded},
};

#[tokio::test]
async fn values_of_the_server_are_refused_in_a_configuration() {
    let (_server, mut core) = attached().await;
    core.configure(&[]).await.unwrap();
    let config = core.config(EVERYTHING, "x", &[]);
    for (name, value) in [
        ("uid", text("x")),
        ("version", text("1")),
        ("generation", text("1")),
        ("group_version", text("v1")),
        ("id", text("x")),
        ("status", Value::object([])),
        ("uid", Value::unknown()),
    ] {
        let faults = core.validate(EVERYTHING, &with(config.clone(), name, value)).await.unwrap_err();
        assert!(summaries(&faults).starts_with(&format!("{name}|the server sets {name}")), "{faults:?}");
    }
    for key in ["finalizers", "deletionTimestamp"] {
        let config = with(config.clone(), "metadata", Value::object([(key, text("x"))]));
        let faults = core.plan(EVERYTHING, None, &config).await.unwrap_err();
        assert!(summaries(&faults).contains(&format!("the server sets {key}; remove it")), "{faults:?}");
    }
}

fn owner(name: &str, partition: Value, uid: Value) -> Value {
    Value::object([
        ("group", text("fields")),
        ("group_version", text("v1")),
        ("kind", text("Everything")),
        ("partition", partition),
        ("namespace", Value::Null),
        ("name", text(name)),
        ("uid", uid),
    ])
}

#[tokio::test]
async fn an_owner_without_a_place_is_in_that_of_the_resource() {
    let (server, mut core) = attached().await;
    make_place(&server, "default", "team").await;
    core.configure(&[("namespace", "team")]).await.unwrap();
    let config = core.config(EVERYTHING, "above", &[]);
    let above = core.make(EVERYTHING, None, &config).await.unwrap();
    let config = core.config(EVERYTHING, "below", &[]);
    let config = with(config, "owner", owner("above", Value::Null, Value::Null));
    let made = core.make(EVERYTHING, None, &config).await.unwrap();
    assert_eq!(made.state.get("owner").get("namespace"), &text("team"));
    assert_eq!(made.state.get("owner").get("uid"), above.state.get("uid"));
    let stored = server.read(&id_in("fields.v1.Everything", "below", "default", "team")).await.unwrap();
    assert_eq!(stored.owner.unwrap().tenancy.unwrap().namespace, "team");
    assert!(server.read(&id_of("below")).await.is_err());
    // An owner that the same run replaces has another uid afterwards.
    let replaced = with(config, "owner", owner("above", Value::Null, Value::unknown()));
    assert_eq!(core.plan(EVERYTHING, Some(&made), &replaced).await.unwrap().replace, ["owner.uid"]);
}

/// A token has a place of its own, where requests without one go: owners, and imports by an identity, too.
#[tokio::test]
async fn owners_and_identities_without_a_place_are_in_that_of_the_token() {
    let guarded = Guarded::start(Setup::new().guest("every-field")).await;
    let mut namespace = id("tenancy.v2beta1.Namespace", "team");
    namespace.tenancy = Some(tenancy("default", ""));
    guarded.write(resource(namespace, None)).await;
    guarded.policy("writers", "operator = \"write\"", Vec::new()).await;
    let token = guarded.token("team-writer", &["writers"], |token| "team".clone_into(&mut token.namespace)).await;
    let mut core = Core::attach(&socket(&guarded.server)).await;
    core.configure(&[("token", &token)]).await.unwrap();
    let config = core.config(EVERYTHING, "above", &[]);
    let above = core.make(EVERYTHING, None, &config).await.unwrap();
    assert_eq!(above.state.get("namespace"), &text("team"));
    let below = core.config(EVERYTHING, "below", &[]);
    let below = with(below, "owner", owner("above", Value::Null, Value::Null));
    let made = core.make(EVERYTHING, None, &below).await.unwrap();
    assert_eq!(made.state.get("owner").get("namespace"), &text("team"));
    assert_eq!(made.state.get("owner").get("uid"), above.state.get("uid"));

    let parts = [("partition", Value::Null), ("namespace", Value::Null), ("name", text("above")), ("uid", Value::Null)];
    let identity = Some(ResourceIdentityData { identity_data: encode(&Value::object(parts)) });
    let request = pb::import_resource_state::Request { type_name: EVERYTHING.into(), identity, ..Default::default() };
    let answer = core.client.import_resource_state(request).await.unwrap().into_inner();
    assert!(answer.diagnostics.is_empty(), "{answer:?}");
    assert_eq!(core.decode(EVERYTHING, answer.imported_resources[0].state.as_ref()).get("namespace"), &text("team"));
}
