//! Requests on Consul's paths: parameters, methods, tokens, and functions that this server does not have.

use crate::{
    consul::{deploy, entries_until, index},
    support::{
        Server, Setup,
        http::{Answer, PROBLEM},
        tokens::Guarded,
    },
};
use mortise_resource::data;

/// Asserts a plain text with this code, and returns it.
#[track_caller]
fn text(answer: &Answer, code: u16) -> &str {
    assert_eq!((answer.code(), answer.header("content-type")), (code, "text/plain; charset=utf-8"), "{answer:?}");
    &answer.body
}

#[tokio::test]
async fn parameters_of_known_clients_are_accepted_and_misspelt_ones_refused() {
    let server = Server::start().await;
    deploy(&server, "web", "192.0.2.1").await;
    entries_until(&server, "/v1/health/service/web", 1).await;
    for parameters in [
        "stale=&wait=60000ms&dc=dc1",
        "consistent=&cached=&near=_agent&pretty",
        "ns=default&partition=default&relay-factor=1&local-only=true&merge-central-config=",
        "tag=v1&tag=eu&passing=false&token=",
    ] {
        for path in
            ["health/service/web", "catalog/service/web", "catalog/services", "catalog/nodes", "health/state/any"]
        {
            index(&server.fetch(&format!("/v1/{path}?{parameters}")).await);
        }
    }
    for (parameters, part) in [
        ("pasing=1", "parameter \"pasing\" is unknown here; use passing, tag, filter"),
        ("passing=maybe", "Invalid value for ?passing"),
        ("index=x", "Invalid index"),
        ("wait=5", "Invalid wait time"),
        ("dc=other", "No path to datacenter \"other\""),
        ("ns=*", "name one"),
        ("peer=other", "has no meaning here"),
        ("stale&consistent", "conflicting semantics"),
    ] {
        let refused = server.ask("GET", &format!("/v1/health/service/web?{parameters}")).header("accept", PROBLEM);
        let refused = refused.await_answer().await;
        assert!(text(&refused, 400).contains(part), "{refused:?}");
    }
    let unnamed = server.fetch("/v1/health/service/").await;
    assert!(text(&unnamed, 400).contains("write /v1/health/service/NAME"), "{unnamed:?}");
}

#[tokio::test]
async fn other_functions_of_consul_name_the_way_here() {
    let server = Server::start().await;
    for (method, path, part) in [
        ("PUT", "/v1/agent/service/register", "catalog.v1.Workload"),
        ("PUT", "/v1/agent/service/deregister/web-1", "DELETE /api/catalog/v1/workload/NAME"),
        ("PUT", "/v1/agent/check/pass/web", "mortise catalog report"),
        ("PUT", "/v1/catalog/register", "catalog.v1.Service"),
        ("GET", "/v1/kv/a/b", "/api/GROUP/VERSION/KIND/NAME"),
        ("PUT", "/v1/kv/a", "/api/GROUP/VERSION/KIND/NAME"),
        ("PUT", "/v1/session/create", "version as a condition"),
        ("PUT", "/v1/event/fire/x", "_watch"),
        ("POST", "/v1/query", "/v1/health/service/NAME"),
        ("GET", "/v1/connect/ca/roots", "docs/linkerd.md"),
        ("GET", "/v1/acl/tokens", "mortise token"),
        ("PUT", "/v1/txn", "docs/http.md"),
        ("GET", "/v1/snapshot", "mortise backup"),
        ("GET", "/v1/agent/services", "/v1/catalog/services"),
        ("GET", "/v1/health/connect/web", "/v1/health/service/NAME"),
    ] {
        let refused = server.ask(method, path).body("{}").await_answer().await;
        assert!(text(&refused, 501).contains(part), "{refused:?}");
    }
    for (method, path) in
        [("PUT", "/v1/catalog/services"), ("DELETE", "/v1/health/service/web"), ("POST", "/v1/agent/self")]
    {
        let refused = server.ask(method, path).await_answer().await;
        text(&refused, 405);
        assert_eq!(refused.header("allow"), "GET, HEAD, OPTIONS");
    }
    let options = server.ask("OPTIONS", "/v1/catalog/services").await_answer().await;
    assert_eq!((options.code(), options.header("allow")), (204, "GET, HEAD, OPTIONS"));
    server.fetch("/v1/nothing").await.problem(404, "no-route");
}

#[tokio::test]
async fn callers_see_what_their_policies_allow() {
    let guarded = Guarded::start(Setup::new()).await;
    let rule = |types: &[&str], verbs: &[&str]| data::TypeRule {
        types: types.iter().map(|name| (*name).to_owned()).collect(),
        verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
        ..data::TypeRule::default()
    };
    guarded.policy("endpoints", "", vec![rule(&["catalog/ServiceEndpoints"], &["read"])]).await;
    guarded.policy("catalog", "", vec![rule(&["catalog/*"], &["read", "list"])]).await;
    guarded.policy("demo", "", vec![rule(&["demo/*"], &["read", "list"])]).await;
    let endpoints = guarded.token("endpoints", &["endpoints"], |_| {}).await;
    let catalog = guarded.token("catalog", &["catalog"], |_| {}).await;
    let demo = guarded.token("demo", &["demo"], |_| {}).await;
    let workload = crate::catalog::endpoints::checked("web-1", "192.0.2.1", 80, vec![super::reported("up")]);
    guarded.write(crate::support::noted(workload, &[("tags", "secret")])).await;
    guarded.write(crate::catalog::endpoints::service("web", "web-")).await;
    let server = &guarded.server;
    let ask =
        async |path: &str, token: &str| server.ask("GET", path).header("x-consul-token", token).await_answer().await;
    let web = "/v1/health/service/web";
    crate::support::eventually("web has endpoints", async || ask(web, &catalog).await.ok()[0].is_object()).await;
    let whole = ask(web, &catalog).await.ok();
    assert_eq!((&whole[0]["Service"]["Tags"][0], &whole[0]["Checks"][0]["Name"]), (&"secret".into(), &"up".into()));
    assert_eq!(ask("/v1/catalog/services", &catalog).await.ok()["web"][0], "secret");
    // Endpoints alone: address and health, and neither tags nor checks of the workload.
    let part = ask(web, &endpoints).await.ok();
    assert_eq!((&part[0]["Service"]["Port"], &part[0]["Service"]["Tags"]), (&80.into(), &serde_json::json!([])));
    assert_eq!(
        (&part[0]["Checks"][0]["Name"], &part[0]["Checks"][0]["Status"]),
        (&"health".into(), &"critical".into())
    );
    assert!(text(&ask("/v1/catalog/services", &endpoints).await, 403).contains("ermission"));
    assert!(text(&ask(web, &demo).await, 403).contains("ermission"));
    text(&server.fetch(web).await, 403);
    text(&server.fetch("/v1/status/leader").await, 403);
    text(&ask(web, "unknown").await, 401);
    for (name, value) in [("authorization", format!("Bearer {catalog}")), ("x-consul-token", catalog.clone())] {
        index(&server.ask("GET", web).header(name, &value).await_answer().await);
    }
    index(&server.fetch(&format!("{web}?token={catalog}")).await);
}
