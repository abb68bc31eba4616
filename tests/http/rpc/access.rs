//! Callers of RPCs: their rights, their records, sessions, and what a call may carry.

use std::{fs, path::Path};

use serde_json::{Value, json};

use crate::support::{Server, Setup, tokens::Guarded, until};

/// Records of a server so far.
fn records(audit: &Path) -> Vec<Value> {
    let text = fs::read_to_string(audit.join("audit.jsonl")).unwrap_or_default();
    let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
    whole.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn every_method_requires_what_it_requires_over_grpc_and_is_recorded_once() {
    let guarded = Guarded::start(Setup::new().env("MORTISE_AUDIT_EVENTS", "all")).await;
    let server = &guarded.server;
    let audit = server.data_dir.join("audit");
    guarded.policy("readers", "operator = \"read\"", Vec::new()).await;
    let reader = guarded.token("reader", &["readers"], |_| {}).await;
    let ask = |method: &str, token: &str, number: &str| {
        let asking = server.ask("POST", &format!("/rpc/{method}")).header("x-request-id", number);
        if token.is_empty() { asking } else { asking.header("x-consul-token", token) }
    };
    let mut number = 0;
    for (method, anonymous, reads, manages) in [
        ("mortise.v1.AuthService/WhoAmI", 200, 200, 200),
        ("mortise.v1.TypeService/ListTypes", 403, 200, 200),
        ("mortise.v1.ServerService/Status", 403, 200, 200),
        ("mortise.v1.ServerService/Settings", 403, 200, 200),
        ("mortise.v1.ControllerService/List", 403, 200, 200),
        ("mortise.v1.PluginService/Inspect", 403, 404, 404),
        ("mortise.v1.PluginService/Rollback", 403, 403, 404),
        ("mortise.v1.PluginService/Remove", 403, 403, 404),
        ("mortise.v1.RegionService/Adopt", 403, 403, 400),
    ] {
        for (token, wanted) in [("", anonymous), (&*reader, reads), (&*guarded.management, manages), ("unknown", 401)] {
            number += 1;
            let named = format!("rpc-{number}");
            let answer = ask(method, token, &named).await_answer().await;
            if method != "mortise.v1.RegionService/Adopt" || wanted != 400 {
                assert_eq!(answer.code(), wanted, "{method} {token}: {answer:?}");
            }
            let found = until(&format!("a record of {method}"), async || {
                let found: Vec<_> = records(&audit).into_iter().filter(|record| record["request"] == named).collect();
                if found.is_empty() { Err(()) } else { Ok(found) }
            })
            .await;
            assert_eq!(found.len(), 1, "{found:?}");
            assert_eq!((&found[0]["method"], &found[0]["surface"]), (&json!(method), &json!("http")), "{found:?}");
            let denied = matches!(answer.code(), 401 | 403);
            assert_eq!(found[0]["decision"] == "deny", denied, "{found:?}");
        }
    }
    // A body with a fault is not looked at before the right.
    let faulty = ask("mortise.v1.PluginService/Rollback", &reader, "faulty").body("nonsense").await_answer().await;
    faulty.problem(403, "permission-denied");
    let faulty = ask("mortise.v1.PluginService/Rollback", &guarded.management, "faulty-2").body("nonsense");
    faulty.await_answer().await.problem(400, "malformed-body");
    let found = until("its record", async || {
        records(&audit).into_iter().find(|record| record["request"] == "faulty-2").ok_or(())
    })
    .await;
    assert_eq!(
        (&found["method"], &found["code"]),
        (&json!("mortise.v1.PluginService/Rollback"), &json!("InvalidArgument"))
    );
    // An address without a method is recorded as every other address.
    ask("mortise.v1.PluginService/Nothing", &reader, "nothing").await_answer().await.problem(404, "no-route");
    let found = until("its record", async || {
        records(&audit).into_iter().find(|record| record["request"] == "nothing").ok_or(())
    })
    .await;
    assert_eq!(found["method"], "POST /rpc/mortise.v1.PluginService/Nothing");
    // Over gRPC nothing in a request stands for the caller of another one.
    let list = server.ask("GET", "/rpc").header("x-consul-token", &reader).await_answer().await;
    assert_eq!((list.code(), server.fetch("/rpc").await.code()), (200, 403));
}

#[tokio::test]
async fn a_session_needs_the_header_of_the_page_and_a_page_of_another_origin_gets_nothing() {
    let guarded = Guarded::start(Setup::new()).await;
    let server = &guarded.server;
    let body = json!({ "token": guarded.management });
    let signed_in = server.ask("POST", "/v1/session").header("x-mortise-ui", "1").json(&body).await_answer().await;
    let cookie = signed_in.header("set-cookie").split(';').next().unwrap().to_owned();
    let ask = || server.ask("POST", "/rpc/mortise.v1.AuthService/WhoAmI").header("cookie", &cookie);
    let refused = ask().await_answer().await;
    assert!(refused.code() == 403 && refused.body.contains("X-Mortise-UI"), "{refused:?}");
    let known = ask().header("x-mortise-ui", "1").await_answer().await.ok();
    assert_eq!(known["accessorId"], "bootstrap");
    let other = ask().header("x-mortise-ui", "1").header("origin", "https://evil.example").await_answer().await;
    other.problem(403, "cross-origin");
    let other = server.ask("POST", "/rpc/mortise.v1.AuthService/WhoAmI").header("sec-fetch-site", "cross-site");
    other.await_answer().await.problem(403, "cross-origin");
}

#[tokio::test]
async fn deadlines_and_the_addressee_of_a_call_count() {
    let server = Server::start().await;
    let ask = || server.ask("POST", "/rpc/mortise.v1.ServerService/Status");
    ask().header("grpc-timeout", "10S").await_answer().await.ok();
    ask().header("grpc-timeout", "1n").await_answer().await.problem(504, "deadline-exceeded");
    ask().header("grpc-timeout", "soon").await_answer().await.problem(400, "invalid-argument");
    ask().header("x-mortise-region", "elsewhere").await_answer().await.problem(409, "failed-precondition");
}
