//! RPCs with a stream of answers: server-sent events.

use mortise_resource::{data, pb};
use mortise_test_guests::Thing;
use serde_json::{Value, json};
use tonic::Code;

use super::call;
use crate::support::{Server, Setup, artist, eventually, http::Events, id, thing, tokens::Guarded, until};

/// Opens the log of a plugin.
async fn logs(server: &Server, token: &str, body: Value) -> Events {
    let asking = server.ask("POST", "/rpc/mortise.v1.PluginService/Logs").json(&body);
    Events::of(if token.is_empty() { asking } else { asking.header("x-consul-token", token) }).await
}

#[tokio::test]
async fn the_log_of_a_plugin_is_followed_until_the_rights_are_gone() {
    let guarded = Guarded::start(Setup::new().tolerant().guest("panic").env("MORTISE_HTTP_KEEP_ALIVE_MS", 100)).await;
    let server = &guarded.server;
    guarded.policy("readers", "operator = \"read\"", Vec::new()).await;
    let reader = guarded.token("reader", &["readers"], |_| {}).await;
    let boom = async |name: &str| {
        let mut client = guarded.resources(&guarded.management).await;
        let resource = thing("panicking", name, &Thing { number: 7, ..Thing::default() });
        client.write(pb::WriteRequest { resource: Some(resource) }).await.unwrap_err();
    };
    let mut followed = logs(server, &reader, json!({ "name": "panic", "follow": true })).await;
    boom("boom-validate").await;
    let line = followed.next().await.unwrap();
    assert_eq!(line.event, "message");
    let line = line.json();
    assert_eq!((&line["plugin"], &line["hook"]), (&json!("panic"), &json!("validate")), "{line}");
    assert!(line["at"].as_str().unwrap().ends_with('Z') && line["level"].is_number(), "{line}");
    let mut kept = logs(server, &reader, json!({ "name": "panic", "last": 1 })).await;
    assert_eq!(kept.next().await.unwrap().event, "message");
    let end = kept.next().await.unwrap();
    assert_eq!((end.event.as_str(), end.data.as_str()), ("end", "{}"));
    assert_eq!(kept.next().await, None);
    eventually("comments keep it open", async || followed.is_quiet().await && followed.comments > 0).await;

    guarded.delete(id("mortise.v1.Policy", "readers")).await;
    let mut last = followed.next().await.unwrap();
    while last.event == "message" {
        last = followed.next().await.unwrap();
    }
    assert_eq!(last.event, "closed");
    assert_eq!((&last.json()["code"], &last.json()["status"]), (&json!("PermissionDenied"), &json!(403)), "{last:?}");
    assert_eq!(followed.next().await, None);

    let asking = server.ask("POST", "/rpc/mortise.v1.PluginService/Logs").header("x-consul-token", &guarded.management);
    let missing = asking.json(&json!({ "name": "nothing" })).await_answer().await;
    missing.problem(404, "not-found");
}

#[tokio::test]
async fn streams_have_places_among_the_watches_and_end_with_the_server() {
    let server = Setup::new().env("MORTISE_HTTP_MAX_CONNECTIONS", 8).long_grace().start().await;
    let mut open = Vec::new();
    for _ in 0..6 {
        open.push(logs(&server, "", json!({ "name": "demo", "follow": true })).await);
    }
    let one_more = call(&server, "mortise.v1.PluginService/Logs", json!({ "name": "demo", "follow": true })).await;
    one_more.problem(429, "resource-exhausted");
    drop(open.pop());
    let watch =
        json!({ "type": "STATELESS", "resourceType": { "group": "demo", "groupVersion": "v2", "kind": "Artist" } });
    let mut watched = until("there is room again", async || {
        let path = "/rpc/mortise.v1.WatchService/WatchResources";
        let (head, body) = server.ask("POST", path).json(&watch).open().await;
        if head.status == 200 { Ok(Events::new(body)) } else { Err(head.status) }
    })
    .await;
    server.write(artist("korn")).await.unwrap();
    loop {
        let event = watched.next().await.unwrap();
        assert_eq!(event.event, "message", "{event:?}");
        if event.data.contains("korn") {
            break;
        }
    }
    open.push(watched);
    let stopped = tokio::spawn(server.stop());
    for mut events in open {
        let last = events.next().await.unwrap();
        assert_eq!((last.event.as_str(), &last.json()["code"]), ("closed", &json!("Unavailable")), "{last:?}");
        assert_eq!(events.next().await, None);
    }
    assert!(stopped.await.unwrap().success());
}

#[tokio::test]
async fn calls_of_both_ports_count_against_the_callers_limit() {
    let setup = Setup::new().env("MORTISE_GRPC_CALLER_STREAMS", 3);
    let guarded = Guarded::start(setup).await;
    guarded.policy("readers", "operator = \"read\"", Vec::new()).await;
    let reader = guarded.token("reader", &["readers"], |_| {}).await;
    let follow = || json!({ "name": "demo", "follow": true });
    let _over_http = [logs(&guarded.server, &reader, follow()).await, logs(&guarded.server, &reader, follow()).await];
    let mut client = mortise_api::PluginServiceClient::new(guarded.channel(&reader).await);
    let request = data::LogsRequest { name: "demo".to_owned(), follow: true, ..Default::default() };
    let over_grpc = client.logs(request.clone()).await.unwrap();
    let status = client.logs(request).await.unwrap_err();
    assert_eq!(status.code(), Code::ResourceExhausted, "{status}");
    let asking = guarded.server.ask("POST", "/rpc/mortise.v1.AuthService/WhoAmI").header("x-consul-token", &reader);
    let problem = asking.await_answer().await.problem(429, "resource-exhausted");
    assert!(problem["detail"].as_str().unwrap().contains("grpc.caller_streams"), "{problem}");
    drop(over_grpc);
    eventually("there is room again", async || {
        let ask = guarded.server.ask("POST", "/rpc/mortise.v1.AuthService/WhoAmI").header("x-consul-token", &reader);
        ask.await_answer().await.code() == 200
    })
    .await;
}
