//! Queries of controllers: results, changes, and limits.

use mortise_resource::pb;

use crate::support::{Server, Setup, any, controllers::condition_until, decoded, id, labelled, resource, thing};
use mortise_test_guests::Thing;

const KEY: &str = "reconcile-query/things";

fn text(text: &str) -> Thing {
    Thing { text: text.into(), ..Thing::default() }
}

fn part(name: &str, said: &str, env: &str) -> pb::Resource {
    let data = Thing { number: 7, ..text(said) };
    let part = resource(id("reconcile_query.v1.Part", name), Some(any("mortise.test.v1.Thing", &data)));
    labelled(part, &[("env", env)])
}

async fn ask(server: &Server, name: &str, filter: &str, items: &[&str]) -> pb::Condition {
    let data = Thing { items: items.iter().map(|item| (*item).to_owned()).collect(), ..text(filter) };
    server.write(thing("reconcile_query", name, &data)).await.unwrap();
    condition_until(server, &id("reconcile_query.v1.Thing", name), KEY, "Found", |_| true).await
}

#[tokio::test]
async fn controllers_find_by_content_and_change_single_fields() {
    let server = Setup::new().guest("reconcile-query").start().await;
    for (name, said, env) in
        [("a", "red", "prod"), ("b", "redder", "prod"), ("c", "blue", "prod"), ("d", "red", "test")]
    {
        server.write(part(name, said, env)).await.unwrap();
    }
    // More than a page, in the requested order.
    assert_eq!(ask(&server, "all", "", &[]).await.message, "d,c,b,a");
    assert_eq!(ask(&server, "red", r#"data.text IN ("red", "redder")"#, &["env", "prod"]).await.message, "b,a");
    let found = server.read(&id("reconcile_query.v1.Part", "a")).await.unwrap();
    let data: Thing = decoded(&found);
    assert_eq!((data.text.as_str(), data.number, data.items), ("red", 7, vec!["all".to_owned()]), "one field alone");
    let labels = found.meta.unwrap().labels;
    assert_eq!((labels["found.by"].as_str(), labels["env"].as_str()), ("all", "prod"));
    let wrong = ask(&server, "wrong", "data.txet = 1", &[]).await;
    assert_eq!((wrong.reason.as_str(), wrong.message.contains("txet")), ("Code3", true), "{wrong:?}");
    let denied = ask(&server, "denied", "", &["foreign"]).await;
    assert_eq!(denied.reason, "Code7", "{denied:?}");
    assert!(denied.message.contains("may not read demo.v2.Artist"), "{denied:?}");
}
