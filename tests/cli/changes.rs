//! Plans, moves, imports and functions of plugins, from the command line.

use mortise_resource::{data, types};
use mortise_test_guests::Thing;
use serde_json::Value;

use crate::support::{Server, Setup, eventually, id, tenancy, thing, transcript::Transcript};

async fn start() -> Server {
    Setup::new().guest("changes").start().await
}

#[tokio::test]
async fn plans() {
    let server = start().await;
    let mut t = Transcript::new("plan", &server);
    let file = |text: &str, number: i64| {
        format!("type: changes.v1.Thing\nname: a\ndata:\n  text: {text}\n  number: {number}\n")
    };
    t.file("new.yaml", file("one", 1));
    t.fails(4, &["plan", "-f", "new.yaml"]).await;
    t.works(&["apply", "-f", "new.yaml"]).await;
    let written = || async {
        let found = server.read(&id("changes.v1.Thing", "a")).await.unwrap();
        crate::support::decoded::<Thing>(&found).inner.is_some()
    };
    eventually("the controller has written it", written).await;
    eventually("the controller has seen its own write", || async {
        let kept = server.list(types::private_bytes().to_pb(), tenancy("", ""), "").await.unwrap();
        kept.iter().any(|one| crate::support::decoded::<data::PrivateBytes>(one).value == b"2")
    })
    .await;
    t.file("replaced.yaml", file("one", 2));
    t.fails(4, &["plan", "-f", "replaced.yaml"]).await;
    t.file("bad.yaml", file("forbidden", 1));
    t.fails(1, &["plan", "-f", "bad.yaml"]).await;
    t.fails(2, &["plan"]).await;
    t.finish();

    let mut t = Transcript::new("plan_json", &server);
    t.file("replaced.yaml", file("one", 2));
    let ran = t.run(&["plan", "-f", "replaced.yaml", "-o", "json"]).await;
    let json: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((&json["action"], &json["replace"][0]), (&"replace".into(), &"data.number".into()));
    assert_eq!(json["predicted"]["data"]["inner"]["text"], "seen one");
    assert_eq!((&json["prior"]["data"]["number"], &json["resource"]["data"]["number"]), (&"1".into(), &"2".into()));
}

#[tokio::test]
async fn moves_and_things_outside() {
    let server = start().await;
    for name in ["a", "b", "stuck"] {
        let text = if name == "stuck" { "stuck" } else { "x" };
        let new = thing("changes", name, &Thing { text: text.into(), ..Thing::default() });
        let old = mortise_resource::pb::Resource { id: Some(id("changes.v1.OldThing", name)), ..new };
        server.write(old).await.unwrap();
    }
    let mut t = Transcript::new("move", &server);
    t.works(&["move", "changes.v1.OldThing/a", "--to", "changes.v1.Thing", "--dry-run"]).await;
    t.works(&["move", "changes.v1.OldThing", "a", "--to", "changes.v1.Thing"]).await;
    t.fails(1, &["move", "changes.v1.OldThing", "a", "--to", "changes.v1.Thing"]).await;
    t.fails(1, &["move", "changes.v1.OldThing", "--all", "--to", "changes.v1.Thing"]).await;
    t.fails(2, &["move", "changes.v1.OldThing", "--to", "changes.v1.Thing"]).await;
    t.fails(2, &["move", "changes.v1.OldThing", "b", "--all", "--to", "changes.v1.Thing"]).await;
    t.fails(2, &["move", "changes.v1.OldThing", "b"]).await;
    t.works(&["adopt", "changes.v1.Thing", "thing:outside", "--dry-run"]).await;
    t.works(&["adopt", "changes.v1.Thing", "thing:outside"]).await;
    t.works(&["adopt", "changes.v1.Thing", "thing:outside", "--name", "inside"]).await;
    t.fails(1, &["adopt", "changes.v1.Thing", "thing:outside"]).await;
    t.fails(1, &["adopt", "changes.v1.Thing", "nonsense"]).await;
    t.fails(1, &["adopt", "artist", "korn"]).await;
    t.finish();
}

#[tokio::test]
async fn functions() {
    let server = start().await;
    let mut t = Transcript::new("function", &server);
    t.works(&["function", "list"]).await;
    t.works(&["function", "call", "changes.concat", "a", "null", "[]"]).await;
    t.works(&["function", "call", "changes.concat", "a", "-o", "json"]).await;
    t.works(&["function", "call", "--json", "changes.concat", "\"a\""]).await;
    t.works(&["function", "call", "changes.sum", "[1, -3, null]"]).await;
    t.works(&["function", "call", "changes.describe", "{\"name\": \"Ada\", \"age\": 36.50}"]).await;
    t.works(&["function", "call", "changes.describe", "null"]).await;
    t.fails(1, &["function", "call", "changes.refuses", "x"]).await;
    t.fails(1, &["function", "call", "changes.sum"]).await;
    t.fails(2, &["function", "call", "changes.sum", "one"]).await;
    t.fails(1, &["function", "call", "changes.sum", "[true]"]).await;
    t.fails(1, &["function", "call", "changes.nothing"]).await;
    t.fails(1, &["function", "call", "sum"]).await;
    t.finish();
}
