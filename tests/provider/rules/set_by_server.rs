//! Attributes that the server sets alone, and owners.

use mortise_provider::value::Value;

use super::{EVERYTHING, attached, id_of, summaries, text, with};
use crate::support::{id_in, make_place};

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
